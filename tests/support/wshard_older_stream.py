"""The stream writer of the reference package, imitated literally with plain struct: it interleaves its flushes.

Independent of the library. Buffers are flushed in the order signal/c, action/c per channel, then reward, done and
time/ticks; the index knows the first offset and the summed size of each block, and its checksums are those of the
contiguous range that this describes.
"""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

import crc32c
import xxhash
import zstandard

if TYPE_CHECKING:
    from collections.abc import Sequence

ALIGNMENT = 32


class OlderStream:
    """channels: (name, dtype, shape) of each; a step brings bytes per channel, for any of them."""

    def __init__(self, channels: Sequence[tuple[str, str, list[int]]], flush_interval: int = 64) -> None:
        self.channels = channels
        self.flush_interval = flush_interval
        names = sum(len(f"signal/{name}") + len(f"action/{name}") for name, _, _ in channels)
        front = 64 + (7 + 2 * len(channels)) * 48 + names + 200
        self.data = bytearray(-(-front // ALIGNMENT) * ALIGNMENT)
        self.order = [part for name, _, _ in channels for part in (f"signal/{name}", f"action/{name}")]
        self.order += ["reward", "done", "time/ticks"]
        self.buffers = {name: bytearray() for name in self.order}
        self.first: dict[str, int] = {}
        self.sizes: dict[str, int] = {}
        self.steps = 0

    def step(self, t: int, signals: dict[str, bytes], actions: dict[str, bytes], reward: float, done: int) -> None:
        for name, value in signals.items():
            self.buffers[f"signal/{name}"] += value
        for name, value in actions.items():
            self.buffers[f"action/{name}"] += value
        self.buffers["reward"] += struct.pack("<f", reward)
        self.buffers["done"] += bytes([done])
        self.buffers["time/ticks"] += struct.pack("<i", t)
        self.steps += 1
        if self.steps % self.flush_interval == 0:
            self.flush()

    def flush(self) -> None:
        for name in self.order:
            if self.buffers[name]:
                self.first.setdefault(name, len(self.data))
                self.sizes[name] = self.sizes.get(name, 0) + len(self.buffers[name])
                self.data += self.buffers[name]
                self.buffers[name] = bytearray()

    def end(self, *, compressed: bool = False) -> bytes:
        """Return the file; compressed: its meta blocks, without a codec bit, with the checksum of the stored bytes."""
        self.flush()
        rows: list[dict[str, Any]] = [
            {"id": name, "dtype": dtype, "shape": shape, "signal_block": f"signal/{name}"}
            for name, dtype, shape in self.channels
        ]
        about = {"episode_id": "older", "env_id": "Env", "length_T": self.steps}
        texts = {
            "meta/wshard": {"format": "W-SHARD", "wshard_version": "0.1", "alignment": 32, "streaming": True},
            "meta/episode": about | {"timebase": {"type": "ticks", "dt_ns": 33333333}},
            "meta/channels": {"channels": rows},
        }
        decoded: dict[str, int] = {}
        for name, value in texts.items():
            self.data += bytes(-len(self.data) % ALIGNMENT)
            text = json.dumps(value).encode()
            stored = zstandard.ZstdCompressor().compress(text) if compressed else text
            self.first[name], self.sizes[name], decoded[name] = len(self.data), len(stored), len(text)
            self.data += stored
        names, index, strings = sorted(self.first), b"", b""
        for name in names:
            offset, size, raw = self.first[name], self.sizes[name], name.encode()
            crc = crc32c.crc32c(bytes(self.data[offset : offset + size]))
            flag = int(compressed and name in decoded)
            index += struct.pack("<QIHH", xxhash.xxh64_intdigest(raw), len(strings), len(raw), flag)
            index += struct.pack("<QQQII", offset, size, decoded.get(name, size), crc, 0)
            strings += raw
        table = 64 + len(index)
        section = -(-(table + len(strings)) // ALIGNMENT) * ALIGNMENT
        head = struct.pack("<4sBBHBBHI", b"SHRD", 2, 5, 0, ALIGNMENT, int(compressed), 48, len(names))
        head += struct.pack("<QQQQ16x", table, section, 0, len(self.data))
        front = head + index + strings
        self.data[: len(front)] = front
        return bytes(self.data)
