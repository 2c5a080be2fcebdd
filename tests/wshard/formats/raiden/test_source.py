"""Episodes in the layout of Raiden's converter, against what pickle, Pillow and numpy read of them."""

from __future__ import annotations

import json
import pickle
import shutil
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

from wshard import (
    Channel,
    Episode,
    FormatError,
    Modality,
    TimebaseSpec,
    TrajectoryIngestor,
    TrajectoryRetriever,
    detect_format,
    list_episodes,
    open_episode,
    open_source,
)
from wshard.errors import EntryNotFoundError, MissingFileError
from wshard.formats.contract import SourceContract
from wshard.formats.raiden.source import RaidenSource
from wshard.media import ImageFrames

if TYPE_CHECKING:
    from pathlib import Path

CAMERAS = ("scene_camera", "left_wrist_camera")


def steps_of(folder: Path) -> list[dict]:
    return [pickle.loads(path.read_bytes()) for path in sorted((folder / "lowdim").glob("*.pkl"))]  # noqa: S301  (ours)


def read_plainly(folder: Path, id_: str) -> Episode:
    """Return an episode of a task as other libraries read it."""
    steps = steps_of(folder)
    lanes = {name: np.stack([step[name] for step in steps]) for name in ("joints", "actual_poses")}
    for name in ("intrinsics", "extrinsics"):
        lanes |= {f"{name}/{camera}": np.stack([step[name][camera] for step in steps]) for camera in CAMERAS}
    lanes |= {"T_left_from_right": np.stack([step["T_left_from_right"] for step in steps])}
    channels = {name: Channel.of(name, data) for name, data in lanes.items()}
    for camera in CAMERAS:
        depths = [np.load(path)["depth"] for path in sorted((folder / "depth" / camera).glob("*.npz"))]
        channels[f"depth/{camera}"] = Channel.of(f"depth/{camera}", np.stack(depths), modality=Modality.DEPTH)
        images = ImageFrames("png", [path.read_bytes() for path in sorted((folder / "rgb" / camera).glob("*.png"))])
        channels[f"rgb/{camera}"] = Channel.of(f"rgb/{camera}", images, modality=Modality.RGB)
    actions = {name: np.stack([step[name] for step in steps]) for name in ("action", "action_joints")}
    about = json.loads((folder / "metadata.json").read_text())
    return Episode(
        id_,
        "",
        len(steps),
        timebase=TimebaseSpec(tick_hz=30.0),
        observations=channels,
        actions={name: Channel.of(name, data) for name, data in actions.items()},
        timestamps_ns=np.load(folder / "rgb" / "left_wrist_camera" / "timestamps.npy"),
        metadata={name: about[name] for name in ("control", "labels", "cameras", "info")}
        | {"task": steps[0]["language_prompt"].item(), "task_name": "pick_cube"},
    )


@pytest.fixture
def task(raiden_folder, tmp_path):
    return shutil.copytree(raiden_folder / "pick_cube", tmp_path / "pick_cube")


class TestRaidenSource(SourceContract):
    @pytest.fixture(autouse=True)
    def _folder(self, raiden_folder):
        self.task = raiden_folder / "pick_cube"

    def make(self, tmp_path):
        folder = shutil.copytree(self.task, tmp_path / "pick_cube")
        return RaidenSource(folder), {key: read_plainly(folder / key, key) for key in ("0000", "0001", "0002")}


def test_a_folder_of_tasks_a_task_and_an_episode_are_locations(raiden_folder):
    tasks = {"edge_nan": 1, "edge_norobot": 1, "open_drawer": 3, "pick_cube": 3}
    keys = [f"{task}/{number:04d}" for task, count in tasks.items() for number in range(count)]
    assert detect_format(raiden_folder) == "raiden"
    assert [address.key for address, _ in list_episodes(raiden_folder)] == keys
    with open_source(raiden_folder / "pick_cube" / "0001", "raiden") as source:
        assert (source.keys(), source.info("").id, source.info("").length) == ([""], "0001", 12)
    assert not RaidenSource.matches(raiden_folder.parent)
    assert not RaidenSource.matches(raiden_folder / "pick_cube" / "0001" / "rgb")
    with open_source(raiden_folder, "raiden") as source:
        assert source.info("pick_cube/0001").id == "pick_cube/0001"
        with pytest.raises(EntryNotFoundError):
            source.load("pick_cube/0009")


def test_single_arms_empty_prompts_and_episodes_without_a_robot(raiden_folder):
    with open_source(raiden_folder, "raiden") as source:
        drawer = source.info("open_drawer/0000")
        assert drawer.metadata["task"] == drawer.metadata["task_name"] == "open_drawer"
        shapes = [drawer.lanes[name].shape for name in ("signal/joints", "action/action", "action/action_joints")]
        assert shapes == [(7,), (13,), (7,)]
        assert not {"signal/joints", "action/action"} & set(source.info("edge_norobot/0000").lanes)


