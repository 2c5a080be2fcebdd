"""Compares a query, cut into blocks, with the blocks of many episodes.

Blocks are means of four rows, which noise hardly moves. They begin at every second timestep of an episode; long queries
are compared with every second one. A query that is compared from several of its first timesteps on (phases) meets every
span, and a copy of it at distance 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.search.moments.blocks import APART, BLOCK, CHANGE, count_blocks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bridge.alignment.arrays import Ints, Rows
    from bridge.search.moments.blocks import Floats

COARSE: Final = 2
"""Every so many-th of the blocks of a query is compared with all places."""

ROUNDING: Final = 1e-5
"""Of squared lengths, in single precision."""

_PER_SPAN: Final = (4, 16)  # places at which all blocks are compared for each span returned, at least and at most
_FEW_PLACES: Final = 1 << 13  # places up to which, or up to a share of all, each is compared
_SHARE: Final = 1 / 8
_COMPARED: Final = 4  # blocks of a query, at most
_AT_ONCE: Final = 1 << 13  # blocks compared at once, while they fit in the CPU cache


@dataclass(frozen=True, eq=False)
class Paced:
    """A query as it would be at another speed: rows [n, D], n >= 2."""

    speed: float
    rows: Rows


@dataclass(frozen=True, eq=False)
class Nearest:
    """The spans nearest to a paced query, best first: episodes [m] and spans [m, 2]."""

    query: Paced
    episodes: Ints
    spans: Ints


@dataclass(frozen=True, eq=False)
class BlockTemplate:
    """What of a query is compared, from each first timestep on: values [phases, n, D], `shifts` blocks apart.

    every: of what blocks only each so many-th is compared, as phases cover those between.
    """

    query: Paced
    values: Rows
    shifts: list[int]
    every: int
    is_of_changes: bool = False

    @staticmethod
    def of(query: Paced, step: int, phases: int, *, changes: bool = False) -> BlockTemplate:
        """Return the blocks of a query, or the changes of blocks; step: timesteps between blocks that are compared."""
        rows, size = query.rows, (1 + changes) * BLOCK
        phases = max(1, min(phases, len(rows) - size + 1))
        last = max(0, len(rows) - size - phases + 1) // step
        count = max(1, min(len(rows) // BLOCK, _COMPARED, last + 1))
        shifts = [round(number * last / max(1, count - 1)) for number in range(count)]
        begins = np.arange(phases)[:, None] + step * np.array(shifts)
        values = _average(rows, begins)
        if changes:
            values = _average(rows, begins + BLOCK) - values
        every = step // APART
        return BlockTemplate(query, values, [every * shift for shift in shifts], every, changes)

    @cached_property
    def coarse_shifts(self) -> list[int]:
        """Those of the blocks that are compared with all places."""
        return self.shifts[::COARSE]

    @cached_property
    def coarse(self) -> Rows:
        """These blocks [coarse shifts, phases, D]."""
        return self.values[:, ::COARSE].swapaxes(0, 1)

    @cached_property
    def squares(self) -> Floats:
        """The squared length of all these blocks [phases, 1]."""
        squares: Floats = (self.coarse**2).sum(axis=(0, 2)).astype(np.float32)
        return squares[:, None]

    @cached_property
    def weights(self) -> Floats:
        """What stored blocks or changes are multiplied by for their squared distances, less `squares`."""
        ends = np.ones((*self.coarse.shape[:-1], 1))
        return np.concatenate([-2 * self.coarse, ends], axis=-1).astype(np.float32)

    @property
    def per_span(self) -> int:
        """Places at which all blocks are compared for each span returned, as the neighbours that it covers are one."""
        least, most = _PER_SPAN
        return min(most, max(least, len(self.query.rows) // (APART * self.every)))

    @property
    def scale(self) -> int:
        """The number of values that are compared at a place."""
        return len(self.coarse_shifts) * int(self.values.shape[2])


def _average(rows: Rows, begins: Ints) -> Rows:
    """Return the means of the BLOCK rows from these on [..., D], of fewer at the end."""
    sums = np.concatenate([np.zeros((1, rows.shape[1])), rows.cumsum(axis=0)])
    ends = np.minimum(begins + BLOCK, len(rows))
    averages: Rows = (sums[ends] - sums[begins]) / (ends - begins)[..., None]
    return averages


@dataclass(frozen=True, eq=False)
class BlockGrid:
    """The blocks [n, D + 1] of episodes; a place is the number of one.

    episodes [m]: ids; lengths [m]: their timesteps, 0 = not to be found; edges [m + 1]: where the blocks of each begin;
    changes [n / CHANGE, D + 1]: the change from every so many-th block.
    """

    episodes: Ints
    lengths: Ints
    edges: Ints
    values: Floats
    changes: Floats

    @cached_property
    def longest(self) -> int:
        """The most timesteps of an episode."""
        return int(self.lengths.max())

    @cached_property
    def is_open(self) -> NDArray[np.bool_] | None:
        """Whether each place is one of an episode to be found [n]; None if all are."""
        found = self.lengths > 0
        return None if found.all() else np.repeat(found, np.diff(self.edges))

    @cached_property
    def few(self) -> Ints | None:
        """All places, but of repeated blocks, of the episodes to be found, if they are few of those that there are."""
        if (self.lengths > 0).all():
            return None
        counts, _ = count_blocks(self.lengths)
        total = int(counts.sum())
        if total > max(_FEW_PLACES, _SHARE * len(self.values)):
            return None
        return np.repeat(self.edges[:-1] - np.cumsum(counts) + counts, counts) + np.arange(total)

    def find_owners(self, places: Ints) -> Ints:
        """Return the row of the episode of each place."""
        return np.searchsorted(self.edges, places, "right") - 1

    def locate(self, places: Ints) -> tuple[Ints, Ints, Ints]:
        """Return the row of the episode of each place, its timestep there, and how many are left from there."""
        owners = self.find_owners(places)
        starts = APART * (places - self.edges[owners])
        return owners, starts, self.lengths[owners] - starts

    def take(self, places: Ints, *, changes: bool) -> Floats:
        """Return the blocks at places, or the changes from there, and their squared lengths."""
        if changes:
            return self.changes.take(places // CHANGE, axis=0, mode="clip")
        return self.values.take(places, axis=0, mode="clip")

    def measure(
        self,
        template: BlockTemplate,
        places: Ints,
        limit: float = np.inf,
        known: tuple[int, Floats] | None = None,
    ) -> BlockDistances:
        """Compare every second block of a template with what is at places, at the best of its phases.

        Those that are farther than the limit, or have no room, are left out. known: the number of a block, and the
        products of its weights and what is there.
        """
        found = np.empty(len(places), np.float32)
        for begin in range(0, len(places), _AT_ONCE):
            part = slice(begin, begin + _AT_ONCE)
            total = template.squares
            for number, (weights, shift) in enumerate(zip(template.weights, template.coarse_shifts, strict=True)):
                if known is not None and number == known[0]:
                    total = total + known[1][:, part]
                else:
                    total = total + weights @ self.take(places[part] + shift, changes=template.is_of_changes).T
            total.min(axis=0, out=found[part])
        found /= template.scale
        near = np.flatnonzero(found <= limit)
        return self.select(template, places[near], found[near])

    def select(self, template: BlockTemplate, places: Ints, distances: Floats) -> BlockDistances:
        """Return the distances at those of some places that have room for the template."""
        steps = len(template.query.rows)
        owners, _, left = self.locate(places)
        fits = left > max(BLOCK - 1, steps - len(template.values))  # a repeated block has less room
        fits &= self.lengths[owners] >= steps
        return BlockDistances(self, template, places[fits], distances[fits])


@dataclass(frozen=True, eq=False)
class BlockDistances:
    """The distance [n] of a template from what is at each of some places [n]."""

    grid: BlockGrid
    template: BlockTemplate
    places: Ints
    distances: Floats

    def _with(self, places: Ints, distances: Floats) -> BlockDistances:
        return BlockDistances(self.grid, self.template, places, distances)

    def reach(self, most: int) -> float:
        """Return how near the `most` nearest are, of at least as many."""
        return float(np.partition(self.distances, most - 1)[most - 1])

    def nearest(self, most: int, limit: float = 0.0) -> BlockDistances:
        """Return the `most` nearest, of equally near ones those of the first places, and all nearer than a limit."""
        if len(self.distances) <= most:
            return self
        order = np.argpartition(self.distances, most - 1)
        farthest = self.distances[order[most - 1]]
        chosen, equal = self.distances < max(limit, farthest), np.flatnonzero(self.distances == farthest)
        first = equal[np.argsort(self.places[equal])][: max(0, most - np.count_nonzero(self.distances < farthest))]
        chosen[first] = True
        return self._with(self.places[chosen], self.distances[chosen])

    def joined(self, other: BlockDistances) -> BlockDistances:
        """Return these, and those of the same template at other places."""
        places = np.concatenate([self.places, other.places])
        return self._with(places, np.concatenate([self.distances, other.distances]))

    def without(self, places: Ints) -> BlockDistances:
        """Return these but for some places."""
        if not len(places):
            return self
        known = np.sort(places)
        others = known.take(known.searchsorted(self.places), mode="clip") != self.places
        return self._with(self.places[others], self.distances[others])

    def below(self, limit: float, most: int) -> Ints:
        """Return the places that are nearer than this, of many the nearest, in no order."""
        near = self.distances < limit
        return self._with(self.places[near], self.distances[near]).nearest(most).places

    def choose_phases(self, places: Ints) -> tuple[Nearest, Floats]:
        """Return the spans at these places, begun at the phase that is nearest, best first, and their distances."""
        grid, values = self.grid, self.template.values
        places = np.sort(places)
        shifts = np.array(self.template.shifts)
        found = grid.take(places[:, None] + shifts, changes=self.template.is_of_changes)
        differences = np.ascontiguousarray(found[:, None, :, : values.shape[-1]]) - values.astype(np.float32)
        distances = np.einsum("npbd,npbd->np", differences, differences) / np.float32(values[0].size)
        phases, steps = np.arange(len(values)), len(self.template.query.rows)
        owners, starts, room = grid.locate(places)
        starts = starts[:, None] - phases
        distances[(starts < 0) | (room[:, None] < steps - phases)] = np.inf
        best = distances.argmin(axis=1)
        each = np.arange(len(places))
        starts, distances = starts[each, best], distances[each, best]
        order = np.lexsort((places, distances))[: np.count_nonzero(np.isfinite(distances))]
        spans = starts[order, None] + np.array([0, steps])
        return Nearest(self.template.query, grid.episodes[owners[order]], spans), distances[order]

    def select(self, count: int, limit: float = np.inf) -> tuple[Nearest, Floats]:
        """Return the nearest spans, best first, of which no two start within a third of a span."""
        nearest, distances = self.choose_phases(
            self.below(COARSE * limit, self.template.per_span * count)
        )  # misses no nearer ones
        third = max(2, len(self.template.query.rows) // 3)
        keys = nearest.episodes * (1 << 32) + nearest.spans[:, 0] // third
        _, first = np.unique(keys[: np.count_nonzero(distances < limit)], return_index=True)
        chosen = np.sort(first)[:count]
        return Nearest(nearest.query, nearest.episodes[chosen], nearest.spans[chosen]), distances[chosen]
