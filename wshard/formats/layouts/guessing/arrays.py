"""Guess what the arrays of an .npz or HDF5 file are, where their names and lengths leave no doubt."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final

from wshard.errors import LayoutError
from wshard.formats.layouts import layout as rules
from wshard.formats.layouts.guessing import names
from wshard.formats.layouts.guessing.describe import state_layout
from wshard.formats.layouts.guessing.guess import guess_layout
from wshard.formats.layouts.layout import SUFFIXES
from wshard.formats.layouts.named import guess_reference
from wshard.formats.table import how_to_describe

if TYPE_CHECKING:
    from wshard.core.files.schemes import Location
    from wshard.formats.layouts.guessing.roles import ArrayGuess

_LANES: Final = {rules.OBSERVATION: names.OBSERVATION, rules.ACTION: names.ACTION, rules.REWARD: names.REWARD}
"""Roles of arrays that are compared, and what their names must say."""


def has_arrays(name: str) -> bool:
    """Return True for a file whose name says that it has arrays by name."""
    return name.lower().endswith((*SUFFIXES["npz"], *SUFFIXES["hdf5"]))


def guess_arrays(location: Location) -> str:
    """Return the name of the format of a file whose arrays can be guessed for sure: a reference of layouts.named.

    Every array has a name that says what it is, and as many rows as timesteps if it should; there are observations and
    actions. Raises LayoutError where anything is open.
    """
    guess = guess_layout(location)
    guess.expect_certain()
    unclear = [one.path for one in (*guess.arrays, *guess.unread) if not _is_told(one)]
    lacking = [role for role in (rules.OBSERVATION, rules.ACTION) if role not in {one.role for one in guess.arrays}]
    if unclear or lacking:
        found = f"the name and rows of {unclear[0]!r} do not say what it is" if unclear else f"it has no {lacking[0]}"
        raise LayoutError(f"{location}: expected arrays of known names; {found}: {how_to_describe(location)}")
    return guess_reference(state_layout(guess))


def _is_told(one: ArrayGuess) -> bool:
    """Return whether the name says what the array is, and its rows fit."""
    meaning = names.meaning_of(one.path)
    if one.role in _LANES:
        return meaning == _LANES[one.role]
    if one.role == rules.METADATA:
        return prod(one.shape) == 1
    if one.role == rules.SKIP:
        return meaning not in (names.UNKNOWN, *_LANES.values())
    return True
