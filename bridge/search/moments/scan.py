"""Finds the spans of episodes nearest to a query by a scan of all their timesteps, at several speeds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.search.moments.block_distances import (
    APART,
    BLOCK,
    BlockDistances,
    BlockGrid,
    BlockTemplate,
    Nearest,
    Paced,
    make_blocks,
)
from bridge.search.moments.lane_rows import PreparedRows
from embedders.trajectory.resample import resample

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from bridge.alignment.arrays import Ints, Rows
    from bridge.search.moments.block_distances import Floats

SPEEDS: Final = (1.0, 2.5, 1.6, 1 / 1.6, 1 / 2.5)
"""How many times faster than the query the spans are: what lies in between is left to the alignment."""

_LONG: Final = 32  # timesteps of a query from which every second block is compared
_SHORTEST: Final = 8  # timesteps of a query at another speed: fewer are found everywhere
_RIVALS: Final = 4  # spans at the query's own speed for each at another, which must be as near as those
_EQUAL: Final = 1e-4  # mean squared distance of blocks below which rows may be equal
_MOST_EQUAL: Final = 1000  # spans that are looked at more closely
_IN_MEMORY: Final = 1 << 22  # numbers of prepared rows


@dataclass(frozen=True, eq=False)
class Scanned:
    """What a scan finds: spans at the query's speed, those but for an offset, those that may equal it, at other speeds.

    equal: spans that may equal the query.
    """

    same: Nearest
    shifted: Nearest
    equal: Nearest
    others: list[Nearest]


def pace(rows: Rows) -> list[Paced]:
    """Return the query at all speeds at which it is long enough."""
    paced = [Paced(1.0, rows)]
    for speed in SPEEDS[1:]:
        count = round(len(rows) / speed)
        if count >= _SHORTEST and len(rows) >= _SHORTEST:
            paced.append(Paced(speed, resample(rows, np.array([[0, len(rows)]]), count)[0]))
    return paced


@dataclass(frozen=True, eq=False)
class Timesteps(Mapping[int, PreparedRows]):
    """All timesteps of episodes, one episode below the other; a mapping of the rows of each by its id.

    episodes [m]: ids; edges [m + 1]: where each begins in rows [T, D]; blocks [n, D + 1]. Rows and blocks may be
    mapped.
    """

    episodes: Ints
    edges: Ints
    rows: Floats
    blocks: Floats
    _owners: NDArray[np.int32] = field(init=False)  # place in `episodes` of each block
    _starts: NDArray[np.int32] = field(init=False)  # its first timestep
    _places: dict[int, int] = field(init=False)
    _prepared: dict[int, PreparedRows] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        counts = np.maximum(0, (np.diff(self.edges) - BLOCK) // APART + 1)
        owners = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
        starts = APART * (np.arange(len(owners)) - (np.cumsum(counts) - counts)[owners])
        object.__setattr__(self, "_owners", owners)
        object.__setattr__(self, "_starts", starts.astype(np.int32))
        object.__setattr__(self, "_places", {episode: place for place, episode in enumerate(self.episodes.tolist())})

    @staticmethod
    def of(lanes: Mapping[int, PreparedRows]) -> Timesteps:
        """Return those of episodes; lanes: at least one."""
        rows = [one.rows.astype(np.float32) for one in lanes.values()]
        edges = np.cumsum([0, *map(len, rows)])
        return Timesteps(np.array([*lanes]), edges, np.concatenate(rows), np.concatenate([*map(make_blocks, rows)]))

    def only(self, chosen: NDArray[np.bool_]) -> Timesteps:
        """Return those of some of the episodes, by a mask."""
        rows = np.repeat(chosen, np.diff(self.edges))
        edges = np.cumsum([0, *np.diff(self.edges)[chosen]])
        return Timesteps(self.episodes[chosen], edges, self.rows[rows], self.blocks[chosen[self._owners]])

    def __getitem__(self, episode: int) -> PreparedRows:
        prepared = self._prepared.get(episode)
        if prepared is None:
            place = self._places[episode]
            prepared = PreparedRows(self.rows[self.edges[place] : self.edges[place + 1]].astype(np.float64))
            if len(self._prepared) * len(prepared.rows) * prepared.rows.shape[1] > _IN_MEMORY:
                self._prepared.clear()
            self._prepared[episode] = prepared
        return prepared

    def __contains__(self, episode: object) -> bool:
        return episode in self._places

    def __iter__(self) -> Iterator[int]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self.episodes)

    @cached_property
    def _changes(self) -> Floats:
        """The difference of every second block and the next one of these, its squared length as a last column."""
        blocks = self.blocks[::2]
        changes = np.zeros_like(blocks)
        np.subtract(blocks[1:], blocks[:-1], out=changes[:-1])
        changes[:, -1] = np.einsum("nd,nd->n", changes[:, :-1], changes[:, :-1])
        return changes

    def scan(self, queries: Sequence[Paced], count: int, allowed: Ints | None = None) -> Scanned:
        """Return the spans nearest to the first query, and to it at other speeds, of these episodes (None: of all).

        At the query's own speed there are `count` spans at most, others are fewer: those nearer than its best ones.
        """
        lengths = np.diff(self.edges).astype(np.int32)
        if allowed is not None:
            lengths[np.isin(self.episodes, allowed, invert=True)] = 0
        room = lengths[self._owners] - self._starts
        near, *paced = self._measure_all(queries, room)
        same, distances = near.select(count)
        rivals = count // _RIVALS
        farthest = float(distances[min(rivals, len(distances)) - 1]) if len(distances) else 0.0
        found = [one.select(rivals, farthest)[0] for one in paced]
        equal, _ = near.choose_phases(near.below(_EQUAL, _MOST_EQUAL))
        return Scanned(same, self._scan_changes(queries[0], room, rivals), equal, found)

    def _measure_all(self, queries: Sequence[Paced], room: NDArray[np.int32]) -> list[BlockDistances]:
        """Compare queries with all places, the first one at every phase: of long ones, every second block."""
        found: dict[int, BlockDistances] = {}
        for every in (1, 2):
            numbers = [place for place, one in enumerate(queries) if (len(one.rows) >= _LONG) == (every == 2)]
            some, step = slice(None, None, every), APART * every
            templates = [BlockTemplate.of(queries[place], step, 1 if place else step) for place in numbers]
            parts = self.blocks[some], self._owners[some], self._starts[some], room[some]
            if templates:
                found |= zip(numbers, BlockGrid(self.episodes, *parts).measure(templates), strict=True)
        return [found[place] for place in range(len(queries))]

    def _scan_changes(self, query: Paced, room: NDArray[np.int32], count: int) -> Nearest:
        """Return the spans that are nearest but for an offset: those that change as the query does."""
        if len(query.rows) < 2 * BLOCK:
            return Nearest(query, np.zeros(0, np.int64), np.zeros((0, 2), np.int64))
        grid = BlockGrid(self.episodes, self._changes, self._owners[::2], self._starts[::2], room[::2])
        return grid.measure([BlockTemplate.of(query, 2 * APART, 2 * APART, changes=True)])[0].select(count)[0]


def join(parts: Sequence[Timesteps | None]) -> Timesteps | None:
    """Return the timesteps of all parts, None without any."""
    some = [part for part in parts if part is not None and len(part)]
    if len(some) < 2:
        return some[0] if some else None
    lengths = np.concatenate([np.diff(part.edges) for part in some])
    episodes, rows, blocks = (
        np.concatenate([getattr(part, name) for part in some]) for name in ("episodes", "rows", "blocks")
    )
    return Timesteps(episodes, np.cumsum([0, *lengths]), rows, blocks)
