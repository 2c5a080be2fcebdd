"""Finds the spans of episodes nearest to a query by a scan of all their timesteps, at several speeds.

Rows are compared by blocks: means of four rows. Noise hardly moves them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.search.moments.lane_rows import BLOCK
from embedders.trajectory.resample import resample

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from bridge.alignment.arrays import Ints, Rows
    from bridge.search.moments.lane_rows import PreparedRows

SPEEDS: Final = (1.0, 2.5, 1.6, 1 / 1.6, 1 / 2.5)
"""How many times faster than the query the spans are: what lies in between is left to the alignment."""

_FINE: Final = 32  # timesteps of a query of which every start is compared, of longer ones every second, fourth ...
_COMPARED: Final = 8  # blocks of a query, at most
_SHORTEST: Final = 8  # timesteps of a query at another speed: fewer are found everywhere
_RIVALS: Final = 2  # spans at the query's own speed for each at another, which must be as near as those
_PER_SPAN: Final = 6  # blocks sorted for each span returned, as neighbours are one span


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


def pace(rows: Rows) -> list[Paced]:
    """Return the query at all speeds at which it is long enough."""
    paced = [Paced(1.0, rows)]
    for speed in SPEEDS[1:]:
        count = round(len(rows) / speed)
        if count >= _SHORTEST and len(rows) >= _SHORTEST:
            paced.append(Paced(speed, resample(rows, np.array([[0, len(rows)]]), count)[0]))
    return paced


@dataclass(frozen=True, eq=False)
class Timesteps:
    """All timesteps of episodes, one episode below the other.

    episodes [m]: ids; rows [T, D]; edges [m + 1]: where each episode begins in rows; blocks [n, D + 1]; owners, starts
    and room [n]: the place in `episodes` of each block, its timestep, and how many timesteps are left from there.
    """

    episodes: Ints
    rows: Rows
    edges: Ints
    blocks: NDArray[np.float32]
    owners: Ints
    starts: Ints
    room: Ints

    @staticmethod
    def of(lanes: Mapping[int, PreparedRows]) -> Timesteps:
        """Return those of episodes; lanes: at least one."""
        counts = np.array([len(one.blocks) for one in lanes.values()])
        edges = np.cumsum([0, *(len(one.rows) for one in lanes.values())])
        owners = np.repeat(np.arange(len(counts)), counts)
        starts = np.arange(len(owners)) - (np.cumsum(counts) - counts)[owners]
        rows, joined = (np.concatenate([getattr(one, name) for one in lanes.values()]) for name in ("rows", "blocks"))
        return Timesteps(
            np.array([*lanes], np.int64), rows, edges, joined, owners, starts, np.diff(edges)[owners] - starts
        )

    def scan(self, queries: Sequence[Paced], count: int, allowed: Ints | None = None) -> list[Nearest]:
        """Return for each query the spans that are nearest, of these episodes (None: of all).

        The first has `count` spans at most, others fewer: those nearer than the first's best ones.
        """
        room = self.room
        if allowed is not None:
            room = np.where(np.isin(self.episodes, allowed)[self.owners], room, 0)
        found, farthest = list[Nearest](), np.inf
        for query in queries:
            step = max(2 if found else 1, min(BLOCK, len(query.rows) // _FINE * 2))
            distances = self._measure(query.rows, step)
            distances[room[::step][: len(distances)] < len(query.rows)] = np.inf
            near = np.flatnonzero(distances < farthest)
            best = self._select(near * step, distances[near], len(query.rows), count)
            if not found:
                count = count // _RIVALS
                farthest = float(distances[best[min(count, len(best)) - 1] // step]) if len(best) else 0.0
            spans = self.starts[best, None] + np.array([0, len(query.rows)])
            found.append(Nearest(query, self.episodes[self.owners[best]], spans))
        return found

    def _measure(self, query: Rows, step: int) -> NDArray[np.float32]:
        """Return the mean squared distance of the query from the span that starts at every step-th block."""
        chosen = _choose_blocks(len(query), step)
        means = np.stack([query[at : at + BLOCK].mean(axis=0) for at in chosen.tolist()])
        asked = np.concatenate([-2 * means, np.ones((len(means), 1))], axis=1).astype(np.float32)
        products, shifts = asked @ self.blocks[::step].T, (chosen // step).tolist()
        length = max(0, products.shape[1] - shifts[-1])
        distances: NDArray[np.float32] = np.full(length, (means**2).sum(), np.float32)
        for row, shift in zip(products, shifts, strict=True):
            distances += row[shift : shift + length]
        distances /= means.size
        return distances

    def _select(self, near: Ints, distances: NDArray[np.float32], steps: int, count: int) -> Ints:
        """Return the best of these blocks, best first, of which no two start within the same third of a span."""
        wanted = min(_PER_SPAN * count, len(near))
        if not wanted:
            return near
        best = np.argpartition(distances, wanted - 1)[:wanted]
        best = near[best[np.lexsort((near[best], distances[best]))]]
        third = max(2, steps // 3)
        _, first = np.unique(self.owners[best] * (len(self.rows) + 1) + self.starts[best] // third, return_index=True)
        selected: Ints = best[np.sort(first)[:count]]
        return selected


def _choose_blocks(steps: int, step: int) -> Ints:
    """Return the timesteps of a query, multiples of step, at which the blocks start that are compared."""
    last = max(0, steps - BLOCK) // step
    count = max(1, min(steps // BLOCK, _COMPARED))
    places: Ints = step * np.round(np.linspace(0, last, count)).astype(np.int64)
    return places
