"""The episodes of the rows of a Lance table of which files cannot be read."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from wshard.errors import FormatError
from wshard.formats.world_model.lance_index import UNKNOWN, read_index

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from wshard.core.types import Array


class FragmentRows(NamedTuple):
    """The rows of a fragment: how many, their episodes and steps, none where they cannot be read."""

    length: int
    numbers: Array | None
    steps: Array | None = None


def read_fragments(table: Any, translate: Callable[[], AbstractContextManager[None]]) -> list[FragmentRows]:
    """Return the rows of the fragments that have any; translate: raises FormatError for errors of the library."""
    found = []
    for fragment in table.get_fragments():
        length = fragment.count_rows()
        try:
            with translate():
                if length:
                    found.append(FragmentRows(length, *read_index(fragment)))
        except FormatError:
            found.append(FragmentRows(length, None))
    return found


def damaged_rows(fragments: Sequence[FragmentRows]) -> list[tuple[int, int]]:
    """Return the rows [start, stop) of each unreadable fragment."""
    stops = accumulate(rows.length for rows in fragments)
    return [(stop - rows.length, stop) for rows, stop in zip(fragments, stops, strict=True) if rows.numbers is None]


def guess_numbers(fragments: Sequence[FragmentRows]) -> Array:
    """Return the episode of each row; unreadable rows are those of the episodes that can be in them.

    These are the one before, which may go on there, those that are nowhere else, and the one after if it begins there.
    Some fragment must be readable.
    """
    found: list[Array] = []
    for place, rows in enumerate(fragments):
        numbers = rows.numbers
        if numbers is None:
            before = int(found[-1][-1]) if found else None
            later = next((one for one in fragments[place:] if one.numbers is not None), None)
            numbers = _owners(rows.length, before, later)
        found.append(numbers)
    return np.concatenate(found)


def known_steps(fragments: Sequence[FragmentRows]) -> Array | None:
    """Return the step of each row, UNKNOWN in unreadable ones; None for a table without steps."""
    steps = [rows.steps for rows in fragments]
    if all(found is None for found in steps):
        return None
    filled = [np.full(rows.length, UNKNOWN) if rows.steps is None else rows.steps for rows in fragments]
    return np.concatenate(filled)


def _owners(count: int, before: int | None, later: FragmentRows | None) -> Array:
    first = 0 if before is None else before + 1
    owners = [] if before is None else [before]
    if later is not None and later.numbers is not None:
        after = int(later.numbers[0])
        owners += range(first, min(after, first + count))
        owners += [after] if (later.steps is not None and later.steps[0]) or not owners else []
    owners = owners[:count]
    return np.array(owners + owners[-1:] * (count - len(owners)), np.int64)
