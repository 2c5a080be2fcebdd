"""Files that another program wrote: good ones are read as that program says, bad ones are refused at their stage."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from paths import ROOT

from wshard import FormatError
from wshard.core.container.layout import checksum
from wshard.shardpack import (
    NewEntry,
    ShardPackReader,
    ShardPackRecord,
    ShardPackWriter,
    stream_shardpack,
    verify_shardpack,
)

STAGES = ("open", "record", "payload", "verify", "accepted")


@pytest.fixture(scope="module")
def vectors() -> Path:
    folder = Path(os.environ.get("WSHARD_FIXTURES", ROOT.parent / "shared" / "fixtures"))
    for place in (folder / "shardpack", folder.parent / "shardpack"):
        if (place / "expected.json").is_file():
            return place
    pytest.skip(f"no ShardPack files of other programs in {folder}: set WSHARD_FIXTURES to their folder")


def stage_of(path: Path) -> tuple[str, str]:
    """Return the stage at which a file is refused, and the error."""
    stage = iter(STAGES)
    at = next(stage)
    try:
        with ShardPackReader(path) as pack:
            at = next(stage)
            records = list(pack)
            at = next(stage)
            for record in records:
                record.read()
        at = next(stage)
    except FormatError as error:
        return at, str(error)
    problems = verify_shardpack(path).problems
    return (at, next(iter(problems.values()))) if problems else ("accepted", "")


def test_every_bad_file_is_refused_at_its_stage(vectors):
    expected = json.loads((vectors / "expected.json").read_text())["bad"]
    found = {name: stage_of(vectors / f"bad_{name}.shardpack") for name in expected}
    assert {name: at for name, (at, _) in found.items()} == {name: row["stage"] for name, row in expected.items()}
    for name, (at, error) in found.items():  # the file is named, the record, and the entry
        assert f"bad_{name}.shardpack" in error
        assert at == "open" or "record " in error
        assert at != "payload" or "entry 'a'" in error
    assert len(found) == 26
    for name in expected:
        assert not verify_shardpack(vectors / f"bad_{name}.shardpack").ok


def test_bad_files_are_refused_by_streaming_too(vectors):
    """But for what only a full check can tell, and for a wrong key table or magic behind right records."""
    for path in sorted(vectors.glob("bad_*.shardpack")):
        if "dup_keys" not in path.name:
            with path.open("rb") as file, pytest.raises(FormatError):
                list(map(ShardPackRecord.read, stream_shardpack(file)))


def describe(record) -> dict:
    entries = []
    for entry in record:
        data = bytes(entry.read())
        text = f"crc32c:{checksum(data):08x}:{len(data)}" if len(data) > 100 else data.hex()
        entries.append([entry.name, entry.content_type, entry.codec.name.lower(), text])
    about = record.metadata
    meta = {"encoding": about.encoding.name.lower(), "hex": about.data.hex()} if about.data else None
    return {"key": record.key, "meta": meta, "entries": entries}


@pytest.mark.parametrize("name", ["minimal", "mixed"])
def test_good_files_hold_what_their_writer_says(vectors, name):
    expected = json.loads((vectors / "expected.json").read_text())["good"][name]
    path = vectors / f"good_{name}.shardpack"
    assert f"{checksum(path.read_bytes()):08x}" == expected["crc32c_of_file"]
    with ShardPackReader(path) as pack:
        assert [describe(record) for record in pack] == expected["records"]
        assert pack.metadata == expected["metadata"]
        assert [pack[record["key"]].key for record in expected["records"]] == list(pack.keys())
    with path.open("rb") as file:
        assert [describe(record) for record in stream_shardpack(file)] == expected["records"]
    assert stage_of(path) == ("accepted", "")


WORKED = bytes.fromhex(
    "55" + "00" * 7 + "53505231 01000000 01000000 00000000 00 00 0000 21801991 6b"
    "05" + "00" * 7 + "05" + "00" * 7 + "05000000 0a00 00 00 4cbb719a fff83bfc"
    "612e747874 746578742f706c61696e 68656c6c6f" + "00" * 8 + "01" + "00" * 15 + "5d" + "00" * 7 + "01" + "00" * 7
    + "00" * 16 + "ad" + "00" * 7 + "14977cb0 00000000 0100 0000 06a5c236 8953504b310d0a1a"
)  # fmt: skip


def test_the_worked_file_of_the_format_is_written_byte_for_byte(tmp_path):
    with ShardPackWriter(tmp_path / "a.shardpack", key_table=False) as writer:
        writer.write_record("k", [NewEntry("a.txt", b"hello", "text/plain")])
    assert (tmp_path / "a.shardpack").read_bytes() == WORKED
    assert len(WORKED) == 173


def test_a_file_without_records_has_80_bytes(tmp_path):
    with ShardPackWriter(tmp_path / "a.shardpack"):
        pass
    assert (tmp_path / "a.shardpack").stat().st_size == 80
    assert list(ShardPackReader(tmp_path / "a.shardpack")) == []
    assert list(stream_shardpack(tmp_path / "a.shardpack")) == []


def test_higher_minor_versions_and_flags_that_may_be_ignored_are_accepted(vectors):
    def changed(place: int, value: int) -> bytes:
        data = bytearray((vectors / "good_mixed.shardpack").read_bytes())
        data[len(data) - 64 + place] = value
        data[-12:-8] = checksum(bytes(data[-64:-12])).to_bytes(4, "little")
        return bytes(data)

    assert len(ShardPackReader(changed(50, 7))) == 3  # minor
    assert len(ShardPackReader(changed(46, 1))) == 3  # a flag of the high half
    for place, value in ((44, 1), (45, 128), (48, 2)):
        with pytest.raises(FormatError, match=r"flag|version"):
            ShardPackReader(changed(place, value))


def test_every_flipped_byte_is_refused(vectors):
    """I7: reading everything, by index or as a stream, refuses every change of one byte."""
    original = (vectors / "good_mixed.shardpack").read_bytes()
    unnoticed = []
    for place in range(len(original)):
        data = bytearray(original)
        data[place] ^= 0xFF
        try:
            for record in ShardPackReader(bytes(data)):
                record.read()
            unnoticed.append(place)
        except FormatError:
            pass
    assert unnoticed == []
