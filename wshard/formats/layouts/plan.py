"""What the arrays of a file are by the rules of a layout: which columns make a lane, which names channels have."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from wshard.core.episode.lanes import MAX_GAPS
from wshard.errors import ArrayKindError, LayoutError
from wshard.formats.layouts.columns import Flat, path_in
from wshard.formats.layouts.layout import SKIP, TIME, ArrayRule, split_role

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from wshard.formats.layouts.columns import ArrayFile
    from wshard.formats.layouts.layout import EpisodeLayout


NOT_DESCRIBED: Final = "not in the description"
"""Why an array is left out for which a layout has no rule, where what has none is skipped."""

_MOST_LISTED: Final = 16  # of those, in the metadata of each episode


class ArrayPlan(NamedTuple):
    """Which arrays of a group are read as what.

    stacks: of each lane that is made of columns, its rule, which names them, and those of the columns. single: the
    rules of other arrays by path. undescribed: the paths of those that are NOT_DESCRIBED, the last one for all others.
    """

    stacks: Mapping[str, tuple[ArrayRule, Sequence[ArrayRule]]]
    single: Mapping[str, ArrayRule]
    undescribed: Sequence[str]


def plan_arrays(layout: EpisodeLayout, file: ArrayFile, group: str, where: str) -> ArrayPlan:
    """Return what the arrays of a group are; raises LayoutError for a lane without any."""
    stacks = _find_stacks(layout, file, group, where)
    stacked = {path for names in stacks.values() for path in names}
    rules = {path: layout.rule_of(path) for path in file.paths(group)}
    skipped = [path for path, rule in rules.items() if rule.role == SKIP and path not in stacked]
    undescribed = [path for path in skipped if not layout.names(path)]
    if rest := undescribed[_MOST_LISTED:]:
        undescribed[_MOST_LISTED:] = [f"{len(rest)} others"]
    return ArrayPlan(
        {
            lane: (ArrayRule(lane, *split_role(lane), names=names), [rules[path] for path in names])
            for lane, names in stacks.items()
        },
        {path: rule for path, rule in rules.items() if path not in stacked and rule.role != SKIP},
        undescribed,
    )


def _find_stacks(layout: EpisodeLayout, file: ArrayFile, group: str, where: str) -> dict[str, tuple[str, ...]]:
    """Return the columns that make each lane; raises LayoutError for a lane without any.

    Wildcards stand for columns [rows] of numbers that neither [arrays] nor another lane names; where the layout
    is split, but for those that stand apart.
    """
    paths, used = file.paths(group), set[str]()
    found: dict[str, tuple[str, ...]] = dict.fromkeys(layout.stack, ())
    for wild in (False, True):
        for lane, patterns in layout.stack.items():
            for pattern in patterns:
                is_wild = any(sign in pattern for sign in "*?[") and pattern not in paths
                if is_wild != wild:
                    continue
                fitting = (
                    [path for path in paths if path not in used and fnmatchcase(path, pattern)] if wild else [pattern]
                )
                names = [
                    path
                    for path in fitting
                    if not wild
                    or (
                        not layout.names(path)
                        and _is_plain(file, path_in(group, path))
                        and not (layout.is_split and stands_apart(file, path_in(group, path), lane))
                    )
                ]
                used.update(names)
                found[lane] += tuple(names)
    needed = [*layout.required, *(name for names in found.values() for name in names)]
    if missing := [name for name in needed if name not in paths]:
        raise LayoutError(
            f"{where}: layout {layout.name!r}: expected an array {missing[0]!r}, found {', '.join(paths) or 'none'}"
        )
    return {lane: names for lane, names in found.items() if names}


def stands_apart(file: ArrayFile, path: str, lane: str) -> bool:
    """Return True for a column to be a lane of its own, unless someone wrote that it is one of this lane.

    Too many of its rows lack a value for a lane with it to be compared.
    """
    has_own_name = path != split_role(lane)[1]
    return has_own_name and isinstance(file, Flat) and file.count_gaps(path) > MAX_GAPS * file.column(path).shape[0]


class Stated(NamedTuple):
    """What is stated about a lane: the names of its channels, its unit, the kinds of its channels."""

    names: tuple[str, ...]
    unit: str
    kinds: tuple[str, ...]


def find_stated(path: str, rule: ArrayRule, layout: EpisodeLayout, file: ArrayFile, group: str) -> Stated:
    """Return what a layout and a file state about a lane; the unit is that of its array, or of all its columns."""
    names = given_names(rule, file, (group, layout.root, ""))
    if rule.role == TIME or rule.unit:
        return Stated(names, "" if rule.role == TIME else rule.unit, rule.kinds)
    paths = rule.names if path in layout.stack else (path,)
    units = {file.unit(path_in(group, one)) for one in paths}
    return Stated(names, units.pop() if len(units) == 1 else "", rule.kinds)


def given_names(rule: ArrayRule, file: ArrayFile, groups: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the channels of an array: listed, or those of the attribute "@NAME" or the array of texts."""
    if len(rule.names) != 1:
        return rule.names
    (name,) = rule.names
    for group in dict.fromkeys(groups):
        if name.startswith("@"):
            value = file.attributes(group).get(name[1:])
            if isinstance(value, list):
                return tuple(map(str, value))
        elif name in file.paths(group):
            column = file.column(path_in(group, name))
            if column.dtype.kind not in "OSU":
                continue
            texts = np.asarray(column[()]).reshape(-1).tolist()
            return tuple(text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text) for text in texts)
    return () if name.startswith("@") or "/" in name else rule.names


def _is_plain(file: ArrayFile, path: str) -> bool:
    try:
        column = file.column(path)
    except ArrayKindError:
        return False
    return len(column.shape) == 1 and column.dtype.kind in "biuf"
