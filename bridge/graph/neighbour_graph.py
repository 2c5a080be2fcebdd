"""The neighbour graph: the nearest of every episode, how near they are, and what spreads from some episodes to others.

A few seeds spread over the graph as a random walk that returns to them (personalised PageRank): what many short ways
lead to gets a high value, however far it is from the seeds themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from bridge.graph.nearest import find_near
from bridge.index.stored_rows import sort_distinct
from bridge.support.garbage import give_back
from bridge.support.scratch import map_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from bridge.graph.completion import Completion

    Floats = NDArray[np.float64]
    Ids = NDArray[np.int64]
    Vectors = NDArray[np.float32]

MOST_NEIGHBOURS: Final = 10
"""Number of neighbours of each episode in archives of 317 and more; see count_neighbours."""
LEAST_EPISODES: Final = 32
"""In fewer, nearly all are neighbours of all."""
LEAST_GROUPS: Final = 0.37
"""Share of mutual neighbours, beyond chance, below which an archive has no groups that a graph could follow."""

_LEAST_NEIGHBOURS: Final = 6
_GROWTH: Final = 0.4  # power of the number of episodes that is that of neighbours
_CANDIDATES: Final = 30  # nearest vectors, of which those are neighbours that are near for how dense it is around both
_SCALE: Final = 0.5  # of a distance at which nearness falls off, beside the mean distance of neighbours
_CONTINUE: Final = 0.95  # share of a walk that goes on at each step
_HOPS: Final = 3  # from the seeds of a search, as far as that is not more than:
_MOST_REACHED: Final = 512
_SEARCH_STEPS: Final = 12  # of the solver; with twice as many no rank changed
_ALL_STEPS: Final = 40
_ENOUGH: Final = 64  # episodes; among fewer, six neighbours may be each other's by chance
_SAMPLE: Final = 512  # episodes by which groups are measured
_TINY: Final = 1e-9
_EXACT: Final = 16_384  # episodes up to which all are compared with all
_PIECES: Final = 48  # nearest pieces of a larger archive, whose episodes are compared
_LARGEST: Final = 256  # mean size of a piece in very large ones, so that each costs the same
_FOUND: Final = np.dtype([("place", np.int64), ("distance", np.float64)])
_ROWS: Final = 1024  # episodes computed with at a time


@dataclass(frozen=True, eq=False)
class NeighbourGraph:
    """Ids of N episodes, ascending; places of their neighbours [N, k], and the share of each in the nearness of all.

    groups: the share of pairs of neighbours that are each other's neighbours, beyond chance (measure_groups), of
    MOST_NEIGHBOURS or, where that is more and there are enough episodes, of k.
    completions: what predicts the vectors of episodes that lack lanes.
    """

    episodes: Ids
    neighbours: NDArray[np.int32]
    shares: NDArray[np.float32]
    groups: float
    completions: tuple[Completion, ...] = ()

    @property
    def has_groups(self) -> bool:
        """Whether episodes are in groups, which a walk follows; without, vectors alone rank better."""
        return self.groups >= LEAST_GROUPS

    def find(self, episodes: Ids) -> tuple[Ids, NDArray[np.bool_]]:
        """Return the place of each of these episodes, and a mask of those that the graph has."""
        places = self.episodes.searchsorted(episodes).clip(max=len(self.episodes) - 1)
        return places, self.episodes[places] == episodes

    def spread_near(self, seeds: Ids, weights: Floats) -> tuple[Ids, Floats]:
        """Return the places [n] near the seeds, and what reaches each of them from these, at most 1; n may be 0."""
        if not len(seeds):
            return seeds, weights
        reached = sort_distinct(seeds)
        for _ in range(_HOPS):
            grown = sort_distinct(np.concatenate([reached, self.neighbours.take(reached, axis=0).ravel()]))
            if len(grown) > _MOST_REACHED:
                break
            reached = grown
        count, near = len(reached), self.neighbours[reached]
        columns = reached.searchsorted(near).clip(max=count - 1)
        inside = reached[columns] == near
        one_way = np.zeros((count, count))
        one_way[np.nonzero(inside)[0], columns[inside]] = self.shares[reached][inside]
        both = (one_way + one_way.T) / 2
        root = np.sqrt(both.sum(axis=1) + _TINY)
        both /= root[:, None] * root
        start = np.zeros(count)
        np.add.at(start, reached.searchsorted(seeds), weights)
        values = np.maximum(_solve(lambda flow: both @ flow, start, _SEARCH_STEPS), 0.0)
        return reached, values / max(values.max(), _TINY)

    def spread_far(self, start: Floats) -> Floats:
        """Return what reaches each episode [N] from values [N] of some, which may be negative, over the whole graph."""
        count, shares, targets = len(start), self.shares.astype(np.float64), self.neighbours.ravel()
        degrees = (shares.sum(axis=1) + np.bincount(targets, shares.ravel(), count)) / 2
        root = np.sqrt(degrees + _TINY)

        def walk(flow: Floats) -> Floats:
            scaled = flow / root
            forth = (shares * scaled[self.neighbours]).sum(axis=1)
            back = np.bincount(targets, (shares * scaled[:, None]).ravel(), count)
            walked: Floats = (forth + back) / (2 * root)
            return walked

        return _solve(walk, start, _ALL_STEPS)


def _solve(walk: Callable[[Floats], Floats], start: Floats, steps: int) -> Floats:
    """Return x with x - _CONTINUE * walk(x) = start, by conjugate gradients."""
    found, rest = np.zeros(len(start)), start.copy()
    direction, energy = rest.copy(), float(rest @ rest)
    for _ in range(steps):
        if energy < _TINY**2:
            break
        image = direction - _CONTINUE * walk(direction)
        pace = energy / float(direction @ image)
        found += pace * direction
        rest -= pace * image
        energy, before = float(rest @ rest), energy
        direction = rest + energy / before * direction
    return found


def count_neighbours(episodes: int) -> int:
    """Return how many neighbours each of so many episodes has: as many as groups of a small archive may have."""
    return min(max(int(episodes**_GROWTH), _LEAST_NEIGHBOURS), MOST_NEIGHBOURS)


def build_graph(episodes: Ids, vectors: Vectors) -> NeighbourGraph:
    """Return the graph of episodes, ids ascending, from one unit vector [N, E] of each, N >= LEAST_EPISODES.

    Little of each is in memory: the vectors may be mapped, and candidates and the graph are.
    """
    count, found = len(vectors), _find_near(vectors)
    k = count_neighbours(count)
    neighbours, shares = _choose_all(*found, k)
    groups = measure_groups(neighbours if k == MOST_NEIGHBOURS else _choose_all(*found, MOST_NEIGHBOURS)[0])
    if count >= _ENOUGH:
        groups = max(groups, measure_groups(neighbours))  # of small groups
    return NeighbourGraph(episodes, neighbours, shares, groups)


def _choose_all(order: Ids, near: Ids, distances: Floats, k: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Return the k neighbours [N, k] of each vector and their shares, mapped; the others: as from _find_near."""
    count, record = len(order), np.dtype([("neighbours", np.int32, k), ("shares", np.float32, k)])
    spans, places = np.empty(count), np.empty(count, np.int64)
    for part in _blocks(count):
        spans[order[part]] = _measure_spans(distances[part], k)
        places[order[part]] = np.arange(count)[part]

    def choose() -> Iterator[NDArray[Any]]:
        for part in _blocks(count):
            rows = near[places[part]]
            chosen = np.empty((len(rows), 1), record)
            found = _choose(rows, distances[places[part]], (spans[part, None] + spans[rows]) / 2, k)
            chosen["neighbours"][:, 0], chosen["shares"][:, 0] = found
            yield chosen

    both = map_rows(choose(), 1, record)[:, 0]
    neighbours = map_rows((both["neighbours"][part] for part in _blocks(count)), k, np.int32)
    shares = map_rows((both["shares"][part] for part in _blocks(count)), k, np.float32)
    return neighbours, shares


