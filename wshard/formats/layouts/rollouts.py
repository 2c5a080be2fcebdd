"""Rollouts in memory as Episodes: mappings of arrays, by the names that gymnasium and its users give them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.core.episode.meta_reader import stated_clock
from wshard.core.messages import shown
from wshard.core.types import Channel, Episode
from wshard.errors import EpisodeError
from wshard.formats.hdf5.values import MAX_NUMBERS, finite
from wshard.formats.layouts.columns import path_in
from wshard.formats.layouts.layout import ACTION, CALLED, END, OBSERVATION, REWARD, TRUNCATED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wshard.core.types import Array

_STEPS: Final = {
    "rewards": CALLED[REWARD],
    "terminations": CALLED[END],
    "truncations": CALLED[TRUNCATED],
}
_ENVIRONMENTS: Final = ("env_id", "env", "environment")
_RATES: Final = ("rate", "fps", "tick_hz")
_MAX_DEPTH: Final = 16
_UNUSED: Final = ("info", "infos")  # a mapping a timestep, which gymnasium leaves to the environment


def episode_of(rollout: Mapping[str, Any], number: int) -> Episode:
    """Return the Episode of a rollout: {"observations": array [T, ...] or a mapping of them, "actions": ..., ...}.

    Rewards, terminations (dones), truncations and actions have a row per timestep, observations one more if the last is
    the final one. `id`, `env_id`, `rate`, `task`, `success` and other texts and numbers are metadata; other arrays with
    a row per timestep are observations. Without `id`, the episode is "episode_NUMBER". Raises EpisodeError.

    Example:
        >>> episode_of({"obs": np.zeros((5, 3)), "actions": np.zeros((4, 2)), "rewards": np.ones(4)}, 0).length
        4
    """
    if not isinstance(rollout, Mapping):
        raise EpisodeError(f"rollout {number}: expected a mapping of arrays, found {shown(rollout)}")
    given = {str(name): value for name, value in rollout.items() if name not in _UNUSED}
    where = f"rollout {number}"
    actions = dict(_arrays(given, CALLED[ACTION], "action", where))
    observations = dict(_arrays(given, CALLED[OBSERVATION], "observation", where))
    steps = {field: _take(given, names) for field, names in _STEPS.items()}
    listed = {name: value for name, value in given.items() if isinstance(value, (np.ndarray, list, tuple))}
    others = {name: array for name, value in listed.items() if (array := _array(value)) is not None}
    length = _length(actions, steps, observations, others, where)
    episode = Episode(
        id=str(given.pop("id", f"episode_{number}")),
        env_id=str(_take(given, _ENVIRONMENTS) or ""),
        length=length,
        timebase=stated_clock(_take(given, _RATES)),
    )
    final: dict[str, Any] = {}
    for name, array in observations.items():
        if len(array) == length + 1 and array[0].size <= MAX_NUMBERS:
            final[name] = finite(array[-1])
        episode.observations[name] = Channel.of(name, _rows(array, length, f"{where}: {name!r}", extra=1))
    for name, array in actions.items():
        episode.actions[name] = Channel.of(name, _rows(array, length, f"{where}: {name!r}"))
    for field, value in steps.items():
        if value is not None:
            array = _numbers(value, field, where)
            array = _rows(array.reshape(-1), length, f"{where}: {field}")
            setattr(episode, field, array if field == "rewards" else array != 0)
    episode.metadata = {"final_observation": final} if final else {}
    for name, value in given.items():
        rows = others.get(name)
        if rows is not None and rows.ndim and len(rows) == length and rows.dtype.kind in "biuf":
            episode.observations[name] = Channel.of(name, rows)
        else:
            episode.metadata[name] = value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
    return episode


def _take(given: dict[str, Any], names: tuple[str, ...]) -> Any:
    """Remove the first of these names that is there, and return its value, else None."""
    name = next((name for name in names if name in given), None)
    return None if name is None else given.pop(name)


def _arrays(given: dict[str, Any], names: tuple[str, ...], name: str, where: str) -> Iterator[tuple[str, Array]]:
    value = _take(given, names)
    for path, one in _flatten(value, ""):
        yield path or name, _numbers(one, path or name, where)


def _numbers(value: Any, name: str, where: str) -> Array:
    array = _array(value)
    if array is None or array.dtype.kind not in "biuf" or not array.ndim:
        raise EpisodeError(f"{where}: {name!r}: expected numbers [timesteps, ...], found {shown(value)}")
    return array


def _array(value: Any) -> Array | None:
    """Return a value as an array, None for lists of different lengths and values that are no array."""
    try:
        return np.asarray(value)
    except (ValueError, TypeError, RuntimeError, OverflowError):
        return None


def _flatten(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if path.count("/") > _MAX_DEPTH:
        raise EpisodeError(f"{path[:60]}: expected mappings in mappings at most {_MAX_DEPTH} deep, found more")
    if isinstance(value, Mapping):
        for name, one in value.items():
            yield from _flatten(one, path_in(path, str(name)))
    elif value is not None:
        yield path, value


def _length(
    actions: Mapping[str, Array],
    steps: Mapping[str, Any],
    observations: Mapping[str, Array],
    others: Mapping[str, Array],
    where: str,
) -> int:
    """Return the number of timesteps: of actions, or of rewards and ends, or of most arrays."""
    counts = [len(array) for array in actions.values()] or [np.size(one) for one in steps.values() if one is not None]
    counts = counts or [len(array) for array in (*observations.values(), *others.values()) if array.ndim]
    if not counts or not (length := Counter(counts).most_common(1)[0][0]):
        raise EpisodeError(f"{where}: expected arrays with a row per timestep, found none")
    return length


def _rows(array: Array, length: int, where: str, *, extra: int = 0) -> Array:
    if not length <= len(array) <= length + extra:
        raise EpisodeError(f"{where}: expected {length} rows, one for each timestep, found {len(array)}")
    return array[:length]
