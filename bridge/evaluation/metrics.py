"""Retrieval metrics on labels: leave one out, rank the others."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from bridge.index.metric import COSINE, L2
from bridge.support.progress import Silent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from bridge.support.progress import Progress

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Comparison = Callable[[Ints], Floats]

_QUERIES: Final = 128  # ranked at a time
_TOP: Final = 10
_BATCH_ROWS: Final = 16_384  # vectors that are scaled at a time


@dataclass(frozen=True)
class Figures:
    """Means over queries, each for the other episodes with its label.

    precision_at_1: share of queries whose best hit has their label; precision_at_10: share of such hits among the first
    ten, or all if there are fewer; recall_at_k: share of all others with the label that are among the first `k`;
    mean_average_precision over whole rankings.
    """

    precision_at_1: float
    mean_average_precision: float
    queries: int
    precision_at_10: float
    recall_at_k: float
    k: int


@dataclass(frozen=True)
class OfLabel:
    """Results of one label's queries.

    size: number of episodes with the label, including those that were not queries. instead: the most frequent other
    label among the first ten hits, "" = none.
    """

    label: str
    figures: Figures
    instead: str
    size: int


@dataclass(frozen=True)
class Scores(Figures):
    """The figures of all queries together, and those of each label, the lowest mean average precision first."""

    of_labels: tuple[OfLabel, ...] = ()


def leave_one_out(  # noqa: PLR0913  (most of them by name)
    vectors: NDArray[Any],
    labels: Sequence[str],
    *,
    queries: NDArray[Any] | None = None,
    query_items: Ints | None = None,
    metric: str = COSINE,
    k: int = 10,
    progress: Progress | None = None,
) -> Scores:
    """Score the ranking by a metric: each vector [N, E] is a query for the others with its label.

    queries: [N, E] alternative queries, one per vector (for example, the same episodes disturbed). query_items: the
    places of those that are queries [Q]; None = all. Average precision is
    the mean, over the ranks of the relevant, of relevant-so-far / rank. A label of a single vector gives no query.
    Raises ValueError without any query.
    """
    rows = _as_compared(vectors, metric)
    vectors_of_queries = rows if queries is None else _as_compared(queries, metric)
    items = np.arange(len(rows)) if query_items is None else query_items

    def compare(places: Ints) -> Floats:
        return _similar(vectors_of_queries[places], rows, metric)

    return leave_one_out_by(compare, labels, items, k=k, progress=progress)


def leave_one_out_of_windows(  # noqa: PLR0913  (most of them by name)
    vectors: NDArray[Any],
    starts: NDArray[np.int64],
    labels: Sequence[str],
    *,
    query_items: Ints | None = None,
    metric: str = COSINE,
    k: int = 10,
    progress: Progress | None = None,
) -> Scores:
    """Score the ranking of episodes of several windows: item i, of M, has the vectors [N, E] starts[i]:starts[i + 1].

    query_items: the indices of the query items [Q]; None = all. The similarity of an episode to a query: the mean, over
    the windows of the query, of the score by the metric with the best window of the episode. Otherwise like
    leave_one_out, which it equals for one window each.
    """
    rows = _unit_singles(vectors) if metric == COSINE else np.asarray(vectors, np.float64)

    def compare(places: Ints) -> Floats:
        similarities = []
        for number in places.tolist():
            similar = _similar(rows[starts[number] : starts[number + 1]], rows, metric)
            best = np.maximum.reduceat(similar, starts[:-1], axis=1)
            similarities.append(best.mean(axis=0, dtype=np.float64))
        return np.stack(similarities)

    everyone = np.arange(len(labels))
    return leave_one_out_by(compare, labels, everyone if query_items is None else query_items, k=k, progress=progress)


def leave_one_out_by(
    compare: Comparison, labels: Sequence[str], query_items: Ints, *, k: int = 10, progress: Progress | None = None
) -> Scores:
    """Score any way to rank: each item of `query_items` [Q] is a query for the others with its label.

    compare: takes places [n] and returns the similarity of all items to those, [n, N]; a row of NaN excludes a query.
    Otherwise like leave_one_out.
    """
    label_names, names = np.unique(np.asarray(labels, dtype=object).astype(str), return_inverse=True)
    watch = progress or Silent()
    watch.stage("queries", len(query_items))
    parts, instead = [np.zeros((0, 5))], Counter[tuple[int, int]]()
    for start in range(0, len(query_items), _QUERIES):
        places = query_items[start : start + _QUERIES]
        similar = compare(places)
        is_excluded = np.isnan(similar).all(axis=1)
        ranked = names[_rankings(similar, places)]
        relevant = ranked == names[places, None]
        relevant[is_excluded] = False
        has_relevant = relevant.any(axis=1)
        parts.append(np.column_stack([names[places[has_relevant]], _judged(relevant[has_relevant], k)]))
        own, first = (
            np.broadcast_to(names[places, None], ranked.shape)[has_relevant, :_TOP],
            ranked[has_relevant, :_TOP],
        )
        instead.update(zip(own[own != first].tolist(), first[own != first].tolist(), strict=True))
        watch.advance(len(places))
    judged = np.concatenate(parts)
    if not len(judged):
        raise ValueError("expected at least two vectors of one label")
    sizes = zip(label_names.tolist(), np.bincount(names).tolist(), strict=True)
    return Scores(**vars(_figures(judged, k)), of_labels=_by_label(judged, list(sizes), instead, k))


def _rankings(similarity: Floats, places: Ints) -> Ints:
    """Return the places of all others [n, N - 1], the most similar first.

    Ties are in a random but fixed order: in the original order, in which items of one label are often adjacent, the
    first label would be favoured.
    """
    similarity[np.arange(len(places)), places] = np.nan  # the query itself ranks behind even -inf, and is cut off
    order = np.random.default_rng(0).permutation(similarity.shape[1])
    ranking: Ints = order[np.argsort(-similarity[:, order], axis=1, kind="stable")[:, :-1]]
    return ranking


def _by_label(
    judged: Floats, labels: Sequence[tuple[str, int]], instead: Counter[tuple[int, int]], k: int
) -> tuple[OfLabel, ...]:
    most: dict[int, str] = {}
    for (own, other), _ in instead.most_common():
        most.setdefault(own, labels[other][0])
    results = [
        OfLabel(labels[n][0], _figures(judged[judged[:, 0] == n], k), most.get(n, ""), labels[n][1])
        for n in np.unique(judged[:, 0]).astype(int).tolist()
    ]
    return tuple(sorted(results, key=lambda one: one.figures.mean_average_precision))


def _figures(judged: Floats, k: int) -> Figures:
    _, first, average, ten, recall = judged.mean(axis=0).tolist()
    return Figures(first, average, len(judged), ten, recall, k)


def _judged(relevant: NDArray[np.bool_], k: int) -> Floats:
    """Return precision at 1, average precision, precision at 10 and recall at k of rankings [n, N - 1], as [n, 4]."""
    count = relevant.sum(axis=1)
    precision = relevant.cumsum(axis=1) / np.arange(1, relevant.shape[1] + 1)
    average = (precision * relevant).sum(axis=1) / count
    ten, recall = relevant[:, :_TOP].mean(axis=1), relevant[:, :k].sum(axis=1) / count
    return np.stack([relevant[:, :1].mean(axis=1), average, ten, recall], axis=1)


def _as_compared(vectors: NDArray[Any], metric: str) -> Floats:
    return _unit(vectors) if metric == COSINE else np.asarray(vectors, np.float64)


def _similar(queries: NDArray[Any], rows: NDArray[Any], metric: str) -> NDArray[Any]:
    """Return the scores by the metric of rows [N, E], unit ones for the cosine, against the queries, [n, N]."""
    products: NDArray[Any] = queries @ rows.T
    if metric != L2:
        return products
    squares = np.square(queries).sum(axis=1)[:, None] + np.square(rows).sum(axis=1) - 2 * products
    distances: NDArray[Any] = np.sqrt(np.maximum(squares, 0.0))
    return -distances


def _unit(vectors: NDArray[Any]) -> Floats:
    rows = np.asarray(vectors, np.float64)
    unit: Floats = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit


def _unit_singles(vectors: NDArray[Any]) -> NDArray[np.float32]:
    """Return vectors [N, E] with length 1, one copy in float32: of windows there are many."""
    rows = np.empty(vectors.shape, np.float32)
    for start in range(0, len(rows), _BATCH_ROWS):
        rows[start : start + _BATCH_ROWS] = _unit(vectors[start : start + _BATCH_ROWS])
    return rows
