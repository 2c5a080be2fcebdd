"""Write the hostile files of attacks/ with plain struct, independently of the library: `generate_attacks.py FOLDER`.

Each file breaks one rule and is otherwise right. Its JSON twin names the error that a reader must raise, how the file
is opened (container: all blocks are read; metadata: the JSON section too; episode; manifest: all its files), and why.
"""

# ruff: noqa: INP001  (a script beside its output, not a package)
from __future__ import annotations

import hashlib
import json
import struct
import sys
from pathlib import Path
from typing import Any, NamedTuple

import crc32c
import xxhash

HEADER = {"magic": b"SHRD", "version": 2, "role": 2, "flags": 0x22, "alignment": 0, "codec": 0, "entry_size": 48}


class Block(NamedTuple):
    """One block; every number of its index entry may be a lie."""

    name: bytes
    data: bytes
    lies: dict[str, int] = {}  # noqa: RUF012  (never changed)
    stored: bytes | None = None


def pack(blocks: list[Block], tail: bytes = b"", names: bytes | None = None, **lies: Any) -> bytes:
    """Lay out a packed container; tail is the JSON section, names the string table if it shall be another."""
    table = 64 + 48 * len(blocks)
    strings = b"".join(block.name + b"\0" for block in blocks) if names is None else names
    section = table + len(strings)
    index, data, named = b"", b"", 0
    for block in blocks:
        stored = block.data if block.stored is None else block.stored
        true = {"hash": xxhash.xxh64_intdigest(block.name), "name": named, "name_size": len(block.name), "flags": 0}
        true |= {"offset": section + len(data), "disk": len(stored), "size": len(block.data)}
        true |= {"crc": crc32c.crc32c(block.data), "type": 0, "tags": 0}
        index += struct.pack("<QIHHQQQIHH", *(true | block.lies).values())
        data, named = data + stored, named + len(block.name) + 1
    end = section + len(data)
    front = HEADER | {"count": len(blocks), "strings": table, "section": section}
    front |= {"schema": end if tail else 0, "total": end + len(tail)} | lies
    return struct.pack("<4sBBHBBHIQQQQ16x", *front.values()) + index + strings + data + tail


def section(**keys: Any) -> bytes:
    """Pack a manifest whose JSON section holds one reference with these fields."""
    about = {"schema_version": "shard-v2.1", "profile": "manifest.v1", "manifest": {"files": [keys]}}
    return pack([], json.dumps(about).encode(), role=4)


def episode(**changes: bytes | None) -> bytes:
    """Pack a small episode of which some blocks are others, or missing."""
    blocks: dict[str, bytes | None] = {
        "meta/wshard": b'{"format": "W-SHARD", "version": "0.1"}',
        "meta/episode": b'{"episode_id": "e", "env_id": "v", "length_T": 4}',
        "meta/channels": b'{"channels": [{"id": "s", "dtype": "f32", "shape": []}]}',
        "signal/s": bytes(16),
        "reward": bytes(16),
        "done": bytes(4),
    } | changes
    return pack([Block(name.encode(), data) for name, data in blocks.items() if data is not None], role=5)


def camera(block: bytes, **changes: Any) -> bytes:
    """Pack an episode of 4 timesteps with encoded frames of 2 x 2 pixels, declared with changes."""
    row = {"id": "s", "dtype": "u8", "shape": [], "encoding": "png", "frame_shape": [2, 2, 3]} | changes
    return episode(**{"meta/channels": json.dumps({"channels": [row]}).encode(), "signal/s": block})


def images(*places: int) -> bytes:
    """Pack places of images and 8 bytes that are none."""
    return struct.pack(f"<{len(places)}Q", *places) + bytes(8)


