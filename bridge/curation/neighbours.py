"""The nearest of each vector, exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.curation.projection import Floats, Ids, Line, Vectors, distances, widest
from bridge.support.progress import Silent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from bridge.support.progress import Progress

_ROWS: Final = 256
_COLUMNS: Final = 4096


@dataclass(frozen=True, eq=False)
class Neighbours:
    """For each of N vectors its k nearest others: rows int64 [N, k] and distances float64 [N, k], nearest first."""

    rows: Ids
    distances: Floats


def nearest(
    vectors: Vectors,
    k: int,
    *,
    among: Vectors | None = None,
    owners: tuple[Ids, Ids] | None = None,
    progress: Progress | None = None,
) -> Neighbours:
    """Return the k nearest of `among` [M, E] for each of the unit vectors [N, E]; fewer where there are no more.

    among None: the nearest others of the same vectors. owners: to whom each of the vectors [N] and of `among` [M]
    belongs; those of one owner are not neighbours, and where too few are left, the distance is infinite. Which of
    several at the same distance are named is up to the order along the line, the same for equal arguments.
    """
    k = max(0, min(k, len(vectors) - 1 if among is None else len(among)))
    rows, apart = np.zeros((len(vectors), k), np.int64), np.zeros((len(vectors), k))
    if not k:
        return Neighbours(rows, apart)
    direction = widest(vectors if among is None else among)
    asking = Line.of(vectors, direction)
    line = asking if among is None else Line.of(among, direction)
    watch = progress or Silent()
    watch.stage("vectors", len(vectors))
    for start in range(0, len(vectors), _ROWS):
        part = slice(start, min(start + _ROWS, len(vectors)))
        found, known = _nearest_of(asking, part, line, k, owners)
        asked = np.repeat(asking.vectors[part], k, axis=0)
        exact = distances(asked, line.vectors[found.ravel()]).reshape(found.shape)
        exact[~known] = np.inf
        ranking = np.argsort(exact, axis=1, kind="stable")
        rows[asking.order[part]] = line.order[np.take_along_axis(found, ranking, 1)]
        apart[asking.order[part]] = np.take_along_axis(exact, ranking, 1)
        watch.advance(part.stop - part.start)
    return Neighbours(rows, apart)


def near_pairs(
    left: Vectors,
    right: Vectors | None,
    k: int,
    farthest: float,
    *,
    owners: tuple[Ids, Ids] | None = None,
    progress: Progress | None = None,
) -> tuple[Floats, Ids]:
    """Return the pairs of which one is among the k nearest of the other, and no further: distances [n], places [n, 2].

    right None: pairs within `left`. owners: as in `nearest`.
    """
    found = [_pairs(nearest(left, k, among=right, owners=owners, progress=progress), farthest)]
    if right is not None:
        turned = owners and owners[::-1]
        apart, places = _pairs(nearest(right, k, among=left, owners=turned, progress=progress), farthest)
        found.append((apart, places[:, ::-1]))
    distances_found, pairs = zip(*found, strict=True)
    return np.concatenate(distances_found), np.concatenate(pairs)


def _pairs(found: Neighbours, farthest: float) -> tuple[Floats, Ids]:
    asking, ranks = np.nonzero(found.distances <= farthest)
    return found.distances[asking, ranks], np.stack([asking, found.rows[asking, ranks]], axis=1)


def _nearest_of(
    asking: Line, part: slice, line: Line, k: int, owners: tuple[Ids, Ids] | None
) -> tuple[Ids, NDArray[np.bool_]]:
    """Return the places in the line [n, k] of the nearest of those in that part, and which of them there are."""
    asked, places = asking.vectors[part], asking.places[part]
    best = np.full((len(asked), k), -np.inf, np.float32)
    where = np.zeros((len(asked), k), np.int64)
    first, last = line.stretch(places[0], places[-1])
    for low, high in _outward(len(line.vectors), first, last):
        gap = max(line.places[low] - places[-1], places[0] - line.places[high - 1], 0.0)
        if gap**2 / 2 > 1 - float(best.min()) + 1e-5:
            continue  # even the places are further apart than all that was found
        cosines = asked @ line.vectors[low:high].T
        if asking is line:
            own = np.arange(max(low, part.start), min(high, part.stop))
            cosines[own - part.start, own - low] = -np.inf
        if owners is not None:
            mine, theirs = owners[0][asking.order[part]], owners[1][line.order[low:high]]
            cosines[mine[:, None] == theirs] = -np.inf
        better = np.flatnonzero((cosines > best[:, -1:]).any(axis=1))
        joined = np.concatenate([best[better], cosines[better]], axis=1)
        here = np.concatenate([where[better], np.broadcast_to(np.arange(low, high), (len(better), high - low))], axis=1)
        top = np.argpartition(-joined, k - 1, axis=1)[:, :k]
        top = np.take_along_axis(top, np.argsort(-np.take_along_axis(joined, top, 1), axis=1, kind="stable"), 1)
        best[better], where[better] = np.take_along_axis(joined, top, 1), np.take_along_axis(here, top, 1)
    return where, np.isfinite(best)


def _outward(count: int, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield ranges that cover 0 to count: first the one around start to stop, then on either side by turns."""
    low, high = max(0, start - _COLUMNS // 2), min(count, stop + _COLUMNS // 2)
    yield low, high
    while low > 0 or high < count:
        if low > 0:
            yield max(0, low - _COLUMNS), low
            low = max(0, low - _COLUMNS)
        if high < count:
            yield high, min(count, high + _COLUMNS)
            high = min(count, high + _COLUMNS)
