"""Rows of a LeRobot episode are the timesteps that their columns say, or the episode is refused."""

from __future__ import annotations

import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wshard import FormatError
from wshard.formats.lerobot.source import LeRobotSource

DATA = "data/chunk-000/file-000.parquet"


@pytest.fixture
def folder(dataset_fixtures, tmp_path):
    return shutil.copytree(dataset_fixtures / "lerobot" / "lerobot_v3_video_h264", tmp_path / "v3")


def change(folder, name, update):
    """Change a column of the rows of episode 1."""
    table = pq.read_table(folder / DATA)
    values = table.column(name).to_numpy().copy()
    rows = np.flatnonzero(table.column("episode_index").to_numpy() == 1)
    values[rows] = update(values[rows])
    place = table.schema.get_field_index(name)
    pq.write_table(table.set_column(place, table.schema.field(name), pa.array(values)), folder / DATA)


def is_read(source, key):
    try:
        source.load(key)
    except FormatError:
        return False
    return True


def swap(values):
    return values[[0, 2, 1, *range(3, len(values))]]


@pytest.mark.parametrize(
    ("name", "update"),
    [
        ("frame_index", swap),
        ("frame_index", lambda values: values + 1),
        ("frame_index", lambda values: values + (values > 3)),
        ("timestamp", swap),
        ("timestamp", lambda values: values + (values > values[3]) * (values[1] - values[0])),
        ("timestamp", lambda values: values * 2),
        ("timestamp", lambda values: np.where(values == values[2], np.nan, values)),
    ],
)
def test_an_episode_with_a_gap_is_refused_and_others_are_read(folder, name, update):
    change(folder, name, update)
    with LeRobotSource(folder) as source:
        assert [is_read(source, key) for key in ("0", "1", "2")] == [True, False, True]
        with pytest.raises(FormatError, match=rf"{name}: expected \S+ in row \d+, found \S+: rows were moved"):
            source.info("1")


def test_stamps_that_show_the_same_frames_are_read(folder):
    change(folder, "timestamp", lambda values: values + (values[1] - values[0]) * 0.3)
    with LeRobotSource(folder) as source:
        assert is_read(source, "1")


def test_a_task_without_a_text_is_refused(folder):
    path = folder / "meta/episodes/chunk-000/file-000.parquet"
    table = pq.read_table(path)
    tasks = [list(dict.fromkeys(["pick", *listed])) for listed in table.column("tasks").to_pylist()]
    tasks[1] = ["pick", "place"]
    pq.write_table(table.set_column(table.schema.get_field_index("tasks"), "tasks", pa.array(tasks)), path)
    change(folder, "task_index", lambda values: np.where(np.arange(len(values)) == 2, 99, values))
    with LeRobotSource(folder) as source, pytest.raises(FormatError, match=r"task_index: expected one of .* found 99"):
        source.load("1")
