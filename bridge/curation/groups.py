"""From pairs to groups: whatever is connected through pairs is one group.

Knows: numbers 0 to N - 1 and pairs of them. Does not know: what they stand for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from bridge.curation.line import Ids


def connected(count: int, left: Ids, right: Ids) -> Ids:
    """Return for each of `count` numbers the smallest one of its group, int64 [count]; alone it is its own.

    left, right [p]: the pairs.
    """
    leader = np.arange(count)
    while True:
        low = np.minimum(leader[left], leader[right])
        after = leader.copy()
        np.minimum.at(after, leader[left], low)
        np.minimum.at(after, leader[right], low)
        while (after != after[after]).any():
            after = after[after]
        if (after == leader).all():
            return leader
        leader = after
