"""Numbers that depend on all vectors of a Space, stored beside its search copy so that they are computed once."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from wshard.core.container.atomic_write import publish
from wshard.core.container.layout import checksum

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

FILE: Final = "derived.json"

LEDGER_FILE: Final = "ledger.json"
"""Of totals of the ledger, which change with it, also where the vectors are the same."""

FILES: Final = frozenset({FILE, LEDGER_FILE})


class DerivedNumbers:
    """Lists of numbers by name, in a file of one folder, for one state of the vectors; nothing depends on the file.

    A file that is missing, damaged, or of another state reads as empty; failures to write it are ignored.
    """

    def __init__(self, folder: Path, state: Sequence[str | int], file: str = FILE) -> None:
        self._path = folder / file
        self._state = list(state)

    def read(self, name: str) -> list[float] | None:
        """Return the numbers of this name exactly as they were written, None if there are none."""
        return self._load().get(name)

    def write(self, name: str, numbers: Sequence[float]) -> None:
        """Add numbers to the file."""
        text = json.dumps({"state": self._state, "numbers": self._load() | {name: list(numbers)}})
        with suppress(OSError), publish(self._path) as file:
            file.write(json.dumps({"checksum": checksum(text.encode()), "text": text}).encode())

    def _load(self) -> dict[str, Any]:
        try:
            stored = json.loads(self._path.read_bytes())
            if stored["checksum"] != checksum(stored["text"].encode()):
                return {}
            content = json.loads(stored["text"])
            return dict(content["numbers"]) if content["state"] == self._state else {}
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return {}
