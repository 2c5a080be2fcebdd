"""Reads vectors back from the server."""

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

_LEDGER_ROWS: Final = 100  # ledger rows per step
_BATCH_SIZE: Final = 200  # documents per request


def fetch(target: Target) -> Iterator[Point]:
    """Yield every episode for which the server returns all vectors."""
    living = (entry for entry in target.link.catalog.vectors.ledger(target.copy.space_id) if entry.vectors)
    while entries := list(islice(living, _LEDGER_ROWS)):
        yield from _points(target, entries)


def _points(target: Target, entries: Sequence[LedgerEntry]) -> Iterator[Point]:
    refs = {entry.seq: [ref_of(vector) for vector in _cut(entry, target.size)] for entry in entries}
    landed_by_ref = target.link.catalog.index_copies.known(
        target.copy.id, {ref for names in refs.values() for ref in names}
    )
    stored = _vectors(target, [(landed.document, landed.ref) for landed in landed_by_ref.values()])
    for entry in entries:
        rows = [stored[ref] for ref in refs[entry.seq] if ref in stored]
        if len(rows) == entry.count:
            yield Point(entry.episode_id, entry.seq, np.stack(rows))


def _vectors(target: Target, documents: Sequence[tuple[int, str]]) -> dict[str, Vectors]:
    stored: dict[str, Vectors] = {}
    for start in range(0, len(documents), _BATCH_SIZE):
        expected = dict(documents[start : start + _BATCH_SIZE])
        for document in target.link.dialect.fetch(target.name, expected, target.space.dim):
            if document.ref is None or document.vector is None or expected.get(document.id) != document.ref:
                continue
            if ref_of(document.vector.tobytes()) == document.ref:  # else it is represented by a nearly equal one
                stored[document.ref] = document.vector
    return stored


def _cut(entry: LedgerEntry, size: int) -> list[bytes]:
    vectors = entry.vectors or b""
    return [vectors[start : start + size] for start in range(0, len(vectors), size)]
