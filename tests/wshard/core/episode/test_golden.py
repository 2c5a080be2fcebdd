"""Golden files: the generator reproduces them, and the library returns the values of their twins."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import wshard_plain
from paths import GOLDEN

from wshard import open_wshard, recover
from wshard.core.container.layout import checksum, name_hash

if TYPE_CHECKING:
    from pathlib import Path

FILES = sorted(path.name for path in GOLDEN.glob("*.wshard"))


def values_of(array: np.ndarray) -> list[Any]:
    return (array.view(np.uint16) if array.dtype.name == "bfloat16" else array).ravel().tolist()


def assert_twin(path: Path, expected: dict[str, Any]):
    with open_wshard(path) as file:
        about, recorded = expected["episode"], file.load()
        assert (file.id, file.env_id, file.length) == (about["episode_id"], about["env_id"], about["length_T"])
        assert dict(file.metadata) == about.get("metadata", {})
        assert file.timebase.tick_hz == expected["tick_hz"]
        assert recorded.chunk_index == about.get("chunk_index")
        assert recorded.timestep_range == about.get("timestep_range")
        assert set(expected["lanes"]) <= set(file.lanes())
        for block, lane in expected["lanes"].items():
            array = file.lane(block)
            assert file.lanes()[block].dtype.value == lane["dtype"], block
            assert list(array.shape) == lane["shape"], block
            assert values_of(array) == lane["values"], block
        residuals = {name: residual.data.tobytes().hex() for name, residual in recorded.residuals.items()}
        assert residuals == expected.get("residuals", {})
        for block in expected.get("not_recorded", []):
            assert not file.has(block)


@pytest.mark.parametrize("name", FILES)
def test_reader_gives_the_values_of_the_twin(name):
    assert_twin(GOLDEN / name, json.loads((GOLDEN / name).with_suffix(".json").read_text()))


def test_recovering_the_golden_journal_gives_the_values_of_its_twin(tmp_path):
    """J-2 to J-4: two whole flushes count, the torn third does not."""
    partial = tmp_path / "episode.wshard.partial"
    shutil.copy(GOLDEN / "recording.journal", partial)
    assert recover(partial) == tmp_path / "episode.wshard"
    assert not partial.exists()
    expected = json.loads((GOLDEN / "recording.json").read_text())
    assert_twin(tmp_path / "episode.wshard", expected)
    with open_wshard(tmp_path / "episode.wshard") as file:
        assert "signal/unused" not in file.lanes()


def test_exact_rewards_of_the_golden_file_come_before_the_rounded_ones():
    """E-22: rewards that f32 cannot hold stand in aux/reward too."""
    with open_wshard(GOLDEN / "additions.wshard") as file:
        assert file.load().rewards.tolist() == [0.1, 1e300, -0.0]
        assert file.total_reward() == 0.1 + 1e300


def test_generator_reproduces_every_golden_file(tmp_path):
    subprocess.run([sys.executable, GOLDEN / "generate.py", tmp_path], check=True, timeout=60)
    written = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    saved = {path.name: path.read_bytes() for path in GOLDEN.iterdir() if path.is_file() and path.suffix != ".py"}
    assert sorted(written) == sorted(saved)
    assert written == saved


def test_hash_and_checksum_have_the_reference_values():
    """C-10, C-22: both of the library and of the second reader that judges it."""
    hashes = json.loads((GOLDEN / "golden_hashes.json").read_text())
    assert len(hashes["crc32c"]) == len(hashes["xxh64"]) == 2
    for text, value in hashes["crc32c"].items():
        assert checksum(text.encode()) == wshard_plain.crc32c(text.encode()) == int(value, 16)
    for text, value in hashes["xxh64"].items():
        assert name_hash(text) == wshard_plain.xxh64(text.encode()) == int(value, 16)


@pytest.mark.parametrize("size", [0, 1, 3, 4, 7, 8, 31, 32, 33, 63, 64, 100])
def test_second_reader_hashes_names_of_every_length_alike(size):
    text = "abcdefghijklmnopqrstuvwxyz" * 4
    assert name_hash(text[:size]) == wshard_plain.xxh64(text[:size].encode())
