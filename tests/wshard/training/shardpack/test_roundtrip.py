"""What is written is read: by number, by key and as a stream, from any codec, over any number of files."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wshard import FormatError, shardpack
from wshard.errors import (
    ChecksumError,
    ClosedError,
    CodecError,
    EntryNotFoundError,
    IndexCorruptError,
    LimitError,
    ManifestError,
    MetadataError,
    MissingFileError,
    RecordingExistsError,
    RecordingStateError,
)
from wshard.shardpack import (
    ColumnPacks,
    MetadataEncoding,
    NewEntry,
    PackCompression,
    RecordMetadata,
    ShardLimits,
    ShardPackReader,
    ShardPackSet,
    ShardPackWriter,
    expand_shards,
    repair_shardpack,
    stream_shardpack,
    verify_shardpack,
)

text = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=12)
segment = text.filter(lambda part: part not in (".", "..") and not set("/\\") & set(part))
names = st.lists(segment, min_size=1, max_size=3).map("/".join)
payload = st.binary(max_size=300) | st.integers(0, 3000).map(lambda size: b"\0" * size)
codecs = st.sampled_from(["none", "gzip", "lz4", "zstd", "zstd:1", "gzip:9", "lz4:9"])
entries = st.lists(
    st.builds(NewEntry, names, payload, st.none() | st.just("") | text.filter(lambda kind: len(kind.encode()) < 256),
              st.none() | codecs),
    max_size=4,
    unique_by=lambda entry: entry.name,
)  # fmt: skip
metadata = st.none() | st.dictionaries(text, st.integers() | text | st.none(), max_size=3)
metadata |= st.builds(
    RecordMetadata, st.sampled_from([MetadataEncoding.MSGPACK, MetadataEncoding.OPAQUE]), st.binary(min_size=1)
)
records = st.lists(st.tuples(text, entries, metadata), max_size=5, unique_by=lambda record: record[0])


def write(path, rows, **options: Any) -> list[Path]:
    with ShardPackWriter(path, **options) as writer:
        for row in rows:
            writer.write_record(*row)
        return writer.close()


def values(record):
    return record.key, record.metadata, [(e.name, e.content_type, bytes(e.read())) for e in record]


@given(records, codecs, st.booleans(), st.integers(1, 3))
def test_what_is_written_is_read_in_every_way(rows, codec, key_table, most):
    with TemporaryDirectory() as folder:
        place = Path(folder)
        path = place / "a.shardpack"
        write(path, rows, compression=codec, key_table=key_table)
        first = path.read_bytes()
        write(path, rows, compression=codec, key_table=key_table, overwrite=True)
        assert path.read_bytes() == first
        with ShardPackReader(path) as pack:
            found = [values(record) for record in pack]
            for (key, files, about), (found_key, found_about, found_files) in zip(rows, found, strict=True):
                assert key == found_key
                assert found_about == (about if isinstance(about, RecordMetadata) else RecordMetadata.of(about))
                assert [(e.name, e.data) for e in files] == [(name, data) for name, _, data in found_files]
                requested = [e.content_type for e in files]
                assert all(ask in (None, kind) for ask, (_, kind, _) in zip(requested, found_files, strict=True))
            assert [values(pack[key]) for key, *_ in rows] == found
            assert "a key that is not there" not in pack
            for which in [*range(len(rows)), *(key for key, *_ in rows)] * 2:  # at first, and by what is remembered
                files = {name: bytes(data) for name, data in pack.read(which).items()}
                assert files == {entry.name: bytes(entry.read()) for entry in pack[which]}
        assert [values(record) for record in stream_shardpack(io.BytesIO(first))] == found
        assert verify_shardpack(path).ok
        shards = place / "b-{07..}.shardpack"
        paths = write(shards, rows, compression=codec, limits=ShardLimits(max_records=most))
        assert len(paths) == max(-(-len(rows) // most), 1)
        assert list(expand_shards(shards)) == paths
        assert paths[0].name == "b-07.shardpack"
        with ShardPackSet(shards) as many:
            assert [values(record) for record in many] == found
            assert [values(many[number]) for number in range(len(many))] == found
            assert [values(many[key]) for key, *_ in rows] == found
            assert list(many.keys()) == [key for key, *_ in rows]
            assert [dict(many.read(key)) for key, *_ in rows] == [many[number].read() for number in range(len(many))]


@pytest.mark.parametrize("files", [{"a": b"1" * 50_000}, {"a": b"1" * 50_000, "b": b"2" * 50_000}])
def test_each_read_verifies_the_files_of_a_record(tmp_path, files):
    path = tmp_path / "a.shardpack"
    write(path, [(f"{number}", files, None) for number in range(20)])
    with ShardPackReader(path) as pack:
        assert dict(pack.read("7")) == dict(pack.read("7")) == dict(pack.read(7)) == files
        with path.open("r+b") as file:
            file.seek(pack.span(7)[1] - 9)
            file.write(b"?")
        for which in (7, "7"):
            with pytest.raises(ChecksumError, match=r"record 7 \('7'\): entry"):
                pack.read(which)
        assert dict(pack.read(8)) == files
        with pytest.raises(EntryNotFoundError):
            pack.read(20)
    with pytest.raises(ClosedError):
        pack.read(8)


def test_a_file_that_is_cut_while_it_is_open_is_an_error(tmp_path):
    path = tmp_path / "a.shardpack"
    write(path, [(f"{number}", {"a": b"1" * 5_000}, None) for number in range(20)])
    with ShardPackReader(path) as pack:
        assert pack.read(15)["a"] == b"1" * 5_000
        os.truncate(path, 40_000)
        with pytest.raises(IndexCorruptError, match="the file was cut"):
            pack.read(15)


def test_a_writer_that_fails_leaves_what_was_there(tmp_path):
    path = tmp_path / "a.shardpack"
    write(path, [("old", {"a": b"1"}, None)])
    with pytest.raises(RecordingExistsError, match="exists already"):
        ShardPackWriter(path)
    with pytest.raises(KeyError), ShardPackWriter(path, overwrite=True) as writer:
        writer.write_record({}["new"], {"a": b"2"})
    assert [path.name for path in tmp_path.iterdir()] == ["a.shardpack"]
    assert ShardPackReader(path)["old"]["a"] == b"1"
    with pytest.raises(RecordingStateError):
        writer.write_record("late", {})


@pytest.mark.parametrize(
    ("key", "files", "error"),
    [
        ("", {}, FormatError),
        ("a\nb", {}, FormatError),
        ("a\0", {}, FormatError),
        ("\ud800", {}, FormatError),
        ("k" * 65_536, {}, FormatError),
        ("there", {}, FormatError),
        ("k", {"": b""}, FormatError),
        ("k", {"/a": b""}, FormatError),
        ("k", {"a/../b": b""}, FormatError),
        ("k", {"a\\b": b""}, FormatError),
        ("k", {"a//b": b""}, FormatError),
        ("k", {"a/": b""}, FormatError),
        ("k", {".": b""}, FormatError),
        ("k", {"n" * 4097: b""}, FormatError),
        ("k", {"a": "text"}, FormatError),
        ("k", [NewEntry("a", b""), NewEntry("a", b"")], FormatError),
        ("k", [NewEntry("a", b"", "t" * 256)], FormatError),
        ("k", [NewEntry("a", b"", None, "snappy")], CodecError),
    ],
)
def test_what_may_not_be_written_is_refused_and_the_rest_is_written(tmp_path, key, files, error):
    with ShardPackWriter(tmp_path / "a.shardpack") as writer:
        writer.write_record("there", {"a": b"1"})
        with pytest.raises(error) as refused:
            writer.write_record(key, files)
        assert "a.shardpack" in str(refused.value) or error is CodecError
        writer.write_record("next", {"a": b"2"})
    with ShardPackReader(tmp_path / "a.shardpack") as pack:
        assert list(pack.keys()) == ["there", "next"]


def test_metadata_that_json_cannot_hold_are_refused(tmp_path):
    path = tmp_path / "a.shardpack"
    for about in ({"a": float("nan")}, {"a": {1}}, {1: 2, "1": 3}, {"shardpack": 3}):
        with pytest.raises(MetadataError):
            ShardPackWriter(path if about != {"shardpack": 3} else tmp_path / "a-{0..}.shardpack", metadata=about)
    with ShardPackWriter(path) as writer, pytest.raises(MetadataError):
        writer.write_record("k", {}, {"a": float("inf")})
    with pytest.raises(MetadataError, match="msgpack"):
        RecordMetadata(MetadataEncoding.MSGPACK, b"\x80").json()
    for wrong in ("brotli", "zstd:99", "gzip:x", "ZSTD", "lz4:0"):
        with pytest.raises(CodecError):
            PackCompression.parse(wrong)
    with pytest.raises(FormatError):
        ShardLimits(max_bytes=0)


def test_shards_are_full_by_bytes_and_a_range_ends(tmp_path):
    rows = [(f"k{number}", {"a": bytes(400)}, None) for number in range(9)]
    paths = write(tmp_path / "a-{000..}.shardpack", rows, limits=ShardLimits(max_bytes=1000))
    assert [len(ShardPackReader(path)) for path in paths] == [2, 2, 2, 2, 1]
    assert all(ShardPackReader(path).index.offsets[-1] < 1000 for path in paths)
    with pytest.raises(LimitError, match="at most 2 files"):
        write(tmp_path / "b-{000..001}.shardpack", rows, limits=ShardLimits(max_records=3))
    assert list(tmp_path.glob("b-*")) == []
    with pytest.raises(LimitError, match="expected one file"):
        write(tmp_path / "c.shardpack", rows, limits=ShardLimits(max_records=3))


def test_shards_written_over_more_of_them_leave_none_of_the_old(tmp_path):
    shards = tmp_path / "a-{000..}.shardpack"
    rows = [(f"k{number}", {"a": b"1"}, None) for number in range(9)]
    write(shards, rows, limits=ShardLimits(max_records=2))
    with pytest.raises(RecordingExistsError):
        ShardPackWriter(shards)
    write(shards, rows[:3], limits=ShardLimits(max_records=2), overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a-000.shardpack", "a-001.shardpack"]
    assert len(ShardPackSet(shards)) == 3


def test_files_that_are_missing_or_of_another_dataset_are_noticed(tmp_path):
    shards = tmp_path / "a-{000..}.shardpack"
    rows = [(f"k{number}", {"a": b"1"}, None) for number in range(9)]
    paths = write(shards, rows, limits=ShardLimits(max_records=2))
    paths[4].rename(tmp_path / "moved")
    with pytest.raises(ManifestError, match="shard 0 of 4"):
        ShardPackSet(shards)
    paths[2].unlink()
    with pytest.raises(MissingFileError, match=r"a-002\.shardpack"):
        ShardPackSet(shards)
    with pytest.raises(MissingFileError):
        ShardPackSet(tmp_path / "b-{000..}.shardpack")
    for wrong in ("a-{0..}/{0..}.shardpack", "a-{5..3}.shardpack"):
        with pytest.raises(FormatError):
            ShardPackSet(wrong)


def test_columns_are_joined_by_key_in_any_order(tmp_path):
    keys = [f"k{number}" for number in range(20)]
    write(tmp_path / "left.shardpack", [(key, {"left.bin": key.encode()}, {"key": key}) for key in keys])
    write(tmp_path / "right.shardpack", [(key, {"right.bin": key.upper().encode()}, None) for key in keys[::-1]])
    write(tmp_path / "few.shardpack", [(key, {"few.bin": b""}, None) for key in keys[:5]])
    packs = {path.stem: ShardPackReader(path) for path in tmp_path.iterdir()}
    joined = ColumnPacks([packs["left"], packs["right"]])
    assert [(row.key, row["left.bin"], row["right.bin"]) for row in joined] == [
        (key, key.encode(), key.upper().encode()) for key in keys
    ]
    assert joined["k7"]["right.bin"] == b"K7"
    assert joined[-1].metadata.json() == {"key": "k19"}
    with pytest.raises(EntryNotFoundError, match=r"few\.shardpack.*'k5'"):
        list(ColumnPacks([packs["left"], packs["few"]]))
    write(tmp_path / "both.shardpack", [(key, {"left.bin" if key == "k3" else "b": b""}, None) for key in keys])
    with ShardPackReader(tmp_path / "both.shardpack") as both, pytest.raises(FormatError, match="in one column"):
        ColumnPacks([packs["left"], both])["k3"]


def test_a_later_pack_updates_entries_of_some_keys(tmp_path):
    keys = [f"k{number}" for number in range(9)]
    write(tmp_path / "main.shardpack", [(key, {"a.jpg": key.encode(), "label.txt": b"cup"}, {"n": 1}) for key in keys])
    write(tmp_path / "new.shardpack", [(key, {"label.txt": b"mug"}, None) for key in ("k7", "k2")])
    write(tmp_path / "newer.shardpack", [("k2", {"label.txt": b"bowl", "more.txt": b"x"}, None)])
    write(tmp_path / "lost.shardpack", [("k2", {"label.txt": b""}, None), ("k99", {"label.txt": b""}, None)])
    with ExitStack() as stack:
        main, new, newer, lost = (
            stack.enter_context(ShardPackReader(tmp_path / f"{name}.shardpack"))
            for name in ("main", "new", "newer", "lost")
        )
        joined = ColumnPacks([main, new, newer])
        expected = dict.fromkeys(keys, b"cup") | {"k7": b"mug", "k2": b"bowl"}
        assert {row.key: row["label.txt"] for row in joined} == expected
        assert all(row["a.jpg"] == row.key.encode() and row.metadata.json() == {"n": 1} for row in joined)
        assert (joined["k2"].names(), joined["k7"].names()) == (
            ["a.jpg", "label.txt", "more.txt"],
            ["a.jpg", "label.txt"],
        )
        with pytest.raises(EntryNotFoundError, match=r"lost\.shardpack.*'k99'"):
            ColumnPacks([main, lost])
        shards = tmp_path / "set-{0..}.shardpack"
        write(shards, [(row.key, dict(row.read()), None) for row in main], limits=ShardLimits(max_records=2))
        whole = stack.enter_context(ShardPackSet(shards))
        assert {row.key: row["label.txt"] for row in ColumnPacks([whole, new, newer])} == expected
        assert {key: ColumnPacks([whole, new, newer])[key]["label.txt"] for key in keys} == expected
        assert ("k8" in whole, "k9" in whole, 3 in whole) == (True, False, False)


def test_the_documents_calls_read_the_same_records(tmp_path):
    rows = [(f"k{number}", {"a.jpg": bytes([number]), "b.json": b'{"n": 1}'}, None) for number in range(4)]
    write(tmp_path / "x.shardpack", rows, compression="gzip")
    dataset = shardpack.open(tmp_path / "x.shardpack")
    found = [
        (record.key, {entry.name: entry.data for entry in record.file_entries()}, None) for record in dataset.records()
    ]
    assert found == rows
    types = {entry.content_type for record in dataset.records() for entry in record.file_entries()}
    assert types == {"image/jpeg", "application/json"}
    assert all(type(entry.data) is bytes for entry in dataset[0].file_entries())
    index = dataset.get_index()
    assert [dataset.read_record_at_offset(offset).key for offset in index] == [row[0] for row in rows]
    assert index == [dataset.span(number)[0] for number in range(4)]
    for offset in (1, -1, index[-1] + 1, 1 << 70, "0", None, 1.0):
        with pytest.raises(EntryNotFoundError, match="get_index"):
            dataset.read_record_at_offset(offset)
    dataset.close()


class Counting(io.BytesIO):
    """A file that counts its reads of something."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.reads: list[int] = []

    def read(self, size: int | None = -1, /) -> bytes:
        if size != 0:
            self.reads.append(size or 0)
        return super().read(size)


