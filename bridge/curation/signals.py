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

    Values: see outliers.score_outliers; values above 3 are rare. space: a fingerprint prefix; None = see
    archive_vectors.choose_space. Raises QueryError, FilterError.
    """
    neighbours = whole_number(neighbours, "neighbours", QueryError, least=1)
    known = read_chosen_vectors(archive, where, space)
    values = score_outliers(known.directions, known.lengths, neighbours=neighbours, progress=progress)
    return _falling(map(Valued, known.episodes, values.tolist()))


def select_subset(
    archive: Archive, count: int, where: Where | str = "", *, method: str = "k-center", space: str | None = None
) -> list[Valued]:
    """Return a representative subset of `count` episodes that match the filter, in the order of selection.

    method: "k-center" or "facility-location" (see subset.py, also for the values). Raises QueryError, FilterError.
    """
    count = whole_number(count, "count", QueryError)
    if method not in METHODS or count < 1:
        raise QueryError(f"expected 1 or more episodes by {' or '.join(METHODS)}, found {count} by {method!r}")
    known = read_chosen_vectors(archive, where, space)
    chosen = METHODS[method](known.directions, count)
    pairs = zip(chosen.rows.tolist(), chosen.reached.tolist(), strict=True)
    return [Valued(known.episodes[row], reached) for row, reached in pairs]


def weigh(
    archive: Archive, target: Where | str, where: Where | str = "", *, clip: float = 10.0, space: str | None = None
) -> list[Valued]:
    """Return all episodes that match `where`, with importance weights that match their distribution to `target`.

    The mean weight is 1; the largest weights come first (see importance.importance). Raises QueryError, FilterError.
    """
    clip = finite_number(clip, "clip of importance weights", QueryError)
    if not clip > 1:
        raise QueryError(f"clip of importance weights: expected a number above 1, found {clip}")
    known = read_chosen_vectors(archive, where, space)
    wanted = read_vectors(archive, known.space, target)
    if not wanted.episodes:
        raise QueryError(
            f"expected episodes of the target with vectors in Space {known.space.fingerprint[:12]}, found none"
        )
    return _falling(map(Valued, known.episodes, importance(known.directions, wanted.directions, clip=clip).tolist()))


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
    known = read_chosen_vectors(archive, where, space)
    names = labels_of(archive, known.episodes, label)
    known = known.only([place for place, name in enumerate(names) if name is not None])
    if not known.episodes:
        raise QueryError(f"expected episodes with a label {label!r}, found none among {len(names)}")
    labels = [name for name in names if name is not None]
    found = doubt_labels(known.directions, labels, neighbours=neighbours, progress=progress)
    suggested = [found.names[place] for place in found.suggested.tolist()]
    return _falling(Valued(*one) for one in zip(known.episodes, found.doubt.tolist(), labels, suggested, strict=True))


def _falling(found: Iterable[Valued]) -> list[Valued]:
    return sorted(found, key=lambda one: (-one.value, one.episode.id))
