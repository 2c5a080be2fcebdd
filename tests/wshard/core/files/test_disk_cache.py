"""Blocks on disk are what the store sent, or are not there: whatever is damaged, removed, full or forbidden."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from shutil import rmtree

import pytest
from local_server import run_server
from object_stores import RangeServer

from wshard import FormatError
from wshard.core.files.block_cache import BLOCK
from wshard.core.files.disk_cache import MARKER, clear_cache, objects_folder, read_block, size_of_cache, write_blocks
from wshard.core.files.objects import forget
from wshard.core.files.schemes import place_of

DATA = os.urandom(10 * BLOCK + 5)
OF = ("https://lab/a", '"one"', len(DATA))
BLOCKS = {number: DATA[number * BLOCK : (number + 1) * BLOCK] for number in range(11)}

READ = """
import sys
from wshard.core.files.schemes import place_of
sys.stdout.buffer.write(place_of(sys.argv[1]).read(0, 1 << 30))
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("WSHARD_CACHE", str(tmp_path))
    monkeypatch.delenv("WSHARD_CACHE_SIZE", raising=False)
    forget()
    return objects_folder()


def files(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MARKER)


def intact():
    return {number for number in BLOCKS if read_block(OF, number) == BLOCKS[number]}


def test_what_two_processes_fetched_at_once_a_third_reads_from_disk(folder):
    with run_server(RangeServer()) as server:
        server.files["a.bin"] = DATA
        read = [sys.executable, "-c", READ, f"{server.url}/a.bin"]
        both = [subprocess.Popen(read, stdout=subprocess.PIPE) for _ in range(2)]
        assert [one.communicate()[0] for one in both] == [DATA, DATA]
        assert size_of_cache() == (11, len(DATA) + 11 * 16)
        assert len(files(folder)) == 11
        server.requests.clear()
        assert subprocess.run(read, capture_output=True, check=True).stdout == DATA
        assert {method for method, _ in server.requests} == {"HEAD"}
        server.files["a.bin"] = DATA[::-1]
        assert place_of(f"{server.url}/a.bin").read(0, 1 << 30) == DATA[::-1]
    assert folder.stat().st_mode & 0o077 == 0


def test_a_block_with_any_change_is_fetched_again(folder):
    write_blocks(OF, BLOCKS)
    assert intact() == {*BLOCKS}
    first, second, third, fourth, *_ = files(folder)
    whole = first.read_bytes()
    first.write_bytes(whole[:-1])
    second.write_bytes(b"")
    text = bytearray(third.read_bytes())
    text[1000] ^= 1
    third.write_bytes(text)
    fourth.write_bytes(whole)  # another block, intact
    assert len(intact()) == 7
    write_blocks(OF, BLOCKS)
    assert intact() == {*BLOCKS}
    for other in (("https://lab/b", *OF[1:]), (OF[0], '"two"', OF[2])):
        assert read_block(other, 0) is None


def test_only_versions_that_promise_the_same_bytes_stay():
    for version in ('W/"one"', "1790000000"):
        write_blocks((OF[0], version, OF[2]), BLOCKS)
    assert size_of_cache() == (0, 0)


def test_the_folder_may_be_removed_while_it_is_used(folder):
    write_blocks(OF, BLOCKS)
    rmtree(folder)
    assert intact() == set()
    write_blocks(OF, BLOCKS)
    assert intact() == {*BLOCKS}
    assert clear_cache() == (11, len(DATA) + 11 * 16)
    assert not folder.exists()
    assert clear_cache() == (0, 0)


def test_nothing_of_others_is_written_to_or_removed(folder):
    folder.mkdir(parents=True)
    (folder / "thesis.txt").write_text("text")
    write_blocks(OF, BLOCKS)
    assert [path.name for path in folder.iterdir()] == ["thesis.txt"]
    (folder / "thesis.txt").unlink()
    write_blocks(OF, BLOCKS)
    (inside := files(folder)[0].parent / "thesis.txt").write_text("text")
    clear_cache()
    assert files(folder) == [inside]
    (folder / MARKER).unlink()
    block = inside.with_name("0" * 32)
    block.write_bytes(b"of others")
    assert clear_cache() == (0, 0)
    assert files(folder) == [block, inside]


def test_blocks_take_no_more_than_the_limit_and_those_used_last_stay(monkeypatch):
    limit = 64 * 10 * BLOCK
    monkeypatch.setenv("WSHARD_CACHE_SIZE", str(limit))
    for number in range(1500):
        write_blocks(OF, {number: BLOCKS[0]})
    blocks, size = size_of_cache()
    assert size < 1.8 * limit
    assert blocks > 300
    assert sum(read_block(OF, number) is not None for number in range(1400, 1500)) > 90
    monkeypatch.setenv("WSHARD_CACHE_SIZE", "0")
    write_blocks(OF, {2000: BLOCKS[0]})
    assert read_block(OF, 2000) is None
    monkeypatch.setenv("WSHARD_CACHE_SIZE", "much")
    with pytest.raises(FormatError, match=r"WSHARD_CACHE_SIZE: expected a size such as 20GB .* found 'much'"):
        write_blocks(OF, BLOCKS)


@pytest.mark.parametrize("cache", ["/proc/wshard", "/dev/full/wshard", "/dev/null"])
def test_objects_are_read_without_a_cache_where_none_can_be(cache, monkeypatch):
    monkeypatch.setenv("WSHARD_CACHE", cache)
    with run_server(RangeServer()) as server:
        server.files["a.bin"] = DATA
        assert place_of(f"{server.url}/a.bin").read(5, 1 << 30) == DATA[5:]
    assert size_of_cache() == (0, 0)


def test_a_full_disk_keeps_what_fits_and_leaves_no_drafts(folder):
    write_blocks(OF, {0: BLOCKS[0]})
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (BLOCK // 2, before[1]))
    try:
        write_blocks(OF, BLOCKS)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert intact() == {0}
    assert len(files(folder)) == 1
