"""The container: what the strict writer writes, judged by a second reader, and what codecs may not do."""

from __future__ import annotations

import io
import os
import re
import stat
import struct

import numpy as np
import pytest
import wshard_plain
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from paths import GOLDEN

from wshard import Codec, CompressionType, FormatError, FormatWarning, ShardReader, ShardWriter
from wshard.core.container.atomic_write import publish
from wshard.core.container.codec import compress, decompress
from wshard.core.container.codec_plan import CodecPlan
from wshard.core.container.index import pack_index
from wshard.core.container.layout import ENTRY_COMPRESSED, ENTRY_LZ4, ENTRY_ZSTD, Header, IndexEntry, checksum
from wshard.errors import (
    ChecksumError,
    CodecError,
    EntryNotFoundError,
    IndexCorruptError,
    LimitError,
    OverlapError,
    RecordingStateError,
)

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
repetitive = st.builds(lambda unit, count: unit * count, st.binary(min_size=1, max_size=4), st.integers(0, 400))
payloads = st.binary(max_size=300) | repetitive
codecs = st.sampled_from(["none", "zstd", "zstd:19", "lz4"])
blocks = st.dictionaries(names, st.tuples(payloads, codecs, st.sampled_from([0, 2])), max_size=6)


def written(contents: dict, **options: int) -> bytes:
    file = io.BytesIO()
    with ShardWriter(file, **options) as writer:
        for name, (data, codec, content) in contents.items():
            writer.write_entry(name, data, compression=codec, content_type=content)
    return file.getvalue()


# ---- the strict writer ---------------------------------------------------------------------------------------------


@given(blocks, st.sampled_from([0, 16, 32, 64]), st.integers(0, 255))
def test_second_reader_accepts_and_reads_what_is_written(contents, alignment, role):
    """C-20 to C-25, each asserted by the second reader."""
    data = written(contents, alignment=alignment, role=role)
    found_role, found = wshard_plain.read_strict(data, alignment=alignment)
    assert found_role == role
    assert {name: (block["data"], block["content"]) for name, block in found.items()} == {
        name: (payload, content) for name, (payload, _, content) in contents.items()
    }
    reader = ShardReader(data)
    assert {name: reader.read_entry(name) for name in reader.names()} == {n: p for n, (p, _, _) in contents.items()}


@given(blocks)
def test_blocks_are_in_the_order_of_writing(contents):
    """C-20."""
    assert ShardReader(written(contents)).names() == list(contents)


def test_files_of_other_writers_are_written_again_byte_by_byte(wshard_fixtures):
    """C-20 to C-25: as the golden files of the format, and those of this package, are laid out."""
    files = [*(wshard_fixtures / "safety" / "container").glob("golden_*.shard"), GOLDEN / "simple.wshard"]
    assert len(files) == 4
    for path in [*files, GOLDEN / "additions.wshard"]:
        reader, file = ShardReader(path), io.BytesIO()
        with ShardWriter(file, reader.header.role, alignment=reader.header.alignment) as writer:
            for entry in reader.entries:
                writer.write_entry(entry.name, reader.read_entry(entry.name), content_type=entry.content_type)
        assert file.getvalue() == path.read_bytes(), path.name


@pytest.mark.parametrize(("size", "saved"), [(255, False), (256, True)])
def test_blocks_of_256_bytes_or_more_are_compressed(size, saved):
    """C-24, as the other container writers do."""
    for codec in ("zstd", "lz4"):
        assert ShardReader(written({"a": (bytes(size), codec, 0)})).entry("a").compressed is saved


def test_second_reader_is_able_to_refuse():
    """What it accepts means something only if it finds the defects that it claims to look for."""
    good = written({"a": (b"x" * 100, "none", 0), "b": (b"y" * 100, "zstd", 2)})
    wshard_plain.read_strict(good)
    for offset in (6, 8, 40, 48, 64, 72, 78, 80, 96, 104, 110, 160, 166, 192, len(good) - 1):
        bad = bytearray(good)
        bad[offset] ^= 1
        with pytest.raises((AssertionError, KeyError, zstandard.ZstdError)):
            wshard_plain.read_strict(bytes(bad))


def test_the_readers_form_of_the_documents_works(tmp_path):
    path = tmp_path / "data.shard"
    with ShardWriter(path, alignment=64) as writer:
        writer.write_entry("entry/0", b"z" * 500, compression="zstd")
        writer.write_entry("entry/1", b"l" * 500, compression="lz4")
        writer.write_entry("entry/2", b"raw")
    with ShardReader(path) as reader:
        assert reader.header.alignment == 64
        assert [entry.flags for entry in reader.entries] == [3, 5, 0]
        assert [reader.read_entry(name) for name in reader.names()] == [b"z" * 500, b"l" * 500, b"raw"]


