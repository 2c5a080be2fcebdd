"""The index columns of a Lance table: which episode and step each row is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.errors import FormatError
from wshard.formats.world_model.columns import RowSpan
from wshard.formats.world_model.lance_tables import EPISODE, STEP

if TYPE_CHECKING:
    from wshard.core.types import Array

UNKNOWN: Final = -1
"""The step of a row that cannot be read."""


def read_index(table: Any) -> tuple[Array, Array | None]:
    """Return episode and step of each row of a table or a fragment, no steps if it has none."""
    names = [EPISODE, *([STEP] if STEP in table.schema.names else [])]
    rows = table.to_table(columns=names)
    columns = [rows.column(name).to_numpy() for name in names]
    return columns[0], (columns[1] if len(columns) > 1 else None)


def spans_of(numbers: Array, steps: Array | None, where: str) -> dict[str, RowSpan]:
    """Return the rows of each episode by its number; damaged where its steps are not 0, 1, 2, ... in the order of rows.

    Raises FormatError for rows of an episode that are apart, and for other columns than of whole numbers.
    """
    for name, column in ((EPISODE, numbers), (STEP, steps)):
        if column is not None and column.dtype.kind not in "iu":
            raise FormatError(f"{where}: {name}: expected whole numbers, found {column.dtype}")
    cuts = np.flatnonzero(numbers[1:] != numbers[:-1]) + 1
    starts = np.concatenate(([0], cuts)) if len(numbers) else cuts
    stops = np.concatenate((cuts, [len(numbers)])) if len(numbers) else cuts
    names = numbers[starts]
    if np.any(names[1:] <= names[:-1]):
        raise FormatError(f"{where}: {EPISODE}: expected the rows of an episode one after the other")
    damages = {} if steps is None else _damages(steps.astype(np.int64), starts, stops)
    spans = zip(names.tolist(), starts.tolist(), stops.tolist(), strict=True)
    return {str(name): RowSpan(name, start, stop, damages.get(at, "")) for at, (name, start, stop) in enumerate(spans)}


def _damages(steps: Array, starts: Array, stops: Array) -> dict[int, str]:
    """Return what is wrong with the first wrong step of episodes, by their place."""
    expected = np.arange(len(steps)) - np.repeat(starts, stops - starts)
    wrong = np.flatnonzero((steps != expected) & (steps != UNKNOWN))
    places, firsts = np.unique(np.searchsorted(starts, wrong, "right") - 1, return_index=True)
    return {
        place: f"{STEP}: expected {expected[row]} in row {row}, found {steps[row]}: rows were moved, deleted or "
        f"doubled; write the table again in the order of {EPISODE} and {STEP}"
        for place, row in zip(places.tolist(), wrong[firsts].tolist(), strict=True)
    }
