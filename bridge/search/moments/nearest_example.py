"""Finds moments for several examples and counter-examples: a moment is assigned to the most similar of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from bridge.search.moments.overlap import without_overlaps
from bridge.search.moments.search import WindowQuery
from catalog.filters.where import Compare

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bridge.index.stored_rows import StoredRows
    from bridge.results import EpisodeRef
    from bridge.search.moments.search import FoundMoments, MomentSearch
    from bridge.search.query.options import MomentOptions
    from bridge.search.query.prepare import PreparedQuery
    from bridge.search.query.query_episodes import QueryEpisodes
    from catalog.filters.where import Where
    from embedders.space import Space

    Load = Callable[[Space, list[int]], StoredRows]

_GROWTH: Final = 4
_MAX_ROUNDS: Final = 4
"""A counter-example that equals an example removes everything: the limit prevents a search of the whole archive."""
_MIN_NEGATIVE: Final = 100
"""Least number of moments requested for a counter-example, in the episodes whose hits it may remove."""
_SAME_MOMENT: Final = 0.3  # overlap above which two hits are the same moment


def find_moments(
    moments: MomentSearch, prepared: PreparedQuery[MomentOptions], *, episodes: QueryEpisodes, load: Load
) -> tuple[list[EpisodeRef], Sequence[FoundMoments]]:
    """Return the moments assigned to examples, and the results of each query in each view.

    episodes, load: find the episode that an example is from, if that may be a hit and has vectors. Fewer than top_k
    moments are returned if there are no more, or if 64 times as many rank better but are assigned to counter-examples.
    """
    request, options = prepared.request, prepared.options
    queries = []
    for number, example in enumerate(prepared.examples.all):
        own = episodes.find_ids(example, request.where)
        for view in prepared.views:
            found_in = load(view.space, own).episodes
            source = (int(found_in[0]), example.start) if len(found_in) else None
            queries.append(WindowQuery(view.space, view.windows[number], view.vectors[number], source))
    if len(queries) == 1:
        found = moments.search(queries[0], request, options)
        return found.refs, [found]
    each_options = replace(options, per_episode=None)  # the limit per episode applies to the joint result
    positive_count = len(prepared.examples.like) * len(prepared.views)

    def find(window_queries: Sequence[WindowQuery], count: int, where: Where) -> list[FoundMoments]:
        wanted = replace(request, top_k=count, where=where)
        return [moments.search(query, wanted, each_options) for query in window_queries]

    count = request.top_k
    for _ in range(_MAX_ROUNDS):
        positive = find(queries[:positive_count], count, request.where)
        uids = tuple(sorted({ref.uid for result in positive for ref in result.refs}))
        among = request.where & Compare("uid", "in", uids)  # nothing elsewhere can be removed
        negative = find(queries[positive_count:], max(_MIN_NEGATIVE, _GROWTH * count), among)
        hits = _select([result.refs for result in positive], [result.refs for result in negative], options)
        if len(hits) >= request.top_k or all(len(result.refs) < count for result in positive):
            break
        count *= _GROWTH  # several queries found the same, or counter-examples removed much
    return hits[: request.top_k], (*positive, *negative)


def _select(
    like: Sequence[Sequence[EpisodeRef]], unlike: Sequence[Sequence[EpisodeRef]], options: MomentOptions
) -> list[EpisodeRef]:
    negative = [ref for refs in unlike for ref in refs]
    competing = negative + [ref for refs in like for ref in refs]
    competing.sort(key=lambda ref: -ref.score)  # counter-examples win ties
    negative_ids = {id(ref) for ref in negative}
    best = without_overlaps(competing, max_overlap=_SAME_MOMENT)
    positive = [ref for ref in best if id(ref) not in negative_ids]
    return without_overlaps(positive, max_overlap=options.max_overlap, per_episode=options.per_episode)
