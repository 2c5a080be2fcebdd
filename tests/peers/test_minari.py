"""Minari opens the data sets that are written here, and gives equal values. Run by `make peers`."""

from __future__ import annotations

import os
import subprocess

import numpy as np
import pytest
from paths import ROOT

from wshard import Channel, Episode, open_sink
from wshard.formats.minari.source import MinariSource
from wshard.media import ImageFrames, encode_image

PYTHON = ROOT / ".bench" / "venv-minari" / "bin" / "python"
pytestmark = pytest.mark.skipif("WSHARD_PEERS" not in os.environ, reason="make peers installs Minari and runs this")

READER = """
import sys
import minari, numpy as np
found = {}
def put(name, value):
    if isinstance(value, dict):
        for key, one in value.items():
            put(f"{name}/{key}", one)
    elif isinstance(value, tuple):
        for number, one in enumerate(value):
            put(f"{name}/_index_{number}", one)
    elif value is not None:
        found[name] = np.asarray(value)
def first(value):
    return {key: first(one) for key, one in value.items()} if isinstance(value, dict) else np.asarray(value[0])
data = minari.load_dataset(sys.argv[1])
assert data.total_episodes == len(list(data.iterate_episodes())), data.total_episodes
found["total_steps"] = data.total_steps
found["env_id"] = "" if data.spec.env_spec is None else data.spec.env_spec.id
for number, episode in enumerate(data.iterate_episodes()):
    for name in ("observations", "actions", "rewards", "terminations", "truncations", "infos"):
        put(f"{number}/{name}", getattr(episode, name))
    assert data.observation_space.contains(first(episode.observations)), data.observation_space
found["seeds"] = [one.get("seed", -1) for one in data.storage.get_episode_metadata(range(data.total_episodes))]
np.savez(sys.argv[2], **found)
"""

WRITER = """
import sys
import minari, numpy as np
from gymnasium import spaces
from minari.data_collector import EpisodeBuffer
storage, jpeg, place = sys.argv[1], sys.argv[2] == "jpeg", sys.argv[3]
space = spaces.Dict({
    "state": spaces.Box(-9, 9, (2, 3), np.float32), "mode": spaces.Discrete(4),
    "multi": spaces.MultiDiscrete([3, 4]), "flags": spaces.MultiBinary(3), "words": spaces.Text(20),
    "pair": spaces.Tuple((spaces.Box(-9, 9, (2,), np.float64), spaces.Dict({"x": spaces.Discrete(3)}))),
    "img": spaces.Box(0, 255, (32, 40, 3), np.uint8),
})
action = spaces.Tuple((spaces.Discrete(3), spaces.Box(-9, 9, (2,), np.float32)))
buffers, found = [], {}
for number, n in enumerate((3, 5)):
    r, m = np.random.default_rng(n), n + 1
    state, mode, multi = r.random((m, 2, 3), np.float32), r.integers(0, 4, m), r.integers(0, 3, (m, 2))
    flags, one, x = r.integers(0, 2, (m, 3)).astype(np.int8), r.random((m, 2)), r.integers(0, 3, m)
    img, pos, rewards = r.integers(0, 256, (m, 32, 40, 3), np.uint8), r.random((m, 2, 2)), r.random(n)
    actions, success = (r.integers(0, 3, n), r.random((n, 2), np.float32)), np.arange(m) == n
    lanes = {
        "signal/state": state, "signal/mode": mode, "signal/multi": multi, "signal/flags": flags, "signal/img": img,
        "signal/pair/_index_0": one, "signal/pair/_index_1/x": x, "signal/infos/pos": pos,
        "signal/infos/success": success, "signal/infos/deep/t": np.arange(m), "aux/text/words": np.arange(m) // 2,
        "action/_index_0": actions[0], "action/_index_1": actions[1], "reward": rewards,
    }
    found.update({f"{number}/{name}": array[:n] for name, array in lanes.items()})
    observations = {"state": state, "mode": mode, "multi": multi, "flags": flags, "img": img, "pair": (one, {"x": x})}
    buffers.append(EpisodeBuffer(
        id=None, seed=n, options={"level": n, "deep": {"k": "v"}}, actions=actions, rewards=rewards,
        observations=observations | {"words": [f"word {i // 2}" for i in range(m)]},
        terminations=[False] * (n - 1) + [True], truncations=[False] * n,
        infos={"success": success, "pos": pos, "deep": {"t": np.arange(m)}},
    ))
minari.create_dataset_from_buffers(
    "own/set-v0", buffers, observation_space=space, action_space=action, data_format=storage, jpeg_encoding=jpeg,
    algorithm_name="a", author={"x"}, author_email={"x@y"}, code_permalink="p", description="d")
np.savez(place, **found)
"""