def test_exception_inside_with_leaves_no_file(tmp_path):
    path = tmp_path / "data.shard"

    def interrupted():
        with ShardWriter(path) as writer:
            writer.write_entry("a", b"data")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []


def test_writer_refuses_duplicates_long_names_surrogates_and_late_entries(tmp_path):
    """C-25."""
    writer = ShardWriter(tmp_path / "data.shard")
    writer.write_entry("a" * 0xFFFF, b"1")
    for name, kind in (("a" * 0xFFFF, FormatError), ("a" * 0x10000, LimitError), ("\ud800", FormatError)):
        with pytest.raises(kind):
            writer.write_entry(name, b"2")
    writer.close()
    with pytest.raises(RecordingStateError):
        writer.write_entry("late", b"3")
    with ShardReader(tmp_path / "data.shard") as reader:
        assert [reader.read_entry(name) for name in reader.names()] == [b"1"]


@pytest.mark.parametrize("alignment", [1, 7, 8, 128, -64])
def test_writer_refuses_other_alignments(tmp_path, alignment):
    with pytest.raises(FormatError, match="alignment: expected one of"):
        ShardWriter(tmp_path / "data.shard", alignment=alignment)


def test_publishing_through_a_link_keeps_the_link(tmp_path):
    """C-27."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link.shard").symlink_to(tmp_path / "real" / "data.shard")
    with publish(tmp_path / "link.shard") as file:
        file.write(b"new")
    assert (tmp_path / "link.shard").is_symlink()
    assert (tmp_path / "real" / "data.shard").read_bytes() == b"new"


def test_pipes_and_devices_are_not_replaced_and_a_missing_folder_is_named(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for name in ("pipe", "link"):
        with pytest.raises(FileExistsError, match="found a pipe or a device") as caught, publish(tmp_path / name):
            pass
        assert caught.value.filename == str(tmp_path / "pipe")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    end, other = os.pipe()
    with pytest.raises(FileExistsError, match="found a pipe"), publish(f"/dev/fd/{end}"):
        pass
    os.close(end)
    os.close(other)
    with pytest.raises(FileNotFoundError) as missing, publish(tmp_path / "nowhere" / "a.shard"):
        pass
    assert missing.value.filename == str(tmp_path / "nowhere" / "a.shard")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "pipe"]


def test_publishing_under_the_longest_file_name_works(tmp_path):
    path = tmp_path / ("n" * 255)
    with publish(path) as file:
        file.write(b"x")
    assert [child.name for child in tmp_path.iterdir()] == [path.name]


# ---- reading -------------------------------------------------------------------------------------------------------


def shard(entries: list[tuple[str, bytes, dict]], **header: int) -> bytes:
    """Pack a container whose index may lie: each entry's fields can be overridden."""
    size = 64 + 48 * len(entries) + sum(len(name.encode()) + 1 for name, _, _ in entries)
    rows, data = [], b""
    for name, stored, lies in entries:
        row = IndexEntry(name, 0, size + len(data), len(stored), len(stored), checksum(stored))
        rows.append(row._replace(**lies))
        data += stored
    index, strings = pack_index(rows)
    fields = {"role": 2, "flags": 0x22, "alignment": 0, "compression_default": 0, "entry_count": len(rows)}
    fields |= {"string_table_offset": 64 + len(index), "data_section_offset": size, "schema_offset": 0}
    fields |= {"total_file_size": size + len(data)}
    return Header(**(fields | header)).pack() + index + strings + data


def test_large_files_are_mapped_and_views_outlive_the_reader(tmp_path):
    data = np.random.default_rng(0).bytes(3 << 20)
    with ShardWriter(tmp_path / "big.shard") as writer:
        writer.write_entry("a", data)
    with ShardReader(tmp_path / "big.shard") as reader:
        view = reader.block("a")
    assert isinstance(view, memoryview)
    assert view.readonly
    os.unlink(tmp_path / "big.shard")  # noqa: PTH108  (what a running catalog sees when a file goes)
    assert bytes(view) == data


@pytest.mark.parametrize("wanted", ["nothing", 2, -3, 10**30])
def test_unknown_blocks_are_named_with_what_there_is(wanted):
    reader = ShardReader(shard([("a", b"1", {}), ("b", b"2", {})]))
    with pytest.raises(EntryNotFoundError, match=re.escape(f"no block {wanted!r}; it has a, b")):
        reader.block(wanted)
    assert reader.read_entry(-1) == b"2"