def _blocks(count: int) -> Iterator[slice]:
    return (slice(start, start + _ROWS) for start in range(0, count, _ROWS))


def join_graph(graph: NeighbourGraph, episodes: Ids, vectors: Vectors, known: NDArray[np.bool_]) -> NeighbourGraph:
    """Return the graph of these episodes, ids ascending, of which the known ones keep their neighbours.

    vectors: one unit vector [N, E] of each. The others, which are new or have changed, get their neighbours; those of
    the known ones that are gone or have changed are theirs no more.
    """
    count, k = len(episodes), graph.neighbours.shape[1]
    neighbours = np.repeat(np.arange(count, dtype=np.int32)[:, None], k, axis=1)
    shares = np.zeros((count, k), np.float32)
    moved = episodes.searchsorted(graph.episodes).clip(max=count - 1)
    remains = (episodes[moved] == graph.episodes) & known[moved]
    places, _ = graph.find(episodes[known])
    before = graph.neighbours[places]
    neighbours[known] = np.where(remains[before], moved[before], neighbours[known])
    shares[known] = np.where(remains[before], graph.shares[places], 0.0)
    if not known.all():
        new = np.flatnonzero(~known)
        near, distances = find_near(vectors[new], _CANDIDATES, [vectors], new)
        neighbours[new], shares[new] = _choose(near, distances, _measure_spans(distances, k)[:, None], k)
    return NeighbourGraph(episodes, neighbours, shares, graph.groups, graph.completions)