def test_ingest_search_and_load_in_place(raiden_folder, tmp_path):
    TrajectoryIngestor(tmp_path / "archive").ingest([raiden_folder / "pick_cube"])
    retriever = TrajectoryRetriever(tmp_path / "archive")
    hit = retriever.search_similar_episodes(f"{raiden_folder / 'pick_cube'}#0002", top_k=1)[0]
    assert hit.episode_id == "0002"
    assert np.array_equal(
        hit.load(channels=["joints"])["joints"], [s["joints"] for s in steps_of(raiden_folder / "pick_cube/0002")]
    )


def test_images_are_those_of_the_files(raiden_folder):
    folder = raiden_folder / "pick_cube"
    with open_episode(f"{folder}#0000") as episode:
        stored = (folder / "0000/rgb/scene_camera/0000000005.png").read_bytes()
        assert bytes(episode.encoded("rgb/scene_camera").image(5)) == stored
        expected = np.asarray(Image.open(folder / "0000/rgb/scene_camera/0000000005.png"))
        assert np.array_equal(episode["rgb/scene_camera"][5:6][0], expected)
        assert episode["depth/scene_camera"][5:6].dtype == np.uint16


def test_a_step_without_a_value_has_nan_and_says_so(task):
    path = task / "0001/lowdim/0000000004.pkl"
    step = pickle.loads(path.read_bytes())  # noqa: S301  (ours)
    del step["joints"], step["intrinsics"]["scene_camera"]
    path.write_bytes(pickle.dumps(step))
    with RaidenSource(task) as source:
        for block in ("signal/joints", "signal/intrinsics/scene_camera"):
            rows = source.lane("0001", block)
            assert np.isnan(rows[4]).all()
            assert not np.isnan(rows[:4]).any()
            assert source.find_missing("0001", block).tolist() == [step == 4 for step in range(12)]
        assert not source.find_missing("0001", "action/action").any()


def test_damage_is_found_where_it_is_and_other_episodes_load(task, raiden_folder):
    pickles = task / "0001" / "lowdim"
    (pickles / "0000000003.pkl").write_bytes((pickles / "0000000003.pkl").read_bytes()[:200])
    (task / "0002" / "metadata.json").write_text("{")
    (task / "0000" / "rgb" / "scene_camera" / "0000000009.png").unlink()
    np.savez(task / "0000" / "depth" / "scene_camera" / "0000000000.npz", depth=np.zeros((4, 4), np.float32))
    with RaidenSource(task) as source:
        with pytest.raises(FormatError, match=r"0000000003\.pkl: expected a pickle"):
            source.load("0001")
        with pytest.raises(FormatError, match=r"0002/metadata\.json: expected JSON"):
            source.info("0002")
        with pytest.raises(FormatError, match=r"0000000000\.npz: expected an array 'depth'"):
            source.info("0000")
    np.savez(task / "0000" / "depth" / "scene_camera" / "0000000000.npz", depth=np.zeros((48, 64), np.uint16))
    with RaidenSource(task) as source:
        assert source.lane("0000", "signal/joints").shape == (40, 14)
        with pytest.raises(MissingFileError, match="expected the image of timestep 9"):
            source.lane("0000", "signal/rgb/scene_camera")
        assert source.lane("0001", "signal/joints", 4).shape == (8, 14)
    for path in pickles.iterdir():
        path.unlink()
    with RaidenSource(task) as source, pytest.raises(FormatError, match="expected a pickle for each timestep"):
        source.info("0001")


def test_lanes_of_other_sizes_in_between_are_refused(task):
    path = task / "0001/lowdim/0000000004.pkl"
    step = pickle.loads(path.read_bytes())  # noqa: S301  (ours)
    path.write_bytes(pickle.dumps(step | {"joints": step["joints"][:7]}))
    with RaidenSource(task) as source, pytest.raises(FormatError, match=r"timestep 4: .*expected f32 \[14\]"):
        source.lane("0001", "signal/joints")


def test_fingerprints_change_when_frames_are_added(task):
    with RaidenSource(task) as source:
        before = {key: source.fingerprint(key) for key in source.keys()}  # noqa: SIM118  (a Source is no mapping)
    shutil.copy(task / "0001/lowdim/0000000000.pkl", task / "0001/lowdim/0000000012.pkl")
    with RaidenSource(task) as source:
        after = {key: source.fingerprint(key) for key in before}
    assert [key for key in before if before[key] != after[key]] == ["0001"]
