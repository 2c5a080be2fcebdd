"""Make what searches read beside the vectors, after an ingest of many episodes: neighbour graphs, stored timesteps."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from bridge.episodes.read import Failure
from bridge.graph.neighbour_graph import LEAST_EPISODES
from bridge.index.metric import COSINE
from bridge.ingest.embed import DESCRIBED
from bridge.search.matches import EpisodeRows
from bridge.search.ranking.stored_vectors import StoredVectors
from bridge.spaces.space_choice import SpaceChoice
from bridge.support.interrupts import raise_interrupt
from embedders.base import blocks_of
from embedders.registry import embedder_of
from wshard.core.episode.protocol import EpisodeAddress
from wshard.errors import EmbedderError, MissingExtraError, WShardError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bridge.ingest.report import Run
    from bridge.support.id_set import IdSet
    from embedders.space import Space, Statistics

ROOM: Final = 1 << 30
"""Bytes of timesteps that wait for being stored."""

_MANY: Final = 0.1  # share of new episodes; fewer join the graph of before, at the next search


def find_scaling(run: Run, space: Space, ids: IdSet) -> Statistics | None:
    """Return how the timesteps of these episodes, which are embedded now, are scaled for the store of a Space.

    None where nothing is stored, or too little or too much.
    """
    if not run.spool.has_room or space.scaling is None or not space.windows.scales or len(ids) < LEAST_EPISODES:
        return None
    from bridge.search.moments.all_timesteps import TimestepStore

    return space.scaling if TimestepStore(run.archive).takes(space, len(ids), ids) else None


def prepare_searches(run: Run) -> None:
    """Weigh descriptors anew and make the graph of every Space of whole episodes in which many are new.

    Timesteps are stored of those with windows of several sizes, in which searches look for moments.

    Searches make what is missing, so an expected error is only said in the report; any other one is a failure.
    """
    if len(run.embedded) < LEAST_EPISODES:
        return
    try:
        run.free_memory(len(run.embedded))
        many = _find_grown(run)
        run.cache.clear()
        # What a copy has is mapped; all else would be read into memory. Graphs do not read the last one, of windows.
        beside = run.pool.sharing > 1 and any(space.windows.scales for space, _ in many)
        run.archive.index.wait_for_copies(but_for_last=beside)
        run.free_memory(len(run.embedded))
        _store_timesteps(run, many)
        run.free_memory(len(run.embedded))
        _make_graphs(run, many)
        run.archive.index.wait_for_copies()
    except (WShardError, OSError, MemoryError) as error:
        run.report.unprepared = str(error) or "not enough memory"
    except Exception as error:  # noqa: BLE001  (all else is stored by now)
        raise_interrupt(error)
        run.report.add_failures([Failure.of(error, EpisodeAddress("neighbours"))])


def _find_grown(run: Run) -> list[tuple[Space, int]]:
    """Return the Spaces in which many episodes are new and that can store something, and their numbers of episodes."""
    catalog, grown = run.archive.catalog, []
    ids = {row.fingerprint: row.id for row in catalog.vectors.spaces("active")}
    for space in SpaceChoice(catalog, None, None).active():
        embedded = catalog.vectors.embedded(ids[space.fingerprint])
        new = sum(id_ in run.embedded for id_ in embedded)
        if new >= max(LEAST_EPISODES, _MANY * len(embedded)) and run.archive.index.open_derived(space) is not None:
            grown.append((space, len(embedded)))
    return grown


def _store_timesteps(run: Run, spaces: Sequence[tuple[Space, int]]) -> None:
    spaces = [one for one in spaces if one[0].windows.scales]
    if not spaces:
        return
    from bridge.search.moments.search import MomentSearch

    moments = MomentSearch(run.archive, EpisodeRows(run.archive.catalog))
    for space, count in spaces:
        run.watch.stage("timesteps", count)
        moments.store(space, run.pool, run.spool.take(space.fingerprint, DESCRIBED))
        run.watch.advance(count)


def _make_graphs(run: Run, spaces: Sequence[tuple[Space, int]]) -> None:
    stored = StoredVectors(run.archive)
    for space, count in spaces:
        if space.windows.whole and space.metric == COSINE:
            run.watch.stage("neighbours", count)
            with suppress(EmbedderError, MissingExtraError):  # of an embedder that only its owner can load
                weights = stored.weights(space, blocks_of(embedder_of(space), space), anew=True)
                stored.graph(space, weights, wait=True)
            run.watch.advance(count)
