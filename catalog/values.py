"""Single values: which ones every database can store, and how JSON is stored and compared."""

from __future__ import annotations

import json
import math
import re
import struct
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from wshard.errors import IngestError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

JSON: TypeAlias = "bool | int | float | str | Sequence[JSON] | Mapping[str, JSON] | None"
Scalar: TypeAlias = str | int | float | bool
Shape: TypeAlias = tuple[str, str, tuple[int, ...], tuple[str, ...]]

INTEGER_LIMIT = 2**63 - 1
_INTEGERS_FROM = 2**53  # from here on every float is an integer

_ENCODER = json.JSONEncoder(separators=(",", ":"))

# A cheap search in JSON text for values that may need replacing: NaN and infinities, NUL, surrogates (pairs are fine),
# and floats as large as 64-bit integers, whose shortest digits are those of another integer.
_AWKWARD = re.compile(r"NaN|Infinity|\\u0000|\\ud[89a-f]|e\+1[678]")


def storable(value: object) -> bool:
    """Return True if every database can store the value: text is UTF-8 without NUL, integers fit in 64 bits."""
    if isinstance(value, str):
        if value.isascii():
            return "\0" not in value
        try:
            return b"\0" not in value.encode()
        except UnicodeEncodeError:
            return False
    return not isinstance(value, int) or -INTEGER_LIMIT <= value <= INTEGER_LIMIT


def storables(values: Collection[Scalar]) -> list[Scalar]:
    """Return those of the values that every database can store; many integers are checked together."""
    if set(map(type, values)) == {int} and storable(min(values)) and storable(max(values)):
        return list(values)
    return [value for value in values if storable(value)]


def comparable_number(value: object) -> int | float | None:
    """Return a JSON number as every database compares it: integers beyond 64 bits as float; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, int) and storable(value):
        return value
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def encode_metadata(metadata: Mapping[str, JSON], *, path: str) -> str:
    """Return the metadata of the episode at path as ASCII JSON text; IngestError when it is not JSON.

    Values that databases cannot store are replaced: NaN and infinities by null, NUL and broken Unicode by U+FFFD. A
    float that is a large integer is written as an integer.
    """
    try:
        text = _ENCODER.encode(dict(metadata))
        if _AWKWARD.search(text):
            text = _ENCODER.encode(_replace_unstorable(json.loads(text)))
    except (TypeError, ValueError, RecursionError) as error:
        raise IngestError(f"metadata must be JSON values by name; {error}, in the episode at {path}") from error
    return text


def _replace_unstorable(value: Any) -> Any:
    if isinstance(value, dict):
        return {_replace_unstorable(key): _replace_unstorable(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_replace_unstorable(part) for part in value]
    if isinstance(value, str):
        return value.replace("\0", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return int(value) if abs(value) >= _INTEGERS_FROM and storable(int(value)) else value
    return value


def unpack_numbers(value: bytes) -> tuple[float, ...]:
    """Return the numbers of packed little-endian float64."""
    return struct.unpack(f"<{len(value) // 8}d", value)


@lru_cache(maxsize=1024)
def encode_lanes(shapes: tuple[Shape, ...]) -> str:
    """Return the canonical text of a set of lanes, independent of their order."""
    ordered = sorted((lane if lane[-1] else lane[:-1] for lane in shapes), key=lambda lane: lane[0])
    return json.dumps(ordered, separators=(",", ":"))
