"""Files of programs of reinforcement learning, each read by one layout of this package and by nothing else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest
from robot_files import ROBOT_FILES
from rollout_files import (
    FILES,
    REFUSED,
    Rollout,
    make_rollouts,
    sample_batch,
    write_tianshou,
    write_torchrl,
)

from wshard import open_episode
from wshard.errors import FormatError, UnsupportedFormatError
from wshard.formats.base import load_matchers
from wshard.formats.detect import detect_format
from wshard.formats.layouts.named import shipped_layouts
from wshard.formats.look import look_at
from wshard.formats.open import list_episodes

if TYPE_CHECKING:
    from pathlib import Path

    from rollout_files import ProgramFile

WRITERS = {name: file.write for name, file in FILES.items()} | REFUSED


def _files(path: Path) -> list[Path]:
    """Return the locations in a folder of files, or the location itself."""
    return sorted(path.glob("*.npz")) if path.is_dir() and not (path / "storage").exists() else [path]


def _check(path: Path, name: str, expected: list[Rollout]) -> None:
    file, number = FILES[name], 0
    for location in _files(path):
        assert detect_format(location) == f"layout:{name}"
        for address, _ in list_episodes(location):
            with open_episode(address) as episode:
                _compare(episode, expected[number], file)
            number += 1
    assert number == len(expected)


def _compare(episode: Any, rollout: Rollout, file: ProgramFile) -> None:
    assert episode.length == rollout.length
    assert np.array_equal(episode.lane(file.obs), rollout.obs[:-1])
    assert np.array_equal(episode.lane(file.action), rollout.actions)
    assert np.array_equal(episode.lane(file.reward), rollout.rewards)
    for lane, kind in ((file.done, "terminated"), (file.truncated, "truncated")):
        if lane:
            assert np.array_equal(episode.lane(lane), rollout.flags(kind))
    if file.last:
        assert np.array_equal(episode.lane(file.last), np.arange(rollout.length) == rollout.length - 1)
    if file.final:
        assert np.array_equal(episode.metadata["final_observation"][file.final], rollout.obs[-1])


@pytest.mark.parametrize("name", FILES)
def test_episodes_of_a_program_are_those_that_it_wrote(tmp_path: Path, name: str) -> None:
    _check(FILES[name].write(tmp_path, make_rollouts()), name, make_rollouts())


@pytest.mark.parametrize("name", REFUSED)
def test_files_without_timesteps_of_one_agent_are_refused_by_name(tmp_path: Path, name: str) -> None:
    path = REFUSED[name](tmp_path, make_rollouts())
    assert detect_format(path) == f"layout:{name}"
    with pytest.raises(UnsupportedFormatError, match=r"Monitor in stable-baselines|MultiAgentBatch of RLlib"):
        list_episodes(path)


def test_every_layout_that_is_recognised_has_a_file() -> None:
    found = {name for name, layout in shipped_layouts().items() if layout.match.arrays}
    assert found == {*WRITERS, *ROBOT_FILES}


@pytest.mark.parametrize("name", WRITERS)
def test_no_other_format_or_layout_takes_a_file(tmp_path: Path, name: str) -> None:
    for location in _files(WRITERS[name](tmp_path, make_rollouts())):
        look = look_at(location)
        assert [one.name for one in load_matchers() if one.matches(look)] == [f"layout:{name}"]


@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
def test_starts_of_stable_baselines_are_flags_or_a_column(tmp_path: Path, shape: tuple[int, ...]) -> None:
    path = FILES["sb3-expert"].write(tmp_path, make_rollouts())
    arrays = dict(np.load(path))
    np.savez(path, **arrays | {"episode_starts": arrays["episode_starts"].reshape(shape)})
    _check(path, "sb3-expert", make_rollouts())


@pytest.mark.parametrize("first", [0, 3, 15])
def test_a_full_replay_buffer_begins_with_its_oldest_row(tmp_path: Path, first: int) -> None:
    _check(write_tianshou(tmp_path / "a.hdf5", make_rollouts(), first=first), "tianshou", make_rollouts())
    for has_numbers in (False, True):
        folder = tmp_path / str(has_numbers)
        write_torchrl(folder, make_rollouts(), first=first, has_numbers=has_numbers)
        _check(folder, "torchrl-collector" if has_numbers else "torchrl", make_rollouts())


def test_each_part_of_a_replay_buffer_has_its_own_episodes(tmp_path: Path) -> None:
    rollouts = make_rollouts()
    path = write_tianshou(tmp_path / "a.hdf5", rollouts)
    with h5py.File(path, "r+") as file:  # two parts of 4 + 12 rows: the second is full, its oldest row is its third
        del file["last_index"]
        file["_offset"], file["_lengths"], file["last_index"] = [0, 4], [4, 12], [3, 5]
        for rows in file["_meta"].values():
            if isinstance(rows, h5py.Dataset):
                rows[4:] = np.roll(rows[4:], 2, axis=0)
        file["buffers"] = np.frombuffer(b"a pickle", np.int8)
    _check(path, "tianshou", rollouts)


def test_observations_of_several_arrays_are_read_from_d3rlpy(tmp_path: Path) -> None:
    path = FILES["d3rlpy"].write(tmp_path, make_rollouts())
    frames = [np.full((one.length, 1, 4, 4), number, np.uint8) for number, one in enumerate(make_rollouts())]
    with h5py.File(path, "r+") as file:
        for number, values in enumerate(frames):
            file.move(f"observations_{number}", f"observations_{number}_0")
            file[f"observations_{number}_1"] = values
    for (address, _), rollout, values in zip(list_episodes(path), make_rollouts(), frames, strict=True):
        with open_episode(address) as episode:
            assert np.array_equal(episode.lane("signal/observations_0"), rollout.obs[:-1])
            assert np.array_equal(episode.lane("signal/observations_1"), values)


def test_many_arrays_do_not_hide_what_tells_d3rlpy(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for number in range(300):
            for name in ("actions", "observations", "rewards"):
                file[f"{name}_{number}"] = np.zeros((1, 1))
            file[f"terminated_{number}"] = False
        file["columns"], file["num_episodes"], file["version"] = ["actions"], 300, "2.1"
    assert detect_format(tmp_path / "a.h5") == "layout:d3rlpy"
    assert len(list_episodes(tmp_path / "a.h5")) == 300


@pytest.mark.parametrize(("name", "obs"), [("d4rl-npz", "observations"), ("gym-npz", "states")])
def test_next_observations_end_episodes_where_no_flag_does(tmp_path: Path, name: str, obs: str) -> None:
    path = FILES["d4rl-npz"].write(tmp_path, make_rollouts())
    arrays = dict(np.load(path))
    del arrays["timeouts"]
    if name == "gym-npz":
        names = {"observations": "states", "next_observations": "next_states", "terminals": "dones"}
        arrays = {names.get(old, old): values for old, values in arrays.items()}
    np.savez(path, **arrays)
    assert [info.length for _, info in _described(path)] == [one.length for one in make_rollouts()]
    order = np.random.default_rng(0).permutation(len(arrays[obs]))
    np.savez(path, **{key: values[order] for key, values in arrays.items()})
    with pytest.raises(FormatError, match="transitions in no order have no episodes"):
        list_episodes(path)


def _described(path: Path) -> list[tuple[Any, Any]]:
    found = []
    for address, _ in list_episodes(path):
        with open_episode(address) as episode:
            found.append((address, episode.info))
    return found


def test_an_episode_may_span_lines_of_rllib(tmp_path: Path) -> None:
    first, second, third = make_rollouts()
    halves = [
        Rollout(second.obs[:4], second.actions[:3], second.rewards[:3]),
        Rollout(second.obs[3:], second.actions[3:], second.rewards[3:], truncated=True),
    ]
    lines = [sample_batch([first]), sample_batch(halves[:1], 1), sample_batch(halves[1:], 1), sample_batch([third], 2)]
    (tmp_path / "a.json").write_text("\n".join(map(json.dumps, lines)))
    _check(tmp_path / "a.json", "rllib-json", [first, second, third])


@pytest.mark.parametrize("count", [1, 3])
def test_packed_columns_of_rllib_are_refused_with_the_lines_to_run(tmp_path: Path, count: int) -> None:
    lines = [sample_batch([one], number) | {"obs": "BCJNGGhA"} for number, one in enumerate(make_rollouts()[:count])]
    (tmp_path / "a.json").write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(FormatError, match=r"'obs': expected numbers(.|\n)*compress_columns=\[\]"):
        open_episode(list_episodes(tmp_path / "a.json")[0][0])


def test_pickled_actions_are_refused_with_the_line_to_run(tmp_path: Path) -> None:
    path = FILES["sb3-expert"].write(tmp_path, make_rollouts())
    arrays = dict(np.load(path))
    np.savez(path, **arrays | {"actions": arrays["actions"].astype(object)})
    with pytest.raises(FormatError, match=r"pickled objects, which are never loaded.*allow_pickle=True"):
        open_episode(list_episodes(path)[0][0])
