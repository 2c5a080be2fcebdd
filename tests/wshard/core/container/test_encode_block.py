"""Blocks coded in threads: the same bytes in the same order, bounded memory, the first error, safe shared reading."""

from __future__ import annotations

import io
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wshard import Channel, Episode, ShardReader, load_wshard, save_wshard
from wshard.core.container import encode_block
from wshard.core.container.encode_block import in_order
from wshard.errors import ChecksumError
from wshard.testing import assert_same_episode

MIB = 1 << 20


@pytest.fixture
def cores(monkeypatch):
    monkeypatch.setattr(encode_block, "_cores", lambda: 4)


def cameras(count: int = 5) -> Episode:
    rng = np.random.default_rng(0)
    lanes = {f"cam{n}": rng.integers(0, 8, (16, 1 << 16), np.uint8) for n in range(count)}
    return Episode("e", length=16, observations={name: Channel.of(name, data) for name, data in lanes.items()})


def saved(ep: Episode, compression: str) -> bytes:
    file = io.BytesIO()
    save_wshard(ep, file, compression)
    return file.getvalue()


@pytest.mark.parametrize("compression", ["none", "zstd:1", pytest.param("lz4", marks=pytest.mark.long)])
def test_threads_change_no_byte(cores, monkeypatch, compression):
    """C-26: on any number of cores."""
    data = saved(cameras(), compression)
    monkeypatch.setattr(encode_block, "_cores", lambda: 1)
    assert saved(cameras(), compression) == data
    monkeypatch.undo()
    assert_same_episode(load_wshard(data), cameras())


def test_work_is_done_in_several_threads_at_a_time(cores):
    meeting = threading.Barrier(3, timeout=30)
    names = list(in_order(lambda _: meeting.wait() >= 0, range(3), effort=[MIB] * 3, memory=[0] * 3))
    assert names == [True] * 3


@given(st.lists(st.integers(0, 40), max_size=12))
def test_results_come_in_order_and_those_in_flight_stay_within_the_limit(sizes):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encode_block, "_cores", lambda: 4)
        patch.setattr(encode_block, "_IN_FLIGHT", 50 * MIB)
        lock, taken, most = threading.Lock(), 0, 0

        def work(number: int) -> int:
            nonlocal taken, most
            with lock:
                taken += sizes[number]
                most = max(most, taken)
            return number

        memory = [size * MIB for size in sizes]
        seen = []
        for number in in_order(work, range(len(sizes)), effort=memory, memory=memory):
            seen.append(number)
            with lock:
                taken -= sizes[number]
        assert seen == list(range(len(sizes)))
        assert most <= 50 + max(sizes, default=0)


def test_little_work_starts_no_thread(cores):
    here = threading.get_ident()
    found = list(in_order(lambda _: threading.get_ident(), range(4), effort=[10, 10, 10, 100 * MIB], memory=[0] * 4))
    assert found == [here] * 4


def test_first_error_in_order_is_raised_and_the_rest_is_left(cores):
    data = bytearray(saved(cameras(), "none"))
    for name in ("signal/cam3", "signal/cam1"):
        data[ShardReader(bytes(data)).entry(name).data_offset] ^= 1
    with pytest.raises(ChecksumError, match="cam1"):
        load_wshard(bytes(data))


def test_threads_may_share_a_reader(tmp_path):
    """What one of them maps or reads ahead is no other's harm."""
    save_wshard(cameras(), tmp_path / "a.wshard", "zstd:1")
    truth = {name: lane.data.tobytes() for name, lane in cameras().lanes().items()}
    with ThreadPoolExecutor(8) as pool:
        for _ in range(20):
            reader = ShardReader(tmp_path / "a.wshard")
            wanted = [name for name in reader.names() if not name.startswith("time/")] * 4
            for name, block in zip(wanted, pool.map(reader.read_entry, wanted), strict=True):
                assert truth.get(name, block) == block
