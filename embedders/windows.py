"""Window plans: how an episode is cut into windows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from embedders.canonical_json import canonical, check_count, parse
from wshard.errors import EmbedderError

if TYPE_CHECKING:
    from numpy.typing import NDArray

SCALES: Final = (30, 45, 68, 102, 153)
"""Window sizes, each 1.5 times the previous one, so that every moment has about the size of some window."""

_MIN_STRIDE: Final = 4
_PADDED: Final = 3  # timesteps at least
_STRIDES_PER_WINDOW: Final = 6
_NOTATION: Final = (
    "'whole', 'SIZE:STRIDE', 'multi' or 'multi:SIZE,SIZE,...' in timesteps, or 'both' where several plans are taken"
)


@dataclass(frozen=True)
class WindowPlan:
    """How to divide an episode into windows: one window, windows of one size, or windows of several sizes.

    Default: one window, the whole episode. `size` and `stride`: windows of `size` timesteps, one every `stride`.
    `scales`: for each of these sizes that is shorter than the episode, one window every max(4, size // 6) timesteps,
    and the whole episode. Strides do not exceed sizes, so every timestep is in a window. Raises EmbedderError.
    """

    size: int | None = None
    stride: int | None = None
    scales: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.scales is not None:
            object.__setattr__(self, "scales", _checked_scales(self.scales))
            if self.size is not None or self.stride is not None:
                raise EmbedderError(
                    f"window size: expected none together with scales, found {self.size} and {self.stride}"
                )
            return
        if self.size is None and self.stride is None:
            return
        size = check_count(self.size, "window size (given with a stride)")
        stride = check_count(self.stride, "window stride (given with a size)")
        object.__setattr__(self, "size", size)
        object.__setattr__(self, "stride", stride)
        if stride > size:
            raise EmbedderError(f"window stride: expected at most the window size {size}, found {stride}")

    def __str__(self) -> str:
        if self.scales is not None:
            return f"windows of {', '.join(map(str, self.scales))} and whole episodes"
        return "whole episodes" if self.whole else f"windows of {self.size} every {self.stride}"

    @property
    def whole(self) -> bool:
        """True if the only window is the whole episode."""
        return self.size is None and self.scales is None

    def spans(self, length: int) -> NDArray[np.int64]:
        """Return the windows of an episode of `length` timesteps: int64 [n, 2], half-open [start, stop), no repeats.

        An episode not longer than `size` is one window; a tail that the stride misses gets a last window that ends with
        the episode; an episode without timesteps has no window. Scales are ordered by size, then by start.
        """
        if length < 0:
            raise EmbedderError(f"length of an episode: expected 0 or more timesteps, found {length}")
        if length == 0:
            return np.empty((0, 2), np.int64)
        if self.scales is not None:
            cuts = [_slide(length, size, _stride_of(size)) for size in self.scales if size < length]
            return np.concatenate([*cuts, _slide(length, length, length)])
        if self.size is None or self.stride is None:
            return _slide(length, length, length)
        return _slide(length, min(self.size, length), self.stride)

    def definition(self) -> dict[str, Any]:
        """Return the JSON value of the plan; `scales` only if there are any, for compatibility with earlier Spaces."""
        fields = asdict(self)
        if self.scales is None:
            del fields["scales"]
        return fields

    def to_json(self) -> str:
        """Return the canonical JSON text of the plan."""
        return canonical(self.definition())

    @staticmethod
    def from_json(text: str) -> WindowPlan:
        """Return the plan that `to_json` wrote. Raises EmbedderError for any other text."""
        try:
            return WindowPlan(**parse(text))
        except (TypeError, ValueError, RecursionError) as error:
            raise EmbedderError(f"expected the JSON of a WindowPlan, found {text[:80]!r}: {error}") from error

    @staticmethod
    def read(text: str) -> WindowPlan:
        """Parse the short notation of a plan: "whole", "32:16", "multi" or "multi:24,36,54". Raises EmbedderError."""
        kind, _, rest = text.partition(":")
        try:
            if text == "whole":
                return WindowPlan()
            if kind == "multi":
                return WindowPlan(scales=tuple(map(int, rest.split(","))) if rest else SCALES)
            return WindowPlan(int(kind), int(rest))
        except EmbedderError as error:
            raise EmbedderError(f"expected {_NOTATION}, found {text!r}: {error}") from error
        except ValueError:
            raise EmbedderError(f"expected {_NOTATION}, found {text!r}") from None


def _slide(length: int, size: int, stride: int) -> NDArray[np.int64]:
    starts = np.arange(0, length - size + 1, stride, dtype=np.int64)
    if starts[-1] + size < length:
        starts = np.append(starts, length - size)
    spans: NDArray[np.int64] = starts[:, None] + np.array([0, size])
    return spans


def _stride_of(size: int) -> int:
    return min(size, max(_MIN_STRIDE, size // _STRIDES_PER_WINDOW))


def _checked_scales(scales: Any) -> tuple[int, ...]:
    if not isinstance(scales, tuple | list) or not scales:
        raise EmbedderError(f"window scales: expected one size or more, found {scales!r}")
    return tuple(sorted({check_count(size, "every window size of the scales") for size in scales}))


BOTH: Final = (WindowPlan(), WindowPlan(scales=SCALES))
"""Whole episodes and windows of several sizes, which rank episodes best together."""


def as_plan(value: WindowPlan | str) -> WindowPlan:
    """Return the plan for a plan or its short notation. Raises EmbedderError for anything else."""
    if isinstance(value, str):
        return WindowPlan.read(value)
    if not isinstance(value, WindowPlan):
        raise EmbedderError(f"windows: expected a WindowPlan, or {_NOTATION}, found {value!r}")
    return value


def as_plans(value: WindowPlan | str | Iterable[WindowPlan | str]) -> tuple[WindowPlan, ...]:
    """Return the plans for one or several plans or notations ("both" = BOTH), each once. Raises EmbedderError."""
    several = [value] if isinstance(value, WindowPlan | str) else value
    listed = list(several) if isinstance(several, Iterable) and not isinstance(several, Mapping) else []
    if not listed:
        raise EmbedderError(f"windows: expected one WindowPlan or more, or {_NOTATION}, found {value!r}")
    return tuple(dict.fromkeys(plan for one in listed for plan in (BOTH if one == "both" else (as_plan(one),))))


def cut_padding(rows: NDArray[Any]) -> NDArray[Any]:
    """Return rows [T, D] without those that end them and are all alike, as padding is; images as they are.

    Single channels may well end at rest, and so may a row or two of several.
    """
    return rows[: count_used([rows], len(rows))] if rows.ndim == 2 else rows


def count_used(lanes: Iterable[NDArray[Any]], length: int) -> int:
    """Return how many of `length` timesteps come before those that cut_padding takes for padding, of several lanes."""
    used, channels = 0, 0
    for values in lanes:
        rows = values.reshape(length, -1)
        if length < _PADDED or (rows[-_PADDED:] != rows[-1]).any():
            return length
        differing = np.flatnonzero((rows != rows[-1]).any(axis=1))
        used, channels = max(used, int(differing[-1]) + 1 if differing.size else 0), channels + rows.shape[1]
    return used if used and channels > 1 else length


def count_valued(lanes: Iterable[NDArray[Any]], length: int) -> int:
    """Return how many of `length` timesteps come before those at the end in which no lane has a number.

    All of them if no lane has one anywhere.
    """
    valued = 0
    for values in lanes:
        rows = values.reshape(length, -1)
        if rows.dtype.kind not in "fc" or not rows.shape[1] or not np.isnan(rows[-1]).all():
            return length
        known = np.flatnonzero(~np.isnan(rows).all(axis=1))
        valued = max(valued, int(known[-1]) + 1 if known.size else 0)
    return valued or length


def extend_rows(rows: NDArray[Any], length: int) -> NDArray[Any]:
    """Return rows [T, ...], after which the last one is repeated up to `length` of them."""
    return rows if len(rows) >= length else np.concatenate([rows, np.repeat(rows[-1:], length - len(rows), axis=0)])


def without_padding(spans: NDArray[np.int64], used: int) -> NDArray[np.int64]:
    """Return [start, stop) of windows [N, 2] without padding, but of those that are mostly padding and start later."""
    is_cut = (spans[:, 1] > used) & ((spans[:, 0] == 0) | (2 * (used - spans[:, 0]) >= spans[:, 1] - spans[:, 0]))
    return np.column_stack([spans[:, 0], np.where(is_cut, used, spans[:, 1])])
