"""Lanes of several dtypes in one data set: floats become as wide as the widest, others are refused."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch

from wshard import Channel, DType, Episode, save_wshard
from wshard.data import ConcatDataset, MergeDataset, ReplayBuffer, SpanDataset, WindowDataset
from wshard.errors import DatasetError
from wshard.formats.open import open_source
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
