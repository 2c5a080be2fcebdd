"""Aligns a query with spans of episodes, each from the query's first timestep to its last, at any speed."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

from bridge.alignment.align import Pieces, Rule, align_all

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bridge.alignment.arrays import Ints, Rows

_STEPS: Final = 1000  # of a query or a span, at most, that are aligned
_PAIRS: Final = 1 << 20  # of query steps and rows that are aligned together: memory


def align_spans(query: Rows, spans: Sequence[Rows]) -> list[Ints]:
    """Return the path [p, 2] of the best alignment of a query [n, D] with each span [T, D]: (query step, row).

    The gain per row is the mean cost of the cheapest match; without a gain, matches would shrink to that.
    """
    paths: dict[int, Ints] = {}
    for stride, places in _group(len(query), [*map(len, spans)]):
        thinned, pieces = query[::stride], Pieces.of([spans[place][::stride] for place in places])
        cheapest = align_all(thinned, pieces, Rule()).costs
        found = align_all(thinned, pieces.worthy(cheapest), Rule(row_gain=1.0), traced=True).paths
        paths |= {place: found[number] * stride for number, place in enumerate(places)}
    return [paths[place] for place in range(len(spans))]


def _group(steps: int, lengths: Sequence[int]) -> Iterator[tuple[int, list[int]]]:
    """Yield by how much some spans are thinned, and which these are; they are few enough to be aligned together."""
    strides = [1 + max(steps, length) // _STEPS for length in lengths]
    by_length = sorted(range(len(lengths)), key=lengths.__getitem__)
    for stride, places in groupby(by_length, strides.__getitem__):
        together: list[int] = []
        for place in places:
            if together and (len(together) + 1) * steps * lengths[place] > _PAIRS * stride**2:
                yield stride, together
                together = []
            together.append(place)
        yield stride, together
