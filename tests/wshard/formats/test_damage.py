"""Every readable format and damage: a typed error that names the place, and the other locations are ingested."""

from __future__ import annotations

import os
import random
import shutil
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hdf5_files import write_aloha, write_maniskill
from topic_logs import robot_messages, write_ros2, write_rosbag1

from wshard import Episode, TrajectoryIngestor, WShardError, open_sink
from wshard.formats.open import open_location
from wshard.testing import make_episode

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from wshard.formats.source_base import Source


def _write(name: str) -> Callable[[Path, pytest.FixtureRequest], object]:
    """Return a function that writes two episodes of noise, which no compression makes smaller."""
    rng = np.random.default_rng(0)
    lanes = {"state": rng.random((20, 4), np.float32), "cam": rng.integers(0, 255, (20, 32, 32, 3), np.uint8)}

    def write(place: Path, _: object) -> None:
        with open_sink(place, name) as sink:
            for id_ in "ab"[: 1 if name == "wshard" else 2]:
                action = {"ctrl": rng.random((20, 2), np.float32)}
                sink.write(Episode(id_, observations=lanes, actions=action, rewards=np.zeros(20, np.float32)))

    return write


def _copy(name: str, fixture: str = "dataset_fixtures") -> Callable[[Path, pytest.FixtureRequest], object]:
    def copy(place: Path, request: pytest.FixtureRequest) -> None:
        source = request.getfixturevalue(fixture) / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, place)

    return copy


def _write_pt(place: Path, _: object) -> None:
    torch = pytest.importorskip("torch")
    torch.save({name: torch.rand(2, 50, 3) for name in ("obs", "action")} | {"reward": torch.rand(2, 50, 1)}, place)


def _write_ogbench(place: Path, _: object) -> None:
    rows = {"observations": np.random.default_rng(0).random((20, 3)), "actions": np.zeros((20, 2))}
    rows["qpos"] = rows["observations"]
    np.savez(place, **rows, terminals=np.arange(20) % 10 == 9)


LOCATIONS: dict[str, tuple[str, str, Callable[[Path, pytest.FixtureRequest], object]]] = {
    "wshard": ("a.wshard", "", _write("wshard")),
    "shardpack": ("a.shardpack", "", _write("shardpack")),
    "dreamerv3": ("a", "*.npz", _copy("other/dreamerv3_replay")),
    "rlds": ("a", "*.tfrecord*", _write("rlds")),
    "zarr": ("a.zarr", "data/state/0.0", _write("zarr")),
    "lance": ("a.lance", "data/*", _write("lance")),
    "lance_video": ("a", "*.lance/data/*", _write("lance_video")),
    "folder": ("a", "cam/*", _write("folder")),
    "video": ("a", "*/*.mp4", _write("video")),
    "hdf5": ("a.h5", "", _write("hdf5")),
    "lerobot": ("a", "data/*/*.parquet", _write("lerobot")),
    "lerobot_v21": ("a", "data/*/*.parquet", _write("lerobot_v21")),
    "robomimic": ("a.hdf5", "", _write("robomimic")),
    "minari": ("a-v0", "data/*.hdf5", _write("minari")),
    "minari arrow": ("a-v0", "data/*/*.arrow", _copy("other/minari_arrow/toy/arrow-v0")),
    "minari parquet": ("a-v0", "data/*/*.parquet", _copy("other/minari_parquet/toy/parquet-v0")),
    "aloha": ("a.hdf5", "", lambda place, _: write_aloha(place, 20)),
    "maniskill": ("a.h5", "", lambda place, _: write_maniskill(place, {"traj_0": 9, "traj_1": 8})),
    "d4rl": ("a.hdf5", "", _copy("other/d4rl.hdf5")),
    "ogbench": ("a.npz", "", _write_ogbench),
    "mcap": ("a.mcap", "", lambda place, _: write_ros2(place, robot_messages(cameras=False))),
    "rosbag1": ("a.bag", "", lambda place, _: write_rosbag1(place, robot_messages(cameras=False))),
    "rosbag2 mcap": ("a", "*.mcap", _copy("rosbag2/mcap_wbag")),
    "rosbag2 sqlite": ("a", "*.db3", _copy("rosbag2/sqlite3_wbag")),
    "raiden": ("a", "0000/lowdim/*.pkl", _copy("edge_nan", "raiden_folder")),
    "tdmpc2": ("a.pt", "", _write_pt),
}


DAMAGES: dict[str, Callable[[Path], object]] = {
    "truncated": lambda path: os.truncate(path, path.stat().st_size // 2),
    "garbage": lambda path: path.write_bytes(random.Random(0).randbytes(path.stat().st_size)),
    "empty": lambda path: os.truncate(path, 0),
    "missing": lambda path: path.unlink(),
}

PARTLY_READ = {("mcap", "truncated"), ("rosbag1", "truncated"), ("rosbag2 mcap", "truncated"), ("dreamerv3", "missing")}
"""What is recorded up to the cut is an episode: a robot that lost its power leaves such files."""

NO_FILE_NAMED = {"lance", "lance_video"}  # by the library: the table is named


@pytest.mark.parametrize("name", LOCATIONS)
def test_damage_is_an_error_with_its_place_and_others_are_ingested(tmp_path, request, name):
    place, files, write = LOCATIONS[name]
    (tmp_path / "good").mkdir()
    write(tmp_path / "good" / place, request)
    damaged: dict[str, Path] = {}
    for damage in [*DAMAGES][: 4 if files else 3]:
        folder = shutil.copytree(tmp_path / "good", tmp_path / damage)
        damaged[damage] = min(folder.glob(f"{place}/{files}" if files else place))
        DAMAGES[damage](damaged[damage])
    with open_location(tmp_path / "good" / place) as source:
        whole = len(source.keys())
    with TrajectoryIngestor(tmp_path / "archive", limits=None) as ingestor:
        report = ingestor.ingest([tmp_path / one / place for one in ("good", *damaged)], windows="whole")
    assert report.new >= whole
    for damage, path in damaged.items():
        failed = [one for one in report.failed if f"/{damage}/" in one.path]
        for one in failed:
            assert not one.error.startswith("unexpected")
            assert one.key or not files or name in NO_FILE_NAMED or path.name in one.error
        if not failed:  # of frames, which were not read yet
            with open_location(tmp_path / damage / place) as source:
                found = [_error_of(source, key) for key in source.keys()]  # noqa: SIM118  (a Source is no mapping)
            errors = [error for error in found if error]
            assert bool(errors) == ((name, damage) not in PARTLY_READ), damage
            assert all(str(tmp_path / damage / place) in error for error in errors)


@pytest.mark.parametrize("name", ["lerobot", "robomimic"])
def test_what_a_killed_conversion_leaves_is_no_episode(tmp_path, request, name):
    place, _, _ = LOCATIONS[name]
    (tmp_path / "data").mkdir()
    _write("wshard")(tmp_path / "data" / "good.wshard", request)
    sink = open_sink(tmp_path / "data" / place, name)
    sink.write(make_episode())
    assert [path.name.rpartition(".")[2] for path in (tmp_path / "data").glob(".*")].count("draft") == 1
    with TrajectoryIngestor(tmp_path / "archive", limits=None) as ingestor:
        report = ingestor.ingest([tmp_path / "data"], windows="whole")
    assert (report.new, report.failed, dict(report.skipped)) == (1, [], {})
    sink.close()


def _error_of(source: Source, key: str) -> str:
    try:
        with source.open(key) as reader:
            reader.verify()
    except WShardError as error:
        return str(error)
    return ""
