"""What programs give as arguments, checked: whole numbers, spans of timesteps, arrays, files.

Does not know: what the arguments are for.
"""

from __future__ import annotations

import operator
import reprlib
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from wshard.errors import EpisodeError, FormatError, StepError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wshard.errors import WShardError


def integer(value: object) -> int | None:
    """Return a whole number, of Python or of numpy, as an int; None for anything else, True and False too."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type]  # others are refused below
    except TypeError:
        return None


def timesteps(given: object, where: str, error: type[WShardError]) -> int:
    """Return a number of timesteps, 1 or more; raises `error` for anything else."""
    steps = integer(given)
    if steps is None or steps < 1:
        raise error(f"{where}: expected a whole number of timesteps, at least 1, found {given!r}")
    return steps


def span(start: object, stop: object, length: int, where: str) -> range:
    """Return the timesteps [start, stop) of `length`; raises StepError unless 0 <= start < stop <= length."""
    first, end = integer(start), integer(stop)
    if first is None or end is None or not 0 <= first < end <= length:
        found = f"{reprlib.repr(start)}, {reprlib.repr(stop)}"
        raise StepError(f"{where}: expected whole numbers 0 <= start < stop <= {length}, found {found}")
    return range(first, end)


def array_of(values: Any, where: str) -> NDArray[Any]:
    """Return values as an array; raises EpisodeError for rows of different lengths, and for masked elements.

    No file can hold a mask: what it hides would come back as if it had been measured.
    """
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise EpisodeError(f"{where}: expected an array: {error}") from None
    if hasattr(values, "mask") and np.ma.is_masked(values):
        raise EpisodeError(
            f"{where}: expected an array without masked elements: fill them (numpy.ma.filled) or cut them"
        )
    return array


def file_object(given: Any, verb: str) -> IO[bytes]:
    """Return a file object, which has the verb "read" or "write"; raises FormatError for anything else."""
    if not hasattr(given, verb):
        raise FormatError(f"expected a path or a binary file object, found {reprlib.repr(given)}")
    file: IO[bytes] = given
    return file
