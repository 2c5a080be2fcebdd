"""Finds the spans of episodes nearest to a query by a scan of all their timesteps, at several speeds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from bridge.search.moments.block_distances import COARSE, BlockGrid, BlockTemplate, Nearest, Paced
from bridge.search.moments.blocks import APART, BLOCK, CHANGE, count_blocks, make_blocks, make_changes
from bridge.search.moments.cell_scan import find_in_cells
from bridge.search.moments.lane_rows import PreparedRows
from bridge.search.moments.nearest_places import WITHOUT_CELLS, NearestPlaces, Wanted, compare_all
from embedders.trajectory.resample import resample

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from bridge.alignment.arrays import Ints, Rows
    from bridge.search.moments.blocks import Floats
    from bridge.search.moments.cells import Cells

SPEEDS: Final = (1.0, 2.5, 1.6, 1 / 1.6, 1 / 2.5)
"""How many times faster than the query the spans are: what lies in between is left to the alignment."""

_LONG: Final = 32  # timesteps of a query from which every second block is compared
_SHORTEST: Final = 8  # timesteps of a query at another speed: fewer are found everywhere
_RIVALS: Final = 4  # spans at the query's own speed for each at another, which must be as near as those
_EQUAL: Final = 1e-4  # mean squared distance of blocks below which rows may be equal
_SHIFTED: Final = 4 / 9  # of the distance of spans as they are, up to which others but for an offset may rank before
_MOST_EQUAL: Final = 1000  # spans that are looked at more closely
_EACH: Final = 1 << 15  # places that are compared, each, sooner than cells are looked at
_IN_MEMORY: Final = 1 << 22  # numbers of prepared rows


@dataclass(frozen=True, eq=False)
class Scanned:
    """What a scan finds: spans at the query's speed, those but for an offset, those that may equal it, at other speeds.

    equal: spans that may equal the query; is_complete: no span is missed that is as near as one of the others.
    """

    same: Nearest
    shifted: Nearest
    equal: Nearest
    others: list[Nearest]
    is_complete: bool


def pace(rows: Rows) -> list[Paced]:
    """Return the query at all speeds at which it is long enough."""
    paced = [Paced(1.0, rows)]
    for speed in SPEEDS[1:]:
        count = round(len(rows) / speed)
        if count >= _SHORTEST and len(rows) >= _SHORTEST:
            paced.append(Paced(speed, resample(rows, np.array([[0, len(rows)]]), count)[0]))
    return paced


def describe(episodes: Mapping[int, Rows] | Mapping[int, Floats]) -> tuple[NDArray[Any], ...]:
    """Return what is scanned of episodes, each array by rows: those of several calls may be put one below the other.

    Ids and lengths [m, 2], rows [T, D], blocks [n, D + 1], and changes between these [n / CHANGE, D + 1].
    """
    lengths = np.array([*map(len, episodes.values())], np.int64)
    rows = np.concatenate([*episodes.values()]).astype(np.float32)
    blocks = make_blocks(rows, lengths)
    heads = np.stack([np.array([*episodes], np.int64), lengths], axis=1)
    return heads, rows, blocks, make_changes(blocks, lengths)


@dataclass(frozen=True, eq=False)
class Timesteps(Mapping[int, PreparedRows]):
    """All timesteps of episodes, one episode below the other; a mapping of the rows of each by its id.

    episodes [m]: ids, negative = not to be found; lengths [m]; the others as `describe` returns them, they may be
    mapped. cells: of the first of all blocks and of changes, () = of none.
    """

    episodes: Ints
    lengths: Ints
    rows: Floats
    blocks: Floats
    changes: Floats
    cells: Sequence[Cells] = field(default=(), kw_only=True)
    _prepared: dict[int, PreparedRows] = field(init=False, default_factory=dict)
    _transposed: dict[tuple[int, bool, int], Floats] = field(init=False, default_factory=dict)

    @staticmethod
    def of(lanes: Mapping[int, PreparedRows]) -> Timesteps:
        """Return those of episodes, in memory; lanes: at least one."""
        heads, *parts = describe({episode: one.rows for episode, one in lanes.items()})
        return Timesteps(heads[:, 0], heads[:, 1], *parts)

    def __getitem__(self, episode: int) -> PreparedRows:
        prepared = self._prepared.get(episode)
        if prepared is None:
            place = self._find(episode)
            if place is None:
                raise KeyError(episode)
            start = int(self._starts[place])
            rows = self.rows[start : start + int(self.lengths[place])]
            prepared = PreparedRows(rows.astype(np.float64))
            if len(self._prepared) * rows.size > _IN_MEMORY:
                self._prepared.clear()
            self._prepared[episode] = prepared
        return prepared

    def __contains__(self, episode: object) -> bool:
        return self._find(cast("int", episode)) is not None

    def __iter__(self) -> Iterator[int]:
        return iter(self.episodes[self.episodes >= 0].tolist())

    def __len__(self) -> int:
        return int(np.count_nonzero(self.episodes >= 0))

    def locate(self, episodes: Ints) -> tuple[Ints, Ints]:
        """Return the first row of each of these episodes [n], and its timesteps [n], 0 if it is not to be found."""
        ids, places = self._sorted
        at = np.minimum(ids.searchsorted(episodes), len(ids) - 1)
        found, rows = (ids[at] == episodes) & (episodes >= 0), places[at]
        return self._starts[rows], np.where(found, self.lengths[rows], 0)

    def _find(self, episode: int) -> int | None:
        """Return the row of an episode, None if it is not to be found."""
        ids, places = self._sorted
        at = int(np.searchsorted(ids, episode))
        return int(places[at]) if episode >= 0 and at < len(ids) and ids[at] == episode else None

    @cached_property
    def _sorted(self) -> tuple[Ints, Ints]:
        """The ids in their order, and the row of each."""
        places = np.argsort(self.episodes, kind="stable")
        return self.episodes[places], places

    @cached_property
    def _starts(self) -> Ints:
        return np.cumsum(self.lengths) - self.lengths

    @cached_property
    def _block_edges(self) -> Ints:
        """Where the blocks of each episode begin [m + 1]."""
        return np.cumsum([0, *count_blocks(self.lengths)[1]])

    @cached_property
    def _grid(self) -> BlockGrid:
        return self._make_grid(self.episodes >= 0)

    def _make_grid(self, found: NDArray[np.bool_]) -> BlockGrid:
        """Return the blocks of which those of some episodes are to be found [m]."""
        lengths = np.where(found, self.lengths, 0)
        return BlockGrid(self.episodes, lengths, self._block_edges, self.blocks, self.changes)

    def scan(self, queries: Sequence[Paced], count: int, allowed: Ints | None = None) -> Scanned:
        """Return the spans nearest to the first query, and to it at other speeds, of these episodes (None: of all).

        At the query's own speed there are `count` spans at most, others are fewer: those nearer than its best ones.
        """
        grid = self._grid if allowed is None else self._make_grid(np.isin(self.episodes, allowed))
        template = _template(queries[0])
        wanted = Wanted(template.per_span * count, least=_EQUAL)
        own = NearestPlaces(grid, template, wanted)
        self._find_places([own], grid)
        same, distances = own.found.select(count)
        rivals = max(1, count // _RIVALS)
        farthest = float(distances[min(rivals, len(distances)) - 1]) if len(distances) else 0.0
        paced = [
            NearestPlaces(grid, one, Wanted(one.per_span * rivals, COARSE * farthest))
            for one in map(_template, queries[1:])
            if len(one.query.rows) <= grid.longest
        ]
        self._find_places(paced, grid)
        others = [one.found.select(rivals, farthest)[0] for one in paced]
        equal, _ = own.found.choose_phases(own.found.below(_EQUAL, _MOST_EQUAL))
        shifted, is_complete = self._find_changes(grid, queries[0], rivals, max(_EQUAL, _SHIFTED * farthest))
        is_complete &= all(one.is_complete for one in (own, *paced))
        return Scanned(same, shifted, equal, others, is_complete)

    def _find_places(self, searches: Sequence[NearestPlaces], grid: BlockGrid) -> None:
        """Let searches that are all of blocks, or all of changes, find their places.

        All are compared where most of what is near does not pass a filter, as then cells hardly tell what is near.
        """
        if not searches:
            return
        if not self.cells or (grid.few is not None and len(grid.few) <= _EACH):
            self._compare_all(searches, grid)
            return
        cells = self.cells[searches[0].template.is_of_changes]
        find_in_cells(searches, cells)
        crowded_out = [one for one in searches if one.is_crowded_out]
        compare_all([one for one in searches if one not in crowded_out], self._columns, cells.places)
        self._compare_all(crowded_out, grid)

    def _compare_all(self, searches: Sequence[NearestPlaces], grid: BlockGrid) -> None:
        """Compare searches with all places: each, if these are few, else all in their order."""
        if grid.few is None:
            compare_all(searches, self._columns)
        for search in searches:
            if grid.few is not None:
                search.measure(grid.few[grid.few % search.template.every == 0])
            search.is_complete = True

    def _find_changes(self, grid: BlockGrid, query: Paced, count: int, limit: float) -> tuple[Nearest, bool]:
        """Return the spans that are nearest but for an offset: those that change as the query does; whether all are.

        Their differences from the query count three times, and one of changes is that of two blocks.
        """
        if len(query.rows) < 2 * BLOCK:
            return Nearest(query, np.zeros(0, np.int64), np.zeros((0, 2), np.int64)), True
        step = APART * CHANGE
        template = BlockTemplate.of(query, step, step, changes=True)
        places = NearestPlaces(grid, template, Wanted(template.per_span * count, COARSE * limit))
        self._find_places([places], grid)
        return places.found.select(count, limit)[0], places.is_complete

    def _columns(self, every: int, changes: bool, first: int) -> Floats:  # noqa: FBT001  (as compare_all calls it)
        """Return what is stored of every so many-th block from the first one on, or of the changes from there [D, n].

        They lie one after the other, unless these are all of many.
        """
        rows = self.changes[first // CHANGE :: every // CHANGE] if changes else self.blocks[first::every]
        if not first and len(self.blocks) > WITHOUT_CELLS:
            return rows.T
        if (every, changes, first) not in self._transposed:
            self._transposed[every, changes, first] = np.ascontiguousarray(rows.T)
        return self._transposed[every, changes, first]


def _template(query: Paced) -> BlockTemplate:
    """Return what of a query is compared: of long ones every second block; all at every phase."""
    step = APART * (1 + (len(query.rows) >= _LONG))
    return BlockTemplate.of(query, step, step)
