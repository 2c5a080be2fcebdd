"""Arrays grow at their ends; a writer that is killed leaves what was there, and what is damaged reads as empty."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from bridge.index.array_files import ArrayFiles, StoredArrays

KILLED = """
import os, signal, sys
from pathlib import Path
import numpy as np
from bridge.index.array_files import ArrayFiles, StoredArrays
kill_at, anew, place = int(sys.argv[1]), sys.argv[2] == "anew", Path(sys.argv[3])
flush, flushed = os.fsync, []
def count(file):
    flushed.append(file)
    if len(flushed) == kill_at:
        os.kill(os.getpid(), signal.SIGKILL)
    flush(file)
os.fsync = count
files = ArrayFiles(place, "rows")
part = [np.full((3, 2), 7.0), np.full((5, 1), 7)]
if anew:
    files.replace("a", [part], 2)
else:
    files.append(files.read(StoredArrays("a", 0)), [part], 2)
"""


def part(number, rows):
    return [np.full((rows, 2), number / 7), np.full((2 * rows, 1), number)]


def contents(place):
    found = ArrayFiles(place, "rows").read(StoredArrays("a", 0))
    return found.state, [array.tolist() for array in found.arrays]


def test_what_is_added_is_all_that_is_written(tmp_path):
    files = ArrayFiles(tmp_path, "rows")
    before = files.replace("a", [part(1, 400), part(2, 300)], 5)
    paths = [tmp_path / "rows-0.bin", tmp_path / "rows-1.bin"]
    there = [(path.stat().st_ino, path.stat().st_size) for path in paths]
    after = files.append(before, [part(3, 1), part(4, 2)], 9)
    grown = [(path.stat().st_ino, path.stat().st_size) for path in paths]
    assert grown == [(there[0][0], there[0][1] + 3 * 2 * 8), (there[1][0], there[1][1] + 6 * 8)]
    expected = [np.concatenate(both) for both in zip(part(1, 400), part(2, 300), part(3, 1), part(4, 2), strict=True)]
    for found in (after, files.read(before), files.read(StoredArrays("a", 0))):
        assert found.state == 9
        for array, one in zip(found.arrays, expected, strict=True):
            np.testing.assert_array_equal(array, one)
    assert files.read(after) is after
    assert not files.read(StoredArrays("b", 0)).arrays
    np.testing.assert_array_equal(before.arrays[0], expected[0][:700])


@pytest.mark.parametrize("file", ["rows.json", "rows-0.bin", "rows-1.bin"])
@pytest.mark.parametrize("damage", [lambda content: content[:-3], lambda content: b"Z" + content[1:], lambda _: b""])
def test_what_is_damaged_reads_as_empty_and_is_replaced(tmp_path, file, damage):
    files = ArrayFiles(tmp_path, "rows")
    files.replace("a", [part(1, 3)], 5)
    (tmp_path / file).write_bytes(damage((tmp_path / file).read_bytes()))
    assert contents(tmp_path) == (0, [])
    files.replace("a", [part(2, 3)], 6)
    assert contents(tmp_path) == (6, [array.tolist() for array in part(2, 3)])


def test_another_process_that_has_replaced_all_is_noticed(tmp_path):
    files = ArrayFiles(tmp_path, "rows")
    before = files.replace("a", [part(1, 30)], 5)
    ArrayFiles(tmp_path, "rows").replace("a", [part(2, 30), part(3, 1)], 6)
    assert files.read(before).state == 6
    np.testing.assert_array_equal(files.read(before).arrays[1][:60], part(2, 30)[1])
    np.testing.assert_array_equal(before.arrays[1], part(1, 30)[1])


@pytest.mark.skipif(sys.platform == "win32", reason="processes are killed by a signal")
@pytest.mark.parametrize(("way", "stages"), [("append", (1, 3)), ("anew", (1, 5))])
def test_a_writer_that_is_killed_leaves_the_old_or_nothing_and_the_next_one_succeeds(tmp_path, way, stages):
    new = [np.full((3, 2), 7.0), np.full((5, 1), 7)]
    ends = set()
    for stage in stages:
        place = tmp_path / str(stage)
        files = ArrayFiles(place, "rows")
        files.replace("a", [part(1, 9)], 1)
        old = contents(place)
        done = subprocess.run([sys.executable, "-c", KILLED, str(stage), way, str(place)], check=False)
        state, arrays = contents(place)
        ends.add((done.returncode, state))
        assert state != 1 or (state, arrays) == old
        stored = files.read(StoredArrays("a", 0))
        files.append(stored, [new], 3) if stored.arrays else files.replace("a", [new], 3)
        assert contents(place)[0] == 3
        assert [array[-3:] for array in contents(place)[1]] == [array[-3:].tolist() for array in new]
    assert (-9, 1) in ends
