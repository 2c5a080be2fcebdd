"""Damaged ShardPacks are refused or give true values, whichever way they are read; `make fuzz` damages many more."""

from __future__ import annotations

import io
import os
import random
import warnings
from itertools import pairwise

import pytest
from mutations import extend, flip, overwrite, splice, truncate

from wshard import FormatError
from wshard.shardpack import ShardPackReader, ShardPackWriter, repair_shardpack, stream_shardpack, verify_shardpack
from wshard.shardpack import record as records

COUNT = int(os.environ.get("WSHARD_MUTATIONS", "600"))


def original(codec: str, folder, *, key_table: bool = True) -> bytes:
    rng = random.Random(codec)
    path = folder / f"{codec}{key_table}.shardpack"
    with ShardPackWriter(path, compression=codec, metadata={"user": {"a": 1}}, key_table=key_table) as writer:
        for number in range(6):
            files = {"a.bin": rng.randbytes(rng.randrange(40)) * 20, "b/c.json": b'{"n": 1}', "empty": b""}
            writer.write_record(f"part/{number}", files, {"number": number} if number % 2 else None)
    return path.read_bytes()


def swap_records(data: bytearray, _rng: random.Random) -> bytearray:
    """Put a record into the place of another one of the same size, with all its checksums."""
    offsets = ShardPackReader(bytes(data)).index.offsets.tolist()
    one = data[offsets[0] : offsets[1]]
    for start, stop in pairwise(offsets):
        if stop - start == len(one):
            data[start:stop] = one
    return data


MUTATIONS = [flip, flip, overwrite, truncate, extend, splice, swap_records]


def contents(found) -> tuple:
    return found.key, found.metadata, tuple((entry.name, bytes(entry.read())) for entry in found)


def check(data: bytes, truth: set) -> str:
    """Read a damaged file in two ways; raise whatever is no FormatError, and AssertionError for wrong values."""
    outcome = "refused"
    try:
        pack = ShardPackReader(data)
    except FormatError:
        pack = ()
    for number in range(len(pack)):
        try:
            found = contents(pack.record(number))
        except FormatError:
            continue
        assert found in truth, f"record {number} holds what nobody wrote"
        assert {name: bytes(data) for name, data in pack.read(number).items()} == dict(found[2])
        outcome = "read in part"
    try:
        for found in stream_shardpack(io.BytesIO(data)):
            assert contents(found) in truth, "a stream gave what nobody wrote"
        outcome = "streamed"
    except FormatError:
        pass
    return outcome


@pytest.mark.parametrize("codec", ["none", "gzip", "lz4", "zstd"])
def test_damaged_files_are_refused_or_give_true_values(tmp_path, codec):
    good, rng = original(codec, tmp_path), random.Random(codec)
    truth = {contents(record) for record in ShardPackReader(good)}
    outcomes = {"refused": 0, "read in part": 0, "streamed": 0}
    for _ in range(-(-COUNT // 4)):
        damaged = bytes(rng.choice(MUTATIONS)(bytearray(good), rng))
        outcomes[check(damaged, truth)] += 1
    assert outcomes["refused"] > 0
    assert outcomes["read in part"] > 0


def test_the_check_notices_a_reader_without_checksums(tmp_path, monkeypatch):
    good = original("none", tmp_path)
    truth = {contents(record) for record in ShardPackReader(good)}
    damaged = bytearray(good)
    damaged[good.index(b'{"n": 1}') + 6] ^= 1
    check(bytes(damaged), truth)
    monkeypatch.setattr(records, "checksum", lambda *_: int.from_bytes(b"none"))
    monkeypatch.setattr(records.ShardPackEntry, "read", lambda entry: entry.stored)
    with pytest.raises(AssertionError, match="nobody wrote"):
        check(bytes(damaged), truth)


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_what_is_repaired_can_be_read_and_holds_the_truth_or_says_what_is_not_in_it(tmp_path, codec):
    good, rng = original(codec, tmp_path, key_table=codec == "none"), random.Random(codec)
    truth = {contents(record) for record in ShardPackReader(good)}
    path, output = tmp_path / "damaged.shardpack", tmp_path / "repaired.shardpack"
    outcomes = {"saved": 0, "refused": 0, "intact": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(-(-COUNT // 20)):
            path.write_bytes(rng.choice(MUTATIONS)(bytearray(good), rng))
            output.unlink(missing_ok=True)
            try:
                report = repair_shardpack(path, output)
            except FormatError:
                outcomes["refused"] += 1
                continue
            outcomes["saved" if report.output else "intact"] += 1
            found = {contents(record) for record in ShardPackReader(report.output or path)}
            assert found <= truth
            assert len(found) == len(report.recovered)
            assert found == truth or report.unrecovered, "records are not there, and nobody says so"
            assert verify_shardpack(report.output or path).ok
    assert outcomes["saved"] > 0
