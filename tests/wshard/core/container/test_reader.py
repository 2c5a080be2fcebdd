"""The container reader: its sources, look-up, listing, and the names of the published reference package."""

from __future__ import annotations

import inspect
import io
import mmap
import struct
import tempfile

import numpy as np
import pytest
import wshard_plain
from hypothesis import given
from hypothesis import strategies as st

from wshard import FormatError, FormatWarning, ShardReader, ShardWriter, load_wshard, save_wshard, shard
from wshard.errors import ChecksumError, EntryNotFoundError, IndexCorruptError
from wshard.testing import assert_same_episode, make_episode

HIERARCHY = ("layer.0/weight", "layer.0/bias", "layer.1/weight", "embed")


def packed(blocks: dict[str, bytes], compression: str = "none") -> bytes:
    file = io.BytesIO()
    with ShardWriter(file, compression=compression) as writer:
        for name, data in blocks.items():
            writer.write_entry(name, data)
    return file.getvalue()


def unsorted(names: tuple[str, ...]) -> bytes:
    """Pack empty blocks in the given order, as no writer of this project does."""
    table = b"".join(name.encode() for name in names)
    section, rows, offset = 64 + 48 * len(names) + len(table), b"", 0
    for name in names:
        raw = name.encode()
        rows += struct.pack("<QIHHQQQIHH", wshard_plain.xxh64(raw), offset, len(raw), 0, section, 0, 0, 0, 0, 0)
        offset += len(raw)
    head = struct.pack(
        "<4sBBHBBHIQQQQ16x", b"SHRD", 2, 2, 0x22, 0, 0, 48, len(names), section - len(table), section, 0, section
    )
    return head + rows + table