def run(root, *arguments: str):
    environment = {**os.environ, "MINARI_DATASETS_PATH": os.fspath(root)}
    command = [PYTHON, "-W", "ignore", "-c", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(np.load(arguments[-1]))


def read(root, name, place):
    return run(root, READER, name, os.fspath(place))


def make(seed, *, camera):
    rng = np.random.default_rng(seed)
    count = 4 + seed
    observations = {
        "state": rng.standard_normal((count, 3)).astype(np.float32),
        "gripper/open": rng.integers(0, 2, count).astype(bool),
        "infos/tag": np.arange(count),
    }
    lanes = {name: Channel.of(name, array) for name, array in observations.items()}
    frames = rng.integers(0, 256, (count, 32, 48, 3), np.uint8)
    if camera == "jpeg":
        lanes["img"] = Channel.of("img", ImageFrames("jpeg", [encode_image(frame, "jpeg") for frame in frames]))
    elif camera:
        lanes["img"] = Channel.of("img", frames)
    return Episode(
        f"run {seed}", "Reach-v2", count, observations=lanes,
        actions={"actions": Channel.of("actions", rng.standard_normal((count, 2)))},
        rewards=rng.random(count), terminations=np.arange(count) == count - 1, truncations=np.zeros(count, bool),
        metadata={"seed": seed, "task": "reach", "final_observation": {"state": [1.0, 2.0, 3.0]}},
    )  # fmt: skip


@pytest.mark.parametrize("camera", ["", "raw", "jpeg"])
def test_minari_gives_the_values_that_were_written(tmp_path, camera):
    episodes = [make(seed, camera=camera) for seed in range(3)]
    (tmp_path / "own").mkdir()
    for some in (episodes[:2], episodes[2:]):  # the last one is appended
        with open_sink(tmp_path / "own" / "reach-v0", "minari") as sink:
            for ep in some:
                sink.write(ep)
    found = read(tmp_path, "own/reach-v0", tmp_path / "found.npz")
    assert (int(found["total_steps"]), str(found["env_id"]), found["seeds"].tolist()) == (15, "Reach-v2", [0, 1, 2])
    for number, ep in enumerate(episodes):
        names = {"state": "observations/state", "gripper/open": "observations/gripper/open", "infos/tag": "infos/tag"}
        for name, path in (names | ({"img": "observations/img"} if camera else {})).items():
            rows = found[f"{number}/{path}"]
            assert len(rows) == ep.length + 1
            assert np.array_equal(rows[:-1], ep.observations[name].data)
        assert found[f"{number}/observations/state"][-1].tolist() == [1.0, 2.0, 3.0]
        assert np.array_equal(found[f"{number}/actions"], ep.actions["actions"].data)
        assert np.array_equal(found[f"{number}/rewards"], ep.rewards)
        assert np.array_equal(found[f"{number}/terminations"], ep.terminations)


@pytest.mark.parametrize("storage", ["hdf5", "arrow", "parquet"])
def test_copies_of_data_sets_of_minari_read_alike(dataset_fixtures, tmp_path, storage):
    original = dataset_fixtures / "other" / f"minari_{storage}"
    (tmp_path / "toy").mkdir()
    with MinariSource(original / "toy" / f"{storage}-v0") as source:
        episodes = [source.load(key) for key in source.keys()]  # noqa: SIM118  (a Source is no mapping)
    with open_sink(tmp_path / "toy" / "copy-v0", "minari") as sink:
        for ep in episodes:
            sink.write(ep)
    one = read(dataset_fixtures / "other" / "minari_hdf5", "toy/hdf5-v0", tmp_path / "one.npz")
    other = read(tmp_path, "toy/copy-v0", tmp_path / "other.npz")
    assert one.keys() == other.keys()
    for name, values in one.items():
        rows = slice(None, -1) if name.endswith("/img") else slice(None) if values.ndim else ()
        assert np.array_equal(values[rows], other[name][rows]), name


@pytest.mark.parametrize("camera", ["raw", "jpeg"])
@pytest.mark.parametrize("storage", ["hdf5", "arrow", "parquet"])
def test_every_kind_of_space_that_minari_writes_is_read(tmp_path, storage, camera):
    truth = run(tmp_path, WRITER, storage, camera, os.fspath(tmp_path / "truth.npz"))
    with MinariSource(tmp_path / "own" / "set-v0") as source:
        for key, steps in (("0", 3), ("1", 5)):
            info, ep = source.info(key), source.load(key)
            ep.validate()
            about = {name: info.metadata[name] for name in ("options", "seed", "success", "words")}
            words = [f"word {number}" for number in range((steps + 1) // 2)]
            options = {"level": steps, "deep": {"k": "v"}}
            assert about == {"options": options, "seed": steps, "success": True, "words": words}
            assert info.lanes["signal/img"].encoding == ("jpeg" if camera == "jpeg" else "")
            expected = {name.partition("/")[2]: array for name, array in truth.items() if name[0] == key}
            assert {*info.lanes} == {*expected, "done", "aux/truncations"}
            for name, array in expected.items():
                if name != "signal/img" or camera == "raw":
                    assert np.array_equal(source.lane(key, name), array), name
