"""Few-shot search: from a few episodes that are right and some wrong ones, by the neighbour graph or by vectors.

Marks spread over the graph. Where episodes form no groups, or where it does worse for the marks themselves, a linear
classifier over vectors decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.archive import expect_archive
from bridge.curation.archive_vectors import choose_space, find_whole_spaces, read_vectors
from bridge.graph.block_weights import BlockWeights, measure_weights
from bridge.graph.neighbour_graph import LEAST_EPISODES, build_graph
from bridge.spaces.identity import describe
from catalog.filters.fields import Field
from catalog.filters.where import Compare
from embedders.base import blocks_of, unit_rows
from embedders.registry import embedder_of
from wshard.errors import EmbedderError, QueryError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from bridge.archive import Archive
    from bridge.curation.arrays import Floats, Vectors
    from catalog.curation.collections import Named
    from catalog.filters.where import Where
    from catalog.records import EpisodeRow
    from embedders.space import Space

RIGHT: Final = 0.5
"""Threshold: episodes with at least this value count as positive."""

_MOST_NAMED: Final = 5  # examples without vectors
_BACKGROUND: Final = 100  # unmarked episodes, which are mostly negative
_RIDGE: Final = 0.02
_MAX_ITERATIONS: Final = 15
_MAX_HELD_OUT: Final = 60  # maximum number of examples for leave-one-out validation, and to spread
_WEIGHED: Final = 512  # episodes by which descriptors are weighed
_RESERVE: Final = 1.5  # weight of what all episodes alike spread, beside what wrong ones do


@dataclass(frozen=True, eq=False)
class Probe:
    """Values [M] of a probe for the episodes, from 0 (negative) to 1 (positive); 0.5 and more is positive.

    precision, recall: cross-validated on the examples; None if none was classified as positive, or without negative
    examples. right, wrong: number of positive and negative examples; marked: their ids. by_graph: marks were spread
    over the neighbour graph, which did at least as well for them as a linear classifier.
    """

    space: Space
    episodes: tuple[EpisodeRow, ...]
    values: Floats
    precision: float | None
    recall: float | None
    right: int
    wrong: int
    marked: frozenset[int] = frozenset()
    by_graph: bool = False

    def ranked(self) -> list[tuple[EpisodeRow, float]]:
        """Return the episodes with their values, highest first."""
        order = sorted(range(len(self.episodes)), key=lambda place: (-self.values[place], self.episodes[place].id))
        return [(self.episodes[place], float(self.values[place])) for place in order]

    @property
    def positive(self) -> int:
        """Number of positive episodes."""
        return int((self.values >= RIGHT).sum())

    def uncertain(self, count: int) -> list[tuple[EpisodeRow, float]]:
        """Return the most uncertain unmarked episodes, nearest to 0.5: the most informative ones to mark next."""
        order = np.argsort(np.abs(self.values - RIGHT), kind="stable").tolist()
        unmarked = [place for place in order if self.episodes[place].id not in self.marked]
        return [(self.episodes[place], float(self.values[place])) for place in unmarked[:count]]


def train_probe(
    archive: Archive,
    right: Sequence[int],
    wrong: Sequence[int] = (),
    where: Where | str = "",
    *,
    space: str | None = None,
) -> Probe:
    """Train a probe on marked episodes and return its values for the episodes that match the filter.

    right, wrong: ids of positive and negative examples, which need not match the filter. Unmarked episodes serve as
    negatives, with less weight the more are marked. space: a fingerprint prefix; None: the Space that has all marked
    episodes. Raises QueryError without positive examples, for an episode marked as both, and if no Space has all of
    them.
    """
    if not right or set(right) & set(wrong):
        raise QueryError("probe: expected at least one right example, and none that is marked as both")
    marked = Compare("id", "in", tuple({*right, *wrong}))
    chosen = find_whole_spaces(archive, space)[0] if space else choose_space(archive, marked)[0]
    vectors = read_vectors(archive, chosen, where)
    examples = read_vectors(archive, chosen, marked)
    if missing := {*right, *wrong} - {row.id for row in examples.episodes}:
        names = sorted(row.episode_id for row in archive.catalog.episodes.rows([*missing]).values())
        listed = ", ".join(names[:_MOST_NAMED]) + ", ..." * (len(names) > _MOST_NAMED)
        raise QueryError(f"probe: expected examples with vectors of {describe(chosen)}, found none of {listed}")
    is_positive = np.array([row.id in set(right) for row in examples.episodes])
    marks = frozenset({*right, *wrong})
    weigh = _weigher(chosen, vectors.directions)
    directions, rows = weigh(vectors.directions), weigh(examples.directions)
    unmarked = [place for place, row in enumerate(vectors.episodes) if row.id not in marks]
    linear = _judge_by_line(directions, unmarked, rows, is_positive)
    spread = _judge_by_graph(directions, unmarked, rows, is_positive)
    by_graph = spread is not None and spread.count_correct(is_positive) >= linear.count_correct(is_positive)
    judged = linear if spread is None or not by_graph else spread
    values = judged.values.copy()
    if by_graph:  # it has the unmarked ones first
        number = {row.id: len(unmarked) + place for place, row in enumerate(examples.episodes)}
        number |= {vectors.episodes[place].id: new for new, place in enumerate(unmarked)}
        values = values[[number[row.id] for row in vectors.episodes]]
    precision, recall = judged.measure(is_positive)
    right_count, wrong_count = int(is_positive.sum()), int((~is_positive).sum())
    return Probe(chosen, vectors.episodes, values, precision, recall, right_count, wrong_count, marks, by_graph)


def save_probe(archive: Archive, probe: Probe, name: str, *, who: str = "") -> Named:
    """Save the values as a score, and the positive episodes as a live collection, under the same name.

    Raises FilterError if the name is not valid for a score.
    """
    expect_archive(archive)
    values = zip(probe.episodes, probe.values.tolist(), strict=True)
    archive.catalog.annotations.set_scores(name, {row.id: value for row, value in values})
    return archive.catalog.collections.save_query(name, Compare(Field("score", (name,)).name, "ge", RIGHT), who=who)


def fit_probe(rows: Floats, is_positive: NDArray[np.bool_], background: Floats) -> Floats:
    """Return the weights [E + 1], the last one the bias, of a logistic regression on examples and background."""
    negative_count = int((~is_positive).sum())
    data = np.concatenate([rows, background])
    data = np.concatenate([data, np.ones((len(data), 1))], axis=1)
    target = np.concatenate([is_positive, np.zeros(len(background), bool)]).astype(np.float64)
    shares = np.concatenate([
        np.where(is_positive, 1.0 / max(1, int(is_positive.sum())), 0.5 / max(1, negative_count)),
        np.full(len(background), 1.0 / max(1, len(background))),
    ])  # fmt: skip
    ridge = np.full(data.shape[1], _RIDGE)
    ridge[-1] = 1e-6
    weights = np.zeros(data.shape[1])
    for _ in range(_MAX_ITERATIONS):
        predicted = _predict(weights, data[:, :-1])
        gradient = data.T @ (shares * (predicted - target)) + ridge * weights
        hessian = (data * (shares * predicted * (1 - predicted))[:, None]).T @ data + np.diag(ridge)
        step = np.linalg.solve(hessian, gradient)
        weights -= step
        if np.abs(step).max() < 1e-4:
            break
    return weights


def _predict(weights: Floats, rows: Floats) -> Floats:
    probabilities: Floats = 1 / (1 + np.exp(-np.clip(rows @ weights[:-1] + weights[-1], -40, 40)))
    return probabilities


@dataclass(frozen=True, eq=False)
class _Judgement:
    """Values of episodes, and those of the examples [n], each judged without itself; None where that is not done."""

    values: Floats
    apart: Floats | None

    def count_correct(self, is_positive: NDArray[np.bool_]) -> int:
        """Return how many examples are judged right without themselves."""
        return 0 if self.apart is None else int(((self.apart >= RIGHT) == is_positive).sum())

    def measure(self, is_positive: NDArray[np.bool_]) -> tuple[float | None, float | None]:
        """Return precision and recall over the examples, each judged without itself."""
        if self.apart is None:
            return None, None
        predicted = self.apart >= RIGHT
        hits = int((predicted & is_positive).sum())
        return (hits / int(predicted.sum()) if predicted.any() else None), hits / int(is_positive.sum())


def _weigher(space: Space, directions: Vectors) -> Callable[[Vectors], Vectors]:
    """Return a function that weighs descriptors as a search does, by how well they group these vectors."""
    try:
        sizes = blocks_of(embedder_of(space), space)
    except EmbedderError:  # made by a custom one, whose blocks are not known
        sizes = ()
    sample = directions[:: max(1, len(directions) // _WEIGHED)]
    values = BlockWeights.of(measure_weights(sample, sizes), sizes).values
    return lambda rows: rows if values is None else unit_rows(rows.astype(np.float64) * np.sqrt(values))


def _can_hold_out(is_positive: NDArray[np.bool_]) -> bool:
    return is_positive.sum() >= 2 and not is_positive.all() and len(is_positive) <= _MAX_HELD_OUT


def _judge_by_line(
    directions: Vectors, unmarked: Sequence[int], rows: Vectors, is_positive: NDArray[np.bool_]
) -> _Judgement:
    """Judge all episodes [N, E] by a linear classifier, from examples [n, E]; some unmarked ones count as negative."""
    stride = max(1, len(unmarked) // _BACKGROUND)
    background = (directions[unmarked[::stride]] if unmarked else rows).astype(np.float64)
    centre = background.mean(axis=0)
    scale = np.linalg.norm(background - centre, axis=1).mean() + 1e-9
    marked, background = (rows - centre) / scale, (background - centre) / scale
    basis = np.linalg.svd(np.concatenate([marked, background]), full_matrices=False)[2]  # spans all possible weights
    marked, background = marked @ basis.T, background @ basis.T
    values = _predict(fit_probe(marked, is_positive, background), ((directions - centre) / scale) @ basis.T)
    if not _can_hold_out(is_positive):
        return _Judgement(values, None)
    apart = np.empty(len(is_positive))
    for place in range(len(is_positive)):
        others = np.arange(len(is_positive)) != place
        weights = fit_probe(marked[others], is_positive[others], background)
        apart[place] = _predict(weights, marked[place][None])[0]
    return _Judgement(values, apart)


def _judge_by_graph(
    directions: Vectors, unmarked: Sequence[int], rows: Vectors, is_positive: NDArray[np.bool_]
) -> _Judgement | None:
    """Judge the unmarked episodes, then the examples, by what right and wrong ones spread; None without groups.

    What all episodes alike spread counts against those that little reaches.
    """
    count = len(unmarked) + len(rows)
    if count < LEAST_EPISODES or len(rows) > _MAX_HELD_OUT:
        return None
    graph = build_graph(np.arange(count), np.concatenate([directions[unmarked], rows]))
    if not graph.has_groups:
        return None
    seeds = np.eye(len(rows), count, len(unmarked))
    reached = np.maximum([graph.spread_far(seed) for seed in seeds], 0.0)
    reserve = _RESERVE * np.maximum(graph.spread_far(np.full(count, 1 / count)), 1e-12)
    marked = np.arange(len(unmarked), count)

    def judge(by_right: Floats, by_wrong: Floats, places: NDArray[np.int64] | slice) -> Floats:
        judged: Floats = by_right / (by_right + by_wrong + reserve[places])
        return judged

    def mean(of: NDArray[np.bool_], weights: Floats) -> Floats:
        shares = weights[of]
        found: Floats = (shares * reached[of][:, marked]).sum(axis=0) / np.maximum(shares.sum(axis=0), 1.0)
        return found

    wrong = reached[~is_positive].mean(axis=0) if not is_positive.all() else np.zeros(count)
    values = judge(reached[is_positive].mean(axis=0), wrong, slice(None))
    if not _can_hold_out(is_positive):
        return _Judgement(values, None)
    others = 1.0 - np.eye(len(rows))  # each example without itself
    return _Judgement(values, judge(mean(is_positive, others), mean(~is_positive, others), marked))
