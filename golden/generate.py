"""Pack the golden files with plain struct: what FORMAT.md says, spelt a second time, without the library.

Run `python golden/generate.py FOLDER` to write the files; a test compares them with those beside this script. Each file
has a twin in JSON with the values that a reader must return. Nothing in a golden file depends on the version of a
library: the compressed blocks are assembled by hand.
"""

# ruff: noqa: INP001  (a script beside its output, not a package)
from __future__ import annotations

import json
import struct
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import crc32c
import xxhash

# struct codes of the 13 dtypes; bf16 is kept as the 16 bits that it is.
CODES = {
    "f64": "d",
    "f32": "f",
    "f16": "e",
    "bf16": "H",
    "i64": "q",
    "i32": "i",
    "i16": "h",
    "i8": "b",
    "u64": "Q",
    "u32": "I",
    "u16": "H",
    "u8": "B",
    "bool": "?",
}


@dataclass(frozen=True)
class Block:
    """One block as it is stored: codec flags, stored bytes, and the bytes they decode to."""

    name: str
    data: bytes
    content_type: int = 0
    flags: int = 0
    stored: bytes | None = None


def values(dtype: str, numbers: list[Any]) -> bytes:
    """Pack numbers little-endian."""
    return struct.pack(f"<{len(numbers)}{CODES[dtype]}", *numbers)