class CountingFile(io.BytesIO):
    """A file that says how much of it was read."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.bytes_read = 0

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        self.bytes_read += len(data)
        return data


# ---- sources -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", ["path", "bytes", "bytearray", "memoryview", "mmap", "file", "BytesIO", "offset", "pipe"]
)
@pytest.mark.parametrize("size", [10, 3 << 20])
def test_every_kind_of_source_gives_the_same_blocks(kind, size, tmp_path):
    blocks = {"a": np.random.default_rng(0).bytes(size), "b": b"", "c": b"c" * 1000}
    data = packed(blocks, "zstd")
    path = tmp_path / "a.shard"
    path.write_bytes(data)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        behind = io.BytesIO(b"prefix" + data)
        behind.seek(6)
        pipe = io.BytesIO(data)
        pipe.seekable = lambda: False
        sources = {"path": path, "bytes": data, "bytearray": bytearray(data), "memoryview": memoryview(data)}
        sources |= {"mmap": mapped, "file": file, "BytesIO": io.BytesIO(data), "offset": behind, "pipe": pipe}
        with ShardReader(sources[kind]) as reader:
            assert {name: reader.read_entry(name) for name in reader.names()} == blocks
            assert reader.digest() == ShardReader(data).digest()
            assert reader.size == len(data)
        assert not file.closed


def test_of_a_file_object_only_front_and_wanted_block_are_read():
    data = packed({"big": bytes(5 << 20), "small": b"s" * 100})
    file = CountingFile(data)
    with ShardReader(file) as reader:
        assert reader.read_entry("small") == b"s" * 100
    assert file.bytes_read < 1000


def test_a_prefix_of_an_uncompressed_block_costs_its_bytes():
    payload = np.random.default_rng(1).bytes(1 << 20)
    file = CountingFile(packed({"a": payload}))
    reader = ShardReader(file)
    before = file.bytes_read
    assert reader.read_entry_prefix(0, 5) == payload[:5]
    assert file.bytes_read - before == 5
    assert [reader.read_entry_prefix("a", size) for size in (-1, 0)] == [b"", b""]
    assert reader.read_entry_prefix(0, 2 << 20) == payload
    assert ShardReader(packed({"a": b"abc" * 100}, "lz4")).read_entry_prefix(0, 4) == b"abca"


def test_a_file_object_that_was_cut_while_open_is_an_error_of_ours():
    file = io.BytesIO(packed({"a": b"1" * 100}))
    reader = ShardReader(file)
    file.truncate(150)
    with pytest.raises(IndexCorruptError, match="the file was cut"):
        reader.read_entry("a")


def test_files_opened_as_text_are_refused(tmp_path):
    (tmp_path / "a.shard").write_bytes(packed({"a": b"1"}))
    with (tmp_path / "a.shard").open(encoding="latin-1") as file, pytest.raises(FormatError, match="binary mode"):
        ShardReader(file)


def test_episodes_are_saved_to_and_loaded_from_a_file_object_on_demand():
    with tempfile.TemporaryFile() as file:
        save_wshard(make_episode(3), file)
        file.seek(0)
        assert_same_episode(load_wshard(file), make_episode(3))


# ---- look-up and listing -------------------------------------------------------------------------------------------


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), unique=True, max_size=20))
def test_lookup_finds_every_name_and_no_other(names):
    reader = ShardReader(unsorted(tuple(names)))
    assert [reader.lookup(name) for name in names] == list(range(len(names)))
    for name in (*(f"{name}!" for name in names), "\ud800"):
        assert (reader.lookup(name) >= 0) == (name in names) == reader.has_entry(name)


def test_lookup_compares_names_and_takes_wrong_hashes_for_what_they_are():
    """C-8: a file whose hashes are those of other names, or of no hash function that is known."""
    data = bytearray(unsorted(("a", "b", "c")))
    struct.pack_into("<Q", data, 64, wshard_plain.xxh64(b"b"))
    struct.pack_into("<Q", data, 64 + 96, 12345)
    with pytest.warns(FormatWarning, match="block 'a' and 1 more: the stored hash does not match the name"):
        reader = ShardReader(bytes(data))
    assert [reader.lookup(name) for name in ("a", "b", "c", "d")] == [0, 1, 2, -1]
    swapped = bytearray(unsorted(("a", "b")))
    swapped[64:72], swapped[112:120] = swapped[112:120], swapped[64:72]
    assert [ShardReader(bytes(swapped)).lookup(name) for name in "ab"] == [0, 1]


def test_lists_are_those_of_the_format_s_documents():
    reader = ShardReader(unsorted(HIERARCHY))
    assert reader.list_prefix("layer.") == list(HIERARCHY[:3])
    assert reader.list_prefix("") == list(HIERARCHY)
    assert reader.list_children("layer.0/") == ["weight", "bias"]
    assert reader.list_children("") == ["layer.0", "layer.1", "embed"]
    assert reader.list_children("layer.") == ["0", "1"]
    assert reader.list_children("embed") == reader.list_children("nothing/") == []


def test_lists_follow_paths_not_letters():
    reader = ShardReader(unsorted(("layer.0", "layer.0/w", "layer.01/w", "a/b/c", "a/b/d", "a/e", "")))
    assert reader.list_prefix("layer.0") == ["layer.0", "layer.0/w"]
    assert reader.list_prefix("a/b") == reader.list_prefix("a/b/") == ["a/b/c", "a/b/d"]
    assert reader.list_children("a") == reader.list_children("a/") == ["b", "e"]


def test_missing_blocks_are_key_errors_by_every_way():
    reader = ShardReader(unsorted(("a",)))
    for read in (reader.read_entry_by_name, reader.read_entry, reader.get_entry_info, reader.stored):
        with pytest.raises(EntryNotFoundError, match="no block 'b'; it has a"):
            read("b")
    with pytest.raises(KeyError):
        reader.entry_name(7)


def test_unverified_reading_gives_damaged_bytes_and_verified_reading_none():
    data = bytearray(packed({"a": b"1" * 100}))
    data[-1] ^= 1
    reader = ShardReader(bytes(data))
    assert reader.read_entry("a", verify=False) == b"1" * 99 + b"0"
    with pytest.raises(ChecksumError):
        reader.read_entry("a")


# ---- every role, and the reference package's names -----------------------------------------------------------------


@pytest.mark.parametrize("role", [0, 1, 2, 3, 4, 5, 6, 7, 8, 255])
def test_containers_of_every_role_are_read(role):
    data = bytearray(packed({"a": b"1"}))
    data[5] = role
    assert ShardReader(bytes(data)).read_entry("a") == b"1"


METHODS = {
    "ShardWriter": "set_alignment set_compression set_metadata write_entry write_entry_typed write_entry_compressed "
    "write_entry_with_options close",
    "ShardReader": "header entry_count entry_name entry_names get_entry_info lookup has_entry read_entry "
    "read_entry_by_name read_entry_prefix list_prefix list_children list_with_tag list_with_tag_bit "
    "list_with_tag_fast read_metadata",
    "ShardStreamWriter": "set_alignment set_compression begin_data write_entry write_entry_compressed finalize close",
    "ShardSchema": "add_spec add_optional",
    "IndexEntry": "name content_type tag_bits has_tag_bit compressed flags data_offset disk_size orig_size checksum",
    "ShardMetadata": "to_json from_json compute_schema_id",
}
NUMBERS = {
    "ROLE_UNKNOWN": 0, "ROLE_MOSH": 1, "ROLE_SAMPLE": 2, "ROLE_GEMMPANEL": 3, "ROLE_MANIFEST": 4, "ROLE_WSHARD": 5,
    "ROLE_UMSH": 6, "ROLE_COLUMN": 8, "ALIGN_NONE": 0, "ALIGN_16": 16, "ALIGN_32": 32, "ALIGN_64": 64,
    "COMPRESS_NONE": 0, "COMPRESS_ZSTD": 1, "COMPRESS_LZ4": 2, "CONTENT_TYPE_UNKNOWN": 0, "CONTENT_TYPE_TENSOR": 1,
    "CONTENT_TYPE_JSON": 2, "CONTENT_TYPE_TEXT": 5, "CONTENT_TYPE_IMAGE": 6, "CONTENT_TYPE_VIDEO": 8,
    "CONTENT_TYPE_BLOB": 10, "CONTENT_TYPE_TENSOR_V3": 12, "CONTENT_TYPE_EXPERT_INDICES": 16, "CONTENT_TYPE_COLUMN": 17,
    "FLAG_LITTLE_ENDIAN": 2, "FLAG_HAS_SCHEMA": 16, "FLAG_HAS_CHECKSUMS": 32, "FLAG_STREAMING": 64,
    "FLAG_HAS_CONTENT_TYPES": 128, "ENTRY_FLAG_COMPRESSED": 1, "ENTRY_FLAG_ZSTD": 2, "ENTRY_FLAG_LZ4": 4,
    "ENTRY_FLAG_CHUNKED": 8, "MAX_ENTRY_COUNT": 10_000_000, "MAX_INDEX_SIZE": 1 << 30,
    "MAX_STRING_TABLE_SIZE": 100 << 20, "MAX_DECOMPRESS_SIZE": 1 << 30, "HEADER_SIZE": 64, "INDEX_ENTRY_SIZE": 48,
    "SHARD_MAGIC": b"SHRD", "SHARD_VERSION": 2,
}  # fmt: skip
CALLS = {
    "ShardWriter": ("x.shard", 1),
    "ShardMetadata": (),
    "EntryMeta": (),
    "SampleProfile": (),
    "ManifestProfile": (),
    "ManifestFileRef": ("a.shard", "0" * 64, "sample", "", "0", "9", 10),
    "EntrySpec": ("*", 0, True, "text"),
    "ValidationError": ("*", "text"),
    "compute_crc32c": (b"hello",),
    "compute_xxhash64": ("signal/obs",),
    "split_path": ("a/b",),
    "join_path": ("a", "b"),
    "path_parent": ("a/b/c",),
    "path_base": ("a/b/c",),
}
VALUES = {
    "compute_crc32c": 0x9A71BB4C,
    "compute_xxhash64": 0x86F8C8413116A0AE,
    "split_path": ["a", "b"],
    "join_path": "a/b",
    "path_parent": "a/b",
    "path_base": "c",
}


def test_every_name_of_the_reference_package_is_there_and_can_be_called():
    for kind, names in METHODS.items():
        for name in names.split():
            assert hasattr(getattr(shard, kind), name) or name == "header", f"{kind}.{name}"
    assert {name: getattr(shard, name) for name in NUMBERS} == NUMBERS
    results = {name: getattr(shard, name)(*arguments) for name, arguments in CALLS.items()}
    assert {name: results[name] for name in VALUES} == VALUES
    assert {"ShardHeader", "validate_schema", *NUMBERS, *CALLS, *METHODS} <= set(dir(shard))
    parameters = list(inspect.signature(shard.ShardStreamWriter).parameters)
    assert parameters[:3] == ["path", "role", "max_entries"]


def test_a_program_for_the_reference_package_runs(tmp_path):
    path = tmp_path / "a.shard"
    writer = shard.ShardWriter(str(path), shard.ROLE_SAMPLE)
    writer.set_alignment(shard.ALIGN_32)
    writer.set_compression(shard.COMPRESS_ZSTD)
    writer.write_entry_typed("config", b"{}", shard.CONTENT_TYPE_JSON)
    writer.write_entry_compressed("layer.0/weight", bytes(1000))
    writer.write_entry_with_options("layer.1/weight", bytes(1000), True, shard.COMPRESS_LZ4)
    writer.write_entry_with_options("raw", bytes(1000), False, shard.COMPRESS_LZ4)
    writer.write_entry("plain", bytes(1000))
    writer.write_entry_typed("typed", bytes(1000), shard.CONTENT_TYPE_JSON)
    for wrong in (lambda: writer.set_alignment(7), lambda: writer.set_compression(9)):
        with pytest.raises(ValueError, match="expected"):
            wrong()
    writer.close()
    reader = shard.ShardReader(str(path))
    header = reader.header()
    assert (header.role, header.alignment, reader.header.role, reader.entry_count()) == (2, 32, 2, 6)
    assert (header.magic, header.version, header.index_entry_size) == (shard.SHARD_MAGIC, shard.SHARD_VERSION, 48)
    assert (reader.get_entry_info(1).name_len, reader.get_entry_info(0).reserved) == (14, shard.CONTENT_TYPE_JSON)
    assert [reader.get_entry_info(number).flags for number in range(6)] == [0, 3, 5, 0, 0, 0]
    assert reader.get_entry_info(0).content_type == shard.CONTENT_TYPE_JSON
    assert reader.read_entry(reader.lookup("layer.1/weight"), True) == bytes(1000)
    assert reader.read_metadata() is None
    schema = shard.ShardSchema("model").add_spec("layer.*/weight", shard.CONTENT_TYPE_TENSOR).add_spec("missing.**")
    schema.add_optional("bias").add_spec("config", shard.CONTENT_TYPE_JSON)
    found = shard.validate_schema(reader, schema)
    assert [error.spec_pattern for error in found] == ["layer.*/weight", "layer.*/weight", "missing.**"]


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("layer.0/w", "layer.0/w", True),
        ("layer.*/w", "layer.12/w", True),
        ("layer.*/w", "layer.1/2/w", False),
        ("*", "a.b", False),
        ("a.**", "a.b/c.d", True),
        ("a.**", "ab", False),
        ("a+", "a+", True),
        ("a+", "aa", False),
        ("*", "", True),
    ],
)
def test_patterns_stop_at_dots_and_slashes(pattern, name, fits):
    reader = ShardReader(unsorted((name,)))
    assert bool(shard.validate_schema(reader, shard.ShardSchema().add_spec(pattern))) is not fits
