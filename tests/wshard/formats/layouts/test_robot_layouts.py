"""Shipped layouts of robot programs: values, clock, task, success and cameras are those that were written."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import av
import h5py
import numpy as np
import pytest
from hdf5_files import write_aloha, write_maniskill, write_robomimic
from robot_files import ROBOT_FILES, STEPS, Stated, write_amass

from wshard import list_episodes, open_episode
from wshard.errors import FormatError
from wshard.formats.base import load_matchers
from wshard.formats.detect import detect_format
from wshard.formats.look import look_at

if TYPE_CHECKING:
    from pathlib import Path


def _check(path: Path, name: str, found: list[Stated]) -> None:
    assert detect_format(path) == f"layout:{name}"
    episodes = dict(list_episodes(path))
    assert [address.key for address in episodes] == [stated.key for stated in found]
    for address, stated in zip(episodes, found, strict=True):
        with open_episode(address) as episode:
            lanes: Any = {block: lane for block, lane in episode.lanes().items() if not lane.encoding}
            assert {*lanes} == {*stated.lanes}
            for block, values in stated.lanes.items():
                read = episode.lane(block)
                assert read.dtype == values.dtype, block
                assert np.array_equal(read, values), block
            cameras = {block for block in episode.lanes() if block not in lanes}
            assert cameras == {*stated.cameras}
            assert all(episode.lane(block).shape[0] == episode.length for block in cameras)
            assert episode.id == stated.id
            assert {name: episode.metadata.get(name) for name in stated.metadata} == dict(stated.metadata)
            if stated.rate:
                assert episode.timebase.tick_hz == pytest.approx(stated.rate)


@pytest.mark.parametrize("name", ROBOT_FILES)
def test_files_of_robot_programs_are_read(tmp_path: Path, name: str) -> None:
    _check(*_named(tmp_path, name))


@pytest.mark.parametrize("name", ROBOT_FILES)
def test_no_other_format_or_layout_fits(tmp_path: Path, name: str) -> None:
    look = look_at(ROBOT_FILES[name](tmp_path)[0])
    assert [matcher.name for matcher in load_matchers() if matcher.matches(look)] == [f"layout:{name}"]


@pytest.mark.parametrize("write", [write_robomimic, write_maniskill])
def test_files_of_formats_are_no_layouts(tmp_path: Path, write: Any) -> None:
    write(tmp_path / "a.hdf5", {"demo_1" if write is write_robomimic else "traj_1": 5})
    write_aloha(tmp_path / "b.hdf5", 5)
    for name in ("a.hdf5", "b.hdf5"):
        look = look_at(tmp_path / name)
        assert [one.name for one in load_matchers() if one.name.startswith("layout:") and one.matches(look)] == []


def _named(folder: Path, name: str) -> tuple[Path, str, list[Stated]]:
    path, found = ROBOT_FILES[name](folder)
    return path, name, found


def test_motions_of_smplx_are_read(tmp_path: Path) -> None:
    path, found = write_amass(tmp_path, smplx=True)
    _check(path, "amass", found)
    with open_episode(path) as episode:
        assert [*episode.metadata["left_out"]] == ["markers_latent_vids"]  # pickled


def test_motions_of_humanml3d_are_read_by_its_name(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    motions = {
        name: rng.normal(size=(steps, 263)).astype(np.float32) for name, steps in (("000001", 9), ("M012314", 5))
    }
    for name, values in motions.items():
        np.save(tmp_path / f"{name}.npy", values)
    for address, _ in list_episodes(tmp_path, "layout:humanml3d"):
        with open_episode(address) as episode:
            assert np.array_equal(episode.lane("signal/joint_vecs"), motions.pop(episode.id))
            assert episode.timebase.tick_hz == 20
    assert not motions


def test_channels_have_the_names_of_joints(tmp_path: Path) -> None:
    path, _ = ROBOT_FILES["unitree"](tmp_path)
    with open_episode(path) as episode:
        assert episode.lanes()["action/left_arm/qpos"].names == ("kLeftShoulderPitch",)
        assert episode.lanes()["action/right_arm/qpos"].names == ()  # which the file does not list
    path, _ = ROBOT_FILES["droid"](tmp_path)
    with open_episode(path) as episode:
        assert episode.lanes()["action/cartesian_velocity"].names[3:] == ("roll", "pitch", "yaw")


def test_timesteps_without_a_state_are_refused_and_unused_arrays_are_left_out(tmp_path: Path) -> None:
    path, _ = ROBOT_FILES["unitree"](tmp_path)
    with open_episode(path) as episode:
        assert "left_out" not in episode.metadata  # qvel, torque and hands have no values
    document = json.loads(path.read_text())
    del document["data"][2]["states"]["left_arm"]
    path.write_text(json.dumps(document))
    with pytest.raises(FormatError, match="data/states/left_arm/qpos': expected rows of one shape"):
        open_episode(path)


@pytest.mark.parametrize(("stated", "success"), [("false", False), ("yes", True), (0, False), (True, True)])
def test_success_in_words_is_understood(tmp_path: Path, stated: Any, success: bool) -> None:  # noqa: FBT001
    path, _ = ROBOT_FILES["droid"](tmp_path)
    about = next(path.parent.glob("metadata_*.json"))
    about.write_text(json.dumps(json.loads(about.read_text()) | {"success": stated, "length": float("nan")}))
    with open_episode(path) as episode:
        assert episode.metadata["success"] is success
        assert episode.metadata["length"] is None


def test_frames_of_droid_are_those_of_its_videos(tmp_path: Path) -> None:
    path, _ = ROBOT_FILES["droid"](tmp_path)
    with av.open(str(path.parent / "recordings" / "MP4" / "22008760.mp4")) as container:
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    with open_episode(path) as episode:
        assert np.array_equal(episode.lane("signal/images/ext1"), frames[:STEPS])


def test_droid_without_its_json_file_has_its_numbers(tmp_path: Path) -> None:
    path, (stated,) = ROBOT_FILES["droid"](tmp_path)
    next(path.parent.glob("metadata_*.json")).unlink()
    with open_episode(path) as episode:
        assert episode.id == path.parent.name
        assert np.array_equal(episode.lane("action/joint_position"), stated.lanes["action/joint_position"])
        assert episode.metadata["left_out"]["observation/images/wrist"] == "no 'wrist_cam_serial' is stated"


def test_commands_of_another_length_than_the_states_are_refused(tmp_path: Path) -> None:
    path, _ = ROBOT_FILES["agibot"](tmp_path)
    with h5py.File(path, "a") as file:
        del file["action/joint/position"]
        file["action/joint/position"] = np.zeros((STEPS + 5, 14))
    with pytest.raises(FormatError, match=f"action/joint/position.*expected {STEPS} rows.*{STEPS + 5}, 14"):
        open_episode(path)
