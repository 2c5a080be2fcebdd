"""What a path may lead to: files are opened, everything else is refused at once, by its name."""

from __future__ import annotations

import errno
import hashlib
import os
import signal
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from wshard import (
    Format,
    FormatError,
    ShardReader,
    WShardError,
    detect_format,
    load,
    load_wshard,
    open_episode,
    open_wshard,
)
from wshard.core.files.byte_source import PathSource
from wshard.core.files.regular import map_file, open_file
from wshard.core.recording import journal
from wshard.errors import RecordingExistsError

OPENERS = [ShardReader, open_wshard, load_wshard, load, open_file]


@pytest.fixture
def impatient():
    """End a call that waits for a writer: the test then fails instead of hanging."""

    def late(*_: object) -> None:
        raise TimeoutError

    earlier = signal.signal(signal.SIGALRM, late)
    signal.alarm(5)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, earlier)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("opener", OPENERS)
@pytest.mark.parametrize("name", ["p.wshard", "p.npz"])
def test_named_pipes_are_refused_without_waiting_for_a_writer(opener, name, tmp_path):
    os.mkfifo(tmp_path / name)
    with pytest.raises(FormatError, match=f"{name}: expected a regular file, found a named pipe"):
        opener(tmp_path / name)


@pytest.mark.usefixtures("impatient")
def test_the_format_of_a_pipe_is_unknown(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert detect_format(tmp_path / "pipe") is Format.UNKNOWN


@pytest.mark.parametrize("opener", [ShardReader, open_wshard, load_wshard, open_file])
def test_devices_and_folders_are_refused_by_name(opener, tmp_path):
    with pytest.raises(FormatError, match="/dev/null: expected a regular file, found a character device"):
        opener("/dev/null")
    with pytest.raises(IsADirectoryError) as caught:
        opener(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_refusing_keeps_no_descriptor_open(tmp_path):
    os.mkfifo(tmp_path / "p.wshard")
    paths = (tmp_path / "p.wshard", tmp_path, Path("/dev/null"))
    before = descriptors(paths)
    for path in paths:
        for _ in range(10):
            with pytest.raises((WShardError, OSError)):
                open_file(path)
    assert descriptors(paths) <= before  # fewer where what other tests left open has gone meanwhile


def descriptors(paths: tuple[Path, ...]) -> Counter[str]:
    """Count this process's descriptors of these paths."""
    found: Counter[str] = Counter()
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # that of the listing itself
            found[str(link.readlink())] += 1
    return Counter({str(path): found[str(path)] for path in paths})


def test_a_source_that_was_interrupted_before_it_had_its_file_closes_none():
    PathSource.__new__(PathSource).__del__()


def test_files_are_opened_as_ever(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    with open_file(tmp_path / "a") as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() == hashlib.sha256(b"abc").hexdigest()


def test_where_locks_and_memory_maps_fail_network_disks_are_named(tmp_path):
    """A descriptor that only names a file can do neither; network disks refuse with other numbers."""
    path = tmp_path / "file"
    path.write_bytes(b"content")
    with os.fdopen(os.open(path, os.O_PATH), "rb", closefd=True) as named:
        for act in (lambda: map_file(named.fileno(), path), lambda: journal.lock(named, path)):
            with pytest.raises(OSError, match="fail on some network disks: use a local disk") as caught:
                act()
            assert caught.value.filename == str(path)
            assert caught.value.errno == errno.EBADF
    with path.open("rb") as first, path.open("rb") as second:
        assert map_file(first.fileno(), path) == b"content"
        journal.lock(first, path)
        with pytest.raises(RecordingExistsError, match="another writer"):
            journal.lock(second, path)


def test_a_pointer_of_git_lfs_is_named(tmp_path):
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 123456\n"
    for name in ("e.wshard", "e.hdf5", "e.npz", "e.mcap", "e.db3", "e.bin"):
        (tmp_path / name).write_text(pointer)
        with pytest.raises(FormatError, match=rf"{name}: .*git lfs pull"):
            open_episode(tmp_path / name)
    (tmp_path / "notes.txt").write_text(pointer[:30])
    open_file(tmp_path / "notes.txt").close()
