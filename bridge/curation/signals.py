"""Curation of an archive: outliers, subsets, weights and doubtful labels, as one number per episode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bridge.curation.archive_vectors import read_groups, read_vectors
from bridge.curation.importance import importance
from bridge.curation.labels import doubt_labels, labels_of
from bridge.curation.outliers import score_outliers
from bridge.curation.subset import METHODS
from wshard.core.arguments import finite_number, whole_number
from wshard.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bridge.archive import Archive
    from bridge.curation.archive_vectors import EpisodeVectors
    from bridge.support.progress import Progress
    from catalog.filters.where import Where
    from catalog.records import EpisodeRow
    from embedders.space import Space


@dataclass(frozen=True)
class Valued:
    """An episode and its value; where labels are compared, its own label and the suggested one."""

    episode: EpisodeRow
    value: float
    label: str = ""
    suggested: str = ""


def find_outliers(
    archive: Archive,
    where: Where | str = "",
    *,
    neighbours: int = 10,
    space: str | None = None,
    progress: Progress | None = None,
) -> list[Valued]:
    """Return all episodes that match the filter, ranked by distance from the others, farthest first.

    Values: see outliers.score_outliers; values above 3 are rare. space: a fingerprint prefix; None: episodes of each
    Space are compared by themselves (archive_vectors.group_by_space). Raises QueryError, FilterError.

    Examples:
        >>> find_outliers(lab, "meta.task:reach*")[0].episode.episode_id
        'reach-09'
    """
    neighbours = whole_number(neighbours, "neighbours", QueryError, least=1)
    found: list[Valued] = []
    for known in read_groups(archive, where, space):
        values = score_outliers(known.directions, known.lengths, neighbours=neighbours, progress=progress)
        found += map(Valued, known.episodes, values.tolist())
    return _falling(found)


def select_subset(
    archive: Archive, count: int, where: Where | str = "", *, method: str = "k-center", space: str | None = None
) -> list[Valued]:
    """Return a representative subset of `count` episodes that match the filter, in the order of selection.

    method: "k-center" or "facility-location" (see subset.py, also for the values). Where no single Space has all, each
    group of episodes of one Space contributes in proportion to its size. Raises QueryError, FilterError.
    """
    count = whole_number(count, "count", QueryError)
    if method not in METHODS or count < 1:
        raise QueryError(f"expected 1 or more episodes by {' or '.join(METHODS)}, found {count} by {method!r}")
    orders: list[list[Valued]] = []
    groups = read_groups(archive, where, space)
    for known in groups:
        chosen = METHODS[method](known.directions, count)
        pairs = zip(chosen.rows.tolist(), chosen.reached.tolist(), strict=True)
        orders.append([Valued(known.episodes[row], reached) for row, reached in pairs])
    return _take_in_proportion(orders, [len(known.episodes) for known in groups], count)


def _take_in_proportion(orders: Sequence[list[Valued]], sizes: Sequence[int], count: int) -> list[Valued]:
    """Return the first `count` of several orders together; any prefix has of each nearly its share of the sizes."""
    ranked = [
        ((rank + 0.5) / size, number, rank)
        for number, (order, size) in enumerate(zip(orders, sizes, strict=True))
        for rank in range(len(order))
    ]
    return [orders[number][rank] for _, number, rank in sorted(ranked)[:count]]


def weigh(
    archive: Archive, target: Where | str, where: Where | str = "", *, clip: float = 10.0, space: str | None = None
) -> list[Valued]:
    """Return all episodes that match `where`, with importance weights that match their distribution to `target`.

    The mean weight is 1; the largest weights come first (see importance.importance). Where no single Space has all,
    each group of episodes of one Space is weighted by itself, and gets the share that it has of the target. Raises
    QueryError, FilterError.

    Examples:
        >>> weigh(lab, "meta.task:draw*")[0].episode.metadata["task"]
        'draw a circle'
    """
    clip = finite_number(clip, "clip of importance weights", QueryError)
    if not clip > 1:
        raise QueryError(f"clip of importance weights: expected a number above 1, found {clip}")
    groups = read_groups(archive, where, space)
    targets = _target_groups(archive, target, [known.space for known in groups])
    wanted, total = sum(len(one.episodes) for one in targets), sum(len(known.episodes) for known in groups)
    if not wanted:
        names = ", ".join(known.space.fingerprint[:12] for known in groups)
        raise QueryError(f"expected episodes of the target with vectors in Space {names}, found none")
    found: list[Valued] = []
    for known, one in zip(groups, targets, strict=True):
        weights = np.zeros(len(known.episodes))
        if one.episodes:
            share = len(one.episodes) / wanted * total / len(known.episodes)
            weights = share * importance(known.directions, one.directions, clip=clip)
        found += map(Valued, known.episodes, weights.tolist())
    return _falling(found)


def _target_groups(archive: Archive, target: Where | str, spaces: Sequence[Space]) -> list[EpisodeVectors]:
    """Return the vectors of the target in each Space; each episode counts in the first that has it."""
    groups: list[EpisodeVectors] = []
    seen: set[int] = set()
    for space in spaces:
        vectors = read_vectors(archive, space, target)
        groups.append(vectors.only([place for place, row in enumerate(vectors.episodes) if row.id not in seen]))
        seen |= {row.id for row in vectors.episodes}
    return groups


def find_mislabeled(
    archive: Archive,
    label: str,
    where: Where | str = "",
    *,
    neighbours: int = 10,
    space: str | None = None,
    progress: Progress | None = None,
) -> list[Valued]:
    """Return all labelled episodes that match the filter, ranked by likelihood of a wrong label.

    label: a field of filters ("env", "meta.task", "tag"), or a metadata key ("task"). Values: see labels.doubt_labels;
    suggested: the most frequent label among the neighbours. Raises QueryError, FilterError.
    """
    neighbours = whole_number(neighbours, "neighbours", QueryError, least=1)
    doubtful: list[Valued] = []
    total = 0
    for group in read_groups(archive, where, space):
        names = labels_of(archive, group.episodes, label)
        total += len(names)
        known = group.only([place for place, name in enumerate(names) if name is not None])
        if not known.episodes:
            continue
        labels = [name for name in names if name is not None]
        found = doubt_labels(known.directions, labels, neighbours=neighbours, progress=progress)
        suggested = [found.names[place] for place in found.suggested.tolist()]
        values = zip(known.episodes, found.doubt.tolist(), labels, suggested, strict=True)
        doubtful += (Valued(*one) for one in values)
    if not doubtful:
        raise QueryError(f"expected episodes with a label {label!r}, found none among {total}")
    return _falling(doubtful)


def _falling(found: Iterable[Valued]) -> list[Valued]:
    return sorted(found, key=lambda one: (-one.value, one.episode.id))
