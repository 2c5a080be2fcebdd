"""Hostile files cost neither memory nor time, and lead to no file outside of the folder."""

from __future__ import annotations

import gzip
import io
import resource
import tarfile
import tracemalloc

import lz4.frame
import numpy as np
import pytest
import zstandard

from wshard import FormatError
from wshard.core.container.layout import checksum
from wshard.errors import (
    ChecksumError,
    CodecError,
    LimitError,
    MetadataError,
    RecordingExistsError,
    SourceNotFoundError,
)
from wshard.shardpack import (
    PackCodec,
    ShardPackReader,
    ShardPackWriter,
    pack_sources,
    unpack_shardpack,
    verify_shardpack,
)
from wshard.training.shardpack.index import PackIndex
from wshard.training.shardpack.layout import EntryHeader, PackFooter, RecordHeader

MILLION = bytes(1_000_000)
MANY = 1 << 26


def packed(key: bytes, entries: list[tuple[bytes, int, PackCodec, bytes]], *, count: int | None = None) -> bytes:
    """Return a file of one record whose entries may say anything, under right checksums."""
    parts = [
        EntryHeader(size, len(stored), len(name), 0, codec, checksum(stored)).pack(name, b"") + stored
        for name, size, codec, stored in entries
    ]
    body = b"".join(parts)
    header = RecordHeader(32 + len(key) + len(body), len(parts) if count is None else count, len(key), 0, 0)
    block = header.pack(key, b"") + body
    return block + PackIndex(np.zeros(1, np.uint64)).pack(len(block))


def bomb(codec: PackCodec, size: int) -> bytes:
    if codec is PackCodec.GZIP:
        return gzip.compress(bytes(size), mtime=0)
    if codec is PackCodec.LZ4:
        return lz4.frame.compress(bytes(size), store_size=False)
    return zstandard.ZstdCompressor(write_content_size=False).compress(bytes(size))


@pytest.mark.parametrize("codec", [PackCodec.GZIP, PackCodec.LZ4, PackCodec.ZSTD])
def test_bombs_are_refused_with_the_memory_of_what_they_say_they_are(codec):
    stored = bomb(codec, MANY)
    for stated in (0, 1, 1000, MANY - 1):
        entry = ShardPackReader(packed(b"k", [(b"a", stated, codec, stored)]))[0].entry("a")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        tracemalloc.start()
        with pytest.raises(CodecError, match=r"record 0 \('k'\): entry 'a'"):
            entry.read()
        if stated < 10_000:
            assert tracemalloc.get_traced_memory()[1] < 4_000_000
            assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 40_000  # KiB
        tracemalloc.stop()
        if stated > 1000 and codec is PackCodec.GZIP:
            break


@pytest.mark.parametrize("codec", [PackCodec.GZIP, PackCodec.LZ4, PackCodec.ZSTD])
def test_sizes_that_no_codec_reaches_are_refused_before_memory_is_taken(codec):
    stored = bomb(codec, 10)
    for stated in (1 << 31, 1 << 33, 1 << 63):
        with pytest.raises(LimitError, match="file_size"):
            ShardPackReader(packed(b"k", [(b"a", stated, codec, stored)]))[0]["a"]


@pytest.mark.parametrize("codec", [PackCodec.GZIP, PackCodec.LZ4, PackCodec.ZSTD])
def test_streams_end_where_the_entry_ends(codec):
    stored = bomb(codec, 1000)
    assert ShardPackReader(packed(b"k", [(b"a", 1000, codec, stored)]))[0]["a"] == bytes(1000)
    empty = bomb(codec, 0)
    assert ShardPackReader(packed(b"k", [(b"a", 0, codec, empty)]))[0]["a"] == b""
    for size, data in (
        (1000, stored + b"x"),
        (2000, stored + stored),
        (1000, stored[:-1]),
        (1000, stored + empty),
        (0, empty + b"x"),
        (0, empty + empty),
        (0, empty[:-1]),
        (0, b""),
        (999, stored),
        (1001, stored),
        (1000, b"\x01" * 50),
    ):
        with pytest.raises(CodecError):
            ShardPackReader(packed(b"k", [(b"a", size, codec, data)]))[0]["a"]


def test_counts_that_no_file_can_hold_are_refused():
    with pytest.raises(LimitError, match="entries"):
        ShardPackReader(packed(b"k", [], count=2_000_000))[0]
    with pytest.raises(FormatError, match="record size"):
        ShardPackReader(packed(b"k", [(b"a", 0, PackCodec.NONE, b"")], count=2))[0]
    with pytest.raises(FormatError, match="entries to end"):
        ShardPackReader(packed(b"k", [(b"a", 0, PackCodec.NONE, b"")], count=0))[0]


def test_json_that_is_nested_without_end_is_refused():
    deep = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
    whole = bytes(16) + deep
    end = PackFooter(8, 0, 0, len(deep), len(whole) + 64, checksum(whole[8:]))
    with pytest.raises(MetadataError, match="shard metadata"):
        ShardPackReader(whole + end.pack())


