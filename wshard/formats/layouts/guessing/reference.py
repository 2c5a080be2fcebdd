"""Guess how a file is read that is of no known format: one owner for ingests, and for what is checked before them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wshard.formats.layouts.guessing.arrays import guess_arrays, has_arrays
from wshard.formats.layouts.guessing.table import guess_table, is_table

if TYPE_CHECKING:
    from wshard.core.files.schemes import Location


def can_guess(name: str) -> bool:
    """Return True for a file of whose content a guess is made: a table, or arrays by name."""
    return is_table(name) or has_arrays(name)


def guess_reference_of(location: Location, *, is_given: bool) -> str:
    """Return the name of the format by a guess: a reference of layouts.named.

    is_given: as for guess_table. Raises LayoutError where it is not sure, and what opening the file raises.
    """
    return guess_table(location, is_given=is_given) if is_table(str(location)) else guess_arrays(location)
