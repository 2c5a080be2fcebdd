"""Reading back what the server holds, with its own numbers."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.index.base import Point
from bridge.index.deepdata.documents import ref_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bridge.index.base import Vectors
    from bridge.index.deepdata.collection import Target
    from catalog.vectors.records import LedgerEntry

_ROWS: Final = 100  # ledger rows per step
_AT_ONCE: Final = 200  # documents per request


def fetch(target: Target) -> Iterator[Point]:
    """Yield every episode for which the server returns all vectors."""
    living = (entry for entry in target.link.catalog.vectors.ledger(target.copy.space_id) if entry.vectors)
    while entries := list(islice(living, _ROWS)):
        yield from _points(target, entries)


def _points(target: Target, entries: Sequence[LedgerEntry]) -> Iterator[Point]:
    refs = {entry.seq: [ref_of(vector) for vector in _cut(entry, target.size)] for entry in entries}
    known = target.link.catalog.index_copies.known(target.copy.id, {ref for some in refs.values() for ref in some})
    stored = _vectors(target, [(landed.document, landed.ref) for landed in known.values()])
    for entry in entries:
        rows = [stored[ref] for ref in refs[entry.seq] if ref in stored]
        if len(rows) == entry.count:
            yield Point(entry.episode_id, entry.seq, np.stack(rows))


def _vectors(target: Target, documents: Sequence[tuple[int, str]]) -> dict[str, Vectors]:
    stored: dict[str, Vectors] = {}
    for start in range(0, len(documents), _AT_ONCE):
        asked = dict(documents[start : start + _AT_ONCE])
        for one in target.link.dialect.fetch(target.name, asked, target.space.dim):
            if one.ref is None or one.vector is None or asked.get(one.id) != one.ref:
                continue
            if ref_of(one.vector.tobytes()) == one.ref:  # else a nearly equal one stands for it
                stored[one.ref] = one.vector
    return stored


def _cut(entry: LedgerEntry, size: int) -> list[bytes]:
    vectors = entry.vectors or b""
    return [vectors[start : start + size] for start in range(0, len(vectors), size)]
