"""Make what searches read beside the vectors, after an ingest of many episodes: neighbour graphs, stored timesteps."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from bridge.episodes.read import Failure
from bridge.graph.neighbour_graph import LEAST_EPISODES
from bridge.index.metric import COSINE
from bridge.search.matches import EpisodeRows
from bridge.search.moments.search import MomentSearch
from bridge.search.ranking.stored_vectors import StoredVectors
from bridge.spaces.space_choice import SpaceChoice
from bridge.support.garbage import give_back
from bridge.support.interrupts import raise_interrupt
from embedders.base import blocks_of
from embedders.registry import embedder_of
from wshard.core.episode.protocol import EpisodeAddress
from wshard.errors import EmbedderError, MissingExtraError, WShardError

if TYPE_CHECKING:
    from bridge.ingest.report import Run

_MANY: Final = 0.1  # share of new episodes; fewer join the graph of before, at the next search


def prepare_searches(run: Run) -> None:
    """Weigh descriptors anew and make the graph of every Space of whole episodes in which many are new.

    Timesteps are stored of those with windows of several sizes, in which searches look for moments.

    Searches make what is missing, so an expected error is only said in the report; any other one is a failure.
    """
    if len(run.embedded) < LEAST_EPISODES:
        return
    try:
        run.archive.index.wait_for_copies()  # what a copy has is mapped; all else would be read into memory
        give_back()
        _make(run)
    except (WShardError, OSError, MemoryError) as error:
        run.report.unprepared = str(error) or "not enough memory"
    except Exception as error:  # noqa: BLE001  (all else is stored by now)
        raise_interrupt(error)
        run.report.add_failures([Failure.of(error, EpisodeAddress("neighbours"))])


def _make(run: Run) -> None:
    catalog, stored = run.archive.catalog, StoredVectors(run.archive)
    moments = MomentSearch(run.archive, EpisodeRows(catalog))
    spaces = SpaceChoice(catalog, None, None).active()
    ids = {row.fingerprint: row.id for row in catalog.vectors.spaces("active")}
    for space in spaces:
        is_ranked = space.windows.whole and space.metric == COSINE
        embedded = catalog.vectors.embedded(ids[space.fingerprint])
        new = sum(id_ in run.embedded for id_ in embedded)
        if new < max(LEAST_EPISODES, _MANY * len(embedded)) or run.archive.index.open_derived(space) is None:
            continue
        if is_ranked:
            run.watch.stage("neighbours", len(embedded))
            with suppress(EmbedderError, MissingExtraError):  # of an embedder that only its owner can load
                weights = stored.weights(space, blocks_of(embedder_of(space), space), anew=True)
                stored.graph(space, weights, wait=True)
        elif space.windows.scales:
            run.watch.stage("timesteps", len(embedded))
            moments.store(space)
        else:
            continue
        run.watch.advance(len(embedded))
