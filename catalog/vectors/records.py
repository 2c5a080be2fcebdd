"""The plain values of Spaces and of the ledger of their vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog.records import SpaceState


@dataclass(frozen=True)
class SpaceRow:
    """A vector space; definition is the embedder's own text, checked_seq the clock at its last check."""

    id: int
    fingerprint: str
    family: str
    state: SpaceState
    definition: str
    checked_seq: int


@dataclass(frozen=True)
class Among:
    """The episodes that a space is meant for: those of these layouts and, unless None, with one of these ids.

    with_words: only those with words in metadata or notes. parts: layouts of which only the episodes with these ids
    belong to it. without: ids that do not, except in parts.
    """

    layout_ids: tuple[int, ...]
    ids: Sequence[int] | None = None
    with_words: bool = False
    parts: tuple[tuple[int, tuple[int, ...]], ...] = ()
    without: tuple[int, ...] = ()


@dataclass(frozen=True)
class Uncovered:
    """Episodes of one layout that have no vectors in the spaces of a search.

    space_id: the latest other space that has vectors of them, None for none. without_numbers: a lane is not finite.
    """

    layout_id: int
    space_id: int | None
    without_numbers: bool
    episodes: int


@dataclass(frozen=True)
class EmbeddingRow:
    """All `count` vectors of one episode, computed from the data with that digest."""

    episode_id: int
    digest: str
    count: int
    vectors: bytes


@dataclass(frozen=True)
class LedgerEntry:
    """One committed ledger row; vectors None (and count 0) is a tombstone: the vectors were deleted.

    checksum: the CRC32C of the vectors.
    """

    episode_id: int
    seq: int
    count: int
    vectors: bytes | None
    checksum: int | None = None


class LedgerRevision(NamedTuple):
    """What every change of a space in the ledger changes: the number of rows, tombstones included, and the last one."""

    rows: int
    last: int
    episode_id: int
    checksum: int


class LedgerState(NamedTuple):
    """Totals of a space in the ledger: episodes with vectors, vectors, the last number, one checksum of all these."""

    episodes: int
    vectors: int
    last: int
    checksum: int
