"""The natural order of names: runs of digits compare by their value, demo_2 before demo_10."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_RUN: Final = re.compile("[0-9]+")


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
    return sorted(names, key=lambda name: (natural_key(name), name))
