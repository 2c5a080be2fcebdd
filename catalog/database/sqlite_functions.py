"""Functions in Python that SQLite lacks, or computes less exactly."""

from __future__ import annotations

import json
import struct
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from catalog.values import comparable_number, storable

if TYPE_CHECKING:
    import sqlite3


def add_functions(connection: sqlite3.Connection) -> None:
    """Add the functions that the expressions of sql_functions.py call to a SQLite connection."""
    for name, arity, function in (
        ("float_from_hex", 1, float.fromhex),
        ("json_number", 1, _json_number),
        ("json_scalar", 1, _json_scalar),
        ("json_member", 2, _json_member),
        ("number_at", 2, _number_at),
    ):
        connection.create_function(name, arity, function, deterministic=True)


@lru_cache(maxsize=1)
def _parsed(document: str) -> Any:
    return json.loads(document)


def _json_member(document: str, keys: str) -> str | None:
    value = _parsed(document)
    for key in json.loads(keys):
        if not isinstance(value, dict) or key not in value:
            return None
        value = value[key]
    return json.dumps(value)


def _json_number(element: str | None) -> int | float | None:
    if element is None or element[:1] not in "-0123456789":
        return None
    return comparable_number(json.loads(element))


def _json_scalar(element: str | None) -> str | None:
    value = None if element is None or element[:1] in "[{n" else json.loads(element)
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = comparable_number(value)
        is_whole = isinstance(value, float) and value.is_integer() and storable(int(value))
        value = int(value) if is_whole and value is not None else value
    return None if value is None else json.dumps(value)


def _number_at(numbers: bytes | None, index: int) -> float | None:
    if numbers is None or 8 * index >= len(numbers):
        return None
    return float(struct.unpack_from("<d", numbers, 8 * index)[0])
