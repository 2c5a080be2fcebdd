"""lerobot opens the data sets that are written here, and gives equal values. Run by `make peers`."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from paths import ROOT

from wshard import Channel, Episode, TimebaseSpec, open_sink
from wshard.formats.open import open_location
from wshard.testing import make_episode

PYTHON = ROOT / ".bench" / "venv-lerobot" / "bin" / "python"
pytestmark = pytest.mark.skipif("WSHARD_PEERS" not in os.environ, reason="make peers installs lerobot and runs this")

READER = """
import sys, warnings
warnings.simplefilter("ignore")
import numpy as np
from lerobot.datasets.lerobot_dataset import LeRobotDataset
found = {}
deltas = {"observation.state": [0.0, 0.1]}
data = LeRobotDataset("peer/set", root=sys.argv[1], video_backend="pyav", delta_timestamps=deltas)
for number in range(len(data)):
    for name, value in data[number].items():
        found.setdefault(name, []).append(np.asarray(value))
found = {name: np.stack(rows) for name, rows in found.items()}
found["mean"] = data.meta.stats["observation.state"]["mean"]
np.savez(sys.argv[2], **found)
"""


def read(folder, place):
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    command = [PYTHON, "-c", READER, folder, place]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(np.load(place))


@pytest.mark.parametrize("name", ["lerobot_v21_image", "lerobot_v3_video_h264"])
def test_lerobot_reads_what_it_wrote_itself_before(dataset_fixtures, tmp_path, name):
    with open_location(dataset_fixtures / "lerobot" / name) as source:
        episodes = [source.load(key) for key in source.keys()]  # noqa: SIM118  (a Source is no mapping)
    with open_sink(tmp_path / "set", "lerobot") as sink:
        for episode in episodes:
            sink.write(episode)
    found = read(tmp_path / "set", tmp_path / "found.npz")
    state = np.concatenate([one["observation.state"] for one in episodes])
    assert np.array_equal(found["observation.state"][:, 0], state)
    assert np.allclose(found["mean"], state.mean(axis=0))
    assert np.array_equal(found["action"], np.concatenate([one["action/action"] for one in episodes]))
    assert np.array_equal(found["observation.grid"], np.concatenate([one["observation.grid"] for one in episodes]))
    assert np.array_equal(found["next.reward"], np.concatenate([one.rewards for one in episodes]))
    assert found["task"].tolist() == [one.metadata["task"] for one in episodes for _ in range(one.length)]
    ends = np.cumsum([one.length for one in episodes]) - 1
    assert np.flatnonzero(found["observation.state_is_pad"][:, 1]).tolist() == ends.tolist()
    frames = np.concatenate([one["observation.images.top"] for one in episodes])
    assert np.abs(found["observation.images.top"].transpose(0, 2, 3, 1) * 255 - frames).max() < 1e-3


def test_lerobot_reads_episodes_of_other_formats(tmp_path):
    rgb = np.random.default_rng(0).integers(0, 255, (20, 16, 24, 3), np.uint8)
    first = replace(make_episode(0), timebase=TimebaseSpec(tick_hz=10.0))
    lanes = {"state": np.arange(40, dtype=np.float64).reshape(20, 2), "rgb": Channel.of("rgb", rgb)}
    one: Episode = replace(first, observations=lanes, metadata={"task": "reach"})
    for name in ("first", "second"):  # the second one is added to the data set of the first
        with open_sink(tmp_path / "set", "lerobot") as sink:
            sink.write(replace(one, id=name))
    found = read(tmp_path / "set", tmp_path / "found.npz")
    assert np.array_equal(found["observation.state"][20:, 0], lanes["state"].astype(found["observation.state"].dtype))
    assert np.array_equal(np.round(found["observation.rgb"][20:] * 255).astype(np.uint8).transpose(0, 2, 3, 1), rgb)
    assert np.array_equal(found["action"][:20], one["action/ctrl"])
    assert found["episode_index"].tolist() == [0] * 20 + [1] * 20
