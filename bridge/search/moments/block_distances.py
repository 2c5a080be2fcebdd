"""Compares a query, cut into blocks, with the blocks of many episodes.

Blocks are means of four rows, which noise hardly moves. They begin at every second timestep of an episode; long queries
are compared with every second one. A query that is compared from several of its first timesteps on (phases) meets every
span, and a copy of it at distance 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from bridge.alignment.arrays import Ints, Rows

    Floats = NDArray[np.float32]

BLOCK: Final = 4
"""Timesteps whose mean is compared."""

APART: Final = 2
"""Timesteps from the begin of one block to that of the next."""

_COMPARED: Final = 4  # blocks of a query, at most
_PER_SPAN: Final = 16  # places at which all these are compared for each span returned, as neighbours are one span
_COARSE: Final = 2  # every n-th of these blocks is compared with all places
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


def make_blocks(rows: Floats) -> Floats:
    """Return the mean of the BLOCK rows [T, D] from every second timestep, its squared length as a last column."""
    count = max(0, (len(rows) - BLOCK) // APART + 1)
    blocks = np.zeros((count, rows.shape[1] + 1), np.float32)
    means = blocks[:, :-1]
    for start in range(BLOCK):
        means += rows[start : start + APART * count : APART]
    means /= BLOCK
    np.einsum("nd,nd->n", means, means, out=blocks[:, -1])
    return blocks


@dataclass(frozen=True, eq=False)
class BlockTemplate:
    """What of a query is compared, from each first timestep on: values [phases, n, D], `shifts` blocks apart."""

    query: Paced
    values: Rows
    shifts: list[int]

    @staticmethod
    def of(query: Paced, step: int, phases: int, *, changes: bool = False) -> BlockTemplate:
        """Return the blocks of a query, or the changes of blocks; step: timesteps between blocks that are compared."""
        rows, size = query.rows, (1 + changes) * BLOCK
        phases = max(1, min(phases, len(rows) - size + 1))
        last = max(0, len(rows) - size - phases + 1) // step
        count = max(1, min(len(rows) // BLOCK, _COMPARED, last + 1))
        shifts = np.round(np.linspace(0, last, count)).astype(np.int64)
        begins = np.arange(phases)[:, None] + step * shifts
        values = _average(rows, begins)
        if changes:
            values = _average(rows, begins + BLOCK) - values
        return BlockTemplate(query, values, shifts.tolist())

    @cached_property
    def coarse_shifts(self) -> list[int]:
        """Those of the blocks that are compared with all places."""
        return self.shifts[::_COARSE]

    @cached_property
    def weights(self) -> Floats:
        """What blocks with their squared lengths are multiplied by [phases * coarse shifts, D + 1]."""
        values = self.values[:, ::_COARSE]
        weights = np.concatenate([-2 * values, np.ones((*values.shape[:2], 1))], axis=2, dtype=np.float32)
        return weights.reshape(-1, weights.shape[2])

    @cached_property
    def squares(self) -> Floats:
        """The squared length of all these blocks, by phase."""
        squares: Floats = (self.values[:, ::_COARSE] ** 2).sum(axis=(1, 2)).astype(np.float32)
        return squares

    def add_products(self, products: Floats, least: Floats) -> None:
        """Fill in the squared distances of places, of the nearest phase; products: of `weights` with these and more."""
        count, size = len(self.coarse_shifts), len(least)
        for phase, square in enumerate(self.squares):
            total = products[phase * count, :size] + square
            for number, shift in enumerate(self.coarse_shifts[1:], start=phase * count + 1):
                total += products[number, shift : shift + size]
            np.minimum(least, total, out=least) if phase else np.copyto(least, total)


def _average(rows: Rows, begins: Ints) -> Rows:
    """Return the means of the BLOCK rows from these on [..., D], of fewer at the end."""
    sums = np.concatenate([np.zeros((1, rows.shape[1])), rows.cumsum(axis=0)])
    ends = np.minimum(begins + BLOCK, len(rows))
    averages: Rows = (sums[ends] - sums[begins]) / (ends - begins)[..., None]
    return averages


@dataclass(frozen=True, eq=False)
class BlockGrid:
    """Blocks [n, D + 1] of all episodes, or their changes: the place of the episode of each, its timestep, and room.

    room: timesteps that are left in the episode from there.
    """

    episodes: Ints
    values: Floats
    owners: NDArray[np.int32]
    starts: NDArray[np.int32]
    room: NDArray[np.int32]

    def measure(self, templates: Sequence[BlockTemplate]) -> list[BlockDistances]:
        """Compare every second block of templates with what is at every place, at the best of their phases.

        All are compared with a block while it is in the CPU cache.
        """
        weights = np.concatenate([one.weights for one in templates])
        lengths = [max(0, len(self.values) - one.shifts[-1]) for one in templates]
        distances = [np.empty(length, np.float32) for length in lengths]
        reach = max(one.coarse_shifts[-1] for one in templates)
        for begin in range(0, max(lengths), _AT_ONCE):
            products = weights @ self.values[begin : begin + _AT_ONCE + reach].T
            first = 0
            for one, least in zip(templates, distances, strict=True):
                one.add_products(products[first:], least[begin : begin + _AT_ONCE])
                first += len(one.weights)
        for one, found in zip(templates, distances, strict=True):
            np.divide(found, len(one.coarse_shifts) * one.values.shape[2], out=found)
            found[self.room[: len(found)] <= len(one.query.rows) - len(one.values)] = np.inf
        return [BlockDistances(self, one, found) for one, found in zip(templates, distances, strict=True)]


@dataclass(frozen=True, eq=False)
class BlockDistances:
    """The distance [n] of a template from what is at each place of a grid, infinite where it has no room."""

    grid: BlockGrid
    template: BlockTemplate
    distances: Floats

    def below(self, limit: float, most: int) -> Ints:
        """Return the places that are nearer than this, of many the nearest, in no order."""
        if len(self.distances) <= most:
            return np.flatnonzero(self.distances < limit)
        if limit == np.inf:
            return np.argpartition(self.distances, most - 1)[:most]
        places = np.flatnonzero(self.distances < limit)
        return places[np.argpartition(self.distances[places], most - 1)[:most]] if len(places) > most else places

    def choose_phases(self, places: Ints) -> tuple[Nearest, Floats]:
        """Return the spans at these places, begun at the phase that is nearest, best first, and their distances."""
        grid, values = self.grid, self.template.values
        found = grid.values[places[:, None] + np.array(self.template.shifts), :-1]  # [n, blocks, D]
        distances = ((found[:, None] - values.astype(np.float32)) ** 2).mean(axis=(2, 3))
        phases, steps = np.arange(len(values)), len(self.template.query.rows)
        starts = grid.starts[places, None].astype(np.int64) - phases
        distances[(starts < 0) | (grid.room[places, None] < steps - phases)] = np.inf
        best = distances.argmin(axis=1)
        each = np.arange(len(places))
        starts, distances, owners = starts[each, best], distances[each, best], grid.owners[places]
        order = np.lexsort((places, distances))[: np.count_nonzero(np.isfinite(distances))]
        spans = starts[order, None] + np.array([0, steps])
        return Nearest(self.template.query, grid.episodes[owners[order]], spans), distances[order]

    def select(self, count: int, limit: float = np.inf) -> tuple[Nearest, Floats]:
        """Return the nearest spans, best first, of which no two start within a third of a span."""
        nearest, distances = self.choose_phases(
            self.below(_COARSE * limit, _PER_SPAN * count)
        )  # no nearer ones are missed
        third = max(2, len(self.template.query.rows) // 3)
        keys = nearest.episodes * (1 << 32) + nearest.spans[:, 0] // third
        _, first = np.unique(keys[: np.count_nonzero(distances < limit)], return_index=True)
        chosen = np.sort(first)[:count]
        return replace(nearest, episodes=nearest.episodes[chosen], spans=nearest.spans[chosen]), distances[chosen]