@pytest.mark.parametrize("key_table", [True, False])
def test_opening_takes_two_reads_and_a_record_one(tmp_path, key_table):
    rows = [(f"k{number}", {"a": bytes(10_000)}, None) for number in range(50)]
    write(tmp_path / "a.shardpack", rows, key_table=key_table)
    file = Counting((tmp_path / "a.shardpack").read_bytes())
    pack = ShardPackReader(file)
    assert len(file.reads) == 2
    assert sum(file.reads) < 2000
    file.reads.clear()
    pack[17].read()
    assert len(file.reads) == 1
    assert file.reads[0] < 10_200
    file.reads.clear()
    assert pack["k40"].key == "k40"
    assert (len(file.reads) == 2) == key_table
    pack.close()
    with pytest.raises(ClosedError):
        pack.record(0)
    assert len(pack) == 50


def test_records_are_numbered_like_a_sequence(tmp_path):
    write(tmp_path / "a.shardpack", [(f"k{number}", {"a": b""}, None) for number in range(3)])
    pack = ShardPackReader(tmp_path / "a.shardpack")
    assert [pack[number].key for number in (-1, -3, 0, 2)] == ["k2", "k0", "k0", "k2"]
    for wrong in (3, -4, "k3", 1.5, True):
        with pytest.raises(EntryNotFoundError, match=r"a\.shardpack"):
            pack[wrong]
    with pytest.raises(EntryNotFoundError, match="'b'"):
        pack[0]["b"]


