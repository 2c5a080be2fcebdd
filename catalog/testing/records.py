"""Awkward episodes for tests.

Values come from small pools, so that random filters match random episodes.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from itertools import chain
from typing import Any

from catalog.episode_record import EpisodeRecord
from catalog.records import Asset, LaneRecord, Spread
from wshard.core.episode.protocol import StoredLane

AWKWARD = (
    "",
    "reach-v3",
    "Reach-v3",
    "'; DROP TABLE episode; --",
    '"quoted" \\ % _ * ?',
    "a'' OR 1=1",
    "päivää",
    "𝄞 clef",
    "\uffff",
    "-- comment /* */ :name $1 ?1",
)
"""Text that a careless query would break on."""

JSON_NUMBERS = (0, 1, -1, 0.1, 1e300, 5e-324, 0.30000000000000004, 2**53, 2**53 + 1, float(2**53), 2**63 - 1, 10**25)
"""Numbers that JSON readers round."""

KEYS = ("task", "a.b", "päivä", 'quo"te', "nested")
"""Keys of metadata, plain and awkward."""

WORDS = ("pick", "pick up", "PICK up", "pi*", "up the red", "päivää", "paivaa", "cube 1", "drop table", "u*")

PHRASES = ("Pick up the red cube 1", "pick the cube up", "PÄIVÄÄ pick", "'; DROP TABLE episode; --", "!?")
"""Tasks and notes."""

TAGS = ("good", "bad", "'; DROP TABLE tag; --", "ünïcode %")
LENGTHS = (0, 1, 99, 100, 2**53, 2**62)
REWARDS = (0.0, -0.0, 0.1, 0.30000000000000004, -1.5, 5e-324, 1.7976931348623157e308, float("inf"), float("-inf"))

SPREADS = (Spread(-1.0, 1.0, 0.1, 0.5), Spread(0.0, 0.1, 0.05, 5e-324))


def pack(*channels: Spread) -> bytes:
    """Return the spread of a lane with these channels."""
    lows, highs, means, stds = zip(*channels, strict=True)
    mean = sum(means) / len(means)
    variance = sum(std * std + (each - mean) ** 2 for std, each in zip(stds, means, strict=True)) / len(means)
    numbers = (min(lows), max(highs), mean, variance**0.5, *chain.from_iterable(channels))
    return struct.pack(f"<{len(numbers)}d", *numbers)


LANES = (
    LaneRecord("action/joint", "f32", (4,), 100, 50.0, StoredLane("zstd", 1600, 320), pack(*SPREADS)),
    LaneRecord("signal/state", "f32", (39,), 100, rate=0.1, storage=StoredLane("none", 15_600, 15_600)),
    LaneRecord("signal/camera", "u8", (64, 64, 3), 100),
)


def make_assets(path: str) -> tuple[Asset, ...]:
    """Return the files of an episode at this path as of one that consists of a manifest and chunks."""
    chunks = (Asset("chunk", f"{path}.parts/{part}.wshard", f"digest {part}", 10, part) for part in range(3))
    return Asset("manifest", path, "digest of the manifest", 5, 9), *chunks


def make_record(number: int, *, folder: str = "/data/set", **changes: Any) -> EpisodeRecord:
    """Return a plain episode that differs from those of other numbers in path, episode_id and digest."""
    record = EpisodeRecord(
        path=f"{folder}/episode_{number:06d}.wshard",
        key="",
        episode_id=f"episode_{number:06d}",
        env_id=f"env-{number % 5}",
        length=100 + number % 400,
        total_reward=float(number % 97),
        success=number % 3 == 0,
        digest=f"digest-{number:032d}",
        size=10_000 + number,
        mtime_ns=1_700_000_000_000_000_000 + number,
        metadata={"seed": number},
        lanes=LANES,
    )
    return replace(record, **changes)
