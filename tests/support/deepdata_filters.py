"""How the real server reads a filter (contract section 12; L = line of wire.jsonl), mistakes included."""

from __future__ import annotations

import random
from typing import Any


def passes(filters: dict[str, Any], metadata: dict[str, Any]) -> bool:
    """Say whether metadata meets the filter; of several keys in one object only one counts, picked at random."""
    key = random.choice([*filters])
    if key in ("$and", "$or"):
        parts = filters[key]
        if not parts:
            return False
        return (
            all(passes(part, metadata) for part in parts) if key == "$and" else any(passes(p, metadata) for p in parts)
        )
    if key == "$not":
        return not passes(filters[key], metadata)  # L84
    return _meets(key, filters[key], metadata)


def _meets(key: str, wanted: Any, metadata: dict[str, Any]) -> bool:
    if not isinstance(wanted, dict):
        return _compare("eq", metadata.get(key), wanted, there=key in metadata)  # L80
    operator = random.choice([*wanted])
    return _compare(operator.removeprefix("$"), metadata.get(key), wanted[operator], there=key in metadata)


def _compare(operator: str, found: Any, wanted: Any, *, there: bool) -> bool:
    if operator in ("ne", "nin"):
        return not there or not _compare("eq" if operator == "ne" else "in", found, wanted, there=True)  # L86
    if operator == "exists":
        return there is wanted  # L87
    if not there or wanted is None or isinstance(wanted, dict):
        return False
    if operator == "in":
        return isinstance(wanted, list) and _among(found, wanted)  # a scalar or [] is nothing
    if operator == "eq":
        return not isinstance(wanted, bool) and _equal(found, wanted)  # L91: equality with a flag never holds
    return operator in ("gt", "gte", "lt", "lte") and _ordered(operator, found, wanted)  # L95: others find nothing


def _among(found: Any, wanted: list[Any]) -> bool:
    if isinstance(found, str):
        return found in wanted  # the same in a tenth of the time: a filter can have thousands of names
    return any(_equal(found, one) for one in wanted)


def _equal(found: Any, wanted: Any) -> bool:
    numbers = type(found) in (int, float) and type(wanted) in (int, float)
    return (numbers or isinstance(found, str)) and found == wanted


def _ordered(operator: str, found: Any, wanted: Any) -> bool:
    if isinstance(wanted, int | float) and isinstance(found, str):
        try:
            found = float(found)  # L82: "250" is compared as 250
        except ValueError:
            return False
    if isinstance(found, str) != isinstance(wanted, str) or isinstance(found, list | dict):
        return False
    return bool({"gt": found > wanted, "gte": found >= wanted, "lt": found < wanted, "lte": found <= wanted}[operator])
