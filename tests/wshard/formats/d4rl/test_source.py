"""D4RL files: the fixture of that layout, and variants."""

from __future__ import annotations

import pickle
from typing import Any

import h5py
import numpy as np
import pytest

from wshard import FormatError, TrajectoryIngestor, detect_format, open_source
from wshard.errors import EntryNotFoundError
from wshard.formats.d4rl.source import D4rlSource


@pytest.fixture
def fixture(dataset_fixtures):
    return dataset_fixtures / "other" / "d4rl.hdf5"


def write(path, rows, *, terminals=(), timeouts=None, column=False, **more: Any):
    """Write rows whose observations count."""
    with h5py.File(path, "w") as file:
        for name, ends in (("terminals", terminals), ("timeouts", timeouts)):
            if ends is not None:
                flags = np.isin(np.arange(rows), list(ends))
                file[name] = flags[:, None] if column else flags
        file["observations"] = np.arange(rows * 2, dtype=np.float32).reshape(rows, 2)
        file["actions"] = np.zeros((rows, 1), np.float32)
        rewards = np.arange(rows, dtype=np.float32)
        file["rewards"] = rewards[:, None] if column else rewards
        for name, values in more.items():
            file[name.replace("__", "/")] = values
    return path


def test_values_are_those_that_were_written(fixture, dataset_fixtures):
    truth = np.load(dataset_fixtures / "other" / "other_source.npz")
    assert detect_format(fixture) == "d4rl"
    with open_source(fixture, "d4rl") as source:
        assert source.keys() == ["0", "1"]
        for key, steps in (("0", 5), ("1", 9)):
            info, episode = source.info(key), source.load(key)
            episode.validate()
            assert (info.id, info.length, info.timebase.assumed) == (f"episode_{key}", steps, True)
            state = truth[f"episode_{key}/state"]
            assert np.array_equal(episode["observations"], state)
            assert np.array_equal(episode["infos/qpos"], state[:, :2])
            assert np.array_equal(episode["action/actions"], truth[f"episode_{key}/action"])
            assert episode.rewards.dtype == np.float32
            assert np.array_equal(episode.rewards, truth[f"episode_{key}/reward"])
            last = np.arange(steps) == steps - 1
            assert np.array_equal(episode.truncations, last if key == "0" else ~last & last)
            assert np.array_equal(episode.terminations, last if key == "1" else ~last & last)
            assert list(info.metadata) == ["algorithm"]
        assert np.array_equal(source.lane("1", "signal/observations", 3, 6), truth["episode_1/state"][3:6])
        sent, opened = pickle.dumps(source), source.open("1")
    assert opened.load() == episode
    opened.close()
    assert pickle.loads(sent).load("1") == episode  # noqa: S301  (our own)


def test_columns_of_one_are_squeezed_and_the_tail_is_an_episode(tmp_path):
    path = write(tmp_path / "a.hdf5", 10, terminals=[2], timeouts=[6], column=True)
    with D4rlSource(path) as source:
        episodes = [source.load(key) for key in source.keys()]  # noqa: SIM118  (a Source is no mapping)
    assert [episode.length for episode in episodes] == [3, 4, 3]
    assert [episode.metadata for episode in episodes] == [{}, {}, {"unfinished": True}]
    assert episodes[1].rewards.tolist() == [3, 4, 5, 6]
    assert episodes[2].terminations.tolist() == [False] * 3
    with pytest.raises(EntryNotFoundError):
        D4rlSource(path).info("3")


def test_without_timeouts_an_episode_ends_at_the_horizon(tmp_path):
    path = write(tmp_path / "a.hdf5", 2600, terminals=[299, 1299])
    with D4rlSource(path) as source:
        infos = [source.info(key) for key in source.keys()]  # noqa: SIM118  (as above)
    assert [info.length for info in infos] == [300, 1000, 1000, 300]
    assert [info.metadata for info in infos] == [{}, {}, {"horizon": 1000}, {"unfinished": True}]


def test_next_observations_give_the_final_one_and_large_metadata_is_left_out(tmp_path):
    rows = np.arange(8, dtype=np.float32).reshape(4, 2) + 2
    path = write(
        tmp_path / "a.hdf5", 4, terminals=[3], timeouts=[], next_observations=rows,
        metadata__algorithm="SAC", metadata__policy__fc0__weight=np.zeros((40, 40)), metadata__iteration=7,
    )  # fmt: skip
    with D4rlSource(path) as source:
        assert source.info("0").metadata == {
            "algorithm": "SAC", "iteration": 7, "final_observation": {"observations": [8.0, 9.0]},
            "left_out": {"policy/fc0/weight": "float64 [40, 40]"},
        }  # fmt: skip
        assert {*source.info("0").lanes} == {
            "signal/observations",
            "action/actions",
            "reward",
            "done",
            "aux/truncations",
        }


def test_columns_of_other_lengths_are_refused(tmp_path):
    path = write(tmp_path / "a.hdf5", 6, terminals=[5], timeouts=[])
    with h5py.File(path, "r+") as file:
        del file["rewards"]
        file["rewards"] = np.zeros(5)
    with (
        D4rlSource(path) as source,
        pytest.raises(FormatError, match="'rewards': expected 6 rows to match 'actions', found 5"),
    ):
        source.info("0")
    with h5py.File(path, "r+") as file:
        del file["terminals"]
        file["terminals"] = np.zeros(5)
    with pytest.raises(FormatError, match="'terminals': expected 6 flags"):
        D4rlSource(path).keys()


def test_only_an_episode_that_was_appended_is_embedded(tmp_path):
    path = tmp_path / "a.hdf5"
    wave = np.sin(np.arange(60) * np.pi / 10 + np.repeat([0, 1, 2], 20))  # statistics stay when some are added
    write(path, 40, terminals=[], timeouts=[19, 39], infos__wave=wave[:40])
    with TrajectoryIngestor(tmp_path / "archive", lanes=["infos/wave"]) as ingestor:
        assert ingestor.ingest([path]).embedded == 2
        write(path, 60, terminals=[], timeouts=[19, 39, 59], infos__wave=wave[:60])
        report = ingestor.ingest([path])
    assert (report.new, report.embedded, report.failed) == (1, 1, [])
