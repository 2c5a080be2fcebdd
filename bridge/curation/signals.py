"""Curation of an archive: outliers, subsets, weights and doubtful labels, as one number per episode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bridge.curation.archive_vectors import read_chosen_vectors, read_vectors
from bridge.curation.importance import importance
from bridge.curation.labels import doubt_labels, labels_of
from bridge.curation.outliers import score_outliers
from bridge.curation.subset import METHODS
from wshard.arguments import finite_number, whole_number
from wshard.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bridge.archive import Archive
    from bridge.support.progress import Progress
    from catalog.filters.where import Where
    from catalog.records import EpisodeRow


@dataclass(frozen=True)
class Valued:
    """An episode and its number; label and suggested: where labels are doubted, its own and what it should be."""

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
    """Return all episodes that pass the filter, the one that is most unlike all others first.

    Values: see outliers.score_outliers; above 3 is rare. space: the beginning of a Space's fingerprint; None = see
    archive_vectors.choose_space. Raises QueryError, FilterError.
    """
    neighbours = whole_number(neighbours, "neighbours", QueryError, least=1)
    held = read_chosen_vectors(archive, where, space)
    values = score_outliers(held.directions, held.lengths, neighbours=neighbours, progress=progress)
    return _falling(map(Valued, held.episodes, values.tolist()))


def select_subset(
    archive: Archive, count: int, where: Where | str = "", *, method: str = "k-center", space: str | None = None
) -> list[Valued]:
    """Return `count` episodes that stand for all that pass the filter, in the order of choice.

    method: "k-center" or "facility-location" (see subset.py, also for the values). Raises QueryError, FilterError.
    """
    count = whole_number(count, "count", QueryError)
    if method not in METHODS or count < 1:
        raise QueryError(f"expected 1 or more episodes by {' or '.join(METHODS)}, found {count} by {method!r}")
    held = read_chosen_vectors(archive, where, space)
    chosen = METHODS[method](held.directions, count)
    pairs = zip(chosen.rows.tolist(), chosen.reached.tolist(), strict=True)
    return [Valued(held.episodes[row], reached) for row, reached in pairs]


def weigh(
    archive: Archive, target: Where | str, where: Where | str = "", *, clip: float = 10.0, space: str | None = None
) -> list[Valued]:
    """Return all episodes that pass `where`, with the weights that make them look like those that pass `target`.

    Weights have the mean 1, the largest first (see importance.importance). Raises QueryError, FilterError.
    """
    clip = finite_number(clip, "clip of importance weights", QueryError)
    if not clip > 1:
        raise QueryError(f"clip of importance weights: expected a number above 1, found {clip}")
    held = read_chosen_vectors(archive, where, space)
    wanted = read_vectors(archive, held.space, target)
    if not wanted.episodes:
        raise QueryError(
            f"expected episodes of the target with vectors in Space {held.space.fingerprint[:12]}, found none"
        )
    return _falling(map(Valued, held.episodes, importance(held.directions, wanted.directions, clip=clip).tolist()))


def find_mislabeled(
    archive: Archive,
    label: str,
    where: Where | str = "",
    *,
    neighbours: int = 10,
    space: str | None = None,
    progress: Progress | None = None,
) -> list[Valued]:
    """Return all episodes that pass the filter and have a label, the one that its neighbours doubt most first.

    label: a field of filters ("env", "meta.task", "tag"), or a key of the metadata ("task"). Values: see labels.doubt_labels;
    suggested: the label that it should have, for all that its neighbours know. Raises QueryError, FilterError.
    """
    neighbours = whole_number(neighbours, "neighbours", QueryError, least=1)
    held = read_chosen_vectors(archive, where, space)
    names = labels_of(archive, held.episodes, label)
    held = held.only([place for place, name in enumerate(names) if name is not None])
    if not held.episodes:
        raise QueryError(f"expected episodes with a label {label!r}, found none among {len(names)}")
    labels = [name for name in names if name is not None]
    found = doubt_labels(held.directions, labels, neighbours=neighbours, progress=progress)
    suggested = [found.names[place] for place in found.suggested.tolist()]
    return _falling(Valued(*one) for one in zip(held.episodes, found.doubt.tolist(), labels, suggested, strict=True))


def _falling(found: Iterable[Valued]) -> list[Valued]:
    return sorted(found, key=lambda one: (-one.value, one.episode.id))
