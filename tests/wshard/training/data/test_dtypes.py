"""Lanes of several dtypes in one data set: floats become as wide as the widest, others are refused."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import h5py
import numpy as np
import pytest
import torch

from wshard import Channel, DType, Episode, open_archive, open_sink, save_wshard
from wshard.data import ConcatDataset, MergeDataset, ReplayBuffer, SpanDataset, WindowDataset
from wshard.errors import DatasetError
from wshard.formats.open import open_location, open_source
from wshard.testing import make_episode
from wshard.training.data.source_dataset import SourceDataset

FLOATS = {DType.FLOAT16: 0, DType.BFLOAT16: 0, DType.FLOAT32: 1, DType.FLOAT64: 2}
VALUES = [0.5, -1.0, 2.0]  # in every dtype but of integers


def joined(one, other):
    """Return what both become, by the rule written down once more: f16 and bf16 hold none of each other's values."""
    if one is other:
        return one
    if one not in FLOATS or other not in FLOATS:
        return None
    return DType.FLOAT64 if DType.FLOAT64 in (one, other) else DType.FLOAT32


def save(path, dtype, values=VALUES):
    rows = np.array(values, np.float64).astype(dtype.numpy_dtype)
    save_wshard(Episode(path.stem, observations={"state": Channel("state", dtype, rows.shape[1:], rows)}), path)
    return path


@pytest.mark.parametrize("in_one_folder", [True, False])
def test_floats_are_joined_and_others_refused(tmp_path, in_one_folder):
    for one, other in product(DType, DType):
        folder = tmp_path / f"{one}-{other}"
        folder.mkdir()
        files = [save(folder / "a.wshard", one), save(folder / "b.wshard", other)]
        places = [folder] if in_one_folder else files
        expected = joined(one, other)
        if expected is None:
            with pytest.raises(DatasetError, match=rf"expected {one} \[\].*found"):
                SourceDataset([open_source(place, "wshard") for place in places], keys_to_load=["state"])[3]
            continue
        clips = SourceDataset([open_source(place, "wshard") for place in places], keys_to_load=["state"])
        clips.as_tensors = False
        rows = clips.get_col_data("state")
        assert (rows.dtype, clips[0]["state"].dtype) == (expected.numpy_dtype,) * 2
        if one in FLOATS:
            assert rows.astype(float).tolist() == VALUES * 2
        clips.episodes.close()


def write(path, name, dtypes):
    """Write an episode of each dtype to one file, in a format that lets each declare its own."""
    if name == "layout":
        with h5py.File(path, "w") as file:
            for number, dtype in enumerate(dtypes):
                file[f"episode_{number}/qpos"] = np.full((5, 2), 1 / 3, dtype.numpy_dtype)
                file[f"episode_{number}/action"] = np.zeros((5, 2), np.float32)
        return path
    with open_sink(path, name) as sink:
        for number, dtype in enumerate(dtypes):
            episode = make_episode(number)
            rows = np.full((episode.length, 2), 1 / 3, dtype.numpy_dtype)
            lanes = {"qpos": Channel("qpos", dtype, [2], rows)}
            sink.write(replace(episode, observations=lanes, actions={"action": episode.actions["ctrl"]}))
    return path


@pytest.mark.filterwarnings("ignore:.*read by a guess:wshard.errors.GuessWarning")
@pytest.mark.parametrize("archived", [False, True])
@pytest.mark.parametrize("name", ["robomimic", "shardpack", "layout"])
def test_floats_of_the_episodes_of_one_file_are_joined(tmp_path, name, archived):
    widths = [DType.FLOAT32, DType.FLOAT32, DType.FLOAT64, DType.FLOAT32]
    path = write(tmp_path / f"one.{'shardpack' if name == 'shardpack' else 'hdf5'}", name, widths)
    if archived:
        with open_archive(tmp_path / "archive", create=True) as archive:
            archive.ingest(path)
            clips = archive.dataset("", keys_to_load=["qpos"])
    else:
        clips = SourceDataset([open_location(path)], keys_to_load=["qpos"])
    clips.as_tensors = False
    assert {item["qpos"].dtype for item in (clips[0], clips[len(clips) // 2 + 1], clips[-1])} == {np.dtype(np.float64)}
    values = {np.float32(1 / 3).astype(float): 3, 1 / 3: 1}
    rows = np.concatenate([clips.column_rows("qpos", number, 0, 5)[:1, 0] for number in range(4)])
    assert dict(zip(*np.unique(rows, return_counts=True), strict=True)) == values


@pytest.mark.parametrize("derived", [lambda data: data, lambda data: SpanDataset(data, [(0, 0, 3)]), WindowDataset])
def test_sets_of_several_widths_make_one_batch(tmp_path, derived):
    files = save(tmp_path / "a.wshard", DType.FLOAT32), save(tmp_path / "b.wshard", DType.FLOAT64)
    sets = [SourceDataset([open_source(path, "wshard")], keys_to_load=["state"]) for path in files]
    both = ConcatDataset([derived(MergeDataset([data])) for data in sets])
    assert {rows.dtype for rows in (both[0]["state"], both[-1]["state"])} == {torch.float64}
    assert both.get_col_data("state").dtype == np.float64


def test_shapes_are_not_joined(tmp_path):
    files = save(tmp_path / "a.wshard", DType.FLOAT32), save(tmp_path / "b.wshard", DType.FLOAT64, [[0.5]] * 3)
    with pytest.raises(DatasetError, match=r"column 'state': expected f32 \[\] as at earlier .* found f64 \[1\]"):
        SourceDataset([open_source(path, "wshard") for path in files])


@pytest.mark.parametrize(("one", "other"), list(product(["f2", "f4", "f8"], repeat=2)))
def test_a_buffer_widens_floats(one, other):
    buffer = ReplayBuffer(4)
    buffer.write_episode({"reward": np.array([0.5, 2], one)})
    buffer.write_episode({"reward": np.array([1 / 3], other)})
    rows = buffer.get_col_data("reward")
    assert rows.dtype == np.result_type(one, other)
    assert rows.tolist() == [0.5, 2, float(np.dtype(other).type(1 / 3))]
