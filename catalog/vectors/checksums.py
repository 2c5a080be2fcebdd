"""Checksums of the ledger: one per row, verified whenever its vectors are read, and a combined one for many rows."""

from __future__ import annotations

from typing import Any, Final, TypeVar

from catalog.vectors.records import LedgerEntry
from wshard.core.container.layout import checksum
from wshard.errors import VectorsDamagedError

Numbers = TypeVar("Numbers", bound=Any)

_STEP: Final = 1_000_003
_WEIGHTS: Final = 1_073_741_789  # primes below 2**30 and 2**31: no product leaves 63 bits
_TERMS: Final = 2_147_483_647


def term(sums: Numbers, seqs: Numbers, episodes: Numbers) -> Numbers:
    """Return the contribution of rows to the combined checksum; arguments: ints, int64 arrays or SQL columns.

    It covers the vectors (`sums`: their CRC32C), the number and the episode of each row.
    """
    result: Numbers = (sums + 1) * ((seqs * _STEP + episodes) % _WEIGHTS + 1) % _TERMS
    return result


def entry_of(episode: int, seq: int, count: int | None, vectors: bytes | None, stored: int | None) -> LedgerEntry:
    """Return a row of the ledger; raises VectorsDamagedError unless the vectors have the stored checksum."""
    check(episode, vectors, stored)
    return LedgerEntry(episode, seq, count or 0, vectors, stored)


def check(episode: int, vectors: bytes | None, stored: int | None) -> None:
    """Raise VectorsDamagedError unless the vectors of the episode have the stored checksum; a tombstone has neither."""
    actual_checksum = None if vectors is None else checksum(vectors)
    if actual_checksum != stored:
        actual, expected = ("none" if value is None else f"{value:08x}" for value in (actual_checksum, stored))
        raise VectorsDamagedError(
            f"the vectors of episode {episode} in the catalog: expected CRC32C {expected}, found {actual}: "
            f"`wshard fsck --data --repair` re-embeds it from its file"
        )