def interleaved() -> bytes:
    """Pack what an older stream writer made of 3 timesteps in flushes of 2: right checksums over mixed rows."""
    rows = b"".join([b"\1\2", struct.pack("<2f", 1, 2), b"\3", struct.pack("<f", 3)])
    meta = [Block(b"meta/episode", b'{"episode_id": "e", "length_T": 3}')]
    start = 64 + 48 * 3 + len(b"signal/s\0reward\0meta/episode\0")
    lies = [{"offset": start, "disk": 3, "size": 3, "crc": crc32c.crc32c(rows[:3])}]
    lies += [{"offset": start + 2, "disk": 12, "size": 12, "crc": crc32c.crc32c(rows[2:14])}]
    return pack([Block(b"signal/s", rows, lies[0]), Block(b"reward", b"", lies[1]), *meta], role=5)


def container_attacks() -> dict[str, tuple[bytes, str, str]]:
    """Return name: (bytes, error, why) of attacks on header, index, names and codecs."""
    one, good = [Block(b"a", b"payload")], pack([Block(b"a", b"payload")])
    run = struct.pack("<I", 1 << 1 | 1 << 17 << 3)[:3] + b"\0"  # a run of 128 KiB of zeros
    zeros = bytes.fromhex("28b52ffd0050") + run * 127 + bytes([run[0] | 1]) + run[1:]  # no content size, 1 MiB window
    zstd = {"flags": 3}
    many = [Block(b"", b"", {"name": 0, "name_size": 60000}) for _ in range(50)]
    nested = b'{"extra": ' + b"[" * 50_000
    return {
        "empty": (b"", "HeaderError", "no bytes at all"),
        "short": (good[:63], "HeaderError", "a header of 63 bytes"),
        "magic": (pack(one, magic=b"SHRE"), "HeaderError", "another magic"),
        "version": (pack(one, version=1), "HeaderError", "version 1"),
        "entry_size": (pack(one, entry_size=0), "HeaderError", "index entries of 0 bytes"),
        "count_limit": (pack(one, count=2**32 - 1), "LimitError", "200 GB of index"),
        "count_plus_one": (pack(one, count=2), "HeaderError", "the index runs into the string table"),
        "total_more": (pack(one, total=2**64 - 1), "HeaderError", "a file that claims 16 EiB"),
        "total_less": (good + b"x", "HeaderError", "a byte behind the end"),
        "cut": (good[:-1], "HeaderError", "the last byte is missing"),
        "strings_in_index": (pack(one, strings=64), "HeaderError", "string table in front of the end of the index"),
        "section_before_strings": (pack(one, section=70), "HeaderError", "data section in front of the names"),
        "section_outside": (pack(one, section=2**63), "HeaderError", "data section far outside the file"),
        "name_outside": (pack([Block(b"a", b"1", {"name": 2**32 - 1})]), "IndexCorruptError", "a name at 4 GiB"),
        "name_not_utf8": (pack([Block(b"\xff\xfe", b"1")]), "IndexCorruptError", "a name that is no text"),
        "names_shared": (pack(many, names=b"n" * 60000), "IndexCorruptError", "50 names that are the same 60 kB"),
        "offset_outside": (pack([Block(b"a", b"1", {"offset": 2**40})]), "IndexCorruptError", "a block at 1 TiB"),
        "offset_overflow": (
            pack([Block(b"a", b"1", {"offset": 2**64 - 1, "disk": 2})]), "IndexCorruptError", "a sum beyond 64 bits",
        ),
        "offset_in_front": (pack([Block(b"a", b"1", {"offset": 0})]), "IndexCorruptError", "the header as a block"),
        "size_outside": (pack([Block(b"a", b"1", {"disk": 2**40})]), "IndexCorruptError", "1 TiB of stored bytes"),
        "overlap": (
            pack([Block(b"a", b"1234", {"disk": 5, "size": 5}), Block(b"b", b"5678")]), "OverlapError", "a shared byte",
        ),
        "interleaved": (interleaved(), "OverlapError", "an older stream writer's mixed rows, with right checksums"),
        "checksum": (pack([Block(b"a", b"payload", {"crc": 1})]), "ChecksumError", "another checksum"),
        "checksum_zero": (pack([Block(b"a", b"payload", {"crc": 0})]), "ChecksumError", "no checksum, but the flag"),
        "raw_sizes": (pack([Block(b"a", b"payload", {"size": 8})]), "CodecError", "raw, but of two sizes"),
        "both_codecs": (pack([Block(b"a", b"payload", {"flags": 7})]), "CodecError", "zstd and lz4 at once"),
        "unknown_flag": (pack([Block(b"a", b"payload", {"flags": 16})]), "CodecError", "a flag that nobody knows"),
        "no_codec": (pack([Block(b"a", b"x" * 9, {"flags": 1}, b"y")]), "CodecError", "compressed by nothing"),
        "zstd_bomb": (pack([Block(b"a", b"x" * 64, zstd, zeros)]), "CodecError", "16 MiB behind a size of 64"),
        "zstd_claim": (
            pack([Block(b"a", b"", zstd | {"size": 1 << 30}, zeros[:30])]), "LimitError", "1 GiB out of 30 bytes",
        ),
        "size_limit": (
            pack([Block(b"a", b"", zstd | {"size": 2**64 - 1}, zeros)]), "LimitError", "16 EiB of decoded bytes",
        ),
        "zstd_garbage": (pack([Block(b"a", b"x" * 9, zstd, b"garbage")]), "CodecError", "no zstd frame"),
        "lz4_size_prefix": (
            pack([Block(b"a", b"x" * 3, {"flags": 5}, b"\3\0\0\0\x30xxx")]), "CodecError", "lz4 with a size in front",
        ),
        "lz4_bomb": (
            pack([Block(b"a", b"", {"flags": 5, "size": 1 << 20}, b"\x1fx\1\0" + b"\xff" * 5000)]), "CodecError",
            "an lz4 match that never ends",
        ),
        "section_not_json": (pack(one, b"{"), "MetadataError", "a JSON section that is none"),
        "section_nested": (pack(one, nested), "MetadataError", "JSON nested 50,000 deep"),
        "section_outside_file": (pack(one, schema=2**62), "MetadataError", "a JSON section outside the file"),
        "section_in_header": (pack(one, schema=1), "MetadataError", "a JSON section inside the header"),
    }  # fmt: skip