def _measure_spans(distances: Floats, k: int) -> Floats:
    spans: Floats = distances[:, :k].mean(axis=1)
    return spans


def _choose(near: Ids, distances: Floats, spans: Floats, k: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Return k neighbours among the nearest [N, n], and their shares; spans: how far those around either are."""
    middle = (2 * spans + distances) / 3 + _TINY
    nearness = np.exp(-(distances**2) / (2 * (_SCALE * middle) ** 2))
    best = np.argsort(-nearness, axis=1, kind="stable")[:, :k]
    shares = np.take_along_axis(nearness, best, 1)
    shares /= np.maximum(shares.sum(axis=1, keepdims=True), _TINY)
    return np.take_along_axis(near, best, 1).astype(np.int32), shares.astype(np.float32)


def _find_near(vectors: Vectors) -> tuple[Ids, Ids, Floats]:
    """Return places in some order, and of each the nearest vectors and 1 - their cosines [N, n].

    In large archives they are the nearest among the pieces near it, and mapped.
    """
    count = len(vectors)
    if count <= _EXACT:
        return np.arange(count), *find_near(vectors, _CANDIDATES, [vectors], np.arange(count))
    give_back()  # what reading that many vectors took
    pieces = max(int(count**0.5), count // _LARGEST)
    centres = vectors[np.sort(np.random.default_rng(0).choice(count, pieces, replace=False))]
    owner = np.concatenate([(vectors[part] @ centres.T).argmax(axis=1) for part in _blocks(count)])
    order = np.argsort(owner, kind="stable")
    edges = owner[order].searchsorted(np.arange(pieces + 1))
    ordered = map_rows((vectors[order[part]] for part in _blocks(count)), vectors.shape[1], np.float32)
    mapped = map_rows(_search_pieces(ordered, order, centres, edges), _CANDIDATES, _FOUND)
    return order, mapped["place"], mapped["distance"]


def _search_pieces(ordered: Vectors, order: Ids, centres: Vectors, edges: Ids) -> Iterator[NDArray[Any]]:
    """Yield the nearest vectors of those of each piece, and 1 - their cosines: _FOUND [n, _CANDIDATES].

    ordered: the vectors, piece after piece, at these edges; order: their places.
    """
    parts = [slice(*edge) for edge in pairwise(edges.tolist())]
    for number, (centre, own) in enumerate(zip(centres, parts, strict=True)):
        size = own.stop - own.start
        if not size:
            continue  # of a copy of another centre
        near = np.union1d(np.argpartition(-(centres @ centre), _PIECES)[:_PIECES], number).tolist()
        others = np.concatenate([order[parts[piece]] for piece in near])
        first = sum(parts[piece].stop - parts[piece].start for piece in near if piece < number)
        wide, rows = min(_CANDIDATES, len(others) - 1), np.zeros((size, _CANDIDATES), _FOUND)
        among = [ordered[parts[piece]] for piece in near]
        places, distances = find_near(ordered[own], wide, among, np.arange(first, first + size))
        rows["distance"] = 1.0  # of places that are not filled
        rows["place"][:, :wide] = others[places]
        rows["distance"][:, :wide] = np.minimum(distances, 1.0)
        yield rows


def measure_groups(neighbours: NDArray[np.int32]) -> float:
    """Return the share of pairs of neighbours [N, k] that are each other's, from 0 as if drawn by chance to 1.

    Of data in groups it is near a half or above; of data without, about a third, as of points spread evenly.
    """
    some = neighbours[:: max(1, len(neighbours) // _SAMPLE)]
    of_neighbours = neighbours[some]  # [n, k, k]
    pairs = (of_neighbours[:, :, :, None] == some[:, None, None, :]).any(axis=2).sum()
    chance = some.shape[1] / len(neighbours)
    return float((pairs / (some.size * (some.shape[1] - 1)) - chance) / (1 - chance))