def test_blocks_in_any_order_are_accepted_and_shared_bytes_refused():
    """C-7."""
    first = shard([("a", b"1111", {}), ("b", b"2222", {})])
    start = ShardReader(first).entries[0].data_offset
    a = {"data_offset": start + 4, "checksum": checksum(b"2222")}
    b = {"data_offset": start, "checksum": checksum(b"1111")}
    swapped = shard([("a", b"1111", a), ("b", b"2222", b)])
    assert ShardReader(swapped).read_entry("a") == b"2222"
    with pytest.raises(OverlapError, match="'a' and 'b' overlap"):
        ShardReader(shard([("a", b"1111", {"disk_size": 5, "orig_size": 5}), ("b", b"2222", {})]))


def test_names_that_share_bytes_are_refused():
    """C-6: a small file could claim gigabytes of names."""
    entries = [(f"name{number:04d}", b"", {}) for number in range(100)]
    data = bytearray(shard(entries))
    for number in range(100):
        struct.pack_into("<IH", data, 64 + 48 * number + 8, 0, 900)
    with pytest.raises(IndexCorruptError, match="names share bytes"):
        ShardReader(bytes(data))


def test_checksum_of_zero_counts_only_with_the_header_flag():
    """C-11."""
    lying = ("a", b"data", {"checksum": 0})
    assert ShardReader(shard([lying], flags=0)).read_entry("a") == b"data"
    with pytest.raises(ChecksumError, match="block 'a': Checksum mismatch: stored 0x00000000"):
        ShardReader(shard([lying])).read_entry("a")


def test_unflagged_codec_of_older_streams_is_taken_from_the_header():
    """C-9, C-11: the checksum may then be that of the stored bytes; a warning says so."""
    packed = zstandard.compress(b"json" * 100)
    lies = {"flags": ENTRY_COMPRESSED, "orig_size": 400}
    reader = ShardReader(shard([("meta", packed, lies | {"checksum": checksum(b"json" * 100)})], compression_default=1))
    assert reader.read_entry("meta") == b"json" * 100
    with pytest.warns(FormatWarning, match="checksum is that of the compressed bytes"):
        found = ShardReader(shard([("meta", packed, lies)], compression_default=1)).read_entry("meta")
    assert found == b"json" * 100
    with pytest.raises(ChecksumError):
        ShardReader(shard([("meta", packed, lies | {"checksum": 7})], compression_default=1)).read_entry("meta")
    with pytest.raises(CodecError, match="neither the entry nor the header"):
        ShardReader(shard([("meta", packed, lies)])).read_entry("meta")


def test_blocks_flagged_but_stored_raw_need_a_matching_checksum():
    """C-9."""
    raw = ("a", b"not compressed at all", {"flags": ENTRY_COMPRESSED | ENTRY_ZSTD})
    assert ShardReader(shard([raw])).read_entry("a") == raw[1]
    with pytest.raises(CodecError):
        ShardReader(shard([("a", raw[1], raw[2] | {"checksum": 0})], flags=0)).read_entry("a")


def test_digest_follows_content_not_place(tmp_path):
    """C-28."""
    contents = {"a": (b"1" * 100, "none", 0), "b": (b"2" * 100, "zstd", 2)}
    for name in ("one", "two"):
        (tmp_path / name).write_bytes(written(contents))
    digests = {ShardReader(tmp_path / name).digest() for name in ("one", "two")}
    assert len(digests) == 1
    assert re.fullmatch("[0-9a-f]{32}", digests.pop())
    other = ShardReader(written(contents | {"a": (b"1" * 99 + b"2", "none", 0)})).digest()
    assert other != ShardReader(written(contents)).digest()


def test_digest_covers_what_no_checksum_covers():
    """C-28: blocks without a checksum, and the JSON section."""
    unchecked = [shard([("a", data, {"checksum": 0})], flags=0) for data in (b"1234", b"1235")]
    assert len({ShardReader(data).digest() for data in unchecked}) == 2
    plain = shard([("a", b"1", {})])
    sections = []
    for text in (b'{"a":1}', b'{"a":2}'):
        data = bytearray(plain + text)
        struct.pack_into("<QQ", data, 32, len(plain), len(data))
        sections.append(ShardReader(bytes(data)).digest())
    assert len(set(sections)) == 2


# ---- codecs --------------------------------------------------------------------------------------------------------


