"""Moments like any of several examples and unlike others: each belongs to the example that it is most like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bridge.search.moments.overlap import without_overlaps

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bridge.results import EpisodeRef
    from bridge.search.moments.search import Found
    from bridge.search.query.options import MomentWishes

_MORE: Final = 4
_ROUNDS: Final = 4
"""A counter-example that is an example too takes everything: nobody should read the whole archive for that."""
_AGAINST: Final = 100
"""Moments that are found for a counter-example, at least: it takes away what is among those that are most like it."""
_SAME: Final = 0.3  # overlap above which two finds are one moment


def belonging(
    find: Callable[[int, int], Found], *, like: int, unlike: int, top_k: int, wishes: MomentWishes
) -> tuple[list[EpisodeRef], Sequence[Found]]:
    """Return the top_k moments that belong to an example, best first, and what was found for each of all examples.

    like, unlike: how many examples and counter-examples. find: takes the number of one, those of counter-examples come
    after the others', and how many moments, of any episode. Fewer than top_k are returned where there are no more, or
    where they are behind 64 times as many that belong to counter-examples.
    """
    count = top_k
    for _ in range(_ROUNDS):
        for_them = [find(number, count) for number in range(like)]
        against = [find(like + number, max(_AGAINST, _MORE * count)) for number in range(unlike)]
        hits = _kept([one.refs for one in for_them], [one.refs for one in against], wishes)
        if len(hits) >= top_k or all(len(one.refs) < count for one in for_them):
            break
        count *= _MORE  # several found the same, or much belongs to a counter-example
    return hits[:top_k], (*for_them, *against)


def _kept(
    like: Sequence[Sequence[EpisodeRef]], unlike: Sequence[Sequence[EpisodeRef]], wishes: MomentWishes
) -> list[EpisodeRef]:
    against = [ref for refs in unlike for ref in refs]
    rivals = against + [ref for refs in like for ref in refs]
    rivals.sort(key=lambda ref: -ref.score)  # a counter-example comes first where it is as near
    theirs = {id(ref) for ref in against}
    best = without_overlaps(rivals, max_overlap=_SAME)
    mine = [ref for ref in best if id(ref) not in theirs]
    return without_overlaps(mine, max_overlap=wishes.max_overlap, per_episode=wishes.per_episode)
