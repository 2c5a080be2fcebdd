"""The rows of one episode in the arrays of a file."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from wshard.errors import ArrayKindError, FormatError, LayoutError
from wshard.formats.layouts import layout as rules
from wshard.formats.layouts.cameras import listed_images
from wshard.formats.layouts.columns import of_batch, path_in, rows_of, stacked, taken, turned, value_of
from wshard.formats.layouts.layout import ACTION, ArrayRule
from wshard.formats.layouts.plan import NOT_DESCRIBED
from wshard.formats.layouts.step_values import as_flags, at_last_step, nanoseconds, read_by_rule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wshard.formats.layouts.columns import ArrayFile, RowArray
    from wshard.formats.layouts.episodes import EpisodeSlice
    from wshard.formats.layouts.layout import EpisodeLayout
    from wshard.formats.layouts.plan import ArrayPlan

MUST_FIT: Final = frozenset((ACTION, rules.REWARD, rules.END, rules.TRUNCATED, rules.TIME))
"""Roles of arrays that must have a row per timestep."""

PICKLED: Final = "pickled objects, which are never loaded"
_UNPICKLE: Final = (
    "for a file that you trust, `python -c \"import numpy as np; found = np.load('FILE.npz', allow_pickle=True); "
    "np.savez('NEW.npz', **{name: np.array(found[name].tolist()) for name in found})\"` writes numbers"
)
_NUMBERS: Final = MUST_FIT | {rules.OBSERVATION, rules.FINAL}


class EpisodeArrays:
    """The rows of one episode in the arrays of a file. counts: of the rows, and of the episodes, of the file."""

    def __init__(
        self, layout: EpisodeLayout, episode: EpisodeSlice, file: ArrayFile, counts: tuple[int, int], where: str
    ) -> None:
        self._layout, self._episode, self._file, self._where = layout, episode, file, where
        self._count, self._episodes = counts

    def of(self, path: str, rule: ArrayRule) -> tuple[Any, bool]:
        """Return the rows of an array that belong to the episode, and False; or its value, or that of all, and True."""
        ref, by = self._episode, self._layout.episodes.by
        column = self._file.column(path_in(ref.group, path))
        if self._layout.has_groups or not column.shape:
            return column, False
        if by == rules.ROW:
            return self._of_batch(column)
        count, stop = column.shape[0], ref.stop or 0
        if count == self._count:
            return taken(column, ref.rows) if ref.rows is not None else rows_of(column, ref.start, stop), False
        if rule.extra and count == self._count + rule.extra * self._episodes:
            start = ref.start + rule.extra * ref.number
            return rows_of(column, start, start + stop - ref.start + rule.extra), False
        if count == self._episodes:
            return value_of(column, ref.number), True
        if rule.role in MUST_FIT or rule.extra:
            raise FormatError(f"{self._where}: {path!r}: expected {self._count} rows, found {list(column.shape)}")
        return column, True

    def readable(self, path: str, rule: ArrayRule) -> tuple[ArrayRule, Any]:
        """Return an array as `of` and its rule say, and the rule; or why it cannot be read, if the layout needs it not.

        Raises FormatError for needed ones.
        """
        layout = self._layout
        is_needed = rule.role in _NUMBERS and layout.names(path)
        try:
            column, once = self.of(path, rule)
        except ArrayKindError as error:
            if is_needed:
                advice = layout.advice or (_UNPICKLE if PICKLED in str(error) else "")
                raise ArrayKindError(f"{error}; {advice}" if advice else str(error)) from None
            return rule, PICKLED if PICKLED in str(error) else f"expected {str(error).partition(': expected ')[2]}"
        column = read_by_rule(column, rule)
        if rule.role in (rules.END, rules.TRUNCATED, rules.SUCCESS):
            column = as_flags(column, f"{self._where}: {path!r}")
        if is_needed and layout.advice and column.dtype.kind not in "biuf":
            raise FormatError(f"{self._where}: {path!r}: expected numbers, found {column.dtype}; {layout.advice}")
        if once:
            return replace(rule, once=True), column
        return rule, turned(column) if rule.axis and len(column.shape) > 1 else column

    def views(self, plan: ArrayPlan) -> dict[str, tuple[ArrayRule, Any]]:
        """Return {path: (rule, rows of the episode)}, or in place of rows why they cannot be read."""
        where = self._where
        views: dict[str, tuple[ArrayRule, Any]] = {}
        for lane, (rule, parts) in plan.stacks.items():
            columns = [read_by_rule(self.of(path, part)[0], part) for path, part in zip(rule.names, parts, strict=True)]
            views[lane] = rule, stacked(columns, f"{where}: {lane}")
        for path, stated in plan.single.items():
            rule, column = self.readable(path, stated)
            if not isinstance(column, str):
                if 0 in column.shape[1:]:  # rows without values
                    continue
                if rule.files:
                    column = listed_images(column, self._episode.file, f"{where}: {path!r}")
                elif rule.role == rules.TIME and column.shape:
                    column = nanoseconds(column, rule.unit or "s", f"{where}: {path!r}")
            views[path] = rule, column
        for path, (rule, column) in views.items():
            if rule.role in (rules.END, rules.TRUNCATED) and not column.shape:
                length = count_steps(self._layout.episodes.steps, views, where)
                views[path] = replace(rule, once=False), at_last_step(column, length)
        return views | {path: (ArrayRule(path, rules.SKIP), NOT_DESCRIBED) for path in plan.undescribed}

    def _of_batch(self, column: RowArray) -> tuple[Any, bool]:
        ref, axis = self._episode, self._layout.episodes.axis
        shape, length = column.shape, ref.stop or 0
        if len(shape) > 1 and shape[axis] == self._episodes and shape[1 - axis] in (self._count, self._count + 1):
            has_final = shape[1 - axis] == self._count + 1
            return of_batch(column, ref.number, axis, length + has_final), False
        return (value_of(column, ref.number) if shape[0] == self._episodes else column), True


def has_steps(column: Any, length: int, rule: ArrayRule, *, is_short: bool) -> bool:
    """Return True for a row per timestep; or one more of observations, or if the last row is no timestep: is_short.

    Metadata have one if they are texts, which may change from timestep to timestep.
    """
    if rule.role == rules.METADATA and not (len(column.shape) == 1 and column.dtype.kind in "OSU"):
        return False
    more = is_short or rule.extra or rule.role not in MUST_FIT or rule.role == rules.TIME
    return bool(column.shape) and not rule.once and length <= column.shape[0] - rule.first <= length + bool(more)


def count_steps(steps: str, views: Mapping[str, tuple[ArrayRule, Any]], where: str) -> int:
    """Return the number of rows of an episode: of the array of timesteps, of actions, or of most arrays."""
    if steps:
        if isinstance(views.get(steps, (None, ""))[1], str):
            raise LayoutError(f"{where}: expected an array {steps!r}, whose rows are the timesteps, found none")
        return int(views[steps][1].shape[0])
    columns = ((rule, column) for rule, column in views.values() if not isinstance(column, str) and column.shape)
    with_rows = [(rule, column.shape[0]) for rule, column in columns if column.size and not rule.once]
    for rule, count in with_rows:
        if rule.role == ACTION:
            return int(count)
    counts = Counter(count for rule, count in with_rows if rule.role != rules.METADATA)
    if not counts:
        raise FormatError(f"{where}: expected arrays with a row per timestep, found none")
    return int(counts.most_common(1)[0][0])
