"""Values of attributes and small datasets as JSON values."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.core.files.place import parse_json
from wshard.errors import FormatError
from wshard.formats.hdf5.nodes import check_texts, import_h5py

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from wshard.core.files.place import Place
    from wshard.core.types import Array

WSHARD_ID: Final = "wshard_id"
"""Attribute with the id of an episode whose group has another name; written by this project."""

MAX_NUMBERS: Final = 256
"""Larger arrays are not metadata."""

_MAX_TEXT_LENGTH: Final = 4096
_MAX_UNIT: Final = 64  # characters
MAX_JSON_SIZE: Final = 1 << 24
NOT_JSON: Final = object()
"""Stands for a value that is too long for metadata, or not JSON."""


def json_value(value: Any) -> Any:
    """Return a text, number, flag or small array as a JSON value, non-finite numbers as None; NOT_JSON for others."""
    if isinstance(value, (bytes, np.bytes_)):
        value = value.decode("utf-8", errors="replace")
    if isinstance(value, str):
        return str(value) if len(value) <= _MAX_TEXT_LENGTH else NOT_JSON
    array = np.asarray(value)
    if array.size > MAX_NUMBERS or array.dtype.kind not in "biufOSU":
        return NOT_JSON
    if array.dtype.kind in "OSU":
        texts = [json_value(item) for item in array.ravel().tolist() if isinstance(item, (bytes, str))]
        if len(texts) != array.size or NOT_JSON in texts:
            return NOT_JSON
        return texts if array.ndim else texts[0]
    return finite(array)


def finite(array: Array) -> Any:
    """Return numbers as nested lists; NaN and infinities become None."""
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        return _replace_non_finite(array.tolist())
    return array.tolist()


def _replace_non_finite(value: Any) -> Any:
    if isinstance(value, list):
        return [_replace_non_finite(item) for item in value]
    return value if math.isfinite(value) else None


def read_attribute(node: Any, name: str | bytes) -> Any:
    """Return an attribute, None if there is none, for a list of variable length, and for texts that cannot be checked.

    The library crashes on damaged types of such lists (HDF5 2.0.0). Raises FormatError for impossible lengths of texts.
    """
    h5py, encoded = import_h5py(), name if isinstance(name, bytes) else name.encode()  # bytes: no UTF-8
    if not h5py.h5a.exists(node.id, encoded):
        return None
    attribute = h5py.h5a.open(node.id, encoded)
    dtype = attribute.dtype
    is_text = h5py.check_string_dtype(dtype) is not None
    if dtype.hasobject and not (is_text and check_texts(node, encoded, math.prod(attribute.shape))):
        return None
    return node.attrs[name]


def read_attributes(node: Any, *, without: Collection[str] = ()) -> dict[str, Any]:
    """Return the attributes of a group that are suitable metadata: texts up to 4,096 characters, small arrays."""
    values = {str(name): json_value(read_attribute(node, name)) for name in node.attrs if name not in without}
    return {name: value for name, value in values.items() if value is not NOT_JSON}


def read_long_texts(node: Any, names: Collection[str] = ()) -> dict[str, str]:
    """Return the texts of attributes that are not metadata: those of these names, and too long ones."""
    texts = {str(name): text_attribute(node, name) for name in node.attrs}
    return {
        name: text
        for name, text in texts.items()
        if text is not None and (name in names or len(text) > _MAX_TEXT_LENGTH)
    }


def text_attribute(node: Any, name: str) -> str | None:
    """Return the text of an attribute of any length, None if there is none."""
    value = read_attribute(node, name)
    if isinstance(value, bytes):
        value = value.decode("utf-8", errors="replace")
    return value if isinstance(value, str) else None


def unit_of(attribute: Callable[[str], Any]) -> str:
    """Return the unit that the attribute `units` or `unit` of an array states, "" for none; attribute: returns one."""
    for value in map(attribute, ("units", "unit")):
        text = value.decode("utf-8", errors="replace") if isinstance(value, bytes) else value
        if isinstance(text, str) and 0 < len(text.strip()) <= _MAX_UNIT and text.isprintable():
            return text.strip()
    return ""


def dataset_unit(dataset: Any) -> str:
    """Return the unit of an HDF5 dataset, "" of anything else; raises FormatError for a damaged attribute."""
    return unit_of(partial(read_attribute, dataset)) if hasattr(dataset, "attrs") else ""


def json_attribute(node: Any, name: str, where: str) -> dict[str, Any]:
    """Return the JSON object in the text of an attribute, {} if there is none; raises FormatError."""
    return parse_object(text_attribute(node, name) or "{}", f"{where}: attribute {name!r}")


def parse_object(text: str | bytes, where: str, max_size: int = MAX_JSON_SIZE) -> dict[str, Any]:
    """Parse a JSON object; raises FormatError for anything else, LimitError for a longer text."""
    value = parse_json(text, max_size, where)
    if not isinstance(value, dict):
        raise FormatError(f"{where}: expected a JSON object, found {type(value).__name__}")
    return value


def read_object(place: Place, max_size: int = MAX_JSON_SIZE) -> dict[str, Any]:
    """Read the JSON object in a file; raises FormatError, LimitError for a file of more than `max_size` bytes."""
    return parse_object(place.read(0, max_size + 1), str(place), max_size)
