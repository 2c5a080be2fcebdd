"""Guess what the columns of a table are, as the options that a user would give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from wshard.core.files.schemes import place_of
from wshard.errors import LayoutError
from wshard.formats.layouts import layout as rules
from wshard.formats.layouts.guessing.guess import guess_layout
from wshard.formats.layouts.layout import SUFFIXES
from wshard.formats.layouts.named import find_layout, table_reference
from wshard.formats.layouts.options import TableOptions
from wshard.formats.table import how_to_describe

if TYPE_CHECKING:
    from wshard.core.files.schemes import Location
    from wshard.formats.layouts.guessing.layout_guess import LayoutGuess

NO_COLUMN: Final = "it has no column of episodes or times"
"""Why a table that no user named is not read."""

_RULES: Final = (rules.COLUMN, rules.ENDS, rules.STARTS, rules.RESTARTS)
_SINGLE: Final = (rules.REWARD, rules.END, rules.TRUNCATED, rules.SUCCESS, rules.TASK, rules.TIME)


def is_table(name: str) -> bool:
    """Return True for a file whose name says that it is a table."""
    return name.lower().endswith(SUFFIXES["table"])


def guess_table(location: Location, *, is_given: bool = True) -> str:
    """Return the name of the format of a table whose columns can be guessed: a reference of layouts.named.

    is_given: the user named it; other tables, which may be anything, need a column of episodes or times. Raises
    LayoutError where anything is open, or needs more than options can say.
    """
    guess = guess_layout(location)
    guess.expect_certain()
    options = _options(guess)
    if not (is_given or options.episode or options.time):
        raise LayoutError(_needs_more(guess, NO_COLUMN))
    reference = table_reference(options)
    layout = find_layout(reference)
    stacked = {path for lane in guess.layout.stack.values() for path in lane}
    for one in guess.arrays:
        role = layout.rule_of(one.path).role
        if role != one.role and one.path not in stacked and one.role != rules.METADATA:
            raise LayoutError(_needs_more(guess, f"that {one.path!r} has the role {one.role!r} needs a description"))
    return reference


def _options(guess: LayoutGuess) -> TableOptions:
    rule, layout = guess.layout.episodes, guess.layout
    if layout.container != "table" or place_of(guess.place).is_dir():
        is_named_so = layout.container != "table" and is_table(guess.place)
        why = f"its content is {layout.container}, whatever its name says" if is_named_so else "it is no single table"
        raise LayoutError(_needs_more(guess, why))
    if rule.by != rules.FILE and (rule.by not in _RULES or len(rule.arrays) != 1):
        raise LayoutError(_needs_more(guess, guess.episodes.readings[0].why))
    named: dict[str, Any] = {one.role: one.path for one in guess.arrays if one.role in _SINGLE}
    units = [one.unit for one in guess.arrays if one.role == rules.TIME]
    spared = {*named.values(), *rule.arrays}
    columns = {path for paths in layout.stack.values() for path in paths} | {
        one.path for one in guess.arrays if one.is_apart
    }
    return TableOptions(
        episode=rule.arrays[0] if rule.arrays else "",
        by=rule.by if rule.by not in (rules.FILE, rules.COLUMN) else "",
        unit="".join(unit for unit in units if unit != "s"),
        actions=tuple(one.path for one in guess.arrays if one.role == rules.ACTION and one.path in columns),
        apart=tuple(one.path for one in guess.arrays if one.is_apart),
        skip=tuple(one.path for one in guess.arrays if one.role == rules.SKIP and one.path not in spared),
        guessed="yes",
        **named,
    )


def _needs_more(guess: LayoutGuess, why: str) -> str:
    return f"{guess.place}: expected a table whose columns options can name; {why}: {how_to_describe(guess.place)}"
