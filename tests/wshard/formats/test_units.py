"""Units that files state beside their arrays are those of the lanes, and change no digest."""

from __future__ import annotations

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import zarr

from wshard import open_episode, open_sink
from wshard.formats.layouts.named import table_reference
from wshard.formats.layouts.options import TableOptions
from wshard.formats.open import list_episodes
from wshard.testing import make_episode

T = 12
POSE = np.linspace(1, 2, 2 * T).reshape(T, 2)
ACTION = POSE.astype(np.float32)


def write_groups(path, unit):
    with h5py.File(path, "w") as file:
        for number in range(2):
            file[f"episode_{number}/qpos"], file[f"episode_{number}/action"] = POSE, ACTION
            file[f"episode_{number}/qpos"].attrs.update({} if unit is None else {"units": unit})


def write_robomimic(path, unit):
    with open_sink(path, "robomimic") as sink:
        episode = make_episode(0)
        episode.actions = {"actions": episode.actions["ctrl"]}
        sink.write(episode)
    with h5py.File(path, "r+") as file:
        file["data/demo_0/obs/joint_pos"].attrs.update({} if unit is None else {"unit": unit})


def write_columns(path, unit):
    with h5py.File(path, "w") as file:
        file["ep_len"], file["ep_offset"], file["qpos"], file["action"] = [T], [0], POSE, ACTION
        file["qpos"].attrs.update({} if unit is None else {"units": unit})


def write_zarr(path, unit):
    root = zarr.open_group(path, mode="w", zarr_format=2)
    for name, rows in {"data/qpos": POSE, "data/action": ACTION, "meta/episode_ends": np.array([T])}.items():
        root.create_array(name, data=rows)
    root["data/qpos"].attrs.update({} if unit is None else {"units": unit})


def write_parquet(path, unit):
    stated = None if unit is None else {"unit": unit}
    fields = [pa.field("t", pa.float64()), *(pa.field(name, pa.float64(), metadata=stated) for name in ("x", "y"))]
    times = np.arange(T) / 10
    pa.parquet.write_table(pa.table([times, *POSE.T], schema=pa.schema(fields)), path)


FILES = {
    "groups.hdf5": (write_groups, "signal/qpos"),
    "robomimic.hdf5": (write_robomimic, "signal/joint_pos"),
    "columns.h5": (write_columns, "signal/qpos"),
    "buffer.zarr": (write_zarr, "signal/qpos"),
    "rows.parquet": (write_parquet, "signal/state"),
}


@pytest.mark.filterwarnings("ignore:.*read by a guess:wshard.errors.GuessWarning")
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    ("stated", "expected"), [("rad", "rad"), (" m/s ", "m/s"), ("", ""), ("x" * 65, ""), ("a\nb", "")]
)
def test_the_unit_of_an_array_is_that_of_its_lane(tmp_path, name, stated, expected):
    write, block = FILES[name]
    how = table_reference(TableOptions(time="t")) if name.endswith("parquet") else None
    digests = []
    for unit, folder in ((None, "without"), (stated, "with")):
        (tmp_path / folder).mkdir()
        path = tmp_path / folder / name
        write(path, unit)
        (address, _), *_ = list_episodes(path, how)
        with open_episode(address, format_name=how) as episode:
            digests.append(episode.digest())
            units = {name: lane.unit for name, lane in episode.lanes().items()}
        assert units.pop(block) == ("" if unit is None else expected)
        assert {*units.values()} <= {""}
    assert digests[0] == digests[1]


def test_columns_of_several_units_make_a_lane_of_none(tmp_path):
    fields = [pa.field(name, pa.float64(), metadata={"unit": unit}) for name, unit in {"x": "m", "y": "rad"}.items()]
    pa.parquet.write_table(pa.table([*POSE.T], schema=pa.schema(fields)), tmp_path / "a.parquet")
    with open_episode(tmp_path / "a.parquet", format_name=table_reference(TableOptions())) as episode:
        assert episode.lanes()["signal/state"].unit == ""
