"""Episodes as columns of a table, and rows of a table as episodes.

A table has one row per timestep ("flat") or per episode; names of channels are used as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.core.types import Array, Channel, Episode
from wshard.errors import EpisodeError, LaneError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_OBSERVATION: Final = "obs_"
_ACTION: Final = "action_"
_EPISODE: Final = "episode_id"


@dataclass(frozen=True)
class _Names:
    """The columns of rewards, terminations and truncations."""

    rewards: str
    terminations: str
    truncations: str


_FLAT: Final = _Names("reward", "terminated", "truncated")
_WHOLE: Final = _Names("rewards", "terminations", "truncations")


def columns_of(episodes: Sequence[Episode], *, flat: bool) -> dict[str, Any]:
    """Return the columns of a table of episodes; flat ones are arrays [rows, ...].

    Raises EpisodeError where episodes differ in their columns, or in dtype or shape of one in a flat table.
    """
    tables = [_lanes(ep, _FLAT if flat else _WHOLE) for ep in episodes]
    for ep, table in zip(episodes, tables, strict=True):
        different = sorted(set(table) ^ set(tables[0]))
        if different:
            raise EpisodeError(f"episode {ep.id!r}: {different[0]!r} is not in every episode: they make no one table")
    names = list(tables[0]) if tables else []
    if not flat:
        properties = {
            _EPISODE: [ep.id for ep in episodes],
            "env_id": [ep.env_id for ep in episodes],
            "length": [ep.length for ep in episodes],
        }
        return properties | {name: [table[name] for table in tables] for name in names}
    ids = {_EPISODE: [ep.id for ep in episodes for _ in range(ep.length)]}
    steps = {"timestep": [step for ep in episodes for step in range(ep.length)]}
    return ids | steps | {name: _stack(name, [table[name] for table in tables]) for name in names}


def _stack(name: str, arrays: list[Array]) -> Array:
    layouts = {(array.dtype, array.shape[1:]) for array in arrays}
    if len(layouts) > 1:
        raise EpisodeError(f"{name}: expected one dtype and shape in all episodes, found {sorted(map(str, layouts))}")
    return np.concatenate(arrays)


def _lanes(ep: Episode, names: _Names) -> dict[str, Array]:
    lanes = {f"{_OBSERVATION}{name}": channel.data for name, channel in ep.observations.items()}
    lanes |= {f"{_ACTION}{name}": channel.data for name, channel in ep.actions.items()}
    steps = {names.rewards: ep.rewards, names.terminations: ep.terminations, names.truncations: ep.truncations}
    return lanes | {name: np.asarray(array) for name, array in steps.items() if array is not None}


def episodes_of(rows: Iterable[Mapping[str, Any]], episode_column: str, *, flat: bool) -> list[Episode]:
    """Return the episodes of rows, in the order in which they appear.

    Flat rows are put in order of their timestep. Dtypes are those that the rows' table declares as `features`, else
    those of the values. Raises LaneError for a row without its episode's id, or values of different shapes.
    """
    dtypes = _read_dtypes(rows)
    if not flat:
        return [_episode(f"episode_{number}", row, _WHOLE, dtypes) for number, row in enumerate(rows)]
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for number, row in enumerate(rows):
        if episode_column not in row:
            raise LaneError(f"row {number}: expected a column {episode_column!r}, found {', '.join(row)}")
        groups.setdefault(str(row[episode_column]), []).append(row)
    episodes = []
    for id_, group in groups.items():
        ordered = sorted(group, key=lambda row: row.get("timestep", 0))
        if any(set(row) != set(ordered[0]) for row in ordered):
            raise LaneError(f"episode {id_!r}: expected the same columns in every row")
        columns = {name: [row[name] for row in ordered] for name in ordered[0] if name != _EPISODE}
        episodes.append(_episode(id_, columns, _FLAT, dtypes))
    return episodes


def _read_dtypes(rows: object) -> dict[str, np.dtype[Any]]:
    """Return the dtypes of a `datasets` table's columns; its rows are Python lists, which have none."""
    dtypes = {}
    for name, feature in (getattr(rows, "features", None) or {}).items():
        inner = feature
        while hasattr(inner, "feature"):  # a list of something
            inner = inner.feature
        try:
            dtypes[name] = np.dtype(inner.dtype)
        except (AttributeError, TypeError):  # text and images are not numbers
            continue
    return dtypes


def _episode(id_: str, columns: Mapping[str, Any], names: _Names, dtypes: Mapping[str, np.dtype[Any]]) -> Episode:
    def array(name: str) -> Array:
        try:
            return np.asarray(columns[name], dtypes.get(name))
        except (TypeError, ValueError) as error:
            raise LaneError(f"episode {id_!r}: {name}: expected an array [T, ...]: {error}") from error

    def channels(prefix: str) -> dict[str, Channel]:
        names = [name for name in columns if name.startswith(prefix)]
        return {name.removeprefix(prefix): Channel.of(name.removeprefix(prefix), array(name)) for name in names}

    observations, actions = channels(_OBSERVATION), channels(_ACTION)
    steps = {name: array(name) for name in (names.rewards, names.terminations, names.truncations) if name in columns}
    lengths = [channel.length for channel in (*observations.values(), *actions.values())]
    return Episode(
        id=str(columns.get(_EPISODE, id_)) if isinstance(columns.get(_EPISODE), str) else id_,
        env_id=env if isinstance(env := columns.get("env_id"), str) else "",
        length=max([*lengths, *(len(step) for step in steps.values())], default=0),
        observations=observations,
        actions=actions,
        rewards=steps.get(names.rewards),
        terminations=steps.get(names.terminations),
        truncations=steps.get(names.truncations),
    )
