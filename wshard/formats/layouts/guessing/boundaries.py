"""What single arrays say about where episodes begin, in rows of all episodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from wshard.core.messages import plural
from wshard.formats.layouts import layout as rules
from wshard.formats.layouts.guessing import names
from wshard.formats.layouts.guessing.clock import count_unpadded
from wshard.formats.layouts.guessing.survey import FLAGS, TEXT
from wshard.formats.layouts.layout import EpisodeRule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from wshard.core.types import Array
    from wshard.formats.layouts.guessing.survey import ArrayFacts

_DENSE: Final = 3  # rows at a time of episodes whose rows are mixed


@dataclass(frozen=True, eq=False)
class Boundary:
    """Where episodes begin according to an array, and why. starts: first rows. count: of the episodes.

    is_scattered: the rows of an episode are not together. doubts: what speaks against it.
    """

    rule: EpisodeRule
    starts: Array
    count: int
    why: str
    is_scattered: bool = False
    doubts: tuple[str, ...] = ()
    stays: Array | None = None  # flags that stay set until the end

    def equals(self, other: Boundary) -> bool:
        """Return True if both say the same."""
        return self.is_scattered == other.is_scattered and np.array_equal(self.starts, other.starts)

    def agrees_with(self, other: Boundary) -> bool:
        """Return True for ends of episodes that are all at boundaries of the other, which may have more."""
        inner = self.starts[~np.isin(self.starts, other.starts)]
        # inside of an episode, a flag may stay set until its end
        return not len(inner) or (self.stays is not None and bool(np.isin(inner, self.stays).all()))


def _named(rule: str, facts: ArrayFacts, starts: Array, why: str) -> Boundary:
    text = f"{plural(len(starts), 'episode')}: {facts.path!r} {why}"
    return Boundary(EpisodeRule(rule, (facts.path,)), starts, len(starts), text)


def boundaries_of(
    arrays: Sequence[ArrayFacts], labels: Mapping[str, Array], rows: int
) -> tuple[list[Boundary], tuple[str, ...]]:
    """Return what arrays say, the clearest first, and doubts: arrays whose names say more than their values."""
    found: list[Boundary] = []
    doubts = [
        f"{one.path!r}: rows of several of them are mixed"
        for one in arrays
        if one.meaning == names.ENVIRONMENT and one.rows == rows and one.numbers is not None and np.ptp(one.numbers)
    ]
    clocks = [one for one in arrays if one.rows == rows and one.meaning in (names.TIME, names.COUNTER)]
    for facts in arrays:
        if facts.meaning == names.EPISODE and facts.rows == rows and facts.path in labels:
            found += _by_column(facts, labels[facts.path], clocks, doubts)
    for find in (_lengths, _stops):
        for facts in arrays:
            if facts.numbers is not None and facts.rows != rows:
                found += find(facts, facts.numbers.astype(np.int64), rows, doubts)
    found = _pair_up(found, arrays, rows, doubts)
    for facts in arrays:
        if facts.meaning == names.STARTS and facts.kind == FLAGS and facts.rows == rows and facts.numbers is not None:
            starts = np.flatnonzero(facts.numbers)
            if len(starts) and starts[0] == 0:
                found.append(_named(rules.STARTS, facts, starts, "is set in their first rows"))
            elif len(starts):
                doubts.append(f"{facts.path!r}: named as starts of episodes, but not set in the first row")
    found += _restarts(clocks)
    return found, tuple(doubts)


def _by_column(facts: ArrayFacts, values: Array, clocks: Sequence[ArrayFacts], doubts: list[str]) -> Iterator[Boundary]:
    starts = np.append(0, np.flatnonzero(values[1:] != values[:-1]) + 1)
    unique, rows = len(np.unique(values)), len(values)
    if unique > rows // 2 and rows > 2:  # else it counts rows
        return
    if unique == len(starts):
        yield _named(rules.COLUMN, facts, starts, "has one value for each")
        return
    text = f"{plural(unique, 'episode')}: {facts.path!r} has their values, and their rows are mixed"
    if rows / len(starts) >= _DENSE:
        doubts.append(f"{facts.path!r}: values come again later: the same episode goes on, or another one begins")
    for clock in clocks:
        times = clock.numbers if clock.numbers is not None else clock.values
        if times is None or len(times) != rows:
            continue
        order = np.argsort(values, kind="stable")
        same = values[order][1:] == values[order][:-1]
        if (np.diff(times[order])[same] <= np.zeros(1, np.diff(times).dtype)).any():
            doubts.append(f"{facts.path!r}: the rows of a value are not in the order of {clock.path!r}")
    yield Boundary(EpisodeRule(rules.COLUMN, (facts.path,)), starts, unique, text, is_scattered=True)


def _lengths(facts: ArrayFacts, values: Array, rows: int, doubts: list[str]) -> Iterator[Boundary]:
    is_named = facts.meaning == names.LENGTHS
    if len(values) and values.min() > 0 and values.sum() == rows and (is_named or len(values) > 1):
        yield _named(rules.LENGTHS, facts, np.append(0, np.cumsum(values)[:-1]), f"has their lengths, {rows} in sum")
    elif is_named and len(values) and facts.is_column:
        doubts.append(f"{facts.path!r}: named as lengths, but their sum is {values.sum()}, not the {rows} rows")


def _stops(facts: ArrayFacts, values: Array, rows: int, doubts: list[str]) -> Iterator[Boundary]:
    is_named, is_first = facts.meaning in (names.STOPS, names.STARTS), facts.meaning == names.STARTS
    is_growing = len(values) > 0 and values[0] >= 0 and bool((np.diff(values) > 0).all()) and values[-1] <= rows
    if not is_growing or not (is_named or (values[-1] == rows and len(values) > 1)):
        if is_named and facts.rows > 1 and facts.is_column:
            doubts.append(f"{facts.path!r}: named as places of episodes, but its numbers are no places in {rows} rows")
        return
    starts = np.unique(np.append(0, values[values < rows]))
    if values[-1] == rows - 1 and not is_first:
        doubts.append(f"{facts.path!r}: last rows of episodes, or the rows after them: its last number is {rows - 1}")
    why = "has their first rows" if values[0] == 0 and values[-1] < rows else "has the rows where they stop"
    yield _named(rules.STOPS, facts, starts, why)


def _pair_up(found: list[Boundary], arrays: Sequence[ArrayFacts], rows: int, doubts: list[str]) -> list[Boundary]:
    """Return boundaries where an array of first rows and one of last rows, or of the rows after them, are one."""
    places = {one.path: one.numbers.astype(np.int64) for one in arrays if one.numbers is not None}
    stops = {one.rule.arrays[0]: one for one in found if one.rule.by == rules.STOPS}
    for first, last in ((first, last) for first in stops for last in stops if first != last):
        begins, ends = places[first], places[last]
        if begins[0] != 0 or len(begins) != len(ends) or (ends < begins).any():
            continue
        if np.array_equal(ends + 1, np.append(begins[1:], rows)):  # of last rows
            doubts[:] = [text for text in doubts if not text.startswith(f"{last!r}:")]
            return [one for one in found if one is not stops[last]]
        if (begins[1:] > ends[:-1]).any() and (begins[1:] >= ends[:-1]).all() and ends[-1] == rows:
            why = f"{plural(len(begins), 'episode')}: {first!r} and {last!r} have their first rows and where they stop"
            pair = Boundary(EpisodeRule(rules.BOUNDS, (first, last)), begins, len(begins), why)
            return [pair, *(one for one in found if one not in (stops[first], stops[last]))]
    return found


def _restarts(clocks: Sequence[ArrayFacts]) -> Iterator[Boundary]:
    for facts in clocks:
        values = facts.numbers if facts.numbers is not None else facts.values
        if values is None or len(values) != facts.rows or not facts.is_column:
            continue
        values = values[: count_unpadded(values)]
        falls = np.flatnonzero(values[1:] < values[:-1]) + 1
        if len(falls) and facts.kind != FLAGS:
            yield _named(rules.RESTARTS, facts, np.append(0, falls), "begins anew in each")


def ends_boundary(arrays: Sequence[ArrayFacts], rows: int) -> Boundary | None:
    """Return where flags say that episodes end, None if there are none that are set."""
    meanings = (names.LAST, names.END, names.TRUNCATED, names.STOPS)
    flags = [
        one
        for meaning in meanings
        for one in arrays
        if one.meaning == meaning and one.kind == FLAGS and one.rows == rows and one.numbers is not None
    ]
    set_flags = [(one, one.numbers != 0) for one in flags if one.numbers is not None]
    if not set_flags:
        return None
    merged = np.logical_or.reduce([values for _, values in set_flags])
    alone = [one for one, values in set_flags if np.array_equal(values, merged)]
    used = alone[:1] or [one for one, values in set_flags if values.any()]
    starts = np.append(0, np.flatnonzero(merged[:-1]) + 1)
    paths = ", ".join(repr(one.path) for one in used)
    doubts = _doubts_about(flags, merged, paths)
    text = f"{plural(len(starts), 'episode')}: {paths} {'is' if len(used) == 1 else 'are'} set in their last rows"
    if not merged.any():
        text = f"{paths} is set in no row"
    stays = np.flatnonzero(merged[:-1] & merged[1:]) + 1
    rule = EpisodeRule(rules.ENDS, tuple(one.path for one in used))
    return Boundary(rule, starts, len(starts), text, doubts=doubts, stays=stays)


def _doubts_about(flags: Sequence[ArrayFacts], merged: Array, paths: str) -> tuple[str, ...]:
    if (merged[:-1] & merged[1:]).any():
        return (f"{paths}: set in rows that follow each other: episodes of one row, or one that has ended and goes on",)
    if merged[0] and not merged[-1] and len(merged) > 1:
        return (f"{paths}: set in the first row and not in the last: starts of episodes, or their ends",)
    is_partial = all("termin" in one.path.lower() for one in flags) and merged.any() and not merged[-1]
    if is_partial:
        return (f"{paths}: the last row is not an end: other episodes may end without one, too (none has timeouts)",)
    return ()


def weak_boundaries(arrays: Sequence[ArrayFacts], labels: Mapping[str, Array], rows: int) -> list[Boundary]:
    """Return where columns whose names say nothing may begin episodes: counters, and values that stay for some rows."""
    known = (names.UNKNOWN, names.COUNTER, names.ID, names.TASK, names.TASK_NUMBER, names.EPISODE)
    found: list[Boundary] = []
    for facts in arrays:
        values = labels.get(facts.path)
        if values is not None and len(values) == rows >= _DENSE and facts.kind != FLAGS and facts.meaning in known:
            found += _weak_boundary(facts, values)
    return found


def _weak_boundary(facts: ArrayFacts, values: Array) -> Iterator[Boundary]:
    steps = np.diff(values.astype(np.int64))
    begins = np.flatnonzero(steps != 1) + 1
    if not steps.any():
        return  # one value in all rows
    if facts.meaning == names.UNKNOWN and len(begins) and (values[begins] == values[0]).all():
        yield _named(rules.RESTARTS, facts, np.append(0, begins), "begins anew in each")
        return
    starts = np.append(0, np.flatnonzero(steps) + 1)
    is_unique = len(np.unique(values)) == len(starts) > 1
    is_counter = facts.kind == TEXT or bool((steps[steps != 0] == 1).all())
    if is_unique and is_counter and np.diff(np.append(starts, len(values))).min() > 1:
        yield _named(rules.COLUMN, facts, starts, "has one value for each")
