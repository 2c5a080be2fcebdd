"""Damaged files: whatever happens to the bytes, the reader refuses with its own errors or returns true values."""

from __future__ import annotations

import copy
import io
import json
import os
import random
import warnings
from functools import partial
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mutations import extend, flip, overwrite, splice, truncate
from paths import GOLDEN
from wshard_files import with_blocks

from wshard import Channel, FormatError, ShardReader, ShardWriter, load_wshard, open_wshard, save_wshard
from wshard import repair_file as repair
from wshard.core.container import reader as container
from wshard.core.container.layout import ENTRY_ZSTD, FLAG_HAS_CHECKSUMS, checksum
from wshard.core.container.metadata import EntryMeta, ShardMetadata
from wshard.core.container.seekable_zstd import read_frame, read_table
from wshard.core.repair.inspect import check_file
from wshard.errors import EpisodeError, UnsupportedFormatError
from wshard.testing import make_episode

if TYPE_CHECKING:
    from pathlib import Path

COUNT = int(os.environ.get("WSHARD_MUTATIONS", "1500"))


def originals() -> list[bytes]:
    files = [path.read_bytes() for path in sorted(GOLDEN.glob("*.wshard"))]
    file = io.BytesIO()
    save_wshard(make_episode(9, 12, image_size=4), file, encode="png")
    files.append(file.getvalue())
    for codec in ("none", "zstd", "lz4"):
        file = io.BytesIO()
        save_wshard(make_episode(7, 30, image_size=4), file, codec)
        files.append(file.getvalue())
    file = io.BytesIO()
    ep = make_episode(8, 30)
    ep.observations["steady"] = Channel.of("steady", np.repeat(np.arange(300, dtype=np.int32).reshape(30, 10), 9, 1))
    save_wshard(ep, file, "zstd", frame_steps=7)
    return [*files, file.getvalue()]


def flip_front(data: bytearray, rng: random.Random) -> bytearray:
    """Header and index are covered by no checksum: hit them more often."""
    data[rng.randrange(min(len(data), 700))] ^= 1 << rng.randrange(8)
    return data


MUTATIONS = [flip, flip, flip_front, flip_front, overwrite, truncate, extend, splice]


def check(data: bytes, truth: set[bytes]) -> str:
    """Return what became of a damaged file; raise whatever is no FormatError, and AssertionError for wrong values."""
    try:
        ep = load_wshard(data)
        outcome = "loaded"
        for channel in ep.lanes().values():
            assert len(channel.data) == ep.length
    except FormatError:
        outcome = "refused"
    try:
        reader = ShardReader(data)
    except FormatError:
        return outcome
    check_parts(data)
    for number, entry in enumerate(reader.entries):
        checked = entry.checksum or reader.header.flags & FLAG_HAS_CHECKSUMS
        try:
            block = reader.read_entry(number)
        except FormatError:
            continue
        if checked:
            assert block in truth, f"block {entry.name!r} was returned with values that nobody wrote"
    for number in range(len(reader)):
        check_frames(reader, number, truth)
    return outcome


def check_parts(data: bytes):
    """Parts of encoded lanes are read without a checksum: what is damaged there is an error of ours, or decodes."""
    try:
        with open_wshard(data) as file:
            for name in [name for name, lane in file.lanes().items() if lane.encoding]:
                assert len(file[name][1:3]) == min(2, file.length - 1)
    except (FormatError, UnsupportedFormatError):
        return


def check_frames(reader: ShardReader, block: int, truth: set[bytes]):
    """Frames are read alone: each must be part of something that was written, or be refused."""
    try:
        entry, read = reader.entry(block), partial(reader.stored, block)
        framed = reader.codec(block) == ENTRY_ZSTD
        table = read_table(read, entry.disk_size, entry.orig_size) if framed else None
    except FormatError:
        return
    for number in range(0 if table is None else len(table.checks)):
        try:
            frame = bytes(read_frame(read, table, number, "file"))
        except FormatError:
            continue
        assert any(frame in written for written in truth), f"frame {number} of {entry.name!r} holds what nobody wrote"


