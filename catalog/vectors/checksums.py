"""Checksums of the ledger: one per row, compared whenever its vectors are read, and one number for many rows."""

from __future__ import annotations

from typing import Any, Final, TypeVar

from catalog.vectors.records import LedgerEntry
from wshard.container.layout import checksum
from wshard.errors import VectorsDamagedError

Numbers = TypeVar("Numbers", bound=Any)

_STEP: Final = 1_000_003
_WEIGHTS: Final = 1_073_741_789  # primes below 2**30 and 2**31: no product leaves 63 bits
_TERMS: Final = 2_147_483_647


def term(sums: Numbers, seqs: Numbers, episodes: Numbers) -> Numbers:
    """Return what rows add to the checksum of many; of numbers, arrays int64 or columns of SQL.

    Of what episode a row is, and under which number, counts as its vectors do.
    """
    found: Numbers = (sums + 1) * ((seqs * _STEP + episodes) % _WEIGHTS + 1) % _TERMS
    return found


def entry_of(episode: int, seq: int, count: int | None, vectors: bytes | None, stored: int | None) -> LedgerEntry:
    """Return a row of the ledger; raises VectorsDamagedError unless the vectors have the stored checksum."""
    check(episode, vectors, stored)
    return LedgerEntry(episode, seq, count or 0, vectors, stored)


def check(episode: int, vectors: bytes | None, stored: int | None) -> None:
    """Raise VectorsDamagedError unless the vectors of the episode have the stored checksum; a tombstone has neither."""
    found = None if vectors is None else checksum(vectors)
    if found != stored:
        actual, wanted = ("none" if one is None else f"{one:08x}" for one in (found, stored))
        raise VectorsDamagedError(
            f"the vectors of episode {episode} in the catalog: expected CRC32C {wanted}, found {actual}: "
            f"`wshard fsck --data --repair` re-embeds it from its file"
        )