@given(payloads, st.sampled_from(["zstd", "zstd:1", "zstd:19", "lz4", "lz4:1"]))
def test_blocks_are_compressed_only_where_it_pays_and_decoded_exactly(data, text):
    """C-24."""
    codec = Codec.parse(text)
    packed = compress(data, codec)
    if packed is None:
        assert len(data) < 256 or len(wshard_best(data, codec)) >= len(data) * 9 // 10
    else:
        assert len(packed) < len(data) * 9 // 10
        assert decompress(packed, len(data), codec.entry_flags, "here") == data


def wshard_best(data: bytes, codec: Codec) -> bytes:
    """Return what the codec's library makes of data, used or not."""
    if codec.type is CompressionType.ZSTD:
        return zstandard.ZstdCompressor(level=codec.level).compress(data)
    import lz4.block  # noqa: PLC0415  (the one use)

    level = {"mode": "fast"} if codec.level == 1 else {"mode": "high_compression", "compression": 9}
    return lz4.block.compress(data, store_size=False, **level)


@pytest.mark.parametrize("text", ["gzip", "", "zstd:0", "zstd:23", "zstd:fast", "ZSTD"])
def test_unknown_codecs_are_refused(text):
    with pytest.raises(CodecError, match="compression: expected"):
        Codec.parse(text)


def test_codec_plan_prefers_exact_names_over_patterns():
    plan = CodecPlan.of({"signal/*": "lz4", "*": "zstd", "signal/rgb": "zstd:19"})
    chosen = [plan.codec(name) for name in ("signal/rgb", "signal/state", "reward")]
    assert [str(codec.type) for codec in chosen] == ["zstd", "lz4", "zstd"]
    assert [codec.level for codec in chosen] == [19, 3, 3]
    assert CodecPlan.of({"signal/rgb": "lz4"}).codec("reward") == Codec()


@given(st.binary(max_size=200), st.integers(0, 5000), st.sampled_from([ENTRY_ZSTD, ENTRY_LZ4]))
def test_decoding_arbitrary_bytes_gives_the_stated_size_or_a_format_error(data, size, flag):
    """C-10."""
    try:
        found = decompress(data, size, flag, "here")
    except FormatError as error:
        assert str(error).startswith("here: ")  # noqa: PT017  (whether it raises is the codec's business)
    else:
        assert len(found) == size


@pytest.mark.parametrize("size", [1, 63, 10**6, 1 << 30, (1 << 30) + 1, 2**63, 2**64 - 1])
@pytest.mark.parametrize("streamed", [False, True])
def test_zstd_bombs_are_refused_without_being_decoded(size, streamed):
    """C-10: 64 MiB of zeros in 2 KiB, behind any other stated size."""
    compressor = zstandard.ZstdCompressor(write_content_size=not streamed)
    bomb = compressor.compress(bytes(64 << 20)) if not streamed else _streamed(compressor, bytes(64 << 20))
    with pytest.raises((CodecError, LimitError)):
        decompress(bomb, size, ENTRY_ZSTD, "here")


def _streamed(compressor: zstandard.ZstdCompressor, data: bytes) -> bytes:
    packer = compressor.compressobj()
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize("size", [1, 63, 10**6, 1 << 30, 2**64 - 1])
def test_lz4_bombs_are_refused(size):
    """C-10: also those that only the decoder without the end rule would take."""
    bomb = b"\x1f\x00\x01\x00" + b"\xff" * 20_000
    for data in (bomb, bomb + b"\x00"):
        with pytest.raises((CodecError, LimitError)):
            decompress(data, size, ENTRY_LZ4, "here")


def test_lz4_blocks_without_the_end_rule_are_decoded():
    """C-10: one writer ends blocks with a match, which liblz4 refuses."""
    data = b"\x4fabcd\x04\x00" + bytes([20 - 4 - 15 + 0])
    assert decompress(data, 24, ENTRY_LZ4, "here") == b"abcd" * 6
    assert wshard_plain.lz4_block(data) == b"abcd" * 6


def test_lz4_decoding_of_far_matches_takes_time_by_output_not_by_distance():
    """C-10: 60,000 short matches that lie 64 KiB back copied 4 GB before."""
    literals = np.random.default_rng(1).bytes(65_000)
    block = b"\xf0" + b"\xff" * ((65_000 - 15) // 255) + bytes([(65_000 - 15) % 255]) + literals
    block = block + b"\xe8\xfd" + (b"\x00\xe8\xfd" * 60_000)
    size = 65_000 + 4 * 60_001
    found = decompress(block, size, ENTRY_LZ4, "here")
    assert found == wshard_plain.lz4_block(block)
