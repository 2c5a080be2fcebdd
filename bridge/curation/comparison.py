"""How well each of an archive's Spaces finds episodes of the same label.

Knows: which episodes have vectors and labels. Does not know: how rankings are scored (bridge/evaluate.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bridge.curation.held import hold
from bridge.curation.labelling import labels_of
from bridge.evaluate import Scores, leave_one_out, leave_one_out_of_windows
from embedders.space import Space
from wshard.errors import QueryError

if TYPE_CHECKING:
    from bridge.archive import Archive
    from catalog.filters import Where


@dataclass(frozen=True)
class Evaluated:
    """What a Space scored on the episodes that have vectors in it and a label, and how many labels these have."""

    space: Space
    scores: Scores
    episodes: int
    labels: int


def evaluate_label(archive: Archive, label: str, where: Where | str = "", *, k: int = 10) -> list[Evaluated]:
    """Return how well each active Space of lanes finds the others of an episode's label, the best mAP first.

    Leave one out among the episodes that pass the filter. label: see labelling.label_field. Episodes of several windows
    are compared by the best ones (see leave_one_out_of_windows). Raises QueryError where no Space holds two episodes of
    one label, FilterError.
    """
    found = []
    for row in archive.catalog.spaces("active"):
        space = Space.from_json(row.definition)
        if space.of_text:
            continue  # what is said of the task would be asked for the task
        held = hold(archive, space, where)
        names = labels_of(archive, held.episodes, label)
        held = held.only([place for place, name in enumerate(names) if name is not None])
        known = [name for name in names if name is not None]
        if len(set(known)) == len(known):
            continue  # nobody could ask
        if space.windows.whole:
            scores = leave_one_out(held.vectors, known, k=k)
        else:
            scores = leave_one_out_of_windows(held.vectors, held.starts, known, k=k)
        found.append(Evaluated(space, scores, len(known), len(set(known))))
    if not found:
        raise QueryError(f"expected two episodes with vectors and one label {label!r} at least, found none")
    return sorted(found, key=lambda one: -one.scores.mean_average_precision)
