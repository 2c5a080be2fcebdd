"""How an answer of the embedded index was found, in its own words (Explained).

Knows: what each step left behind. Does not know: searching.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bridge.index.base import Explained

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bridge.index.held import Held
    from bridge.index.ranking import Ranked

_STEPS: Final = ("refresh", "filter", "find", "rank")


def explained(result: Ranked, held: Held, times: Sequence[float]) -> Explained:
    """Return how the result came from what is held; times: when the search began, had the ledger, had the filter."""
    base, tail = result.found
    lists = held.base.lists
    spent = (times[1] - times[0], times[2] - times[1], *result.seconds)
    return Explained(
        route=base.route if len(held.base.vectors) else tail.route,
        passing=base.passing + tail.passing,
        scored=base.scored + tail.scored,
        lists=base.lists,
        all_lists=0 if lists is None else len(lists.centroids),
        tail=held.tail_rows(),
        milliseconds=dict(zip(_STEPS, (1e3 * one for one in spent), strict=True)),
        kernel=base.kernel,
    )