@pytest.mark.parametrize("key", ["../out", "/abs", "a/../../b", "a\\..\\b", "a//b", "./a", "x" * 300])
def test_no_key_leads_out_of_the_folder(tmp_path, key):
    with ShardPackWriter(tmp_path / "a.shardpack") as writer:
        writer.write_record("fine", {"txt": b"1"})
        writer.write_record(key, {"txt": b"evil"})
    with pytest.raises(FormatError, match="record 1"):
        unpack_shardpack(tmp_path / "a.shardpack", tmp_path / "inner" / "out")
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["a.shardpack"]
    assert list((tmp_path / "inner").iterdir()) == []


def test_two_entries_of_one_path_are_refused(tmp_path):
    for number, records in enumerate(
        ([("a.b", "txt"), ("a", "b.txt")], [("a", "txt"), ("a.txt/x", "y")], [("a.txt/x", "y"), ("a", "txt")])
    ):
        path = tmp_path / f"{number}.shardpack"
        with ShardPackWriter(path) as writer:
            for key, name in records:
                writer.write_record(key, {name: b"1"})
        with pytest.raises(FormatError, match="twice"):
            unpack_shardpack(path, tmp_path / "out")
        assert not (tmp_path / "out").exists()


def test_an_existing_folder_is_not_written_into(tmp_path):
    with ShardPackWriter(tmp_path / "a.shardpack") as writer:
        writer.write_record("k", {"txt": b"1"})
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "k.txt").symlink_to(tmp_path / "victim")
    with pytest.raises(RecordingExistsError):
        unpack_shardpack(tmp_path / "a.shardpack", tmp_path / "out")
    (tmp_path / "out.tar").write_bytes(b"old")
    with pytest.raises(RecordingExistsError):
        unpack_shardpack(tmp_path / "a.shardpack", tmp_path / "out.tar")
    assert (tmp_path / "out.tar").read_bytes() == b"old"
    assert not (tmp_path / "victim").exists()


def hostile_tar(path, kind: bytes, name: str = "a.txt", size: int = 0):
    with tarfile.open(path, "w") as tar:
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, "/etc/passwd"
        tar.addfile(member)
    if size:
        data = bytearray(path.read_bytes())
        data[124:136] = f"{size:011o}\0".encode()
        data[148:156] = b" " * 8
        data[148:156] = f"{sum(data[:512]):06o}\0 ".encode()
        path.write_bytes(data)
    return path


def test_hostile_tars_are_refused(tmp_path):
    cases = [
        hostile_tar(tmp_path / "link.tar", tarfile.SYMTYPE),
        hostile_tar(tmp_path / "hard.tar", tarfile.LNKTYPE),
        hostile_tar(tmp_path / "device.tar", tarfile.CHRTYPE),
        hostile_tar(tmp_path / "up.tar", tarfile.REGTYPE, "a/b.../../c.txt"),
        hostile_tar(tmp_path / "plain.tar", tarfile.REGTYPE, "noextension"),
        hostile_tar(tmp_path / "cut.tar", tarfile.REGTYPE, size=8_000_000_000),
        hostile_tar(tmp_path / "short.tar", tarfile.REGTYPE, size=80_000),
    ]
    (tmp_path / "garbage.tar").write_bytes(b"no tar" * 500)
    (tmp_path / "packed.tar").write_bytes(gzip.compress(cases[0].read_bytes()))
    for path in [*cases, tmp_path / "garbage.tar", tmp_path / "packed.tar"]:
        if path.name == "up.tar":  # a key may be any text; only unpacking makes it a path
            continue
        with pytest.raises(FormatError, match=path.name), ShardPackWriter(tmp_path / "a.shardpack") as writer:
            pack_sources([path], writer)
        assert not list(tmp_path.glob("a.shardpack*"))


def test_sources_that_are_not_there_or_hold_nothing_are_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "README").write_text("no extension")
    with ShardPackWriter(io_path := tmp_path / "a.shardpack") as writer:
        for name, error in (("missing", SourceNotFoundError), ("empty", SourceNotFoundError), ("plain", FormatError)):
            with pytest.raises(error, match=name):
                pack_sources([tmp_path / name], writer)
    assert len(ShardPackReader(io_path)) == 0


def test_a_wrong_hash_of_a_key_and_a_damaged_entry_are_named(tmp_path):
    path = tmp_path / "a.shardpack"
    with ShardPackWriter(path, key_table=False) as writer:
        writer.write_record("k", {"a.txt": b"one"})
        writer.write_record("l", {"a.txt": b"two"})
    data = path.read_bytes()
    pack = ShardPackReader(data)
    table = np.zeros(2, [("hash", "<u8"), ("ordinal", "<u8")])
    table["ordinal"] = [0, 1]
    path.write_bytes(data[: pack.footer.index_offset - 8] + PackIndex(pack.index.offsets, table).pack(
        pack.footer.index_offset - 8
    ))  # fmt: skip
    assert "key table" in verify_shardpack(path).problems["header"]
    path.write_bytes(data.replace(b"two", b"too"))
    assert list(verify_shardpack(path).problems) == ["record 1: 'a.txt'"]
    with pytest.raises(ChecksumError, match=r"a\.shardpack: record 1 \('l'\): entry 'a\.txt'"):
        ShardPackReader(path)[1].read()
    assert list(verify_shardpack(tmp_path / "none").problems) == ["header"]
    assert not verify_shardpack(io.BytesIO(b"")).ok
