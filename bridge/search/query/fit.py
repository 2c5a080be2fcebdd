"""Fits a query (an array, a mapping of lanes, an episode) to Spaces: returns its window in each that it fits."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from bridge.results import EpisodeRef, resolve_span
from bridge.spaces.identity import describe
from bridge.spaces.lanes import block_name
from embedders.numeric import bridge_gaps, fill_blank, first_bad, is_real
from embedders.windows import count_valued, extend_rows
from wshard.core.arguments import array_of, integer
from wshard.core.episode.lanes import REWARD
from wshard.core.messages import shown
from wshard.core.types import Channel, Episode
from wshard.errors import MissingFileError, QueryError

if TYPE_CHECKING:
    from collections.abc import Callable

    from embedders.lanes import LaneSpec
    from embedders.space import Space


class SupportsArray(Protocol):
    """Objects that numpy converts to an array, such as tensors of other libraries."""

    def __array__(self) -> NDArray[Any]:
        """Return the array."""
        ...


Query = SupportsArray | Sequence[Any] | Mapping[str, Any] | Episode | EpisodeRef | str | os.PathLike[str]
"""An observation [D], a window [T, D], images [T, H, W, C], a mapping {lane: array}, or an Episode.

Or a reference to an episode: a hit (its span), the path of a file, the episode_id or uid of a catalogued episode, or
(path or id, start, stop).
"""


_FORMS: Final = (
    "an episode_id, a uid, a path or PATH#KEY, each of them with @START:STOP for a span, (name, start, stop), a hit, "
    "an Episode, an observation [D], an array [T, D] or [T, H, W, C], or a mapping {lane: array}"
)
_Arrays = NDArray[Any] | Mapping[str, NDArray[Any]] | Episode


def fit_query(
    query: Query, spaces: Sequence[Space], prefer: Callable[[Sequence[Space]], Sequence[Space]] | None = None
) -> dict[Space, NDArray[Any]]:
    """Return the query as a window [T, *window_shape] of every Space that it fits, at least one.

    An array fits a Space by its number of channels, or the shape of its images; a mapping or an Episode if it has the
    lanes of the Space, by name and shape. Every lane of a mapping must be in one of the Spaces. Spaces with
    windows of one size, which were requested explicitly, are preferred to the default windows of several sizes. A
    number per timestep may be [T] or [T, 1]; Spaces with the same shape are preferred to those with the other one.
    prefer: selects among the Spaces that the query fits.
    Raises QueryError, listing the Spaces, where none fits, for lanes of different lengths, for anything but an array of
    numbers, for no timesteps, and for NaN, infinities and numbers above those of float32 outside of images.
    """
    arrays = _to_arrays(query)
    fits = _fit_spaces(arrays, spaces, loosely=False) or _fit_spaces(arrays, spaces, loosely=True)
    if isinstance(arrays, Episode):  # lanes without finite numbers are left out, as at ingest, if there are others
        fits = {space: one for space, one in fits.items() if _first_bad(arrays, space, one) is None} or fits
    preferred = fits if prefer is None else prefer([*fits])
    chosen = [space for space in fits if space in preferred]
    if isinstance(arrays, Mapping) and _is_unknown(arrays, chosen):
        chosen = []
    of_one_size = {space.lanes for space in chosen if space.windows.scales is None}
    chosen = [space for space in chosen if space.windows.scales is None or space.lanes not in of_one_size]
    if not chosen:
        listed = "\n".join(f"  {describe(space)}" for space in spaces)
        raise QueryError(
            f"the query {_describe(arrays)} fits none of the searchable Spaces (`wshard ingest FOLDER --lanes NAME`, "
            f"in Python lanes=, embeds other lanes):\n{listed}"
        )
    for space in chosen:
        _check_numbers(arrays, space, fits[space])
    return {space: fits[space] for space in chosen}


def _fit_spaces(query: _Arrays, spaces: Sequence[Space], *, loosely: bool) -> dict[Space, NDArray[Any]]:
    """Return the window of each Space that the query fits; loosely: [T] also fits [T, 1], and vice versa.

    Raises MissingFileError if it only fits Spaces of frames whose video is missing.
    """
    fits, missing = dict["Space", NDArray[Any]](), None
    for space in spaces:
        try:
            window = _window(query, space, loosely=loosely)
        except MissingFileError as error:
            missing = missing or error
            continue
        if window is not None:
            fits[space] = window
    if missing is not None and not fits:
        raise missing
    return fits


def _check_numbers(query: _Arrays, space: Space, window: NDArray[Any]) -> None:
    """Raise QueryError without timesteps, or naming the lane with invalid numbers (embedders see one matrix)."""
    if not len(window):
        raise QueryError(f"the query {_describe(query)}: expected at least one timestep, found none")
    if not (bad := _first_bad(query, space, window)):
        return
    timestep, channel = bad
    for lane in space.lanes:
        if channel < lane.channels:
            break
        channel -= lane.channels
    way_on = (
        ": choose timesteps without it (@START:STOP) or other lanes (--lanes)" if isinstance(query, Episode) else ""
    )
    raise QueryError(
        f"the query {_describe(query)}: lane {lane.name!r}: expected finite float32-sized numbers, found {window[bad]} "
        f"at timestep {timestep}, channel {channel}{way_on}"
    )


def _first_bad(query: _Arrays, space: Space, window: NDArray[Any]) -> tuple[int, int] | None:
    """Return (timestep, channel) of the first number of a window that no vector is made of, None for images.

    Blank channels of an episode count as filled, but not where they are half of a lane: see bridge_gaps.
    """
    if window.ndim != 2 or not is_real(window.dtype):
        return None
    if not isinstance(query, Episode):
        return first_bad(window)
    start = 0
    for lane in space.lanes:
        rows = window[:, start : start + lane.channels]
        blank = np.isnan(rows).all(axis=0)
        if bad := first_bad(rows if 2 * blank.sum() >= blank.size else fill_blank(rows)):
            return bad[0], start + bad[1]
        start += lane.channels
    return None


def cut(episode: Episode, start: int | None, stop: int | None) -> Episode:
    """Return timesteps [start, stop) of all lanes that may be embedded. Raises QueryError as resolve_span."""
    span = slice(*resolve_span(start, stop, episode.id, episode.length))
    return Episode(
        episode.id,
        episode.env_id,
        span.stop - span.start,
        observations=_cut(episode.observations, span),
        actions=_cut(episode.actions, span),
        rewards=None if episode.rewards is None else episode.rewards[span],
        omens={owner: _cut(models, span) for owner, models in episode.omens.items()},
        uncerts=_cut(episode.uncerts, span),
    )


def _cut(group: Mapping[str, Channel], span: slice) -> dict[str, Channel]:
    return {name: channel.part(span.start, span.stop) for name, channel in group.items()}


def _embeddable_lanes(episode: Episode) -> dict[str, Channel]:
    """Return the lanes of an episode that may be embedded, by block name; encoded frames stay encoded."""
    channels = {**episode.lanes(), **episode.predictions()}
    if episode.rewards is None:
        return channels
    return channels | {REWARD: Channel.of(REWARD, np.asarray(episode.rewards, np.float32))}  # as in its file


def _is_unknown(query: Mapping[str, NDArray[Any]], spaces: Sequence[Space]) -> bool:
    """Return whether a lane of the query is in none of the Spaces, for example because its name is misspelt."""
    known = {lane.name for space in spaces for lane in space.lanes}
    return any(block_name(name, known) not in known for name in query)


def refuse(query: object) -> NoReturn:
    """Raise QueryError for an invalid query, listing the valid forms."""
    hint = "several are given by like=[...]"
    if integer(query) is not None:
        hint = "row ids are not accepted: pass the uid (catalog.episodes.rows(ids) has it)"
    raise QueryError(f"query: expected {_FORMS}, found {type(query).__name__} {shown(query)}; {hint}")


def _to_arrays(query: Query) -> _Arrays:
    if isinstance(query, Episode):
        return query
    if isinstance(query, Mapping):
        if not query or not all(isinstance(name, str) for name in query):
            refuse(query)
        return {name: _lane_array(name, value) for name, value in query.items()}
    array = array_of(query, "query, [D] or [T, D]", QueryError)
    if not is_real(array.dtype) or array.shape in ((), (0,)):
        refuse(query)
    return array


def _lane_array(name: str, value: Any) -> NDArray[Any]:
    array = array_of(value.data if isinstance(value, Channel) else value, f"query: lane {name!r}", QueryError)
    if not is_real(array.dtype) or not array.ndim:
        raise QueryError(f"query: lane {name!r}: expected an array of real numbers, found {shown(value)}")
    return array


def _window(query: _Arrays, space: Space, *, loosely: bool) -> NDArray[Any] | None:
    if isinstance(query, Episode):
        lanes = _embeddable_lanes(query)
        if not all(lane.name in lanes and _fits(lanes[lane.name].shape, lane, loosely) for lane in space.lanes):
            return None
        values = {lane.name: lanes[lane.name].data for lane in space.lanes}
        return _concatenate_lanes(_without_gaps(values, space, query.length), space, loosely=loosely)
    if isinstance(query, Mapping):
        names = {lane.name for lane in space.lanes}
        named = {block_name(name, names): value for name, value in query.items()}
        if not names <= named.keys():
            return None
        return _concatenate_lanes({name: named[name] for name in names}, space, loosely=loosely)
    if len(space.lanes) == len(space.window_shape) == 1:
        is_matrix = query.ndim > 2 and space.lanes[0].takes(query.shape[1:])
        if is_matrix or space.lanes[0].takes(query.shape[-1:]):
            return _lane_rows(query, space.lanes[0], loosely=loosely)
    return _rows(query, space.window_shape)


def _without_gaps(values: Mapping[str, NDArray[Any]], space: Space, length: int) -> dict[str, NDArray[Any]]:
    """Return the lanes of an episode with gaps bridged, and timesteps at the end without any number filled."""
    is_plain = len(space.window_shape) == 1 and all(rows.shape[:1] == (length,) for rows in values.values())
    if not is_plain or (used := count_valued(values.values(), length)) == length:
        return {lane.name: _bridged(values[lane.name], lane) for lane in space.lanes}
    return {lane.name: extend_rows(_bridged(values[lane.name][:used], lane), length) for lane in space.lanes}


def _bridged(values: NDArray[Any], lane: LaneSpec) -> NDArray[Any]:
    """Return the values of a lane with its gaps bridged, as at ingest; unchanged without any, or with too many."""
    if len(lane.shape) > 1 or not values.size or not is_real(values.dtype):
        return values
    rows = values.reshape(len(values), -1)
    filled = bridge_gaps(rows) if first_bad(rows) else None
    return values if filled is None else filled.reshape(values.shape)


def _concatenate_lanes(values: Mapping[str, NDArray[Any]], space: Space, *, loosely: bool) -> NDArray[Any] | None:
    if len(space.window_shape) > 1:
        (images,) = values.values()
        return _rows(images, space.window_shape)
    columns = [_lane_rows(values[lane.name], lane, loosely=loosely) for lane in space.lanes]
    fitting = [column for column in columns if column is not None]
    if len(fitting) < len(columns):
        return None
    if len({len(column) for column in fitting}) != 1:
        lengths = ", ".join(f"{lane.name} of {len(rows)}" for lane, rows in zip(space.lanes, fitting, strict=True))
        raise QueryError(f"expected a query with lanes of as many timesteps, found {lengths}")
    return np.concatenate(fitting, axis=1, dtype=np.float64)


def _lane_rows(array: NDArray[Any], lane: LaneSpec, *, loosely: bool) -> NDArray[Any] | None:
    if array.ndim <= 1 and lane.takes(array.shape):  # of more axes, the first is that of timesteps
        return lane.pick(array[None])
    if array.ndim == 0:
        return None
    return lane.pick(array) if _fits(array.shape[1:], lane, loosely) else None


def _fits(step: Sequence[int], lane: LaneSpec, loosely: bool) -> bool:  # noqa: FBT001
    return lane.takes(tuple(step)) or (loosely and {tuple(step), lane.shape} == {(), (1,)})


def _rows(array: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any] | None:
    """Return an array as [T, *shape]: [*shape] is one observation, [T] a series of a one-channel lane."""
    if array.ndim == 1 and shape == (1,):
        return array.reshape(-1, 1)
    if array.shape == shape:
        return array[None]
    return array if array.shape[1:] == shape else None


def _describe(query: _Arrays) -> str:
    if isinstance(query, Episode):
        return f"episode {query.id!r} with lanes {', '.join(_embeddable_lanes(query))}"
    if isinstance(query, Mapping):
        return "with lanes " + (", ".join(f"{name}{list(array.shape)}" for name, array in query.items()) or "(none)")
    return f"of shape {list(query.shape)}"
