"""Finds the spans of episodes nearest to a query by a scan of all their timesteps, at several speeds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.search.moments.block_balls import BALL, BlockBalls, make_balls, measure_changes
from bridge.search.moments.block_distances import (
    APART,
    BLOCK,
    CHANGE,
    COARSE,
    PER_SPAN,
    BlockGrid,
    BlockTemplate,
    Nearest,
    Paced,
    make_blocks,
)
from bridge.search.moments.lane_rows import PreparedRows
from bridge.support.scratch import map_rows
from embedders.trajectory.resample import resample

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from bridge.alignment.arrays import Ints, Rows
    from bridge.search.moments.block_distances import Floats

SPEEDS: Final = (1.0, 2.5, 1.6, 1 / 1.6, 1 / 2.5)
"""How many times faster than the query the spans are: what lies in between is left to the alignment."""

_LONG: Final = 32  # timesteps of a query from which every second block is compared
_SHORTEST: Final = 8  # timesteps of a query at another speed: fewer are found everywhere
_RIVALS: Final = 4  # spans at the query's own speed for each at another, which must be as near as those
_EQUAL: Final = 1e-4  # mean squared distance of blocks below which rows may be equal
_SHIFTED: Final = 4 / 9  # of the distance of spans as they are, up to which others but for an offset may rank before
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

    episodes [m]: ids; edges [m + 1]: where each begins in rows [T, D]; blocks [n, D + 1], balls around these, and
    changes, the squared lengths of changes between these. All but the first two may be mapped.
    """

    episodes: Ints
    edges: Ints
    rows: Floats
    blocks: Floats
    balls: Floats
    changes: Floats
    _prepared: dict[int, PreparedRows] = field(init=False, default_factory=dict)

    @staticmethod
    def of(lanes: Mapping[int, PreparedRows]) -> Timesteps:
        """Return those of episodes, in memory; lanes: at least one."""
        rows = [one.rows.astype(np.float32) for one in lanes.values()]
        blocks = np.concatenate([*map(make_blocks, rows)])
        edges = np.cumsum([0, *map(len, rows)])
        return Timesteps(
            np.array([*lanes]), edges, np.concatenate(rows), blocks, make_balls(blocks), measure_changes(blocks)
        )

    @staticmethod
    def gather(episodes: Iterable[tuple[int, Rows | Floats]], channels: int) -> Timesteps | None:
        """Return those of episodes with their rows, mapped from temporary files; None without any."""
        lengths = dict[int, int]()

        def read() -> Iterator[Rows | Floats]:
            for episode, rows in episodes:
                lengths[episode] = len(rows)
                yield rows

        rows = map_rows(read(), channels, np.float32)
        if not lengths:
            return None
        edges = np.cumsum([0, *lengths.values()])
        cut = (rows[start:stop] for start, stop in pairwise(edges.tolist()))
        blocks = map_rows(map(make_blocks, cut), channels + 1, np.float32)
        return Timesteps(np.array([*lengths]), edges, rows, blocks, make_balls(blocks), measure_changes(blocks))

    def cut(self, chosen: NDArray[np.bool_]) -> Iterator[tuple[int, Floats]]:
        """Yield some of the episodes with their rows, by a mask."""
        for place in np.flatnonzero(chosen).tolist():
            yield int(self.episodes[place]), self.rows[self.edges[place] : self.edges[place + 1]]

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
    def _places(self) -> dict[int, int]:
        return {episode: place for place, episode in enumerate(self.episodes.tolist())}

    @cached_property
    def _block_edges(self) -> Ints:
        """Where the blocks of each episode begin [m + 1]."""
        return np.cumsum([0, *np.maximum(0, (np.diff(self.edges) - BLOCK) // APART + 1)])

    @cached_property
    def _ball_owners(self) -> NDArray[np.int32]:
        """The row of the episode of each ball's first block, and of the last block."""
        begins = np.minimum(BALL * np.arange(self.balls.shape[1] + 1), len(self.blocks) - 1)
        owners: NDArray[np.int32] = (np.searchsorted(self._block_edges, begins, "right") - 1).astype(np.int32)
        return owners

    def scan(self, queries: Sequence[Paced], count: int, allowed: Ints | None = None) -> Scanned:
        """Return the spans nearest to the first query, and to it at other speeds, of these episodes (None: of all).

        At the query's own speed there are `count` spans at most, others are fewer: those nearer than its best ones.
        """
        lengths = np.diff(self.edges)
        if allowed is not None:
            lengths[np.isin(self.episodes, allowed, invert=True)] = 0
        grid = BlockGrid(self.episodes, lengths, self._block_edges, self.blocks)
        own, *paced = BlockBalls(grid, self.balls, self._ball_owners).bound([*map(_template, queries)])
        near = own.find(PER_SPAN * count, least=_EQUAL)
        same, distances = near.select(count)
        rivals = count // _RIVALS
        farthest = float(distances[min(rivals, len(distances)) - 1]) if len(distances) else 0.0
        found = [one.find(PER_SPAN * rivals, COARSE * farthest).select(rivals, farthest)[0] for one in paced]
        equal, _ = near.choose_phases(near.below(_EQUAL, _MOST_EQUAL))
        return Scanned(same, self._scan_changes(queries[0], grid, rivals, farthest), equal, found)

    def _scan_changes(self, query: Paced, grid: BlockGrid, count: int, farthest: float) -> Nearest:
        """Return the spans that are nearest but for an offset: those that change as the query does.

        Their differences from the query count three times, and one of changes is that of two blocks.
        """
        if len(query.rows) < 2 * BLOCK:
            return Nearest(query, np.zeros(0, np.int64), np.zeros((0, 2), np.int64))
        step = APART * CHANGE
        template = BlockTemplate.of(query, step, step, changes=True)
        limit = max(_EQUAL, _SHIFTED * farthest)
        return grid.find_changes(template, self.changes, PER_SPAN * count, COARSE * limit).select(count, limit)[0]


def _template(query: Paced) -> BlockTemplate:
    """Return what of a query is compared: of long ones every second block, at its own speed at every phase."""
    step = APART * (1 + (len(query.rows) >= _LONG))
    return BlockTemplate.of(query, step, step if query.speed == 1 else 1)
