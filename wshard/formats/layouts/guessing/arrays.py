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
    from wshard.formats.layouts.guessing.layout_guess import LayoutGuess
    from wshard.formats.layouts.guessing.roles import ArrayGuess

_LANES: Final = {rules.OBSERVATION: names.OBSERVATION, rules.ACTION: names.ACTION, rules.REWARD: names.REWARD}
"""Roles of arrays that are compared, and what their names say."""


def has_arrays(name: str) -> bool:
    """Return True for a file whose name says that it has arrays by name."""
    return name.lower().endswith((*SUFFIXES["npz"], *SUFFIXES["hdf5"]))


def guess_arrays(location: Location) -> str:
    """Return the name of the format of a file whose arrays can be guessed for sure: a reference of layouts.named.

    Raises LayoutError where anything is open, or where why_unsure says so.
    """
    guess = guess_layout(location)
    guess.expect_certain()
    if why := why_unsure(guess):
        raise LayoutError(f"{location}: expected arrays of episodes; {why}: {how_to_describe(location)}")
    return guess_reference(state_layout(guess))


def why_unsure(guess: LayoutGuess) -> str:
    """Return why a guess of which nothing is open is not taken without a description; "" if it is.

    Names say what is an observation and what an action, or it may be no episode; no name contradicts the rows.
    """
    doubtful = [one.path for one in (*guess.arrays, *guess.unread) if not _is_clear(one)]
    if doubtful:
        return f"the name and rows of {doubtful[0]!r} do not say what it is"
    named = {one.role for one in guess.arrays if names.meaning_of(one.path) == _LANES.get(one.role)}
    lacking = [role for role in (rules.OBSERVATION, rules.ACTION) if role not in named]
    return f"no name says {lacking[0]}" if lacking else ""


def _is_clear(one: ArrayGuess) -> bool:
    """Return whether the name of an array says nothing else than its rows: any name may be that of an observation."""
    meaning = names.meaning_of(one.path)
    if one.role in _LANES:
        return meaning == _LANES[one.role] or meaning not in _LANES.values()
    if one.role == rules.METADATA:
        return prod(one.shape) == 1 or meaning not in _LANES.values()
    return one.role != rules.SKIP or meaning not in (names.UNKNOWN, *_LANES.values())
