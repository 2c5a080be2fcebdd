"""Looking after indexes: does one hold what the ledger says, making it anew, filling another one.

Knows: every backend by its five verbs, and two more that a backend may have. Does not know: servers, files.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from bridge.deepdata.audit import Finding
from embedders.space import Space

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bridge.archive import Archive
    from bridge.index.base import VectorIndex

_BATCH: Final = 64  # episodes per step of a copy


@runtime_checkable
class Maintained(Protocol):
    """An index that may differ from what it was given, because it lies elsewhere."""

    def audit(self, space: Space, *, full: bool = False) -> Finding:
        """Compare with the ledger, changing nothing."""

    def rebuild(self, space: Space) -> None:
        """Make the Space's part anew from the ledger."""


@dataclass(frozen=True)
class State:
    """One Space in one index: vectors held, vectors in the ledger, and what the index says of itself."""

    space: Space
    held: int
    ledger: int
    finding: Finding

    @property
    def ok(self) -> bool:
        """True if the index has all that the ledger has."""
        return self.finding.state == "ok" and self.held == self.ledger


def audit(archive: Archive, *, full: bool = False) -> list[State]:
    """Compare the archive's index with the ledger, Space by Space; full: every vector that the index holds."""
    states = []
    for space, vectors in _spaces(archive):
        held = archive.index.count(space)
        if isinstance(archive.index, Maintained):
            finding = archive.index.audit(space, full=full)
        else:
            finding = Finding("ok" if held == vectors else "lost", held, vectors)
        states.append(State(space, held, vectors, finding))
    return states


def rebuild(archive: Archive, folder: Path) -> list[State]:
    """Make the archive's index anew from the ledger; folder: where the embedded index keeps its copies."""
    for space, _ in _spaces(archive):
        if isinstance(archive.index, Maintained):
            archive.index.rebuild(space)
        else:
            shutil.rmtree(folder / space.fingerprint, ignore_errors=True)
            archive.index.upsert(space, [])
    return audit(archive)


def copy(archive: Archive, target: VectorIndex) -> list[tuple[Space, int, int]]:
    """Fill another index over the same ledger; returns (Space, vectors read from the one, vectors in the other).

    Nothing is embedded again. What the first index lacks comes from the ledger.
    """
    copied = []
    for space, _ in _spaces(archive):
        read = 0
        points = archive.index.scan(space)
        while some := list(islice(points, _BATCH)):
            target.upsert(space, some)
            read += sum(len(point.vectors) for point in some)
        target.upsert(space, [])
        copied.append((space, read, target.count(space)))
    return copied


def _spaces(archive: Archive) -> Iterator[tuple[Space, int]]:
    for row in archive.catalog.spaces():
        if row.state != "retired":
            yield Space.from_json(row.definition), archive.catalog.ledger_state(row.id)[1]