def pack(blocks: list[Block], *, alignment: int, flags: int, terminated: bool) -> bytes:
    """Lay out one container of role 5 with the blocks in the given order."""
    strings, offsets = b"", []
    for block in blocks:
        offsets.append(len(strings))
        strings += block.name.encode() + (b"\0" if terminated else b"")
    table = 64 + 48 * len(blocks)
    section = -(-(table + len(strings)) // alignment) * alignment
    index, data = b"", b""
    for block, name_offset in zip(blocks, offsets, strict=True):
        data += bytes(-len(data) % alignment)
        stored = block.data if block.stored is None else block.stored
        name = block.name.encode()
        index += struct.pack("<QIHH", xxhash.xxh64_intdigest(name), name_offset, len(name), block.flags)
        index += struct.pack("<QQQ", section + len(data), len(stored), len(block.data))
        index += struct.pack("<IHH", crc32c.crc32c(block.data), block.content_type, 0)
        data += stored
    header = struct.pack("<4sBBHBBHI", b"SHRD", 2, 5, flags, alignment, 0, 48, len(blocks))
    header += struct.pack("<QQQQ16x", table, section, 0, section + len(data))
    front = header + index + strings
    return front + bytes(section - len(front)) + data


def meta(episode: dict[str, Any], channels: dict[str, Any], wshard: dict[str, Any]) -> list[Block]:
    """Return the three JSON blocks."""
    parts = {"meta/wshard": wshard, "meta/episode": episode, "meta/channels": channels}
    return [Block(name, json.dumps(value).encode(), content_type=2) for name, value in parts.items()]


def lane(dtype: str, shape: list[int], numbers: list[Any]) -> dict[str, Any]:
    """Return the twin's record of one lane; shape with T in front."""
    return {"dtype": dtype, "shape": shape, "values": numbers}


def twin(episode: dict[str, Any], lanes: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return what a reader must say about a file."""
    return {"episode": episode, "lanes": lanes, **more}


def simple() -> tuple[bytes, dict[str, Any]]:
    """Pack an ordinary episode with terminated names, aligned to 64 bytes."""
    state = [0.5 * i for i in range(40)]
    ctrl = [-float(i) for i in range(20)]
    reward = [i / 4 for i in range(10)]
    done = [i == 9 for i in range(10)]
    about = {"episode_id": "golden-simple", "env_id": "Reach-v1", "length_T": 10, "metadata": {"success": True}}
    channels = [
        {"id": "state", "dtype": "f32", "shape": [4], "signal_block": "signal/state"},
        {"id": "ctrl", "dtype": "f32", "shape": [2], "signal_block": "action/ctrl"},
    ]
    blocks = [
        *meta(about | {"timebase": {"type": "ticks", "tick_hz": 29.97}}, {"channels": channels}, {"format": "W-SHARD"}),
        Block("signal/state", values("f32", state)),
        Block("action/ctrl", values("f32", ctrl)),
        Block("reward", values("f32", reward)),
        Block("done", values("bool", done)),
    ]
    lanes = {
        "signal/state": lane("f32", [10, 4], state),
        "action/ctrl": lane("f32", [10, 2], ctrl),
        "reward": lane("f32", [10], reward),
        "done": lane("bool", [10], done),
    }
    return pack(blocks, alignment=64, flags=0xA2, terminated=True), twin(about, lanes, tick_hz=29.97)


def every_dtype() -> tuple[bytes, dict[str, Any]]:
    """Pack a lane of each dtype in the manner of the episode packages: packed names, flags 0, dt_ns truncated."""
    blocks, channels, lanes = [], [], {}
    for dtype, code in CODES.items():
        signed = code in "qihb"
        numbers: list[Any] = [True, False, True] if code == "?" else [-1 if signed else 1, 0, 127]
        numbers = [number / 2 for number in numbers] if code in "dfe" else numbers
        blocks.append(Block(f"signal/{dtype}", values(dtype, numbers)))
        channels.append({"id": dtype, "dtype": dtype, "shape": []})
        lanes[f"signal/{dtype}"] = lane(dtype, [3], numbers)
    about = {"episode_id": "golden-dtypes", "env_id": "", "length_T": 3}
    head = meta(about | {"timebase": {"type": "ticks", "dt_ns": 16666666}}, {"channels": channels}, {"version": 1})
    ordered = sorted([*head, *blocks], key=lambda block: block.name)
    return pack(ordered, alignment=32, flags=0, terminated=False), twin(about, lanes, tick_hz=60.0)


def compressed() -> tuple[bytes, dict[str, Any]]:
    """Pack a zstd frame of one run-length block and a raw lz4 block, both assembled by hand."""
    zeros = values("f32", [0.0] * 250)
    run = struct.pack("<I", 1 | 1 << 1 | len(zeros) << 3)[:3] + b"\0"  # last block, run length, size; the byte
    zstd = bytes.fromhex("28b52ffd") + b"\x60" + struct.pack("<H", len(zeros) - 256) + run
    pattern = values("f32", [1.5, -2.0])
    match = 8 * 123 - 4 - 15  # all but the first and the last pattern, less what token and match rule already say
    lz4 = bytes([0x8F]) + pattern + struct.pack("<H", 8) + b"\xff" * (match // 255) + bytes([match % 255])
    lz4 += bytes([0x80]) + pattern  # the format wants a block to end with literals
    about = {"episode_id": "golden-compressed", "env_id": "", "length_T": 125}
    channels = [{"id": "still", "dtype": "f32", "shape": [2]}, {"id": "beat", "dtype": "f32", "shape": [2]}]
    blocks = [
        *meta(about | {"timebase": {"type": "ticks", "tick_hz": 0.5}}, {"channels": channels}, {}),
        Block("signal/still", zeros, flags=3, stored=zstd),
        Block("signal/beat", pattern * 125, flags=5, stored=lz4),
    ]
    lanes = {
        "signal/still": lane("f32", [125, 2], [0.0] * 250),
        "signal/beat": lane("f32", [125, 2], [1.5, -2.0] * 125),
    }
    return pack(blocks, alignment=64, flags=0xA2, terminated=True), twin(about, lanes, tick_hz=0.5)


def frames() -> tuple[bytes, dict[str, Any]]:
    """Pack a lane of three zstd frames, each one run of a byte, with the seek table that finds them."""
    stored, table, decoded = b"", b"", b""
    for byte, size in ((7, 400), (9, 400), (11, 300)):
        run = struct.pack("<I", 1 | 1 << 1 | size << 3)[:3] + bytes([byte])  # last block, run length, size; the byte
        frame = bytes.fromhex("28b52ffd") + b"\x60" + struct.pack("<H", size - 256) + run
        data = bytes([byte]) * size
        table += struct.pack("<III", len(frame), size, xxhash.xxh64_intdigest(data) & 0xFFFFFFFF)
        stored, decoded = stored + frame, decoded + data
    stored += struct.pack("<II", 0x184D2A5E, len(table) + 9) + table + struct.pack("<IBI", 3, 0x80, 0x8F92EAB1)
    about = {"episode_id": "golden-frames", "env_id": "", "length_T": 11}
    channels = [{"id": "beat", "dtype": "u8", "shape": [100], "signal_block": "signal/beat", "frame_steps": 4}]
    blocks = [
        *meta(about | {"timebase": {"type": "ticks", "tick_hz": 10}}, {"channels": channels}, {}),
        Block("signal/beat", decoded, flags=3, stored=stored),
    ]
    lanes = {"signal/beat": lane("u8", [11, 100], list(decoded))}
    return pack(blocks, alignment=64, flags=0xA2, terminated=True), twin(about, lanes, tick_hz=10.0)


def additions() -> tuple[bytes, dict[str, Any]]:
    """Pack what this project adds to the profile: "lanes", "synthesized", aux/reward, aux/truncations."""
    exact = [0.1, 1e300, -0.0]
    prediction = [float(i) for i in range(6)]
    lanes = {
        "signal/arm/state": lane("f64", [3, 2], [i / 3 for i in range(6)]),
        "omen/arm/state/dreamer": lane("f32", [3, 2], prediction),
        "uncert/arm/state/dreamer/std": lane("f16", [3], [0.25, 0.5, 1.0]),
        "aux/reward": lane("f64", [3], exact),
        "aux/truncations": lane("bool", [3], [False, False, True]),
        "time/ticks": lane("i64", [3], [0, 2**40, 2**41]),
        "time/timestamps_ns": lane("i64", [3], [10**18, 10**18 + 1, 10**18 + 2]),
    }
    about = {"episode_id": "golden-additions", "env_id": "Reach-v1", "length_T": 3}
    about |= {"chunk_index": 1, "total_chunks": 2, "timestep_range": [3, 5], "synthesized": ["done"]}
    episode = about | {"timebase": {"type": "timestamps_ns", "tick_hz": 1000, "epoch_ns": 10**18}}
    rows = [
        {"block": name, "dtype": record["dtype"], "shape": record["shape"][1:]}
        for name, record in lanes.items()
        if name.startswith(("omen/", "uncert/")) or name == "aux/reward"
    ]
    channels = {"channels": [{"id": "arm/state", "dtype": "float64", "shape": [2]}], "lanes": rows}
    blocks = [
        *meta(episode, channels, {"version": "0.1"}),
        *(Block(name, values(record["dtype"], record["values"])) for name, record in lanes.items()),
        Block("reward", values("f32", [exact[0], float("inf"), exact[2]])),
        Block("done", bytes(3)),
        Block("residual/arm/state/sign2nddiff", b"\x05\x02"),
    ]
    ordered = sorted(blocks, key=lambda block: block.name)
    more = {"tick_hz": 1000.0, "residuals": {"arm/state": "0502"}, "not_recorded": ["done"]}
    return pack(ordered, alignment=64, flags=0xA2, terminated=True), twin(about, lanes, **more)


def recording() -> tuple[bytes, dict[str, Any]]:
    """Pack the journal of a killed recording: two flushes of 2 and 1 timesteps, and a third one torn off."""

    def record(kind: bytes, payload: bytes, steps: int = 0) -> bytes:
        head = struct.pack("<4sIQ", kind, steps, len(payload))
        return head + struct.pack("<I", crc32c.crc32c(head + payload)) + payload

    def rows(first: int, count: int) -> bytes:
        ticks = range(first, first + count)
        payload = values("f32", [t + part / 2 for t in ticks for part in range(2)]) + values("i8", [-t for t in ticks])
        payload += values("f32", [t / 4 for t in ticks]) + values("bool", [False] * count)
        payload += values("i32", list(ticks)) + values("bool", [t == 1 for t in ticks])
        return record(b"ROWS", payload, count)

    about = {"episode_id": "golden-recording", "env_id": "Reach-v1", "length_T": None, "metadata": {"task": "reach"}}
    channels = [
        {"id": "state", "dtype": "f32", "shape": [2], "signal_block": "signal/state"},
        {"id": "unused", "dtype": "f32", "shape": [], "signal_block": "signal/unused"},
        {"id": "ctrl", "dtype": "i8", "shape": [], "signal_block": "action/ctrl"},
    ]
    described = meta(about | {"timebase": {"type": "ticks", "tick_hz": 50.0}}, {"channels": channels}, {})
    lanes = ["signal/state", "action/ctrl", "reward", "done", "time/ticks", "aux/truncations"]
    journal = b"WSJ1" + b"".join(record(b"DESC", block.data) for block in described)
    journal += record(b"LANE", json.dumps(lanes).encode()) + rows(0, 2) + rows(2, 1) + rows(3, 2)[:-1]
    contents = {
        "signal/state": lane("f32", [3, 2], [0.0, 0.5, 1.0, 1.5, 2.0, 2.5]),
        "action/ctrl": lane("i8", [3], [0, -1, -2]),
        "reward": lane("f32", [3], [0.0, 0.25, 0.5]),
        "done": lane("bool", [3], [False] * 3),
        "time/ticks": lane("i32", [3], [0, 1, 2]),
        "aux/truncations": lane("bool", [3], [False, True, False]),
    }
    recovered = about | {"length_T": 3, "metadata": {"task": "reach", "recovered": True}}
    return journal, twin(recovered, contents, tick_hz=50.0)


GOLDEN = {
    "simple.wshard": simple,
    "every_dtype.wshard": every_dtype,
    "compressed.wshard": compressed,
    "frames.wshard": frames,
    "additions.wshard": additions,
    "recording.journal": recording,
}


def generate(folder: Path) -> None:
    """Write all golden files and their twins."""
    for name, make in GOLDEN.items():
        data, expected = make()
        (folder / name).write_bytes(data)
        (folder / name).with_suffix(".json").write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8")
    hashes = {
        "crc32c": {"hello": "0x9a71bb4c", "": "0x00000000"},
        "xxh64": {"signal/obs": "0x86f8c8413116a0ae", "meta/manifest": "0x9a191dcd325813d3"},
    }
    (folder / "golden_hashes.json").write_text(json.dumps(hashes, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    generate(Path(sys.argv[1]))
