"""Folders and WebDataset tars become ShardPacks and come back; webdataset reads our tars as we read its."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
import typer

from bridge.cli.main import command
from wshard import FormatError
from wshard.cli.common import byte_count
from wshard.shardpack import (
    ShardLimits,
    ShardPackReader,
    ShardPackSet,
    ShardPackWriter,
    pack_sources,
    repair_shardpack,
    unpack_shardpack,
)

FILES = {
    "b/1.left.jpg": b"\xff\xd8left",
    "b/1.json": b'{"n": 1}',
    "b/2.left.jpg": b"\xff\xd8" * 2000,
    "a.npy": b"\x93NUMPY" + bytes(3000),
    "a-b.txt": b"beside a",
    "a.json": b"{}",
}


@pytest.fixture
def folder(tmp_path):
    for name, data in FILES.items():
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (tmp_path / "in" / ".hidden").write_text("not packed")
    return tmp_path / "in"


def tree(folder) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def pack(sources, path, **options: Any):
    with ShardPackWriter(path, **options) as writer:
        pack_sources(sources, writer)
    return path


def test_a_folder_comes_back_unchanged(folder, tmp_path):
    path = pack([folder], tmp_path / "a.shardpack", compression="zstd")
    with ShardPackReader(path) as found:
        assert {record.key: record.names() for record in found} == {
            "a": ["json", "npy"],
            "a-b": ["txt"],
            "b/1": ["json", "left.jpg"],
            "b/2": ["left.jpg"],
        }
        assert found["b/1"].entry("left.jpg").content_type == "image/jpeg"
        assert found["a"].entry("npy").codec.name == "ZSTD"
    report = unpack_shardpack(path, tmp_path / "out")
    assert (report.records, report.files, report.without_metadata) == (4, 6, 0)
    assert tree(tmp_path / "out") == FILES


def test_tars_are_equal_bytes_and_come_back(folder, tmp_path):
    path = pack([folder], tmp_path / "a.shardpack")
    unpack_shardpack(path, tmp_path / "a.tar")
    pack([tmp_path / "a.tar"], tmp_path / "b.shardpack")
    assert (tmp_path / "b.shardpack").read_bytes() == path.read_bytes()
    unpack_shardpack(tmp_path / "b.shardpack", tmp_path / "b.tar")
    assert (tmp_path / "b.tar").read_bytes() == (tmp_path / "a.tar").read_bytes()
    with tarfile.open(tmp_path / "a.tar") as tar:
        assert {(m.mtime, m.mode, m.uid, m.gid, m.uname, m.gname) for m in tar} == {(0, 0o644, 0, 0, "", "")}


def test_webdataset_reads_the_samples_of_our_tars_and_we_those_of_its(folder, tmp_path):
    webdataset = pytest.importorskip("webdataset")
    iterators = pytest.importorskip("webdataset.tariterators")
    path = pack([folder], tmp_path / "a.shardpack")
    unpack_shardpack(path, tmp_path / "a.tar")
    with (tmp_path / "a.tar").open("rb") as file:  # which webdataset's own opener leaves open
        samples = list(iterators.group_by_keys(iterators.tar_file_expander([{"url": "a.tar", "stream": file}])))
    with ShardPackReader(path) as found:
        ours = {record.key: {name: record[name] for name in record.names()} for record in found}
    theirs = {s["__key__"]: {name: data for name, data in s.items() if not name.startswith("__")} for s in samples}
    assert theirs == ours
    with webdataset.TarWriter(str(tmp_path / "w.tar")) as sink:
        for key, files in ours.items():
            sink.write({"__key__": key, **files})
    back = ShardPackReader(pack([tmp_path / "w.tar"], tmp_path / "w.shardpack"))
    assert {record.key: {name: record[name] for name in record.names()} for record in back} == ours


def test_keys_with_a_dot_do_not_go_into_tars(tmp_path):
    with ShardPackWriter(tmp_path / "a.shardpack") as writer:
        writer.write_record("v1.0/a", {"txt": b"1"})
        writer.write_record("a/v1.0", {"txt": b"1"})
    with pytest.raises(FormatError, match="no dot"):
        unpack_shardpack(tmp_path / "a.shardpack", tmp_path / "a.tar")
    assert not (tmp_path / "a.tar").exists()
    assert unpack_shardpack(tmp_path / "a.shardpack", tmp_path / "out").files == 2
    assert (tmp_path / "out" / "a" / "v1.0.txt").exists()


def test_samples_that_a_tar_takes_apart_are_refused(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for name in ("a.txt", "b.txt", "a.json"):
            tar.addfile(tarfile.TarInfo(name), io.BytesIO())
    with pytest.raises(FormatError, match="written already"):
        pack([tmp_path / "a.tar"], tmp_path / "a.shardpack")


def run(*words: object, code: int = 0) -> None:
    with pytest.raises(SystemExit) as done:
        command()(list(map(str, words)), prog_name="wshard")
    assert (done.value.code or 0) == code


def test_the_verbs_pack_verify_inspect_repair_and_unpack(folder, tmp_path, capsys):
    shards = tmp_path / "train-{000000..}.shardpack"
    run("pack", folder, "--to", shards, "--compression", "zstd", "--max-records", 3, "--metadata", "task=a b", "--json")
    made = json.loads(capsys.readouterr().out)
    assert made["records"] == 4
    assert [name.rpartition("/")[2] for name in made["files"]] == ["train-000000.shardpack", "train-000001.shardpack"]
    assert ShardPackSet(shards).reader(0).metadata["user"] == {"task": "a b"}
    run("verify", shards)
    assert "OK    3 record(s) verified" in capsys.readouterr().out
    Path(made["files"][1]).rename(tmp_path / "elsewhere")
    run("verify", shards, code=1)
    text = capsys.readouterr().out
    assert "FAIL  set: " in text
    assert "shard 0 of 2: files are missing" in text
    assert "OK    3 record(s) verified" in text
    (tmp_path / "elsewhere").rename(made["files"][1])
    run("verify", tmp_path, "--json")
    assert [item["records"] for item in json.loads(capsys.readouterr().out)["items"]] == [3, 1]
    run("inspect", made["files"][0])
    text = capsys.readouterr().out
    assert "left.jpg" in text
    assert "image/jpeg" in text
    run("inspect", made["files"][0], "--json")
    report = json.loads(capsys.readouterr().out)
    assert [item["key"] for item in report["items"]] == ["a", "a-b", "b/1"]
    run("inspect", shards)
    text = capsys.readouterr().out
    assert [text.count(f"path       : {name}") for name in made["files"]] == [1, 1]
    run("inspect", shards, "--json")
    report = json.loads(capsys.readouterr().out)
    assert (report["path"], report["records"]) == (str(shards), 4)
    assert [item["key"] for file in report["files"] for item in file["items"]] == ["a", "a-b", "b/1", "b/2"]
    run("inspect", tmp_path / "none-{000..}.shardpack", code=1)
    assert "none-000.shardpack, found none" in capsys.readouterr().err
    run("pack", shards, "--to", tmp_path / "one.shardpack", "--no-key-table")
    run("unpack", tmp_path / "one.shardpack", "--to", tmp_path / "out")
    assert tree(tmp_path / "out") == FILES
    damaged = tmp_path / "one.shardpack"
    damaged.write_bytes(damaged.read_bytes()[:-100])
    capsys.readouterr()
    run("verify", damaged, code=1)
    assert f"try: wshard repair {damaged}" in capsys.readouterr().out
    run("repair", damaged)
    assert "4 record(s) recovered, 0 lost" in capsys.readouterr().out
    run("verify", tmp_path / "one.repaired.shardpack")


def test_pack_takes_the_documents_spellings_and_sizes_with_units(folder, tmp_path, capsys):
    target = tmp_path / "a.shardpack"
    words = ("pack", "--input", folder, "--output", target, "--record-size-limit", "1GB", "--compression", "lz4")
    run(*words, "--metadata", 'creator="My Name"', "training=true", "a.b=c=d")
    with ShardPackReader(target) as found:
        assert found.metadata["user"] == {"creator": '"My Name"', "training": "true", "a.b": "c=d"}
        assert len(found) == 4
    run("pack", folder, "--to", tmp_path / "b-{0..}.shardpack", "--max-bytes", "3.5kB", "--json")
    capsys.readouterr()
    run("pack", folder, "--to", tmp_path / "c.shardpack", "--record-size-limit", "1KiB", code=1)
    assert "record 'a': expected at most 1024 bytes" in capsys.readouterr().err
    assert not (tmp_path / "c.shardpack").exists()
    run("pack", "--to", target, "--overwrite", code=2)
    run("pack", "x=1", "--to", target, "--overwrite", code=1)
    run("pack", folder, "x", "--to", target, "--overwrite", "--metadata", "a=b", code=1)


@pytest.mark.parametrize(
    ("text", "size"),
    [("4096", 4096), ("1k", 1000), ("1kB", 1000), ("1KiB", 1024), ("1.5 GiB", 3 << 29), ("2MB", 2 * 10**6),
     ("1T", 10**12), ("500b", 500), ("0.5kib", 512), ("1gb", 10**9)],
)  # fmt: skip
def test_sizes_have_units(text, size):
    assert byte_count(text) == size


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5", "GB", "1ib", "1 X", "1e3", "nan", "1.2.3", "1PB"])
def test_other_sizes_are_refused(text):
    with pytest.raises(typer.BadParameter):
        byte_count(text)


def test_wrong_usage_of_pack_exits_with_2(folder, tmp_path, capsys):
    target = tmp_path / "a.shardpack"
    run("pack", folder, "--to", target, "--compression", "brotli", code=2)
    run("pack", folder, "--to", target, "--max-records", 3, code=2)
    run("pack", folder, "--to", tmp_path / "{0..}.shardpack", "--max-records", 0, code=2)
    run("pack", folder, "--to", target, "--metadata", "x", code=2)
    run("pack", folder, "--to", target)
    run("pack", folder, "--to", target, code=1)
    assert "exists already" in capsys.readouterr().err
    run("pack", folder, "--to", target, "--overwrite")
    run("unpack", target, "--to", folder, code=1)


def test_repair_says_what_is_not_in_the_new_file(tmp_path):
    path = tmp_path / "a.shardpack"
    with ShardPackWriter(path, metadata={"user": {"a": 1}}) as writer:
        for number in range(5):
            writer.write_record(f"k{number}", {"a.bin": bytes([number]) * 100})
    good = path.read_bytes()
    assert repair_shardpack(path).output is None
    damaged = bytearray(good)
    damaged[good.index(b"\2" * 50)] ^= 1
    path.write_bytes(damaged)
    report = repair_shardpack(path, in_place=True)
    assert report.recovered == ("k0", "k1", "k3", "k4")
    assert list(report.unrecovered) == ["record 2"]
    assert ShardPackReader(path).metadata == {"user": {"a": 1}}
    assert (tmp_path / "a.shardpack.bak").read_bytes() == damaged
    start = ShardPackReader(good).index.offsets.tolist()[3]
    damaged = bytearray(good)
    damaged[start + 9] ^= 1  # the magic of a record, and the footer: the rest cannot be found
    damaged[-30] ^= 1
    path.write_bytes(damaged)
    report = repair_shardpack(path, tmp_path / "b.shardpack")
    assert report.recovered == ("k0", "k1", "k2")
    assert list(report.unrecovered) == [f"bytes {start} to {len(good)}"]
    assert not report.complete


def test_damaged_records_are_passed_over_and_counted_where_that_is_wanted(tmp_path):
    with ShardPackWriter(tmp_path / "a.shardpack", compression="zstd") as writer:
        for number in range(9):
            writer.write_record(f"k{number}", {"a.bin": bytes([number]) * 1000, "b.bin": b"mark" + bytes([number])})
    data = bytearray((tmp_path / "a.shardpack").read_bytes())
    offsets = ShardPackReader(bytes(data)).index.offsets.tolist()
    data[offsets[2] + 9] ^= 1  # the header of a record
    data[data.index(b"mark\5")] ^= 1  # an entry
    pack, errors = ShardPackReader(bytes(data)), dict[int, FormatError]()
    found = [record.key for record in pack.intact_records(errors.__setitem__)]
    assert found == ["k0", "k1", "k3", "k4", "k6", "k7", "k8"]
    assert {number: f"record {number}" in str(error) for number, error in errors.items()} == {2: True, 5: True}
    with pytest.raises(FormatError):
        list(pack)


def test_shards_can_be_filled_again_by_packing_them(tmp_path):
    with ShardPackWriter(tmp_path / "a.shardpack") as writer:
        for number in range(7):
            writer.write_record(f"k{number}", {"a.bin": bytes([number])}, {"n": number})
    shards = pack([tmp_path / "a.shardpack"], tmp_path / "b-{00..}.shardpack", limits=ShardLimits(max_records=2))
    with ShardPackSet(shards) as found:
        assert [record.metadata.json() for record in found] == [{"n": number} for number in range(7)]
