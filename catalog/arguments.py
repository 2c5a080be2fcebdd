"""Arguments as callers give them, as the plain Python values that they mean.

Knows: that numbers of other libraries are numbers, and flags are none. Does not know: what arguments are for. Callers
name them, and the error to raise.
"""

from __future__ import annotations

import math
import operator
import reprlib
from collections.abc import Iterable
from numbers import Real
from typing import TYPE_CHECKING, Any

from wshard.errors import FilterError

if TYPE_CHECKING:
    from wshard.errors import WShardError


def told(value: object) -> str:
    """Return the value as a message shows it: in one line, shortened."""
    return " ".join(reprlib.repr(value).split())


def whole_number(value: Any, what: str, error: type[WShardError], *, least: int | None = None) -> int:
    """Return a whole number of any library as an int; raises `error` for anything else, and for one below `least`."""
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None:
        raise error(f"{what}: expected a whole number, found {told(value)}")
    if least is not None and number < least:
        raise error(f"{what}: expected at least {least}, found {number}")
    return number


def whole_numbers(values: Any, what: str, error: type[WShardError]) -> list[int]:
    """Return several whole numbers of any library as ints; raises `error` for anything else."""
    if not isinstance(values, Iterable) or isinstance(values, str | bytes):
        raise error(f"{what}: expected several whole numbers, found {told(values)}")
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
        raise error(f"{what}: expected a finite number, found {told(value)}")
    return number


def plain_text(value: Any, what: str, error: type[WShardError]) -> str:
    """Return a text; raises `error` for anything else."""
    if not isinstance(value, str):
        raise error(f"{what}: expected text, found {told(value)}")
    return value


def several_names(values: Any, what: str) -> list[str]:
    """Return several texts; FilterError for anything else, and for one text, which would be taken to pieces."""
    if isinstance(values, Iterable) and not isinstance(values, str | bytes):
        listed = list(values)
        if all(isinstance(value, str) for value in listed):
            return listed
    raise FilterError(f"{what}: expected several names, found {told(values)}")
