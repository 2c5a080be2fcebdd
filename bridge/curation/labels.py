"""Labels of episodes, and which of them disagree with their nearest neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.graph.nearest import find_nearest
from catalog.filters.evaluate import NO_FACTS, parts_of, read_field
from catalog.filters.fields import ALIASES, FAMILIES, FIELDS, field_of
from wshard.errors import FilterError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from bridge.archive import Archive
    from bridge.curation.arrays import Floats, Ids, Vectors
    from bridge.support.progress import Progress
    from catalog.filters.fields import Field
    from catalog.records import EpisodeRow


_MIN_DISTANCE: Final = 1e-6


@dataclass(frozen=True, eq=False)
class LabelDoubts:
    """Votes of the neighbours of each vector on its label.

    doubt: float64 [N], from 0 (all have its label) to 1 (all have one other label). suggested: index in `names` of the
    other label with the most votes, int64 [N]; its own label if there is none.
    """

    doubt: Floats
    suggested: Ids
    names: tuple[str, ...]


def doubt_labels(
    vectors: Vectors, labels: Sequence[str], *, neighbours: int = 10, progress: Progress | None = None
) -> LabelDoubts:
    """Return how much the neighbours of each of the unit vectors [N, E] doubt its label.

    doubt = (1 + share of the votes for the best other label - share for its own) / 2. A vote weighs 1 / distance in
    units of the farthest of the `neighbours`.
    """
    names, own = np.unique(np.asarray(labels, dtype=object).astype(str), return_inverse=True)
    nearest = find_nearest(vectors, neighbours, progress=progress)
    votes = _votes(own, nearest.rows, nearest.distances, len(names))
    rows = np.arange(len(own))
    own_share = votes[rows, own]
    votes[rows, own] = 0.0
    best = votes.max(axis=1, initial=0.0)
    suggested = np.where(best > 0, votes.argmax(axis=1), own) if len(own) else own
    return LabelDoubts(np.clip((1 + best - own_share) / 2, 0, 1), suggested, tuple(names.tolist()))


def _votes(own: Ids, rows: Ids, distances: NDArray[np.float64], labels: int) -> Floats:
    """Return the share of the votes for each label, float64 [N, labels]."""
    votes = np.zeros((len(own), labels))
    if not rows.shape[1]:
        return votes
    weights = 1 / (distances / np.maximum(distances[:, -1:], _MIN_DISTANCE) + 0.1)
    np.add.at(votes, (np.arange(len(own))[:, None], own[rows]), weights)
    shares: Floats = votes / weights.sum(axis=1, keepdims=True)
    return shares


_BATCH_ROWS: Final = 1000


def label_field(name: str) -> Field:
    """Return the field that a label's name means: one of filters ("env", "tag", "meta.robot.name"), else metadata.

    Raises FilterError.
    """
    root = name.partition(".")[0]
    is_field = root in FIELDS or root in ALIASES or root in FAMILIES
    field = field_of(name if is_field else f"meta.{name}")
    if field.root == "text":
        raise FilterError(f"expected the name of a field with labels, found {name!r}")
    return field


def labels_of(archive: Archive, rows: Sequence[EpisodeRow], name: str) -> list[str | None]:
    """Return the label of each episode, None if it has none; several values make one label, "a, b".

    Raises FilterError if no field has that name.
    """
    field = label_field(name)
    parts = parts_of([field])
    labels: list[str | None] = []
    for start in range(0, len(rows), _BATCH_ROWS):
        part = rows[start : start + _BATCH_ROWS]
        facts = archive.catalog.query.facts([row.id for row in part], parts=parts) if parts else {}
        values_by_row = [_texts(read_field(field, row, facts.get(row.id, NO_FACTS))) for row in part]
        labels += [", ".join(values) if values else None for values in values_by_row]
    return labels


def _texts(values: Iterable[object]) -> list[str]:
    """Return the values as sorted texts; an empty text, such as of an unnamed environment, is no label."""
    texts = ({True: "yes", False: "no"}[one] if isinstance(one, bool) else str(one) for one in values)
    return sorted(text for text in texts if text)
