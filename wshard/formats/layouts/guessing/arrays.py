"""Whether the names of arrays say so plainly what a guess took them for that no description is needed."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final

from wshard.formats.layouts import layout as rules
from wshard.formats.layouts.guessing import names
from wshard.formats.layouts.guessing.survey import TEXT

if TYPE_CHECKING:
    from wshard.formats.layouts.guessing.layout_guess import LayoutGuess
    from wshard.formats.layouts.guessing.roles import ArrayGuess

_LANES: Final = {rules.OBSERVATION: names.OBSERVATION, rules.ACTION: names.ACTION, rules.REWARD: names.REWARD}
"""Roles of arrays that are compared, and what their names say."""


def why_unclear(guess: LayoutGuess) -> str:
    """Return which array of a guess has a name that does not say what it is; "" if all of them do.

    Names say what is an observation and what an action, or it may be no episode; no name contradicts the rows.
    """
    if doubtful := [one for one in (*guess.arrays, *guess.unread) if not _is_clear(one)]:
        path, unread = doubtful[0].path, doubtful[0].role == rules.SKIP and doubtful[0].why
        return f"{path!r}: {unread}" if unread else f"the name and rows of {path!r} do not say what it is"
    named = {one.role for one in guess.arrays if names.meaning_of(one.path) == _LANES.get(one.role)}
    lacking = [role for role in (rules.OBSERVATION, rules.ACTION) if role not in named]
    return f"no name says {lacking[0]}" if lacking else ""


def _is_clear(one: ArrayGuess) -> bool:
    """Return whether the name of an array says nothing else than its rows: any name may be that of an observation."""
    meaning = names.meaning_of(one.path)
    if one.role in _LANES:
        return meaning == _LANES[one.role] or meaning not in _LANES.values()
    if one.role == rules.METADATA:
        return prod(one.shape) == 1 or one.dtype == TEXT or meaning not in _LANES.values()
    return one.role != rules.SKIP or meaning not in (names.UNKNOWN, *_LANES.values())
