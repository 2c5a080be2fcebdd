"""The natural order of names: runs of digits compare by their value, demo_2 before demo_10."""

from __future__ import annotations

import re
from array import array
from heapq import merge
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_RUN: Final = re.compile("[0-9]+")
_AT_ONCE: Final = 1 << 16  # names that are sorted in memory


def natural_key(name: str) -> str:
    """Return text whose code point order is the natural order of names; equal for demo_2 and demo_02.

    Each run of digits gets the number of its significant digits in front: a 9 for every nine of them, then the rest.
    """
    return _RUN.sub(_with_length, name)


def _with_length(run: re.Match[str]) -> str:
    digits = run[0].lstrip("0")
    nines, rest = divmod(len(digits), 9)
    return f"{'9' * nines}{rest}{digits}"


def sort_naturally(names: Iterable[str]) -> list[str]:
    """Return the names in their natural order, demo_02 before demo_2."""
    return sorted(names, key=_key)


def order_naturally(names: Sequence[str]) -> array[int]:
    """Return the numbers of names in their natural order; few of them are in memory."""
    parts = [_order(names, range(first, min(first + _AT_ONCE, len(names)))) for first in range(0, len(names), _AT_ONCE)]
    edges = [_key(names[number]) for part in parts for number in (part[0], part[-1])]
    if edges == sorted(edges):
        return array("Q", (number for part in parts for number in part))
    keyed = (((_key(names[number]), number) for number in part) for part in parts)
    return array("Q", (number for _, number in merge(*keyed)))


def _order(names: Sequence[str], numbers: Iterable[int]) -> array[int]:
    return array("Q", sorted(numbers, key=lambda number: _key(names[number])))


def _key(name: str) -> tuple[str, str]:
    return natural_key(name), name