def episode_attacks() -> dict[str, tuple[bytes, str, str]]:
    """Return name: (bytes, error, why) of attacks on the profile."""
    channels = '{"channels": [{"id": "s", "dtype": "f32", "shape": %s}]}'
    twice = [Block(b"meta/episode", b"{}"), Block(b"reward", b""), Block(b"reward", b"")]
    return {
        "role": (pack([Block(b"meta/episode", b"{}")]), "HeaderError", "a container of another role"),
        "no_meta": (pack([Block(b"reward", bytes(4))], role=5), "LaneError", "no meta block"),
        "no_blocks": (pack([], role=5), "LaneError", "no block"),
        "twice": (pack(twice, role=5), "IndexCorruptError", "two rewards"),
        "meta_not_json": (episode(**{"meta/episode": b"\xff"}), "LaneError", "meta that is no text"),
        "meta_list": (episode(**{"meta/channels": b"[]"}), "LaneError", "meta that is a list"),
        "meta_nested": (episode(**{"meta/wshard": b"[" * 50_000}), "LaneError", "meta nested 50,000 deep"),
        "length": (episode(**{"meta/episode": b'{"length_T": 1e18}'}), "LaneError", "more timesteps than bytes"),
        "shape": (
            episode(**{"meta/channels": (channels % "[1099511627775, 999999]").encode()}), "LaneError", "a huge row",
        ),
        "shape_negative": (episode(**{"meta/channels": (channels % "[-1]").encode()}), "LaneError", "a negative size"),
        "dtype": (
            episode(**{"meta/channels": b'{"channels": [{"id": "s", "dtype": "O"}]}'}), "LaneError", "object values",
        ),
        "short_lane": (episode(reward=bytes(15)), "LaneError", "rewards of 3.75 timesteps"),
        "long_lane": (episode(reward=bytes(20)), "LaneError", "5 rewards for 4 timesteps"),
        "camera_encoding": (camera(b"", encoding="tiff"), "LaneError", "an encoding that nobody knows"),
        "camera_size": (camera(b"", frame_shape=[60000, 60000, 3]), "LaneError", "frames of 3.6 billion pixels"),
        "camera_dtype": (camera(b"", dtype="f64"), "LaneError", "encoded frames for other readers as numbers"),
        "camera_short": (camera(b""), "LaneError", "no places of images"),
        "camera_descending": (camera(images(40, 44, 42, 46, 48)), "LaneError", "images that overlap"),
        "camera_in_places": (camera(images(0, 42, 44, 46, 48)), "LaneError", "an image that is the places"),
        "camera_outside": (camera(images(40, 42, 44, 46, 2**63)), "LaneError", "images behind the block"),
        "camera_garbage": (camera(images(40, 42, 44, 46, 48)), "CodecError", "images that are none"),
        "camera_bomb": (
            camera(struct.pack("<5Q", 40, *[40 + len(BOMB)] * 4) + BOMB), "LimitError", "a PNG of 3.6 billion pixels",
        ),
        "camera_video": (camera(bytes(64), encoding="mp4"), "CodecError", "a video that is none"),
        "camera_playlist": (
            camera(b"#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n", encoding="mp4"), "CodecError", "a list of other files",
        ),
    }  # fmt: skip


