"""Ways to damage a file at random, for fuzzing."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random


def flip(data: bytearray, rng: random.Random) -> bytearray:
    """Flip one bit, or a few."""
    for _ in range(rng.choice([1, 1, 1, 2, 8])):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return data


def overwrite(data: bytearray, rng: random.Random) -> bytearray:
    """Overwrite some bytes with one value."""
    start, size = rng.randrange(len(data)), rng.choice([1, 2, 4, 8, 48])
    fill = rng.choice([b"\0", b"\xff", b"\x80", rng.randbytes(1)])
    data[start : start + size] = (fill * size)[: len(data) - start]
    return data


def truncate(data: bytearray, rng: random.Random) -> bytearray:
    """Cut the end off."""
    return data[: rng.randrange(len(data))]


def extend(data: bytearray, rng: random.Random) -> bytearray:
    """Add bytes at the end."""
    return data + rng.randbytes(rng.randrange(1, 100))


def splice(data: bytearray, rng: random.Random) -> bytearray:
    """Copy a piece over another one."""
    start, end, size = rng.randrange(len(data)), rng.randrange(len(data)), rng.randrange(1, 200)
    data[start : start + size] = data[end : end + size]
    return data
