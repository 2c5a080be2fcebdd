"""The methods of benchmark RB-A: vectors compared with all others, windows, scans by alignment.

Knows: episodes as rows of channels, and what asks. Does not know: tasks' names, what is counted, the archive on disk.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
from combine import Combo, Combo2
from dtw import full_dtw, subsequence_dtw
from rb_a_disturb import DISTURBANCES

from embedders.standardise import scales, standardise
from embedders.trajectory.arc import ArcDct
from embedders.trajectory.blocks import Blocks
from embedders.trajectory.pooled import Mean, Stats
from embedders.trajectory.resample import resample
from embedders.trajectory.spectral import Dct
from embedders.windows import SCALES, WindowPlan

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from embedders.base import Embedder
    from embedders.space import Statistics

    Rows = NDArray[np.float64]
    Similarities = NDArray[np.float64]
    Ask = Callable[[list[Rows]], Similarities]

EXPANSIONS: Final = ("arcdct undamped", "arcdct", "combo2")
WHOLE: Final[dict[str, Embedder]] = {
    "mean (baseline)": Mean(),
    "stats": Stats(),
    "resample 32": Dct(32, 32),  # the whole orthonormal spectrum: the same cosines as the rows themselves
    "dct": Dct(),
    "arcdct undamped": ArcDct(damping=0.0),
    "arcdct": ArcDct(),
    "arcdct 5 coefficients": ArcDct(coefficients=5, damping=0.0),
    "arcdct along all channels": ArcDct(position=None),
    "sig2": Combo(arcdct=0, dct=0, stats=0),
    "combo": Combo(),
    "combo damped": Combo(damping=0.15),
    "combo2": Combo2(),
    "blocks": Blocks(),
}
WINDOWED: Final[dict[str, Embedder]] = {
    "windows, arcdct undamped": ArcDct(damping=0.0),
    "windows, arcdct": ArcDct(),
    "windows, arcdct undamped, level .6": ArcDct(damping=0.0, level=0.6),
    "windows, combo2": Combo2(),
    "windows, arcdct along all channels, undamped, level .6": ArcDct(damping=0.0, position=None, level=0.6),
}


@dataclass(frozen=True, eq=False)
class Archive:
    """All episodes on some channels: raw rows, statistics, task numbers, and who asks."""

    episodes: list[Rows]
    statistics: Statistics
    tasks: NDArray[np.int64]
    asking: NDArray[np.int64]

    def queries(self, name: str, first: int) -> list[Rows]:
        """Return what asks, disturbed; a query's number seeds its disturbance."""
        spread = scales(self.statistics)
        change = DISTURBANCES[name]
        return [change(self.episodes[n], spread, np.random.default_rng(int(n) + first)) for n in self.asking]


def evenly(rows: Rows, length: int) -> Rows:
    """Return that many rows [length, D] of an episode, evenly in time."""
    return resample(rows, np.array([[0, len(rows)]]), length)[0]


def expand(vectors: Rows, index: Rows, asking: NDArray[np.int64], count: int = 5, power: float = 3.0) -> Rows:
    """Return unit queries [Q, E], each with its `count` nearest of `index` added, weighted by similarity ** power."""
    similarities = vectors @ index.T
    similarities[np.arange(len(asking)), asking] = -np.inf
    nearest = np.argsort(-similarities, axis=1, kind="stable")[:, :count]
    weights = np.maximum(np.take_along_axis(similarities, nearest, 1), 0.0) ** power
    grown = vectors + (weights[:, :, None] * index[nearest]).sum(axis=1)
    grown /= np.linalg.norm(grown, axis=1, keepdims=True)
    return grown


def whole(embedder: Embedder, archive: Archive, *, expanded: bool = False) -> Ask:
    """Return similarities of whole episodes."""
    index = embedder.embed(archive.episodes, archive.statistics).astype(np.float64)

    def ask(queries: list[Rows]) -> Similarities:
        vectors = embedder.embed(queries, archive.statistics).astype(np.float64)
        return (expand(vectors, index, archive.asking) if expanded else vectors) @ index.T

    return ask


def windowed(embedder: Embedder, archive: Archive) -> Ask:
    """Return similarities to the best window of every episode."""
    spans = [WindowPlan(scales=SCALES).spans(len(rows)).tolist() for rows in archive.episodes]
    cuts = [rows[a:b] for rows, windows in zip(archive.episodes, spans, strict=True) for a, b in windows]
    index = embedder.embed(cuts, archive.statistics).astype(np.float64)
    firsts = np.cumsum([0, *map(len, spans[:-1])])

    def ask(queries: list[Rows]) -> Similarities:
        vectors = embedder.embed(queries, archive.statistics).astype(np.float64)
        return np.stack([np.maximum.reduceat(index @ vector, firsts) for vector in vectors])

    return ask


def scan(align: Callable[[Rows, Rows], float], archive: Archive) -> Ask:
    """Return minus the costs of aligning every query with every episode."""
    references = [standardise(rows, archive.statistics) for rows in archive.episodes]

    def ask(queries: list[Rows]) -> Similarities:
        asked = [standardise(rows, archive.statistics) for rows in queries]
        return -np.array([[align(query, rows) for rows in references] for query in asked])

    return ask


def best_piece(query: Rows, rows: Rows, *, free: bool) -> float:
    """Return the cost of the piece of an episode that the query is most like."""
    return float(subsequence_dtw(query, rows, free=free)[0].min())


def methods(archive: Archive, *, alignment: bool) -> dict[str, Callable[[], tuple[Ask, int | None]]]:
    """Return what makes each method's index, by name, and the size of its vectors."""
    channels = archive.statistics.mean.size
    made: dict[str, Callable[[], tuple[Ask, int | None]]] = {}
    for name, embedder in WHOLE.items():
        made[name] = lambda embedder=embedder: (whole(embedder, archive), embedder.dim(channels))
        if name in EXPANSIONS:
            made[f"{name} + QE(5,3)"] = lambda embedder=embedder: (
                whole(embedder, archive, expanded=True),
                embedder.dim(channels),
            )
    for name, embedder in WINDOWED.items():
        made[name] = lambda embedder=embedder: (windowed(embedder, archive), embedder.dim(channels))
    if alignment:
        strict, free = (partial(best_piece, free=free) for free in (False, True))
        made["full DTW (scan)"] = lambda: (scan(full_dtw, archive), None)
        made["subsequence DTW, steps (1,1) (1,2) (scan)"] = lambda: (scan(strict, archive), None)
        made["subsequence DTW, free steps (scan)"] = lambda: (scan(free, archive), None)
    return made
