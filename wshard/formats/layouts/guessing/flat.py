"""Where the episodes are in rows of all episodes, one after another."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np

from wshard.formats.layouts import layout as rules
from wshard.formats.layouts.guessing import names
from wshard.formats.layouts.guessing.boundaries import Boundary, boundaries_of, ends_boundary, weak_boundaries
from wshard.formats.layouts.guessing.readings import EpisodeGuess, EpisodeReading
from wshard.formats.layouts.guessing.survey import FLAGS, NUMBERS
from wshard.formats.layouts.layout import EpisodeRule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wshard.core.types import Array
    from wshard.formats.layouts.guessing.survey import ArrayFacts

_OF_STEPS: Final = (names.REWARD, names.END, names.LAST, names.TRUNCATED, names.TIME, names.COUNTER)
_NOT_ROWS: Final = (names.LENGTHS, names.STOPS, names.STATISTIC)


def count_rows(arrays: Sequence[ArrayFacts]) -> int:
    """Return the number of timesteps: of the actions, of rewards, ends and times, else of most arrays; 0 for none."""
    for meanings in ((names.ACTION,), _OF_STEPS):
        counts = Counter(one.rows for one in arrays if one.meaning in meanings and one.rows > 1)
        if counts:
            return counts.most_common(1)[0][0]
    counts = Counter(one.rows for one in arrays if one.rows > 1 and one.meaning not in _NOT_ROWS)
    return max(counts, key=lambda rows: (counts[rows], rows), default=max((one.rows for one in arrays), default=0))


def find_in_rows(arrays: Sequence[ArrayFacts], labels: Mapping[str, Array]) -> EpisodeGuess:
    """Return where the episodes are. labels: the values of columns that may tell episodes apart."""
    rows = count_rows(arrays)
    found, doubts = boundaries_of(arrays, labels, rows)
    ends = ends_boundary(arrays, rows)
    chosen = _distinct(found)
    if not chosen:
        doubts += ends.doubts if ends is not None else ()
        more = _distinct(weak_boundaries(arrays, labels, rows))
        chosen = [ends] if ends is not None and ends.count > 1 else [_whole(ends)]
        chosen += [one for one in more if not one.equals(chosen[0]) and one.count > chosen[0].count]
    elif ends is not None and not all(ends.agrees_with(one) for one in chosen):
        chosen.append(ends)
    first = chosen[0]
    doubts += tuple(f"{one.path!r}: too long to be read for a guess" for one in arrays if one.is_cut)
    doubts += tuple(
        f"{one.path!r}: not set in all rows, and rows cannot be left out"
        for one in arrays
        if one.meaning == names.MASK and one.kind == FLAGS and one.rows == rows and one.values is not None
        if not one.values.all()
    )
    doubts += _strays(arrays, rows, first.count, is_flat=first.rule.by != rules.FILE)
    if first.is_scattered and any(one.rows == rows + first.count for one in arrays):
        doubts += ("arrays with one row more for each episode cannot be split where rows of episodes are mixed",)
    readings = tuple(EpisodeReading(one.rule, one.count, one.why) for one in chosen)
    evidence = {name: one.why for one in (*found, *([ends] if ends else [])) for name in one.rule.arrays}
    return EpisodeGuess(readings, rows, doubts, evidence)


def _whole(ends: Boundary | None) -> Boundary:
    """Return all rows as one episode."""
    reason = ends.why if ends is not None else "no array says where others begin"
    return Boundary(EpisodeRule(), np.zeros(1, np.int64), 1, f"one episode: {reason.removeprefix('1 episode: ')}")


def _distinct(found: Sequence[Boundary]) -> list[Boundary]:
    """Return the first of those that say the same."""
    chosen: list[Boundary] = []
    for one in found:
        if not any(one.equals(other) for other in chosen):
            chosen.append(one)
    return chosen


def _strays(arrays: Sequence[ArrayFacts], rows: int, count: int, *, is_flat: bool) -> tuple[str, ...]:
    """Return doubts about arrays whose rows are neither those of timesteps nor of episodes."""
    known = {rows, rows + 1} if not is_flat else {rows, rows + count, count}
    strays = [one for one in arrays if one.rows > 1 and one.rows not in known and one.meaning not in _NOT_ROWS]
    has_actions = any(one.meaning == names.ACTION and one.rows == rows for one in arrays)
    many = [one for one in strays if len(one.shape) > 1 or one.kind == NUMBERS]
    more = [one.path for one in many if rows + 1 < one.rows <= rows + max(2, rows // 4)]
    if more:
        return (f"{', '.join(map(repr, more))}: more rows than the {rows} timesteps, and no array says why",)
    if has_actions or not many:
        return ()
    return (f"{', '.join(repr(one.path) for one in many)}: other numbers of rows than {rows}: which are timesteps?",)
