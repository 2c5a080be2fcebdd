"""Keys of JSON objects, which are texts: others are written as texts, and two of them may become one."""

from __future__ import annotations

import json


def check_keys(value: object, where: str = "") -> None:
    """Raise ValueError with the location if two keys of one dict are the same in JSON, such as 1 and "1".

    The value must be serialisable by json.
    """
    if isinstance(value, dict):
        spelt: dict[str, object] = {}
        for key, part in value.items():
            name = key if isinstance(key, str) else next(iter(json.loads(json.dumps({key: None}))))
            if name in spelt:
                at = f" of {where}" if where else ""
                raise ValueError(f"the keys {spelt[name]!r} and {key!r}{at} are the same in JSON")
            spelt[name] = key
            check_keys(part, f"{where}.{name}" if where else name)
    elif isinstance(value, list | tuple):
        for number, part in enumerate(value):
            check_keys(part, f"{where}[{number}]")
