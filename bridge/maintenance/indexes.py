"""Compare indexes with the ledger, rebuild and repair them, fill another one, and drop Spaces."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from bridge.index.base import Auditable, IndexFinding, Rebuildable, Repairable
from embedders.space import Space
from wshard.core.messages import plural
from wshard.errors import EntryNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bridge.archive import Archive
    from bridge.index.base import VectorIndex

_BATCH_EPISODES: Final = 64  # episodes per step of a copy


@dataclass(frozen=True)
class SpaceSummary:
    """Number of episodes and vectors of one Space in the ledger; state: active, or building."""

    space: Space
    state: str
    episodes: int
    vectors: int

    @property
    def size(self) -> int:
        """Bytes of the vectors."""
        return 4 * self.space.dim * self.vectors


@dataclass(frozen=True)
class State:
    """One Space in one index: vectors in the index, vectors in the ledger, and the index's own finding."""

    space: Space
    indexed: int
    ledger: int
    finding: IndexFinding

    @property
    def ok(self) -> bool:
        """True if the index has all that the ledger has."""
        return self.finding.state == "ok" and self.indexed == self.ledger

    @property
    def message(self) -> str:
        """The difference, as text."""
        behind = f"{plural(self.indexed, 'vector')}, the catalog has {self.ledger}"
        if self.finding.state == "ok":
            return f"behind: {behind}"
        return f"{self.finding.state}: {self.finding.reason or behind}"


def audit(archive: Archive, *, full: bool = False) -> list[State]:
    """Compare the archive's index with the ledger, Space by Space; full: every vector in the index."""
    states = []
    for space, vectors in _spaces(archive):
        count = archive.index.count(space)
        if isinstance(archive.index, Auditable):
            finding = archive.index.audit(space, full=full)
        else:
            finding = IndexFinding("ok" if count == vectors else "lost", count, vectors)
        states.append(State(space, count, vectors, finding))
    return states


def repair(archive: Archive) -> int:
    """Repair the archive's index from the ledger, rebuilding it if necessary.

    Returns the number of Spaces that were repaired.
    """
    if not isinstance(archive.index, Repairable):
        return len(rebuild(archive))
    wrong = [state.space for state in audit(archive, full=True) if not state.ok]
    for space in wrong:
        archive.index.repair(space)
    return len(wrong)


def rebuild(archive: Archive) -> list[State]:
    """Rebuild the archive's index from the ledger."""
    for space, _ in _spaces(archive):
        if isinstance(archive.index, Rebuildable):
            archive.index.rebuild(space)
        else:
            archive.index.upsert(space, [])
    return audit(archive)


def list_spaces(archive: Archive) -> list[SpaceSummary]:
    """Return the Spaces of the archive, including those being built."""
    summaries = []
    for row in archive.catalog.vectors.live_spaces():
        ledger = archive.catalog.vectors.state(row.id)
        summaries.append(SpaceSummary(Space.from_json(row.definition), row.state, ledger.episodes, ledger.vectors))
    return summaries


def find(archive: Archive, name: str) -> SpaceSummary:
    """Return the Space with this fingerprint prefix; raises EntryNotFoundError unless there is exactly one."""
    listed = list_spaces(archive)
    matching = [summary for summary in listed if name and summary.space.fingerprint.startswith(name)]
    if len(matching) != 1:
        prefixes = ", ".join(summary.space.fingerprint[:12] for summary in listed) or "none"
        raise EntryNotFoundError(f"expected the beginning of one Space's fingerprint ({prefixes}), found {name!r}")
    return matching[0]


def drop(archive: Archive, space: Space) -> None:
    """Remove a Space: first its vectors from the ledger, in one transaction, then from the index.

    Episodes stay; the next ingest with the same embedder embeds them again. Other indexes remove the Space at their
    next update.
    """
    row = next(row for row in archive.catalog.vectors.live_spaces() if row.fingerprint == space.fingerprint)
    archive.catalog.vectors.retire(row.id)
    if isinstance(archive.index, Rebuildable):
        archive.index.drop(space)


def copy(archive: Archive, target: VectorIndex) -> list[tuple[Space, int, int]]:
    """Fill another index of the same ledger; returns (Space, vectors read from the first, vectors in the other).

    Nothing is embedded again. Vectors that the first index lacks come from the ledger.
    """
    copied = []
    for space, _ in _spaces(archive):
        read = 0
        points = archive.index.scan(space)
        while batch := list(islice(points, _BATCH_EPISODES)):
            target.upsert(space, batch)
            read += sum(len(point.vectors) for point in batch)
        target.upsert(space, [])
        copied.append((space, read, target.count(space)))
    return copied


def _spaces(archive: Archive) -> Iterator[tuple[Space, int]]:
    for row in archive.catalog.vectors.live_spaces():
        yield Space.from_json(row.definition), archive.catalog.vectors.state(row.id).vectors
