"""Columns of a table that are said beside it, on the command line or in Python, instead of in a description."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, urlencode

from wshard.core.channel_names import shorten_names
from wshard.core.episode.meta_reader import usable_rate
from wshard.errors import LayoutError
from wshard.formats.layouts import layout as rules
from wshard.formats.layouts.layout import UNITS, ArrayRule, EpisodeRule, unit_of_words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wshard.formats.layouts.layout import EpisodeLayout

_WIDTH: Final = 72  # of names in a line
_WORD: Final = re.compile("[a-z]+")
_LISTS: Final = frozenset(("actions", "skip", "apart"))
_ROLES: Final = {
    "reward": rules.REWARD, "end": rules.END, "truncated": rules.TRUNCATED, "success": rules.SUCCESS, "task": rules.TASK
}  # fmt: skip
_BY: Final = {rules.ENDS: "end where", rules.STARTS: "begin where", rules.RESTARTS: "begin anew with"}


def is_table(data: Any) -> bool:
    """Return True for a table in memory: of pandas, polars, pyarrow, or another with Arrow's interface."""
    return hasattr(data, "__arrow_c_stream__") or hasattr(data, "to_arrow")


@dataclass(frozen=True)
class TableOptions:
    """What the columns of a table are, by their names; "": none, or the usual name.

    episode: says which episode a row belongs to; without it the table is one. by: how it says so, as in EpisodeRule:
    "" by its values, else "ends", "starts" or "restarts". time: when a row was taken, in `unit` (s, ms, us, ns; not
    needed for dates, and where the name ends with it). rate: rows per second. actions: make the lane action/actions,
    in this order; the other numbers make signal/state, but for those to skip. apart: columns that make a lane each
    instead. sparse: "apart" if all do that lack too many values; references of older archives say nothing. guessed:
    "yes" if the columns say so themselves.
    """

    episode: str = ""
    time: str = ""
    unit: str = ""
    rate: float | None = None
    actions: tuple[str, ...] = ()
    reward: str = ""
    end: str = ""
    success: str = ""
    task: str = ""
    truncated: str = ""
    by: str = ""
    skip: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()
    sparse: str = ""
    guessed: str = ""

    def __post_init__(self) -> None:
        """Check the unit and the rate; raises LayoutError."""
        if self.unit and self.unit not in UNITS:
            raise LayoutError(f"unit of the time column: expected one of {', '.join(UNITS)}, found {self.unit!r}")
        if self.by and self.by not in _BY:
            raise LayoutError(f"episodes of the table: expected one of {', '.join(_BY)}, found {self.by!r}")
        if self.rate is not None and usable_rate(self.rate) is None:
            raise LayoutError(f"rate: expected rows per second, found {self.rate!r}")


def format_options(options: TableOptions) -> str:
    """Return options as text, without those that have their defaults."""
    values = ((one.name, getattr(options, one.name), one.default) for one in fields(options))
    pairs = [(name, value) for name, value, default in values if value != default]
    return urlencode([(name, one) for name, value in pairs for one in (value if name in _LISTS else [value])])


def parse_options(text: str) -> TableOptions:
    """Return the options of a text that format_options made; raises LayoutError."""
    values: dict[str, Any] = {}
    for name, value in parse_qsl(text, keep_blank_values=True):
        if name in _LISTS:
            values[name] = (*values.get(name, ()), value)
        else:
            values[name] = usable_rate(_number(value)) if name == "rate" else value
    if unknown := sorted({*values} - {one.name for one in fields(TableOptions)}):
        raise LayoutError(f"layout: unknown option {unknown[0]!r}")
    return TableOptions(**values)


def describe_options(options: TableOptions) -> str:
    """Return what the columns are, in words."""
    parts = ["by guess" if options.guessed else ""]
    parts += [f"episodes {_BY.get(options.by, 'by column')} {options.episode!r}" if options.episode else "one episode"]
    parts += [f"clock {options.time!r}" if options.time else ""]
    parts += [f"{options.rate:g} Hz" if options.rate else ""]
    parts += [f"actions {shorten_names(options.actions, _WIDTH)}" if options.actions else ""]
    parts += [f"{name} {value!r}" for name in _ROLES if (value := getattr(options, name))]
    parts += [f"sparse {shorten_names(options.apart, _WIDTH)} apart" if options.apart else ""]
    return ", ".join(filter(None, parts))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise LayoutError(f"layout: rate: expected a number, found {text!r}") from None


def adapt(layout: EpisodeLayout, options: TableOptions) -> EpisodeLayout:
    """Return a layout of tables with these columns."""
    named = [ArrayRule(value, role) for name, role in _ROLES.items() if (value := getattr(options, name))]
    unit = options.unit or unit_of_words(_WORD.findall(options.time.lower())[1:])
    named += [ArrayRule(options.time, rules.TIME, unit=unit)] if options.time else []
    of_episodes = options.episode if options.episode not in {rule.pattern for rule in named} else ""
    named += [ArrayRule(name, rules.SKIP) for name in (of_episodes, *options.skip) if name]
    given = {rule.role for rule in named}
    named += [ArrayRule(name, rules.ACTION if name in options.actions else rules.OBSERVATION) for name in options.apart]
    stack: Mapping[str, tuple[str, ...]] = layout.stack
    if options.actions:
        stack = {
            "action/actions": tuple(name for name in options.actions if name not in options.apart),
            **{lane: one for lane, one in stack.items() if lane[:6] != "action"},
        }
    return replace(
        layout,
        episodes=EpisodeRule(options.by or rules.COLUMN, (options.episode,)) if options.episode else layout.episodes,
        arrays=(*named, *(rule for rule in layout.arrays if rule.role not in given)),
        stack=stack,
        is_split=bool(options.sparse),
        required=tuple(rule.pattern for rule in named),
        rate=options.rate or layout.rate,
    )
