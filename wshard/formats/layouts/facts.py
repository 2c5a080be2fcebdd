"""What is stated once for an episode: metadata, and of them task, success, environment and id."""

from __future__ import annotations

import json
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from wshard.errors import FormatError
from wshard.formats.layouts import layout as rules
from wshard.formats.layouts.episode_arrays import MUST_FIT
from wshard.formats.layouts.layout import ArrayRule
from wshard.formats.layouts.step_values import is_true

if TYPE_CHECKING:
    from wshard.formats.hdf5.lane_table import LaneTable
    from wshard.formats.layouts.layout import EpisodeLayout

_MOST_CONSTANT: Final = 16  # rows of a matrix that is stated once, such as that of a camera
_TEXTS: Final = (rules.TASK, rules.ENVIRONMENT, rules.ID)


class EpisodeFacts:
    """Adds what is stated once to the metadata of an episode, and gives it its meaning."""

    def __init__(self, layout: EpisodeLayout, table: LaneTable) -> None:
        self._layout, self._table = layout, table
        self._texts: dict[str, Any] = {}

    @property
    def id(self) -> str:
        """What the data state as the id, "" if they do not."""
        return str(self._texts.get(rules.ID) or "")

    @property
    def environment(self) -> str:
        """What the data or the layout state as the environment."""
        return str(self._texts.get(rules.ENVIRONMENT, self._layout.constants.get(rules.ENVIRONMENT, "")))

    def add_array(self, path: str, rule: ArrayRule, column: Any) -> None:
        """Add an array without a row per timestep; raises FormatError where there has to be one."""
        table = self._table
        if rule.role in MUST_FIT or rule.files:
            raise FormatError(
                f"{table.where}: {path!r}: expected {table.length} rows, one for each timestep, "
                f"found {list(column.shape)}"
            )
        if rule.role == rules.OBSERVATION and _is_series(column, table.length):
            table.leave_out(path, f"{column.dtype} {list(column.shape)} for {table.length} timesteps")
            return
        name = rule.name or path
        table.add_constant(name, column)
        self._note(name, rule)

    def add_attribute(self, name: str, value: Any) -> None:
        """Add an attribute, or a member of a JSON file, by the rule of "@NAME"."""
        rule = next((rule for rule in self._layout.arrays if _is_attribute(rule, name)), None)
        rule = rule or ArrayRule(f"@{name}", rules.METADATA, name)
        if rule.role != rules.SKIP:
            self._table.metadata[rule.name or name] = value
            self._note(rule.name or name, rule)

    def _note(self, name: str, rule: ArrayRule) -> None:
        """Give a value of the metadata its meaning."""
        metadata = self._table.metadata
        value = metadata.get(name)
        is_first = isinstance(value, list) and (len(value) == 1 or (rule.role == rules.TASK and value))
        value = value[0] if is_first and isinstance(value, list) else value
        if rule.role == rules.SUCCESS and value is not None:
            where = f"{self._table.where}: {name!r}"
            metadata["success"] = is_true(value, where) if isinstance(value, str) else bool(value)
        elif rule.role == rules.TASK and isinstance(value, str) and _first_phrase(value):
            metadata["task"] = _first_phrase(value)
        elif rule.role in _TEXTS and value is not None:
            self._texts[rule.role] = value


def _is_series(column: Any, length: int) -> bool:
    """Return True for numbers of another count or rate of timesteps, rather than a matrix that is stated once."""
    rows = column.shape[0] if column.shape else 0
    return column.dtype.kind in "biuf" and rows > max(_MOST_CONSTANT, length // 2)


def _is_attribute(rule: ArrayRule, name: str) -> bool:
    return rule.pattern.startswith("@") and fnmatchcase(f"@{name}", rule.pattern)


def _first_phrase(text: str) -> str:
    """Return a text, or the first one of a list in JSON."""
    with suppress(ValueError, RecursionError):
        listed = json.loads(text) if text.startswith('["') else None
        if isinstance(listed, list) and isinstance(listed[0], str):
            return listed[0]
    return text