def test_a_truncated_stream_raises_after_its_good_records(tmp_path):
    write(tmp_path / "a.shardpack", [(f"k{number}", {"a": bytes(100)}, None) for number in range(3)])
    data = (tmp_path / "a.shardpack").read_bytes()
    offsets = [*ShardPackReader(data).index.offsets.tolist(), ShardPackReader(data).footer.index_offset - 8]
    for cut in range(len(data)):
        found = list[str]()
        with pytest.raises(FormatError, match=r"truncated|magic|at least 80|as the footer says"):
            found.extend(record.key for record in stream_shardpack(io.BytesIO(data[:cut])))
        assert len(found) == sum(cut >= stop for stop in offsets[1:])


def test_a_pipe_is_read_as_a_stream(tmp_path):
    write(tmp_path / "a.shardpack", [(f"k{number}", {"a": os.urandom(100_000)}, None) for number in range(5)])
    with subprocess.Popen(["cat", tmp_path / "a.shardpack"], stdout=subprocess.PIPE) as cat:
        assert [record.key for record in stream_shardpack(cat.stdout)] == [f"k{number}" for number in range(5)]


KILLED = """
import sys, time
from wshard.shardpack import ShardLimits, ShardPackWriter
writer = ShardPackWriter(sys.argv[1], limits=ShardLimits(max_records=40), overwrite=True)
for number in range(100):
    writer.write_record(f"new{number}", {"a.bin": bytes(5000)})
print("written", flush=True)
time.sleep(60)
"""


def test_after_a_kill_the_old_is_there_and_what_was_written_can_be_restored(tmp_path):
    shards = tmp_path / "a-{0..}.shardpack"
    write(shards, [("old", {"a": b"1"}, None)])
    with subprocess.Popen([sys.executable, "-c", KILLED, str(shards)], stdout=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"written\n"
        with pytest.raises(RecordingExistsError, match="another writer is active"):
            ShardPackWriter(shards, overwrite=True)
        with pytest.raises(RecordingExistsError, match="being written"):
            repair_shardpack(tmp_path / "a-0.shardpack.partial", tmp_path / "out.shardpack")
        child.kill()
    assert [record.key for record in ShardPackSet(shards)] == ["old"]
    report = repair_shardpack(tmp_path / "a-1.shardpack.partial")
    assert report.output == str(tmp_path / "a-1.shardpack")
    assert report.recovered == tuple(f"new{number}" for number in range(40, 80))
    (tmp_path / "a-1.shardpack").unlink()
    (tmp_path / "a-0.shardpack").unlink()
    with pytest.raises(RecordingExistsError, match="interrupted writer"):
        ShardPackWriter(shards)
    write(shards, [("newer", {"a": b"1"}, None)], overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["a-0.shardpack"]
