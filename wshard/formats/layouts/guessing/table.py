"""What a guess takes the columns of a table for, as the options that a user would give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from wshard.formats.layouts import layout as rules
from wshard.formats.layouts.named import find_layout, table_reference
from wshard.formats.layouts.options import TableOptions

if TYPE_CHECKING:
    from wshard.formats.layouts.guessing.layout_guess import LayoutGuess

_RULES: Final = (rules.COLUMN, rules.ENDS, rules.STARTS, rules.RESTARTS)
_SINGLE: Final = (rules.REWARD, rules.END, rules.TRUNCATED, rules.SUCCESS, rules.TASK, rules.TIME)


def refer_to_table(guess: LayoutGuess) -> str:
    """Return the name of the format of a table whose columns options can name, as a guess took them; "" for others."""
    rule = guess.layout.episodes
    if guess.layout.container != "table" or (rule.by != rules.FILE and (rule.by not in _RULES or len(rule.arrays) > 1)):
        return ""
    reference = table_reference(_options(guess))
    layout = find_layout(reference)
    stacked = {path for lane in guess.layout.stack.values() for path in lane}
    others = [one for one in guess.arrays if one.path not in stacked and one.role != rules.METADATA]
    return reference if all(layout.rule_of(one.path).role == one.role for one in others) else ""


def _options(guess: LayoutGuess) -> TableOptions:
    rule, layout = guess.layout.episodes, guess.layout
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
