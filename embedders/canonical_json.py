"""Canonical JSON of a value, and checks that values of Spaces share."""

from __future__ import annotations

import hashlib
import json
from numbers import Integral
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from wshard.errors import EmbedderError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

JSON: TypeAlias = "bool | int | float | str | Sequence[JSON] | Mapping[str, JSON] | None"


def canonical(value: Any) -> str:
    """Return the JSON text: keys sorted, no spaces, ASCII only, every float exact. Raises ValueError, TypeError."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def parse(text: str) -> Any:
    """Return the value of a JSON text. Raises ValueError, also for NaN and infinities."""
    return json.loads(text, parse_constant=_refuse_constant)


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")


def sha256(text: str) -> str:
    """Return the sha256 of an ASCII text in hex."""
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def check_count(value: Any, what: str) -> int:
    """Return a whole number >= 1 of any library as an int; raises EmbedderError, naming `what`, for anything else."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise EmbedderError(f"{what}: expected a whole number >= 1, found {value!r}")
    return int(value)


def check_text(value: Any, what: str) -> None:
    """Raise EmbedderError, naming `what`, unless `value` is a text with something in it."""
    if not isinstance(value, str) or not value:
        raise EmbedderError(f"{what}: expected a text, found {value!r}")
