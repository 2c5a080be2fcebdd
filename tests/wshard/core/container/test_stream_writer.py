"""Writing a container block by block: what stands in the file, what is left of a failure, how much memory it takes."""

from __future__ import annotations

import io
import json
import struct
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wshard import FormatError, ShardReader, ShardStreamWriter, ShardWriter
from wshard.core.container import stream_writer
from wshard.core.container.layout import name_hash
from wshard.errors import LimitError, RecordingStateError

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
codecs = st.sampled_from(["none", "zstd", "lz4"])
blocks = st.dictionaries(names, st.tuples(st.binary(max_size=300) | st.just(b"ab" * 200), codecs), max_size=12)


def assert_cores_accept(data: bytes) -> None:
    """Check what the strictest known readers demand, with nothing but struct."""
    assert data[:5] == b"SHRD\x02"
    assert struct.unpack_from("<H", data, 10) == (48,)
    (count,) = struct.unpack_from("<I", data, 12)
    table, section, _, total = struct.unpack_from("<QQQQ", data, 16)
    assert table == 64 + 48 * count
    assert table <= section <= total == len(data)
    assert section - table <= 100 << 20
    end = section
    for number in range(count):
        hash_, name_offset, name_size = struct.unpack_from("<QIH", data, 64 + 48 * number)
        offset, disk = struct.unpack_from("<QQ", data, 64 + 48 * number + 16)
        assert table + name_offset + name_size < section, "name and its NUL lie inside the table"
        assert hash_ == name_hash(data[table + name_offset :][:name_size].decode())
        assert offset >= end, "ascending and not overlapping, in index order"
        assert data[end:offset] == bytes(offset - end)
        end = offset + disk
    named = sum(struct.unpack_from("<H", data, 64 + 48 * number + 12)[0] + 1 for number in range(count))
    assert data[table + named : section] == bytes(section - table - named)


@given(blocks, st.integers(0, 14), st.sampled_from([0, 16, 32, 64]))
def test_streamed_containers_hold_what_was_written_wherever_the_index_had_room(
    tmp_path_factory, contents, room, alignment
):
    """C-40, C-41: also where the reserved room is too small and the data have to move."""
    path = tmp_path_factory.mktemp("stream") / "a.shard"
    with ShardStreamWriter(path, 3, room, alignment=alignment) as writer:
        writer.begin_data()
        for name, (data, codec) in contents.items():
            writer.write_entry(name, data, compression=codec)
    data = path.read_bytes()
    assert_cores_accept(data)
    reader = ShardReader(data)
    assert reader.header.flags == 0x62
    assert (reader.header.role, reader.header.alignment) == (3, alignment)
    assert {name: reader.read_entry(name) for name in reader.names()} == {n: d for n, (d, _) in contents.items()}
    assert reader.names() == list(contents)
    if alignment:
        assert all(entry.data_offset % alignment == 0 for entry in reader.entries)


def test_data_that_have_to_move_are_moved_whole(tmp_path):
    payload = np.random.default_rng(0).bytes(5 << 20)
    with ShardStreamWriter(tmp_path / "a.shard", max_entries=0) as writer:
        writer.begin_data()
        writer.write_entry("a" * 60_000, payload)
        writer.write_entry("b", [payload[:7], b"", payload[7:]])
    reader = ShardReader(tmp_path / "a.shard")
    assert [reader.read_entry(number) for number in range(2)] == [payload, payload]
    assert_cores_accept((tmp_path / "a.shard").read_bytes())


def test_blocks_read_the_same_as_from_the_collecting_writer(tmp_path):
    file = io.BytesIO()
    with ShardStreamWriter(tmp_path / "a.shard") as stream, ShardWriter(file) as batch:
        stream.begin_data()
        for writer in (stream, batch):
            writer.write_entry("a", bytes(1000), compression="zstd", content_type=2)
            writer.write_entry("b", b"raw")
    found, expected = ShardReader(tmp_path / "a.shard"), ShardReader(file.getvalue())
    assert [entry._replace(data_offset=0) for entry in found.entries] == [
        entry._replace(data_offset=0) for entry in expected.entries
    ]


