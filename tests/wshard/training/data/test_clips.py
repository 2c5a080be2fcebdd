"""Clips of the fixtures are bit by bit those of the original; what it gets wrong is right."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from world_model_sets import SETS, expected_values, make_columns, sha256, write_hdf5, write_lance

from wshard import FormatError, open_source, save_wshard
from wshard.data import (
    ClipBatch,
    ConcatDataset,
    FolderDataset,
    HDF5Dataset,
    LanceDataset,
    MergeDataset,
    SourceDataset,
    VideoDataset,
    collate,
    load_dataset,
)
from wshard.errors import DatasetError, EntryNotFoundError, SourceNotFoundError, StepError
from wshard.testing import make_episode
from wshard.training.data.clips import ClipIndex


def read(fixtures, name, **options: object):
    place = fixtures / "world_model" / SETS[name]
    if name == "lance":
        return LanceDataset(place, **options)
    return {"hdf5": HDF5Dataset, "folder": FolderDataset, "video": VideoDataset}[name](path=place, **options)


def check(item, expected):
    """Compare an item with what the original gives; where that is [T, 1] for a number, here it is [T]."""
    assert item.keys() == expected.keys()
    for name, column in expected.items():
        found = item[name]
        assert isinstance(found, torch.Tensor)
        assert column["shape"] in (list(found.shape), [*found.shape, 1])
        assert f"torch.{column['dtype']}" == str(found.dtype)
        assert sha256(found.numpy()) == column["sha256"]


@pytest.mark.parametrize(("name", "reader"), [("folder", VideoDataset), ("video", FolderDataset)])
def test_frames_of_the_other_kind_are_an_error(dataset_fixtures, name, reader):
    with pytest.raises(FormatError, match=f"expected columns of .*: it is a `{name}`"):
        reader(path=dataset_fixtures / "world_model" / SETS[name])


def test_slices_are_clips_and_other_numbers_are_refused(tmp_path):
    write_lance(tmp_path / "a.lance", make_columns((6, 3), pixels=0))
    data = LanceDataset(tmp_path / "a.lance", num_steps=2)
    assert [len(data[part]) for part in (slice(None), slice(1, 3), slice(5, 5), slice(-1, None))] == [7, 2, 0, 1]
    assert torch.equal(data[-2:][1]["action"], data[6]["action"])
    for number in ("0", None, 1.0, [0]):
        with pytest.raises(StepError, match="expected whole numbers of clips"):
            data[number]


def test_one_column_may_be_a_text_and_what_is_no_name_is_refused(tmp_path):
    write_lance(tmp_path / "a.lance", make_columns((6, 3), pixels=0))
    data = load_dataset(tmp_path.glob("*.lance"), keys_to_load="action", keys_to_cache="action")
    assert data.column_names == ["action"]
    for name in (5, None, b"a"):
        with pytest.raises(DatasetError, match="name: expected the name of a data set"):
            load_dataset(name)
    with pytest.raises(SourceNotFoundError, match="an empty text"):
        load_dataset("")
    with pytest.raises(DatasetError, match=r"column 'all': expected a regular expression, found '\('"):
        load_dataset(tmp_path / "a.lance", keys_to_merge={"all": "("})


def test_wrong_columns_and_transforms_are_named(tmp_path):
    episode = make_episode(0, T=8, image_size=4)
    save_wshard(episode, tmp_path / "a.wshard")
    options = (
        ({"keys_to_load": 3}, "keys_to_load: expected names of columns, found 3"),
        ({"keys_to_cache": 3}, "keys_to_cache: expected names of columns, found 3"),
        ({"keys_to_merge": ["m"]}, "keys_to_merge: expected {new column: columns}, found"),
        ({"keys_to_merge": {"m": 3}}, "column 'm': expected names of columns, found 3"),
        ({"keys_to_merge": {"action": ["action", "reward"]}}, "column 'action': expected a new name"),
        ({"keys_to_merge": {"m": ["task"]}}, "column 'm': expected columns of numbers .* the texts 'task'"),
        ({"keys_to_merge": {"m": ".*"}}, r"column 'm': .* side by side, found .*joint_pos \[7\].*rgb \[4, 4, 3\]"),
        ({"transform": 3}, "transform: expected a function of an item, found 3"),
        ({"format": 3}, "unknown format 3"),
    )
    for wrong, message in options:
        with pytest.raises(DatasetError, match=message):
            load_dataset(tmp_path, **wrong)


def test_folders_take_the_same_options_of_columns(dataset_fixtures):
    place = dataset_fixtures / "world_model/main_folder"
    columns = {"keys_to_cache": ["reward", "pixels"], "keys_to_merge": {"both": "action|proprio"}}
    data = load_dataset(place, num_steps=2, **columns)
    plain = load_dataset(place, num_steps=2)
    assert data[3]["both"].shape == (2, 6)
    assert (data[3]["pixels"] == plain[3]["pixels"]).all()


@pytest.mark.parametrize("name", SETS)
def test_clips_are_those_of_the_original(dataset_fixtures, name):
    expected = expected_values(dataset_fixtures)
    about = expected["formats"][name]
    for options, clips in about["clips"].items():
        num_steps, frameskip = (int(part.partition("=")[2]) for part in options.split(","))
        data = read(dataset_fixtures, name, num_steps=num_steps, frameskip=frameskip)
        assert (len(data), data.column_names) == (clips["num_clips"], about["column_order"])
        assert (data.lengths.tolist(), data.offsets.tolist()) == (expected["lengths"], expected["offsets"])
        batch = data.__getitems__([clip["index"] for clip in clips["clips"]]) if clips["clips"] else []
        for clip, together in zip(clips["clips"], batch, strict=True):
            assert data.clip_indices[clip["index"]] == (clip["episode"], clip["start"])
            check(data[clip["index"]], clip["columns"])
            check(together, clip["columns"])
    check(data.load_episode(2), about["load_episode_2"])


@given(lengths=st.lists(st.integers(0, 9), max_size=6), num_steps=st.integers(1, 4), frameskip=st.integers(1, 3))
def test_the_index_is_the_list_of_all_clips(lengths, num_steps, frameskip):
    span = num_steps * frameskip
    clips = [(episode, start) for episode, length in enumerate(lengths) for start in range(length - span + 1)]
    index = ClipIndex(lengths, span)
    assert list(index) == clips
    assert [index[number - len(clips)] for number in range(len(clips))] == clips
    for number in (len(clips), -len(clips) - 1):
        with pytest.raises(IndexError):
            index[number]


def test_clips_of_a_million_cost_memory_for_episodes_alone():
    index = ClipIndex(np.full(1000, 1003), 4)
    assert len(index) == 1_000_000
    assert sum(getattr(one, "nbytes", 0) for one in vars(index).values()) < 30_000


# ---- rows of one's choice ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def columns():
    return make_columns() | {"label": ["a"] * 3 + ["b"] * 9}


@pytest.fixture(scope="module")
def data(tmp_path_factory, columns):
    place = tmp_path_factory.mktemp("data") / "a.h5"
    write_hdf5(place, columns)
    return place


def test_values_keep_dtype_and_shape(data, columns):
    item = HDF5Dataset(path=data, num_steps=2)[0]
    assert item["count"].tolist() == [2**40, 2**40 + 1]
    assert item["keypoints"].shape == (2, 5, 3)
    assert (item["terminated"].dtype, item["proprio"].dtype) == (torch.bool, torch.float64)
    assert item["label"] == "a"
    assert np.array_equal(item["pixels"].permute(0, 2, 3, 1), columns["pixels"][:2])


def test_actions_of_skipped_steps_stand_side_by_side(data, columns):
    seen = []
    clips = HDF5Dataset(path=data, num_steps=2, frameskip=2, transform=lambda item: seen.append(item) or item)
    assert np.array_equal(clips[0]["action"], columns["action"][3:7].reshape(2, 4))
    assert seen[0]["action"].shape == (4, 2)
    assert np.array_equal(clips[0]["proprio"], columns["proprio"][[3, 5]])
    assert repr(clips) == f"<HDF5Dataset: {len(clips)} clips of 4 timesteps, 3 episodes>"


def test_chunks_end_with_their_episode(data):
    clips = HDF5Dataset(path=data, frameskip=2)
    chunk = clips.load_chunk([1, 0], [1, 0], [5, 2])
    assert [one["action"].shape for one in chunk] == [(2, 4), (1, 4)]
    for start, end in ((0, 6), (-1, 2), (3, 2)):
        with pytest.raises(StepError, match="expected 0 <= start <= end <= 5"):
            clips.load_chunk([1], [start], [end])
    with pytest.raises(DatasetError, match="expected a multiple of frameskip 2"):
        clips.load_chunk([1], [0], [3])
    with pytest.raises(StepError, match="expected an episode below 3"):
        clips.load_chunk([3], [0], [1])


def test_rows_and_columns_are_read_by_number(data, columns):
    clips = HDF5Dataset(path=data, num_steps=3)
    assert np.array_equal(clips.get_col_data("count"), columns["count"])
    rows = clips.get_row_data([7, 2, 7])
    assert rows["count"].tolist() == [2**40 + row for row in (7, 2, 7)]
    assert rows["label"] == ["b", "a", "b"]
    assert clips.get_row_data(2)["action"].shape == (2,)
    assert (clips.get_dim("reward"), clips.get_dim("keypoints")) == (1, 15)
    with pytest.raises(StepError, match="expected rows below 12"):
        clips.get_row_data([12])
    with pytest.raises(KeyError, match="no column 'none'"):
        clips.get_col_data("none")


def test_columns_are_chosen_cached_and_merged(data, columns):
    clips = HDF5Dataset(
        path=data,
        num_steps=2,
        keys_to_load=["proprio", "reward"],
        keys_to_cache=["proprio"],
        keys_to_merge={"both": ["action", "reward"], "all": "prop|act"},
    )
    item = clips[2]
    assert list(item) == ["proprio", "reward", "both", "all"]
    assert np.array_equal(item["both"], np.column_stack([columns["action"], columns["reward"]])[3:5])
    assert np.array_equal(item["all"], np.column_stack([columns["action"], columns["proprio"]])[3:5])
    assert np.array_equal(item["proprio"], columns["proprio"][3:5])
    with pytest.raises(EntryNotFoundError, match="no column 'none'; there are action"):
        HDF5Dataset(path=data, keys_to_load=["none"])


def test_batches_are_in_memory_as_they_are_collated(data):
    batch = HDF5Dataset(path=data, num_steps=2).__getitems__([0, 1, 2])
    assert isinstance(batch, ClipBatch)
    assert collate(batch) is batch.columns
    for name, column in collate(list(batch)).items():
        assert column == batch.columns[name] if name == "label" else torch.equal(column, batch.columns[name])
    for name, column in torch.utils.data.default_collate(batch).items():
        assert column == batch.columns[name] if name == "label" else torch.equal(column, batch.columns[name])


# ---- several data sets ---------------------------------------------------------------------------------------------


def test_concatenated_and_merged_sets_give_the_originals_items(dataset_fixtures):
    expected = expected_values(dataset_fixtures)["compose"]
    hdf5, lance = (read(dataset_fixtures, name, num_steps=4) for name in ("hdf5", "lance"))
    both = ConcatDataset([hdf5, lance])
    assert (len(both), both.column_names) == (expected["concat_len"], expected["concat_columns"])
    chosen = [
        read(dataset_fixtures, "hdf5", num_steps=4, keys_to_load=keys) for keys in (["action"], ["proprio", "reward"])
    ]
    merged = MergeDataset(chosen)
    assert (len(merged), merged.column_names) == (expected["merge_len"], expected["merge_columns"])
    assert torch.equal(merged[3]["reward"], hdf5[3]["reward"])
    half = len(hdf5)
    numbers = [half - 1, half, -1]
    for item, single in zip(both.__getitems__(numbers), (hdf5[-1], lance[0], lance[-1]), strict=True):
        assert all(torch.equal(item[name], single[name]) for name in single)
    rows = [half + 20, 3, 113 + 40]
    assert np.array_equal(both.get_row_data(rows)["proprio"][2], lance.get_row_data(40)["proprio"])
    assert np.array_equal(both.get_col_data("reward"), np.tile(hdf5.get_col_data("reward"), 2))


def test_formats_are_mixed_where_their_columns_agree(tmp_path):
    columns = make_columns(pixels=0)
    columns = {name: columns[name] for name in ("action", "reward", "ep_len")} | {"state": columns["keypoints"][:, 0]}
    write_hdf5(tmp_path / "a.h5", columns)
    write_lance(tmp_path / "b.lance", columns)
    sources = [open_source(tmp_path / "a.h5", "hdf5"), open_source(tmp_path / "b.lance", "lance")]
    clips = SourceDataset(sources, num_steps=2)
    numbers = [0, len(clips) - 1, 3]
    batch = collate(clips.__getitems__(numbers))
    assert torch.equal(batch["state"][1], clips[len(clips) // 2 - 1]["state"])
    write_hdf5(tmp_path / "c.h5", columns | {"state": columns["state"].astype(np.float64)})
    both = load_dataset([tmp_path / "b.lance", tmp_path / "c.h5"], num_steps=2)
    assert {item["state"].dtype for item in (both[0], both[-1], *both.load_chunk([0, 3], [0, 0], [2, 2]))} == {
        torch.float64
    }
    assert both.get_col_data("state").dtype == both.lane_of("state").dtype.numpy_dtype == np.float64
    write_hdf5(tmp_path / "d.h5", columns | {"state": columns["state"].astype(np.int64)})
    with pytest.raises(
        DatasetError, match=r"number 1 \(.*d.h5.*\): column 'state': expected f32 \[3\].*found i64 \[3\]"
    ):
        load_dataset([tmp_path / "b.lance", tmp_path / "d.h5"])
    with pytest.raises(DatasetError, match=r"d.h5.*column 'state': expected f32 \[3\].*found i64 \[3\]"):
        SourceDataset([sources[0], open_source(tmp_path / "d.h5", "hdf5")])


def test_episode_files_are_clips_and_the_odd_one_is_named(tmp_path):
    for seed in range(3):
        save_wshard(make_episode(seed, image_size=8), tmp_path / f"{seed}.wshard")
    clips = SourceDataset([open_source(tmp_path, "wshard")], 2, 3, keys_to_load=None)
    item = clips[4]
    expected = make_episode(0, image_size=8)
    assert np.array_equal(item["joint_pos"], expected["joint_pos"][4:10:2])
    assert item["action"].shape == (3, 8)
    assert item["camera/rgb"].shape == (3, 3, 8, 8)
    odd = make_episode(1)
    odd.observations["joint_pos"].data = odd["joint_pos"][:, :3]
    odd.observations["joint_pos"].shape = [3]
    save_wshard(odd, tmp_path / "1.wshard")
    clips = SourceDataset([open_source(tmp_path, "wshard")], keys_to_load={"state": "joint_pos", "ctrl": "action/ctrl"})
    assert list(clips[0]) == ["state", "ctrl"]
    with pytest.raises(DatasetError, match=r"1.wshard: 'signal/joint_pos': expected f32 \[7\].*found float32 \[3\]"):
        clips[20]


def test_sets_that_do_not_fit_are_named(data):
    clips = HDF5Dataset(path=data)
    with pytest.raises(DatasetError, match=r"1 \(.*a.h5.*\) has other columns than .*: missing columns: .*'action'"):
        ConcatDataset([clips, HDF5Dataset(path=data, keys_to_load=["reward"])])
    with pytest.raises(DatasetError, match="expected num_steps 1 and frameskip 1 like the first for number 1, found 2"):
        ConcatDataset([clips, HDF5Dataset(path=data, num_steps=2)])
    with pytest.raises(ValueError, match="num_steps must be positive"):
        HDF5Dataset(path=data, num_steps=0)
    with pytest.raises(TypeError, match="expected a name or a path"):
        HDF5Dataset()
