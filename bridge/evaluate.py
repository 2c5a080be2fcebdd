"""How good a search is, on labels that the user has: leave one out, rank the others.

Knows: vectors and labels; some queries at a time, so that memory grows with the number of vectors only. Does not know:
archives, embedders.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ask = Callable[[int, int], Floats]

_QUERIES: Final = 128  # ranked at a time


@dataclass(frozen=True)
class Scores:
    """Means over queries, each of which asks for the others of its label.

    precision_at_1: share of queries whose best hit has their label; precision_at_10: share of such among the first ten
    hits, or all where there are fewer; recall_at_k: share of all others of the label that are among the first `k`;
    mean_average_precision over whole rankings.
    """

    precision_at_1: float
    mean_average_precision: float
    queries: int
    precision_at_10: float
    recall_at_k: float
    k: int


def leave_one_out(
    vectors: NDArray[Any], labels: Sequence[str], *, queries: NDArray[Any] | None = None, k: int = 10
) -> Scores:
    """Score cosine ranking: each vector [N, E] asks for the others of its label.

    queries: [N, E] to ask with instead, one for each vector (the same episodes disturbed, say). Average precision is
    the mean, over the ranks of the relevant, of relevant-so-far / rank. A label that only one vector has gives no
    query. Raises ValueError without any query.
    """
    rows = _unit(vectors)
    asking = rows if queries is None else _unit(queries)
    return _scored(lambda start, stop: asking[start:stop] @ rows.T, labels, k)


def leave_one_out_of_windows(
    vectors: NDArray[Any], starts: NDArray[np.int64], labels: Sequence[str], *, k: int = 10
) -> Scores:
    """Score the ranking of episodes of several windows: item i, of M, has the vectors [N, E] starts[i]:starts[i + 1].

    How similar an episode is to the one that asks: the mean, over the windows of the latter, of the cosine with the
    best window of the former. Else as leave_one_out, which it equals for one window each.
    """
    rows = _unit(vectors).astype(np.float32)  # there are many

    def ask(start: int, stop: int) -> Floats:
        found = []
        for number in range(start, stop):
            best = np.maximum.reduceat(rows[starts[number] : starts[number + 1]] @ rows.T, starts[:-1], axis=1)
            found.append(best.mean(axis=0, dtype=np.float64))
        return np.stack(found)

    return _scored(ask, labels, k)


def _scored(ask: Ask, labels: Sequence[str], k: int) -> Scores:
    """Score what `ask` returns: similarities [n, N] of all with those from start to stop."""
    _, names = np.unique(np.asarray(labels, dtype=object).astype(str), return_inverse=True)
    parts = []
    for start in range(0, len(names), _QUERIES):
        asking = np.arange(start, min(start + _QUERIES, len(names)))
        similarity = ask(start, int(asking[-1]) + 1)
        similarity[asking - start, asking] = -np.inf  # the query itself comes last and is cut off
        ranking = np.argsort(-similarity, axis=1, kind="stable")[:, :-1]
        relevant = names[ranking] == names[asking, None]
        parts.append(_judged(relevant[relevant.any(axis=1)], k))
    judged = np.concatenate([np.zeros((0, 4)), *parts])
    if not len(judged):
        raise ValueError("expected at least two vectors of one label")
    first, average, ten, recall = judged.mean(axis=0).tolist()
    return Scores(first, average, len(judged), ten, recall, k)


def _judged(relevant: NDArray[np.bool_], k: int) -> Floats:
    """Return precision at 1, average precision, precision at 10 and recall at k of rankings [n, N - 1], as [n, 4]."""
    count = relevant.sum(axis=1)
    precision = relevant.cumsum(axis=1) / np.arange(1, relevant.shape[1] + 1)
    average = (precision * relevant).sum(axis=1) / count
    return np.stack(
        [relevant[:, :1].mean(axis=1), average, relevant[:, :10].mean(axis=1), relevant[:, :k].sum(axis=1) / count],
        axis=1,
    )


def _unit(vectors: NDArray[Any]) -> Floats:
    rows = np.asarray(vectors, np.float64)
    unit: Floats = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit
