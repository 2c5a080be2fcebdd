"""How well an archive's search finds episodes of the same label: in each of its Spaces, and as it ranks by default.

Knows: which episodes have vectors and labels. Does not know: how rankings are scored (bridge/evaluate.py).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.curation.held import hold
from bridge.curation.labelling import labels_of
from bridge.evaluate import Scores, leave_one_out, leave_one_out_by, leave_one_out_of_windows
from bridge.refs import make_ref
from embedders.space import Space
from wshard.errors import AmbiguousQueryError, QueryError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bridge.archive import Archive
    from bridge.progress import Progress
    from bridge.retrieve import TrajectoryRetriever
    from catalog.filters import Where
    from catalog.records import EpisodeRow

_OF_WINDOWS: Final = 500  # episodes that ask where windows are compared: among 1,000 each costs 12 ms
_BY_SEARCH: Final = 100  # episodes that ask the search as it ranks by default: each costs up to 0.1 s
_HITS: Final = 1000  # what it finds later counts as last


@dataclass(frozen=True)
class Evaluated:
    """What was scored on the episodes that have vectors and a label, and how many labels these have.

    space: whose vectors were compared; None for the search as it ranks by default, by several Spaces together.
    """

    space: Space | None
    scores: Scores
    episodes: int
    labels: int


def evaluate_label(
    archive: Archive, label: str, where: Where | str = "", *, k: int = 10, progress: Progress | None = None
) -> list[Evaluated]:
    """Return how well each active Space of lanes finds the others of a label: of most episodes, then by mAP, first.

    Leave one out among the episodes that pass the filter. label: see labelling.label_field. Episodes of several windows
    are compared by the best ones (see leave_one_out_of_windows), up to 500 evenly spread ones asking. Raises QueryError
    where no Space holds two episodes of one label, FilterError.
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
            scores = leave_one_out(held.vectors, known, k=k, progress=progress)
        else:
            asking = _spread(np.arange(len(known)), _OF_WINDOWS)
            scores = leave_one_out_of_windows(held.vectors, held.starts, known, asking=asking, k=k, progress=progress)
        found.append(Evaluated(space, scores, len(known), len(set(known))))
    if not found:
        raise QueryError(f"expected two episodes with vectors and one label {label!r} at least, found none")
    return sorted(found, key=lambda one: (-one.episodes, -one.scores.mean_average_precision))


def evaluate_search(
    retriever: TrajectoryRetriever,
    archive: Archive,
    label: str,
    where: Where | str = "",
    *,
    k: int = 10,
    progress: Progress | None = None,
) -> Evaluated | None:
    """Return how well search_similar_episodes does it with its defaults, up to 100 evenly spread episodes asking.

    Rankings are its first 1,000 hits, and then the others. Else as evaluate_label. None where nobody could ask, where
    one Space ranks alone, and where a search must be told which Space is meant.
    """
    plans = [Space.from_json(row.definition).windows for row in archive.catalog.spaces("active")]
    if not any(plan.whole for plan in plans) or not any(plan.scales for plan in plans):
        return None
    rows = archive.catalog.rows(archive.catalog.ids(where))
    episodes = [rows[id_] for id_ in sorted(rows)]
    names = labels_of(archive, episodes, label)
    pairs = [(row, name) for row, name in zip(episodes, names, strict=True) if name is not None]
    known = [name for _, name in pairs]
    there = np.flatnonzero([os.path.exists(row.path) for row, _ in pairs])  # noqa: PTH110  (Path.exists can raise)
    if len(set(known)) == len(known) or not len(there):
        return None
    places = {row.uid: place for place, (row, _) in enumerate(pairs)}

    def ask(wanted: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.stack([_similar(retriever, pairs[place][0], places, where) for place in wanted.tolist()])

    try:
        scores = leave_one_out_by(ask, known, _spread(there, _BY_SEARCH), k=k, progress=progress)
    except AmbiguousQueryError:
        return None
    return Evaluated(None, scores, len(known), len(set(known)))


def _spread(places: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Return so many of the places at most, evenly spread."""
    return places[np.linspace(0, len(places) - 1, min(most, len(places))).astype(np.int64)]


def _similar(
    retriever: TrajectoryRetriever, row: EpisodeRow, places: dict[str, int], where: Where | str
) -> NDArray[np.float64]:
    """Return how high a search by this episode ranks the others, by their places [N]; what it does not find is last."""
    found = np.full(len(places), -np.inf)
    count = min(len(places), _HITS)
    hits = retriever.search_similar_episodes(make_ref(row, 1.0, (0, row.length)), count, where=where)
    for rank, hit in enumerate(hits):
        if hit.uid in places:
            found[places[hit.uid]] = -rank
    return found
