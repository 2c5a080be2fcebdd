"""Numbers and arrays that depend on all vectors of a Space, stored in its folder to be computed once."""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from bridge.index.sealed_json import seal, unseal
from wshard.core.container.atomic_write import publish
from wshard.core.container.layout import checksum

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

FILE: Final = "derived.json"

LEDGER_FILE: Final = "ledger.json"
"""Of totals of the ledger, which change with it, also where the vectors are the same."""

GRAPH_FILE: Final = "graph.bin"
"""Of arrays: one line of JSON, then the bytes of one after the other."""

TIMESTEPS: Final = "timesteps"
"""Of array files: what searches for moments scan. They are for any state of the vectors, and follow them."""

CELLS: Final = ("cells-of-blocks", "cells-of-changes")
"""Of array files: what of the timesteps is alike."""

_OLDER: Final = "timesteps.bin"

_OF_TIMESTEPS: Final = {
    _OLDER,
    *(f"{stem}.{end}" for stem in (TIMESTEPS, *CELLS) for end in ("json", "lock")),
    *(f"{stem}-{number}.bin" for stem in (TIMESTEPS, *CELLS) for number in range(5)),
}

TOP_FILES: Final = frozenset({FILE, GRAPH_FILE, *_OF_TIMESTEPS})
"""Those beside the search copy."""

FILES: Final = TOP_FILES | {LEDGER_FILE}
"""All of them; in older archives, all are beside the search copy."""

_ALIGNED: Final = 64  # bytes: arrays begin at a multiple


class DerivedNumbers:
    """Lists of numbers by name, in a file of one folder, for one state of the archive; nothing depends on the file.

    A file that is missing, damaged, or of another state reads as empty; failures to write it are ignored.
    """

    def __init__(self, folder: Path, state: Sequence[str | int], file: str = FILE) -> None:
        self.folder = folder
        self._path = folder / file
        self._state = list(state)

    def read(self, name: str) -> list[float] | None:
        """Return the numbers of this name exactly as they were written, None if there are none."""
        return self._load().get(name)

    def write(self, name: str, numbers: Sequence[float]) -> None:
        """Add numbers to the file."""
        _publish(self._path, seal({"state": self._state, "numbers": self._load() | {name: list(numbers)}}))

    def read_arrays(self, name: str, file: str = GRAPH_FILE, *, mapped: bool = False) -> list[NDArray[Any]] | None:
        """Return the arrays of this name exactly as they were written last, None if there are none.

        mapped: they take no memory of their own; the file must only be replaced, never changed.
        """
        try:
            path = self.folder / file
            with path.open("rb") as opened:
                head = opened.readline()
                body = np.memmap(path, np.uint8, "r", len(head)) if mapped else np.frombuffer(opened.read(), np.uint8)
            stored = json.loads(head)
            if [stored["state"], stored["name"], stored["checksum"]] != [
                self._state,
                name,
                checksum(body.data),
            ]:
                return None
            ends = accumulate((size for _, size, _ in stored["arrays"]), initial=0)
            parts = zip(stored["arrays"], pairwise(ends), strict=True)
            return [body[start:end].view(kind).reshape(shape) for (kind, _, shape), (start, end) in parts]
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return None

    def write_arrays(self, name: str, arrays: Sequence[NDArray[Any]], file: str = GRAPH_FILE) -> None:
        """Replace all arrays in the file by these."""
        about, body_sum = [(array.dtype.str, array.nbytes, array.shape) for array in arrays], 0
        parts = [np.ascontiguousarray(array).reshape(-1).view(np.uint8).data for array in arrays]
        for part in parts:
            body_sum = checksum(part, body_sum)
        head = {"state": self._state, "name": name, "checksum": body_sum, "arrays": about}
        line = json.dumps(head).encode()
        padded = line + b" " * (-(len(line) + 1) % _ALIGNED) + b"\n"
        _publish(self.folder / file, padded, *parts)

    def _load(self) -> dict[str, Any]:
        try:
            content = unseal(self._path.read_bytes())
            return dict(content["numbers"]) if content["state"] == self._state else {}
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return {}


def _publish(path: Path, *parts: bytes | memoryview) -> None:
    with suppress(OSError):
        if path.name != LEDGER_FILE:  # a search copy that was removed meanwhile must not come back
            path.parent.mkdir(parents=True, exist_ok=True)
        with publish(path) as file:
            file.writelines(parts)
