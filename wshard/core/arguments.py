"""Validate arguments and convert them to plain values: integers, floats, texts, spans of timesteps, arrays."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterable
from fractions import Fraction
from numbers import Real
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from wshard.core.messages import shown
from wshard.errors import EpisodeError, FilterError, FormatError, StepError

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


def parse_size(text: str) -> int | None:
    """Return the bytes of 4096, 500MB (powers of 1000) or 1.5GiB (of 1024); None unless they are a whole number."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?", text.strip(), re.IGNORECASE | re.ASCII)
    if match is None or (match[3] and not match[2]):
        return None
    size = Fraction(match[1]) * (1024 if match[3] else 1000) ** " kmgt".index(match[2].lower() or " ")
    return int(size) if size.denominator == 1 else None


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
        raise StepError(
            f"{where}: expected whole numbers 0 <= start < stop <= {length}, found {shown(start)}, {shown(stop)}"
        )
    return range(first, end)


def array_of(values: Any, where: str, error: type[WShardError] = EpisodeError) -> NDArray[Any]:
    """Return values as an array; raises `error` for masked elements, and for values that numpy cannot convert.

    No file can store a mask: masked values would be read back as if measured; searches do not support masks either.
    """
    parts = values if isinstance(values, list | tuple) else (values,)
    if any(hasattr(part, "mask") and np.ma.is_masked(part) for part in parts):
        raise error(f"{where}: expected an array without masked elements: fill them (numpy.ma.filled) or cut them")
    try:
        return np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as refused:  # the latter of tensors: of other dtypes, with gradients
        raise error(f"{where}: expected an array: {refused}") from None


def file_object(given: Any, verb: str) -> IO[bytes]:
    """Return a file object, which has the verb "read" or "write"; raises FormatError for anything else."""
    if not hasattr(given, verb):
        raise FormatError(f"expected a path or a binary file object, found {shown(given)}")
    file: IO[bytes] = given
    return file


def whole_number(value: Any, what: str, error: type[WShardError], *, least: int | None = None) -> int:
    """Return a whole number of any library as an int; raises `error` for anything else, and for one below `least`."""
    number = integer(value)
    if number is None:
        raise error(f"{what}: expected a whole number, found {shown(value)}")
    if least is not None and number < least:
        raise error(f"{what}: expected at least {least}, found {number}")
    return number


def whole_numbers(values: Any, what: str, error: type[WShardError]) -> list[int]:
    """Return several whole numbers of any library as ints; raises `error` for anything else."""
    if not isinstance(values, Iterable) or isinstance(values, str | bytes):
        raise error(f"{what}: expected several whole numbers, found {shown(values)}")
    listed = list(values)
    if set(map(type, listed)) <= {int}:
        return listed
    return [whole_number(value, what, error) for value in listed]


def episode_ids(ids: Iterable[int]) -> list[int]:
    """Return ids of episodes, numpy's too, as ints; FilterError for anything else."""
    return whole_numbers(ids, "ids of episodes", FilterError)


def finite_number(value: Any, what: str, error: type[WShardError]) -> float:
    """Return a finite number of any library as a float; raises `error` for anything else."""
    try:
        number = float(value) if not isinstance(value, bool) and isinstance(value, Real) else math.nan
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise error(f"{what}: expected a finite number, found {shown(value)}")
    return number


def plain_text(value: Any, what: str, error: type[WShardError]) -> str:
    """Return a text; raises `error` for anything else."""
    if not isinstance(value, str):
        raise error(f"{what}: expected text, found {shown(value)}")
    return value


def several_names(values: Any, what: str) -> list[str]:
    """Return several texts; FilterError for anything else, and for a single text, which would be split into letters."""
    if isinstance(values, Iterable) and not isinstance(values, str | bytes):
        listed = list(values)
        if all(isinstance(value, str) for value in listed):
            return listed
    raise FilterError(f"{what}: expected several names, found {shown(values)}")


def check_chunk(index: int | None, total: int | None, bounds: list[int] | None) -> None:
    """Raise EpisodeError where the chunk fields of an episode contradict each other."""
    if index is not None:
        if total is None:
            raise EpisodeError("total_chunks required when chunk_index is set")
        if integer(index) is None or integer(total) is None or not 0 <= index < total:
            raise EpisodeError(f"chunk_index {index!r} out of range for {total!r} chunks")
    if bounds is not None:
        whole = all(isinstance(bound, (int, np.integer)) for bound in bounds)
        if len(bounds) != 2 or not whole or bounds[0] > bounds[1]:
            raise EpisodeError(f"timestep_range: expected [first, last], first <= last, found {bounds}")


def seconds(value: object, what: str, error: type[Exception]) -> float:
    """Return a number of seconds >= 0, infinity for None; raises `error` for anything else."""
    if value is None:
        return math.inf
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not value >= 0:
        raise error(f"{what}: expected a number >= 0 or None, found {value!r}")
    return float(value)
