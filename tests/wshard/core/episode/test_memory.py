"""Memory: saving, lazy opening and recording take what they say, measured in processes of their own."""

from __future__ import annotations

import io
import json
import struct
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from wshard import ShardReader, ShardWriter

if TYPE_CHECKING:
    from pathlib import Path

MEASURE = """
import gc, io, json, resource, sys, tracemalloc
import numpy as np
from wshard.core.container import encode_block
from wshard.core.episode.file import load_wshard, open_wshard, save_wshard
from wshard.core.recording.writer import ChannelDef, WShardStreamWriter
from wshard.types import Channel, DType, Episode

def episode(megabytes):
    rng = np.random.default_rng(0)
    lanes = {str(n): rng.integers(0, 64, (64, size << 14), np.uint8) for n, size in enumerate(megabytes)}
    return Episode("e", length=64, observations={n: Channel.of(n, data) for n, data in lanes.items()})

def peak(work):
    gc.collect()
    tracemalloc.start()
    result = work()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most

def highest():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
"""


def measured(program: str, *arguments: object) -> dict[str, float]:
    command = [sys.executable, "-c", MEASURE + program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_saving_uncompressed_needs_no_copy_of_the_payload(tmp_path):
    program = """
ep = episode([8, 4, 4])
save_wshard(episode([1]), sys.argv[1])
before = highest()
used = peak(lambda: save_wshard(ep, sys.argv[1]))
print(json.dumps({"peak": used, "grown": highest() - before}))
"""
    found = measured(program, tmp_path / "a.wshard")
    assert found["peak"] < 0.15 * (16 << 20)
    assert found["grown"] < 0.15 * (16 << 20)


@pytest.mark.parametrize("frame_steps", [None, 4])
@pytest.mark.long
def test_saving_compressed_needs_no_more_than_the_largest_block(tmp_path, frame_steps):
    """Without the constant that small blocks may share (64 MiB), which would hide it."""
    program = f"""
encode_block._IN_FLIGHT = 0
ep = episode([8, 8, 4, 8, 8])
used = peak(lambda: save_wshard(ep, sys.argv[1], "zstd:1", frame_steps={frame_steps}))
print(json.dumps({{"peak": used}}))
"""
    assert measured(program, tmp_path / "a.wshard")["peak"] < 1.15 * (8 << 20)


def test_loading_takes_the_decoded_lanes_and_little_more(tmp_path):
    program = """
save_wshard(episode([8, 8, 8]), sys.argv[1], "zstd:1", frame_steps=4)
print(json.dumps({"peak": peak(lambda: load_wshard(sys.argv[1]))}))
"""
    assert measured(program, tmp_path / "a.wshard")["peak"] < 1.1 * (24 << 20)


def sparse(path: Path, steps: int, size: int) -> None:
    """Write an episode with a lane u8 [steps, size] of zeros that takes no room on disk."""
    file = io.BytesIO()
    with ShardWriter(file, role=5) as writer:
        writer.write_entry("meta/episode", json.dumps({"episode_id": "e", "length_T": steps}).encode())
        row = {"id": "big", "dtype": "u8", "shape": [size]}
        writer.write_entry("meta/channels", json.dumps({"channels": [row]}).encode())
        writer.write_entry("signal/big", b"")
    data = bytearray(file.getvalue())
    data += bytes(-len(data) % 64)
    number = ShardReader(file.getvalue()).names().index("signal/big")
    struct.pack_into("<QQQ", data, 64 + 48 * number + 16, len(data), steps * size, steps * size)
    struct.pack_into("<Q", data, 40, len(data) + steps * size)
    path.write_bytes(data)
    with path.open("r+b") as growing:
        growing.truncate(len(data) + steps * size)


def test_lazy_opening_of_two_gigabytes_takes_no_memory(tmp_path):
    """E-32: neither by Python's count nor by the system's."""
    sparse(tmp_path / "big.wshard", 1 << 21, 1 << 10)
    assert (tmp_path / "big.wshard").stat().st_size > 2 << 30
    program = """
save_wshard(episode([2]), sys.argv[1] + ".small")
with open_wshard(sys.argv[1] + ".small") as file:
    file["0"][3]
before = highest()
def work():
    with open_wshard(sys.argv[1]) as file:
        part = file.slice(10**6, 10**6 + 16)
        return file["big"].shape, file["big"][5:10**6:10**5].sum(), part.observations["big"].data.sum()
used = peak(work)
print(json.dumps({"peak": used, "grown": highest() - before}))
"""
    found = measured(program, tmp_path / "big.wshard")
    assert found["peak"] < 1 << 20
    assert found["grown"] < 5 << 20


@pytest.mark.long
def test_recording_takes_the_same_memory_however_long(tmp_path):
    program = """
def record(steps):
    with WShardStreamWriter(sys.argv[1], "e", [ChannelDef("joint", DType.FLOAT32, [7])]) as recording:
        recording.begin_episode()
        row = np.zeros(7, np.float32)
        for t in range(steps):
            recording.write_timestep({"joint": row}, reward=0.5)
record(1000)
print(json.dumps({"short": peak(lambda: record(2_000)), "long": peak(lambda: record(40_000))}))
"""
    found = measured(program, tmp_path / "a.wshard")
    assert found["long"] < found["short"] + 50_000
    assert np.isfinite(found["short"])
