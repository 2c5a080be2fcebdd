"""Files of a range get their names as one change: what a killed process had completed is read, and finished."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from wshard.errors import ManifestError, MissingFileError, RecordingExistsError
from wshard.shardpack import ShardLimits, ShardPackSet, ShardPackWriter, unpack_shardpack

WRITER = """
import os, signal, sys
from pathlib import Path
from wshard.shardpack import ShardLimits, ShardPackWriter
def stop_renaming(path, target):
    if named:
        os.kill(os.getpid(), signal.SIGSTOP)
    named.append(target)
    return rename(path, target)
named, rename, Path.replace = [], Path.replace, stop_renaming
with ShardPackWriter(sys.argv[1], limits=ShardLimits(max_records=2), overwrite=True) as writer:
    for number in range(6):
        writer.write_record(f"new{number}", {"a": b"1"})
"""
NEW = [f"new{number}" for number in range(6)]


def write(path, count, name="old", *, overwrite=False):
    with ShardPackWriter(path, limits=ShardLimits(max_records=2), overwrite=overwrite) as writer:
        for number in range(count):
            writer.write_record(f"{name}{number}", {"a": b"1"})


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def stopped(tmp_path):
    """Start a process that is stopped once it has named one of three files, over a range of five."""
    if sys.platform == "win32":
        pytest.skip("no signal stops a process here")
    write(tmp_path / "a-{0..}.shardpack", 10)
    child = subprocess.Popen([sys.executable, "-c", WRITER, tmp_path / "a-{0..}.shardpack"])
    os.waitid(os.P_PID, child.pid, os.WSTOPPED)
    yield child
    child.kill()
    child.wait()


def test_a_range_is_the_new_one_from_the_first_name_on(tmp_path, stopped):
    shards = tmp_path / "a-{0..}.shardpack"
    with ShardPackSet(shards) as samples:
        assert list(samples.keys()) == NEW
        samples.close()
        stopped.send_signal(signal.SIGCONT)
        os.waitid(os.P_PID, stopped.pid, os.WSTOPPED)
        assert list(samples.keys()) == NEW  # a file has its name now
    assert list(ShardPackSet(tmp_path / "a-{0..2}.shardpack").keys()) == NEW
    with pytest.raises(MissingFileError, match=r"a-3\.shardpack"):
        ShardPackSet(tmp_path / "a-{0..3}.shardpack")
    unpack_shardpack(shards, tmp_path / "out")
    assert names(tmp_path / "out") == [f"{name}.a" for name in NEW]


def test_the_next_writer_waits_for_the_active_one_and_finishes_what_a_killed_one_began(tmp_path, stopped):
    shards = tmp_path / "a-{0..}.shardpack"
    with pytest.raises(RecordingExistsError, match="another writer is active"):
        ShardPackWriter(shards, overwrite=True)
    assert list(ShardPackSet(shards).keys()) == NEW
    stopped.kill()
    stopped.wait()
    assert len(names(tmp_path)) == 6  # of the new files one has its name, and the note is there
    with pytest.raises(RecordingExistsError, match="exists already"):
        ShardPackWriter(shards)
    assert names(tmp_path) == ["a-0.shardpack", "a-1.shardpack", "a-2.shardpack"]
    assert list(ShardPackSet(shards).keys()) == NEW


def test_a_file_removed_by_another_program_while_it_is_written_is_reported(tmp_path):
    write(tmp_path / "a.shardpack", 2)
    writer = ShardPackWriter(tmp_path / "a.shardpack", overwrite=True)
    writer.write_record("new", {"a": b"1"})
    (tmp_path / "a.shardpack.partial").unlink()
    with pytest.raises(FileNotFoundError, match=r"a\.shardpack"):
        writer.close()
    assert names(tmp_path) == ["a.shardpack"]


@pytest.mark.parametrize("note", [b"", b"{", b"[" * 100, b"[]", b"{}", b'{"shard_count": 0}', b'{"shard_count": true}'])
def test_a_note_that_is_damaged_says_nothing(tmp_path, note):
    shards = tmp_path / "a-{0..}.shardpack"
    write(shards, 4)
    (tmp_path / "a-0.shardpack.publishing").write_bytes(note)
    assert len(ShardPackSet(shards)) == 4
    write(shards, 2, "new", overwrite=True)
    assert (names(tmp_path), list(ShardPackSet(shards).keys())) == (["a-0.shardpack"], ["new0", "new1"])


@pytest.mark.timeout(10)
def test_a_note_of_more_files_than_there_are_is_reported(tmp_path):
    shards = tmp_path / "a-{0..}.shardpack"
    write(shards, 4)
    (tmp_path / "a-0.shardpack.publishing").write_bytes(b'{"shard_count": 9999999}')
    with pytest.raises(MissingFileError, match=r"a-2\.shardpack"):
        ShardPackSet(shards)
    (tmp_path / "a-0.shardpack.publishing").write_bytes(b'{"shard_count": 1}')
    with pytest.raises(ManifestError, match="shard 0 of 2"):
        ShardPackSet(shards)
