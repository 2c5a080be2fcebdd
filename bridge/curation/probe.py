"""Few-shot search: a linear classifier over stored vectors, from a few episodes that are right and some wrong ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.archive import expect_archive
from bridge.curation.archive_vectors import choose_space, read_vectors
from catalog.filters.fields import Field
from catalog.filters.where import Compare
from wshard.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from bridge.archive import Archive
    from bridge.curation.archive_vectors import EpisodeVectors
    from bridge.curation.arrays import Floats
    from catalog.curation.collections import Named
    from catalog.filters.where import Where
    from catalog.records import EpisodeRow
    from embedders.space import Space

RIGHT: Final = 0.5
"""Threshold: episodes with at least this value count as positive."""

_BACKGROUND: Final = 100  # unmarked episodes, which are mostly negative
_RIDGE: Final = 0.02
_MAX_ITERATIONS: Final = 15
_MAX_HELD_OUT: Final = 60  # maximum number of examples for leave-one-out validation


@dataclass(frozen=True, eq=False)
class Probe:
    """Values [M] of a probe for the episodes, from 0 (negative) to 1 (positive); 0.5 and more is positive.

    precision, recall: cross-validated on the examples; None if none was classified as positive, or without negative
    examples. right, wrong: number of positive and negative examples; marked: their ids.
    """

    space: Space
    episodes: tuple[EpisodeRow, ...]
    values: Floats
    precision: float | None
    recall: float | None
    right: int
    wrong: int
    marked: frozenset[int] = frozenset()

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
    chosen, _ = choose_space(archive, marked, space)
    vectors = read_vectors(archive, chosen, where)
    examples = read_vectors(archive, chosen, marked)
    if missing := {*right, *wrong} - {row.id for row in examples.episodes}:
        raise QueryError(f"probe: expected episodes with vectors, found none for {len(missing)} of the examples")
    is_positive = np.array([row.id in set(right) for row in examples.episodes])
    unmarked = [place for place, row in enumerate(vectors.episodes) if row.id not in {*right, *wrong}]
    rows, background = examples.directions.astype(np.float64), _background(vectors.directions[unmarked], examples)
    centre = background.mean(axis=0)
    scale = np.linalg.norm(background - centre, axis=1).mean() + 1e-9
    rows, background = (rows - centre) / scale, (background - centre) / scale
    basis = np.linalg.svd(np.concatenate([rows, background]), full_matrices=False)[2]  # spans all possible weights
    rows, background = rows @ basis.T, background @ basis.T
    values = _predict(fit_probe(rows, is_positive, background), ((vectors.directions - centre) / scale) @ basis.T)
    precision, recall = _measure(rows, is_positive, background)
    right_count, wrong_count = int(is_positive.sum()), int((~is_positive).sum())
    episodes, examined = vectors.episodes, frozenset({*right, *wrong})
    return Probe(chosen, episodes, values, precision, recall, right_count, wrong_count, examined)


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


def _background(directions: NDArray[np.float32], examples: EpisodeVectors) -> Floats:
    """Return a sample of the vectors of unmarked episodes; those of the examples if there are no others."""
    stride = max(1, len(directions) // _BACKGROUND)
    return (directions[::stride] if len(directions) else examples.directions).astype(np.float64)


def _measure(rows: Floats, is_positive: NDArray[np.bool_], background: Floats) -> tuple[float | None, float | None]:
    """Return precision and recall over the examples, each judged without itself."""
    if is_positive.sum() < 2 or is_positive.all() or len(is_positive) > _MAX_HELD_OUT:
        return None, None
    predicted = np.empty(len(is_positive), bool)
    for place in range(len(is_positive)):
        others = np.arange(len(is_positive)) != place
        weights = fit_probe(rows[others], is_positive[others], background)
        predicted[place] = _predict(weights, rows[place][None])[0] >= RIGHT
    hits = int((predicted & is_positive).sum())
    return (hits / int(predicted.sum()) if predicted.any() else None), hits / int(is_positive.sum())