@pytest.mark.parametrize("file", range(len(originals())))
def test_damaged_files_are_refused_or_give_true_values(file):
    """C-1 to C-11."""
    original, rng = originals()[file], random.Random(file)
    reader = ShardReader(original)
    truth = {reader.read_entry(number) for number in range(len(reader))} | {b""}
    outcomes = {"loaded": 0, "refused": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(-(-COUNT // len(originals()))):
            damaged = bytes(rng.choice(MUTATIONS)(bytearray(original), rng))
            outcomes[check(damaged, truth)] += 1
    assert outcomes["refused"] > outcomes["loaded"] > 0


def test_the_check_notices_a_reader_without_checksums(monkeypatch):
    """What passes above means something only if wrong values would be noticed."""
    original = originals()[0]
    reader = ShardReader(original)
    truth = {reader.read_entry(number) for number in range(len(reader))}
    damaged = bytearray(original)
    damaged[reader.entry("reward").data_offset] ^= 1
    assert check(bytes(damaged), truth) == "refused"
    monkeypatch.setattr(container, "check", lambda *_: None)
    with pytest.raises(AssertionError, match="values that nobody wrote"):
        check(bytes(damaged), truth)


def test_every_single_bit_of_the_data_region_is_guarded():
    """C-11: one flipped bit in any block is noticed by the reader of that block."""
    original = originals()[0]
    entries = ShardReader(original).entries
    for number, entry in enumerate(entries):
        for offset in range(entry.data_offset, entry.data_offset + entry.disk_size, 7):
            damaged = bytearray(original)
            damaged[offset] ^= 1 << offset % 8
            with pytest.raises(FormatError):
                ShardReader(bytes(damaged)).read_entry(number)
            assert checksum(original[entry.data_offset : entry.data_offset + entry.disk_size]) == entry.checksum


# ---- repair: of whatever is damaged, the truth or nothing -------------------------------------------------------


def container_of_entries() -> bytes:
    """Return a plain container with tags, a JSON section, a compressed and an empty block."""
    file, rng = io.BytesIO(), random.Random(3)
    with ShardWriter(file, alignment=16) as writer:
        writer.set_metadata(ShardMetadata(producer="x", entry_metadata={"entry/1": EntryMeta(tags=["a"])}))
        for number in range(6):
            writer.write_entry(
                f"entry/{number}", rng.randbytes(rng.randrange(20, 200)), tags=["b"] if number % 2 else []
            )
        writer.write_entry("text", b"abc " * 100, compression="zstd")
        writer.write_entry("empty", b"")
        writer.write_entry("residual/x", b"\1\2\3")
    return file.getvalue()


def with_foreign_blocks() -> bytes:
    blocks = {"signal/arm1": b"\1" * 120, "signal/arm2": b"\7" * 120, "residual/state/s": b"\3\4\5\6"}
    return with_blocks(originals()[-3], blocks | {"omen/state/dreamer": b"\1\2\3", "notes.txt": b"by another program"})


def flip_names(data: bytearray, rng: random.Random) -> bytearray:
    """Flip a bit of the place or size of a name, and one of a block."""
    entries = ShardReader(bytes(data)).entries
    data[64 + 48 * rng.randrange(len(entries)) + 8 + rng.randrange(6)] ^= 1 << rng.randrange(8)
    entry = rng.choice([entry for entry in entries if entry.disk_size])
    data[entry.data_offset + rng.randrange(entry.disk_size)] ^= 1
    return data


def flip_index(data: bytearray, rng: random.Random) -> bytearray:
    front = ShardReader(bytes(data)).header.data_section_offset
    for _ in range(rng.choice([1, 2, 2, 3])):
        data[rng.randrange(front if rng.random() < 0.8 else len(data))] ^= 1 << rng.randrange(8)
    return data


def wipe_index(data: bytearray, rng: random.Random) -> bytearray:
    start = 64 + 48 * rng.randrange(len(ShardReader(bytes(data)).entries)) + rng.randrange(48)
    size = rng.randrange(1, 49)
    data[start : start + size] = bytes(size)
    return data


def contents(path: Path) -> dict[str, bytes]:
    """Return the blocks of a file, which can be read whole; as an episode too, where it is one."""
    with ShardReader(path) as reader:
        if reader.header.role == 5:
            load_wshard(path)
        return {name: reader.read_entry(name) for name in reader.names()}


@pytest.mark.parametrize("original", [*originals(), container_of_entries(), with_foreign_blocks()])
def test_what_is_repaired_can_be_read_and_holds_the_truth_or_says_what_it_lost(tmp_path, original):
    """R-8 to R-14, C-8, E-15, E-16."""
    rng, outcomes = random.Random(len(original)), {"saved": 0, "refused": 0, "intact": 0}
    reader = ShardReader(original)
    truth = {name: reader.read_entry(name) for name in reader.names()}
    path, output = tmp_path / "damaged.shard", tmp_path / "repaired.shard"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(-(-COUNT // 40)):
            data = rng.choice([*MUTATIONS, flip_names, flip_names, flip_index, flip_index, wipe_index])(
                bytearray(original), rng
            )
            path.write_bytes(data if rng.random() < 0.7 else rng.choice(MUTATIONS)(data, rng))
            output.unlink(missing_ok=True)
            try:
                report = repair(path, output)
            except FormatError:
                outcomes["refused"] += 1
                continue
            found = contents(output if report.output else path)
            outcomes["saved" if report.output else "intact"] += 1
            for name in found.keys() - {*report.unchecked}:
                assert found[name] == truth.get(name, found[name]), f"{name!r} holds what another block was"
                assert not found[name] or found[name] in truth.values(), f"{name!r} holds what nobody wrote"
            assert truth.keys() <= found.keys() or report.unrecovered or report.notes, (
                "blocks are lost, and nobody says so"
            )
            if report.output:
                assert check_file(output)[1] == {}
    assert outcomes["saved"] > outcomes["intact"]


@pytest.mark.filterwarnings("ignore::wshard.errors.FormatWarning")  # of a hash that does not fit its name
def test_no_flipped_bit_in_front_of_a_container_goes_unnoticed():
    """C-8, C-30, E-16: reading refuses it, or gives what was written."""
    original = container_of_entries()
    reader = ShardReader(original)
    truth, about = {name: reader.read_entry(name) for name in reader.names()}, reader.read_metadata()
    others = []
    for place, bit in product(range(8, reader.header.data_section_offset), range(8)):
        data = bytearray(original)
        data[place] ^= 1 << bit
        try:
            damaged = ShardReader(bytes(data))
            found = {name: damaged.read_entry(name) for name in damaged.names()}
            if (found, damaged.read_metadata()) != (truth, about):
                others.append((place, bit))
        except FormatError:
            pass
    assert others == []


# ---- wrong JSON under right checksums ------------------------------------------------------------------------------

MEANT = {
    "meta/wshard": {"format": "W-SHARD", "version": "0.1", "timebase": {"type": "ticks", "tick_hz": 30}},
    "meta/episode": {
        "episode_id": "e",
        "env_id": "v",
        "length_T": 4,
        "timebase": {"type": "ticks", "dt_ns": 33333333, "epoch_ns": 5},
        "timestep_range": [0, 3],
        "chunk_index": 0,
        "total_chunks": 2,
        "metadata": {"task": "t"},
        "synthesized": ["done"],
        "action_spaces": [{"name": "action/b", "dtype": "f32", "shape": [1]}],
    },
    "meta/channels": {
        "channels": [{"id": "s", "dtype": "f32", "shape": [2], "modality": "rgb", "signal_block": "signal/s"}],
        "lanes": [{"block": "omen/s/m", "dtype": "f32", "shape": [2]}],
    },
}
PAYLOADS = {"signal/s": 32, "action/b": 16, "omen/s/m": 32, "reward": 16, "done": 4, "time/ticks": 16}
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["", "s", "f64", "bool", "reward", "meta/episode", "signal/s", "\ud800", 2**40, 10**400, -1, 0]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "shape", "x"]), inner, max_size=2)
    ),
    max_leaves=5,
)


def places(value: object, path: tuple = ()) -> list[tuple]:
    """Return the path of every value inside a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, inner in items for place in places(inner, (*path, key)))]


def replaced(value: object, path: tuple, new: object) -> object:
    if not path:
        return new
    twin = copy.copy(value)
    twin[path[0]] = replaced(value[path[0]], path[1:], new)
    return twin


@settings(max_examples=250)
@given(st.data())
def test_any_json_value_anywhere_brings_no_error_but_ours(data):
    """E-2 to E-11: no value in the meta blocks brings an error that is not ours."""
    path = data.draw(st.sampled_from(places(MEANT)[1:]))
    meta = replaced(MEANT, path, data.draw(values))
    file = io.BytesIO()
    with ShardWriter(file, role=5) as writer:
        for name, value in meta.items():
            writer.write_entry(name, json.dumps(value).encode())
        for name, size in PAYLOADS.items():
            writer.write_entry(name, bytes(size))
    try:
        ep = load_wshard(file.getvalue())
    except FormatError:
        return
    try:
        save_wshard(ep, io.BytesIO())
    except EpisodeError:
        return