def test_calls_out_of_order_are_refused_and_leave_nothing(tmp_path):
    path = tmp_path / "a.shard"
    writer = ShardStreamWriter(path)
    for call in (writer.finalize, lambda: writer.write_entry("a", b"")):
        with pytest.raises(RecordingStateError, match=r"call begin_data\(\) first"):
            call()
    assert list(tmp_path.iterdir()) == []
    writer.begin_data()
    for call in (writer.begin_data, lambda: writer.set_alignment(16)):
        with pytest.raises(RuntimeError):
            call()
    writer.write_entry("a", b"1")
    assert not path.exists()
    size = writer.finalize()
    assert path.stat().st_size == size
    for call in (writer.finalize, writer.begin_data, lambda: writer.write_entry("b", b"")):
        with pytest.raises(RecordingStateError):
            call()
    writer.close()
    assert ShardReader(path).read_entry("a") == b"1"
    assert [child.name for child in tmp_path.iterdir()] == ["a.shard"]


@pytest.mark.parametrize("end", ["abort", "close", "exception"])
def test_an_abandoned_file_leaves_nothing_and_the_earlier_one_alone(end, tmp_path):
    """C-27."""
    path = tmp_path / "a.shard"
    path.write_bytes(b"earlier")

    def stop():
        with ShardStreamWriter(path) as writer:
            writer.begin_data()
            writer.write_entry("a", bytes(1 << 20))
            if end == "exception":
                raise KeyboardInterrupt
            getattr(writer, end)()

    if end == "exception":
        with pytest.raises(KeyboardInterrupt):
            stop()
    else:
        stop()
    assert path.read_bytes() == b"earlier"
    assert [child.name for child in tmp_path.iterdir()] == ["a.shard"]


def test_a_writer_that_never_began_writes_nothing(tmp_path):
    with ShardStreamWriter(tmp_path / "a.shard"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_refused_blocks_leave_no_trace(tmp_path):
    with ShardStreamWriter(tmp_path / "a.shard") as writer:
        writer.begin_data()
        writer.write_entry("a", b"1")
        refused = [("a", FormatError, "names must be unique"), ("\ud800", FormatError, "expected Unicode text")]
        refused += [("x" * 70_000, LimitError, "block name of 70000 bytes")]
        for name, kind, said in refused:
            with pytest.raises(kind, match=said):
                writer.write_entry(name, b"2")
        with pytest.raises(FormatError, match="content type"):
            writer.write_entry("b", b"2", content_type=1 << 16)
        writer.write_entry("b", b"3")
    reader = ShardReader(tmp_path / "a.shard")
    assert [(name, reader.read_entry(name)) for name in reader.names()] == [("a", b"1"), ("b", b"3")]


def test_duplicates_are_noticed_however_long_ago_they_were_written(tmp_path, monkeypatch):
    monkeypatch.setattr(stream_writer, "_CHUNK", 1 << 12)  # so that 256 hashes are in memory
    with ShardStreamWriter(tmp_path / "a.shard", max_entries=10) as writer:
        writer.begin_data()
        for number in range(1000):
            writer.write_entry(str(number), b"")
        for number in (0, 255, 256, 999):
            with pytest.raises(FormatError, match="names must be unique"):
                writer.write_entry(str(number), b"")
    assert ShardReader(tmp_path / "a.shard").lookup("999") == 999


@pytest.mark.parametrize("count", [-1, 10_000_001])
def test_impossible_numbers_of_blocks_are_refused(count, tmp_path):
    with pytest.raises(LimitError, match="max_entries: expected 0 to 10000000"):
        ShardStreamWriter(tmp_path / "a.shard", max_entries=count)


def test_room_for_very_many_blocks_stays_within_what_readers_take(tmp_path):
    """C-5, C-41: a larger gap would be taken for too large a string table."""
    with ShardStreamWriter(tmp_path / "a.shard", max_entries=10_000_000) as writer:
        writer.begin_data()
        writer.write_entry("a", b"1")
    assert ShardReader(tmp_path / "a.shard").read_entry("a") == b"1"


MEMORY = """
import json, sys, tracemalloc
from wshard.core.container.stream_writer import ShardStreamWriter

path, count, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
payload = bytes(size)
tracemalloc.start()
with ShardStreamWriter(path, max_entries=100) as writer:
    writer.begin_data()
    for number in range(count):
        writer.write_entry(f"block/{number}", payload)
print(tracemalloc.get_traced_memory()[1])
"""


@pytest.mark.parametrize(("count", "size", "most"), [(64, 1 << 20, 6 << 20), (10_000, 1, 4 << 20)])
def test_memory_does_not_grow_with_the_file(count, size, most, tmp_path):
    command = [sys.executable, "-c", MEMORY, str(tmp_path / "a.shard"), str(count), str(size)]
    child = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    assert json.loads(child.stdout) < most
