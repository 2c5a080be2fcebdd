"""Values of attributes and small datasets as JSON has them."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.episode.meta_reader import usable_rate
from wshard.errors import FormatError, LimitError
from wshard.types import TimebaseSpec

if TYPE_CHECKING:
    from collections.abc import Collection

    from wshard.types import Array

WSHARD_ID: Final = "wshard_id"
"""Attribute of an episode whose id is not the name of its group, in files that are written here."""

MOST_NUMBERS: Final = 256
"""Arrays of more values than this are no metadata."""

_LONGEST_TEXT: Final = 4096
LONGEST_JSON: Final = 1 << 24
NOT_JSON: Final = object()
"""What stands for a value that is too long for metadata, or is none of JSON's."""


def json_value(value: Any) -> Any:
    """Return a text, number, flag or small array as JSON has it, what is not finite as None; NOT_JSON for others."""
    if isinstance(value, (bytes, np.bytes_)):
        value = value.decode("utf-8", errors="replace")
    if isinstance(value, str):
        return str(value) if len(value) <= _LONGEST_TEXT else NOT_JSON
    array = np.asarray(value)
    if array.size > MOST_NUMBERS or array.dtype.kind not in "biufOSU":
        return NOT_JSON
    if array.dtype.kind in "OSU":
        texts = [json_value(one) for one in array.ravel().tolist() if isinstance(one, (bytes, str))]
        if len(texts) != array.size or NOT_JSON in texts:
            return NOT_JSON
        return texts if array.ndim else texts[0]
    return finite(array)


def finite(array: Array) -> Any:
    """Return numbers as JSON has them, nested as the axes are; NaN and infinities are None."""
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        return _replace_others(array.tolist())
    return array.tolist()


def _replace_others(value: Any) -> Any:
    if isinstance(value, list):
        return [_replace_others(one) for one in value]
    return value if math.isfinite(value) else None


def stated_rate(value: Any) -> TimebaseSpec:
    """Return the clock of a rate that a file states; one that is none is not stated."""
    rate = usable_rate(value)
    return TimebaseSpec() if rate is None else TimebaseSpec(tick_hz=rate)


def read_attributes(node: Any, *, without: Collection[str] = ()) -> dict[str, Any]:
    """Return the attributes of a group that are metadata: texts of at most 4,096 characters, small arrays."""
    attributes = node.attrs
    found = {str(name): json_value(attributes[name]) for name in attributes if name not in without}
    return {name: value for name, value in found.items() if value is not NOT_JSON}


def read_long_texts(node: Any, names: Collection[str] = ()) -> dict[str, str]:
    """Return the texts of attributes that are no metadata: those of the names, and longer ones than others have."""
    texts = {str(name): text_attribute(node, name) for name in node.attrs}
    return {
        name: text for name, text in texts.items() if text is not None and (name in names or len(text) > _LONGEST_TEXT)
    }


def text_attribute(node: Any, name: str) -> str | None:
    """Return the text of an attribute of any length, None where there is none."""
    value = node.attrs.get(name)
    if isinstance(value, bytes):
        value = value.decode("utf-8", errors="replace")
    return value if isinstance(value, str) else None


def json_attribute(node: Any, name: str, where: str) -> dict[str, Any]:
    """Return the JSON object that is the text of an attribute, {} where there is none; raises FormatError."""
    return parse_object(text_attribute(node, name) or "{}", f"{where}: attribute {name!r}")


def parse_object(text: str | bytes, where: str, longest: int = LONGEST_JSON) -> dict[str, Any]:
    """Return a JSON object; raises FormatError for anything else, LimitError for a longer text."""
    if len(text) > longest:
        raise LimitError(f"{where}: expected at most {longest} bytes of JSON, found {len(text)}")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{where}: expected JSON: {error}") from error
    if not isinstance(value, dict):
        raise FormatError(f"{where}: expected a JSON object, found {type(value).__name__}")
    return value