BOMB = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sIIBBBBB", 13, b"IHDR", 60000, 60000, 8, 2, 0, 0, 0) + bytes(30)


def manifest_attacks() -> dict[str, tuple[bytes, str, str]]:
    """Return name: (bytes, error, why) of attacks through references to other files."""
    wrong = {"uri": "target.bin", "sha256": "0" * 64}
    right = {"uri": "target.bin", "sha256": hashlib.sha256(TARGET).hexdigest()}
    return {
        "escape": (section(uri="../../pyproject.toml", sha256="0" * 64), "ManifestError", "a path that leads out"),
        "absolute": (section(uri="/etc/passwd", sha256="0" * 64), "ManifestError", "an absolute path"),
        "hidden_escape": (section(uri="a/../../x", sha256="0" * 64), "ManifestError", "a path that leads out later"),
        "backslash": (section(uri="..\\x", sha256="0" * 64), "ManifestError", "a path that leads out on Windows"),
        "url": (section(uri="https://example.org/x", sha256="0" * 64), "ManifestError", "a file on the net"),
        "other_content": (section(**wrong), "ChecksumError", "a file of another content"),
        "no_hash": (section(uri="target.bin"), "ManifestError", "a reference without a hash"),
        "other_count": (section(**right, entry_count=2), "ManifestError", "another number of blocks"),
        "other_role": (section(**right, role="wshard"), "HeaderError", "another role"),
        "keys_reversed": (section(**right, start_key="9", end_key="1"), "ManifestError", "keys from 9 to 1"),
    }


TARGET = pack([Block(b"a", b"payload")])  # what the references of the manifests mean


def generate(folder: Path) -> None:
    """Write all hostile files with their twins, and the file that manifests refer to."""
    groups = {"container": container_attacks(), "episode": episode_attacks(), "manifest": manifest_attacks()}
    (folder / "target.bin").write_bytes(TARGET)
    for kind, attacks in groups.items():
        for name, (data, error, why) in attacks.items():
            opened = "metadata" if name.startswith("section_") and error == "MetadataError" else kind
            (folder / f"{kind}_{name}.bin").write_bytes(data)
            twin = {"open_as": opened, "error": error, "why": why}
            (folder / f"{kind}_{name}.json").write_text(json.dumps(twin, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    generate(Path(sys.argv[1]))
