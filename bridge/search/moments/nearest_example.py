"""Finds moments like any of several examples and unlike others: each counts for the example that it is most like."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from bridge.search.moments.overlap import without_overlaps
from bridge.search.moments.search import WindowQuery

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bridge.results import EpisodeRef
    from bridge.search.moments.search import FoundMoments, MomentSearch
    from bridge.search.query.examples import Example
    from bridge.search.query.options import MomentOptions
    from bridge.search.query.prepare import PreparedQuery
    from embedders.space import Space

    SourceOf = Callable[[Example, Space], tuple[int, int] | None]

_MORE: Final = 4
_ROUNDS: Final = 4
"""A counter-example that is an example too takes everything: nobody should read the whole archive for that."""
_AGAINST: Final = 100
"""Moments that are found for a counter-example, at least: it takes away what is among those that are most like it."""
_SAME: Final = 0.3  # overlap above which two finds are one moment


def find_moments(
    moments: MomentSearch, prepared: PreparedQuery[MomentOptions], source_of: SourceOf
) -> tuple[list[EpisodeRef], Sequence[FoundMoments]]:
    """Return the moments like the examples and unlike the counter-examples, and what was found of each in each view.

    source_of: the episode that an example is from, if that may be a hit, and the timestep with which it begins there.
    Fewer moments than asked for are returned where there are no more, or where they are behind 64 times as many that
    count for counter-examples.
    """
    request, options = prepared.request, prepared.options
    queries = [
        WindowQuery(view.space, view.windows[number], view.vectors[number], source_of(example, view.space))
        for number, example in enumerate(prepared.examples.all)
        for view in prepared.views
    ]
    if len(queries) == 1:
        found = moments.search(queries[0], request, options)
        return found.refs, [found]
    each = replace(options, per_episode=None)  # of one alone: which episodes' hits count is decided among all
    like = len(prepared.examples.like) * len(prepared.views)

    def find(some: Sequence[WindowQuery], count: int) -> list[FoundMoments]:
        return [moments.search(query, replace(request, top_k=count), each) for query in some]

    count = request.top_k
    for _ in range(_ROUNDS):
        for_them = find(queries[:like], count)
        against = find(queries[like:], max(_AGAINST, _MORE * count))
        hits = _select([one.refs for one in for_them], [one.refs for one in against], options)
        if len(hits) >= request.top_k or all(len(one.refs) < count for one in for_them):
            break
        count *= _MORE  # several found the same, or much counts for a counter-example
    return hits[: request.top_k], (*for_them, *against)


def _select(
    like: Sequence[Sequence[EpisodeRef]], unlike: Sequence[Sequence[EpisodeRef]], options: MomentOptions
) -> list[EpisodeRef]:
    against = [ref for refs in unlike for ref in refs]
    rivals = against + [ref for refs in like for ref in refs]
    rivals.sort(key=lambda ref: -ref.score)  # a counter-example comes first where it is as near
    theirs = {id(ref) for ref in against}
    best = without_overlaps(rivals, max_overlap=_SAME)
    mine = [ref for ref in best if id(ref) not in theirs]
    return without_overlaps(mine, max_overlap=options.max_overlap, per_episode=options.per_episode)
