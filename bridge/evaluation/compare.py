"""Evaluate how well an archive finds episodes of the same label: by each Space, and by the default ranking."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.curation.archive_vectors import read_vectors
from bridge.curation.labels import labels_of
from bridge.episodes.open import exists
from bridge.episodes.read import Failure, attempt
from bridge.evaluation.metrics import Scores, leave_one_out, leave_one_out_by, leave_one_out_of_windows
from bridge.results import make_ref
from bridge.support.progress import Labelled, Silent
from embedders.space import Space
from wshard.errors import EmbedderError, QueryError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from bridge.archive import Archive
    from bridge.curation.archive_vectors import EpisodeVectors
    from bridge.support.progress import Progress
    from catalog.filters.where import Where
    from catalog.records import EpisodeRow

_OF_WHOLES: Final = 4000  # queries where whole episodes are compared: among 20,000 each costs 3 ms
_OF_WINDOWS: Final = (100, 500)  # queries where windows are compared: among 1,000 each costs 12 ms
_WORK: Final = 1e11  # products that comparing windows may take before fewer queries are made: about a minute
_BY_SEARCH: Final = 100  # queries of the search as it ranks by default: each costs up to 0.1 s
_HITS: Final = 1000  # what it finds later counts as last


@dataclass(frozen=True)
class Evaluated:
    """Scores of the labelled episodes with vectors, and the number of their labels.

    space: the Space that was compared; None for the default ranking of the search, over several Spaces.
    """

    space: Space | None
    scores: Scores
    episodes: int
    labels: int


def evaluate(
    archive: Archive, label: str, where: Where | str = "", *, k: int = 10, progress: Progress | None = None
) -> list[Evaluated]:
    """Evaluate the default ranking of the search, if it combines several Spaces, then each Space alone.

    Parameters and errors as for evaluate_label.
    """
    spaces = evaluate_label(archive, label, where, k=k, progress=progress)
    default = evaluate_search(archive, label, where, k=k, progress=progress)
    return spaces if default is None else [default, *spaces]


def evaluate_label(
    archive: Archive, label: str, where: Where | str = "", *, k: int = 10, progress: Progress | None = None
) -> list[Evaluated]:
    """Evaluate the retrieval of episodes with the same label in each active Space; largest Space first, then by mAP.

    Leave-one-out over the episodes that match the filter, of which up to 4,000, evenly spread, are queries. label: see
    labelling.label_field. Episodes with several windows are compared by the best ones (see leave_one_out_of_windows),
    with up to 500 queries, or fewer (at least 100) with hundreds of thousands of windows. Raises QueryError if no Space
    has two episodes with the same label, FilterError.
    """
    results = []
    for row in archive.catalog.vectors.spaces("active"):
        space = Space.from_json(row.definition)
        if space.of_text:
            continue  # text about the task would reveal the task
        vectors = read_vectors(archive, space, where)
        names = labels_of(archive, vectors.episodes, label)
        vectors = vectors.only([place for place, name in enumerate(names) if name is not None])
        label_names = [name for name in names if name is not None]
        if len(set(label_names)) == len(label_names):
            continue  # no episode has another one with its label
        lanes = ", ".join(lane.name for lane in space.lanes)
        watch = Labelled(progress or Silent(), f"{space.embedder} over {lanes}, {space.windows}")
        query_items = _spread(_find_answerable(label_names), _count_queries(vectors))
        if space.windows.whole:
            scores = leave_one_out(
                vectors.vectors, label_names, query_items=query_items, metric=space.metric, k=k, progress=watch
            )
        else:
            scores = leave_one_out_of_windows(
                vectors.vectors,
                vectors.starts,
                label_names,
                query_items=query_items,
                metric=space.metric,
                k=k,
                progress=watch,
            )
        results.append(Evaluated(space, scores, len(label_names), len(set(label_names))))
    if not results:
        raise QueryError(f"expected two episodes with vectors and one label {label!r} at least, found none")
    return sorted(results, key=lambda one: (-one.episodes, -one.scores.mean_average_precision))


def evaluate_search(
    archive: Archive, label: str, where: Where | str = "", *, k: int = 10, progress: Progress | None = None
) -> Evaluated | None:
    """Evaluate Archive.search with its defaults, on up to 100 evenly spread query episodes.

    Episodes beyond the first 1,000 hits rank last. Otherwise like evaluate_label. Returns None if there are no queries,
    if only one Space ranks, or if the search needs an embedder to be passed.
    """
    episodes = _ranked_together(archive, where)
    names = labels_of(archive, episodes, label)
    pairs = [(row, name) for row, name in zip(episodes, names, strict=True) if name is not None]
    label_names = [name for _, name in pairs]
    present = [place for place in _find_answerable(label_names).tolist() if exists(pairs[place][0].address)]
    if not present:
        return None
    places, read = {row.uid: place for place, (row, _) in enumerate(pairs)}, list[int]()

    def compare(queries: NDArray[np.int64]) -> NDArray[np.float64]:
        similarity = np.full((len(queries), len(places)), -np.inf)
        for similar, place in zip(similarity, queries.tolist(), strict=True):
            row = pairs[place][0]
            episode = attempt(make_ref(row, 1.0, (0, row.length)).load, row.address)
            if isinstance(episode, Failure):  # the file is damaged, or not what was catalogued
                similar[:] = np.nan
                continue
            read.append(place)
            hits = archive.search(episode, _HITS, where=where)
            for rank, hit in enumerate(hits):
                if hit.uid in places:
                    similar[places[hit.uid]] = -rank
        return similarity

    try:
        query_items = _spread(np.array(present, np.int64), _BY_SEARCH)
        watch = Labelled(progress or Silent(), "search, default ranking")
        scores = leave_one_out_by(compare, label_names, query_items, k=k, progress=watch)
    except EmbedderError:
        return None
    except ValueError:
        if read:
            raise
        return None  # no episode has another one with its label
    return Evaluated(None, scores, len(label_names), len(set(label_names)))


def _count_queries(vectors: EpisodeVectors) -> int:
    """Return the number of query episodes: one with several windows compares these with those of all others."""
    if vectors.space.windows.whole:
        return _OF_WHOLES
    least, most = _OF_WINDOWS
    work_per_query = vectors.vectors.size * len(vectors.vectors) / len(vectors.episodes)
    return int(np.clip(_WORK / work_per_query, least, most))


def _ranked_together(archive: Archive, where: Where | str) -> list[EpisodeRow]:
    """Return the episodes that pass and have vectors of the whole, by id; none where one Space ranks each alone."""
    spaces = [(row.id, Space.from_json(row.definition)) for row in archive.catalog.vectors.spaces("active")]
    spaces = [(number, space) for number, space in spaces if not space.of_text]
    whole = Counter(
        id_ for number, space in spaces if space.windows.whole for id_ in archive.catalog.vectors.embedded(number)
    )
    if not any(space.windows.scales for _, space in spaces) and max(whole.values(), default=0) < 2:
        return []
    rows = archive.catalog.episodes.rows(archive.catalog.query.ids(where))
    return [rows[id_] for id_ in sorted(rows.keys() & whole.keys())]


def _find_answerable(labels: Sequence[str]) -> NDArray[np.int64]:
    """Return the indices of episodes whose label another episode has."""
    counts = Counter(labels)
    return np.flatnonzero([counts[name] > 1 for name in labels])


def _spread(places: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return at most `count` of the places, evenly spread."""
    return places[np.linspace(0, len(places) - 1, min(count, len(places))).astype(np.int64)]
