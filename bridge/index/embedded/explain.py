"""How an answer of the embedded index was found: route, counts and milliseconds by step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bridge.index.base import Explanation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bridge.index.embedded.rerank import Ranking
    from bridge.index.embedded.snapshot import IndexSnapshot

_STEPS: Final = ("refresh", "filter", "find", "rank")


def explain(ranking: Ranking, snapshot: IndexSnapshot, times: Sequence[float]) -> Explanation:
    """Return the explanation of a ranking; times: at the start, after reading the ledger, after the filter."""
    base, tail = ranking.found
    lists = snapshot.base.lists
    seconds = (times[1] - times[0], times[2] - times[1], *ranking.seconds)
    return Explanation(
        route=base.route if len(snapshot.base.segment.vectors) else tail.route,
        passing=base.passing + tail.passing,
        scored=base.scored + tail.scored,
        lists=base.lists,
        all_lists=0 if lists is None else len(lists.centroids),
        tail=snapshot.count_tail(),
        milliseconds=dict(zip(_STEPS, (1e3 * step for step in seconds), strict=True)),
    )
