"""Values as JSON with a checksum, so that a torn or damaged file is noticed."""

from __future__ import annotations

import json
from typing import Any

from wshard.core.container.layout import checksum


def seal(value: Any) -> bytes:
    """Return the bytes of a value and its checksum."""
    text = json.dumps(value)
    return json.dumps({"checksum": checksum(text.encode()), "text": text}).encode()


def unseal(data: bytes) -> Any:
    """Return the value; raises ValueError, TypeError, KeyError or RecursionError for other bytes."""
    stored = json.loads(data)
    if stored["checksum"] != checksum(stored["text"].encode()):
        raise ValueError(f"expected the checksum of the text, found {stored['checksum']}")
    return json.loads(stored["text"])
