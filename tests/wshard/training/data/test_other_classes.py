"""Data sets of other classes are joined as ours are; buffers and readers have the members of the original."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import torch

import wshard.data
from wshard import FormatWarning
from wshard.data import (
    EPISODE_DATA_KEY,
    ClipLoader,
    ConcatDataset,
    FolderDataset,
    FolderWriter,
    HDF5Dataset,
    HDF5Writer,
    ImageDataset,
    LanceDataset,
    LanceVideoDataset,
    LanceVideoWriter,
    LanceWriter,
    MergeDataset,
    ReplayBuffer,
    VideoDataset,
    VideoWriter,
    classic_filter,
    convert,
    get_cache_dir,
    load_dataset,
)
from wshard.errors import DatasetError, EntryNotFoundError, StepError

MEMBERS = {  # those of the original, beside the parameters in test_contract
    "Dataset": "column_names episode_column_names get_episode_data load_chunk load_episode get_col_data get_dim "
    "get_row_data lengths offsets frameskip num_steps transform span clip_indices",
    "HDF5Dataset": "h5_path merge_col",
    "FolderDataset": "folder_keys path",
    "LanceDataset": "table_name image_columns merge_col",
    "MergeDataset": "datasets",
    "ConcatDataset": "datasets",
    "GoalDataset": "dataset episode_lengths episode_offsets goal_probabilities gamma goal_keys current_goal_offset",
    "ReplayBuffer": "num_episodes num_steps_stored num_valid_ends write_episode write_episodes episodes sample dump "
    "clear max_steps history_len sampler key_filter __enter__ __exit__",
    "ZScoreScaler": "fit transform inverse_transform fit_transform __call__ mean std eps",
    "PercentileScaler": "fit transform inverse_transform fit_transform __call__ low high q_low q_high eps",
    "IdentityScaler": "fit transform inverse_transform fit_transform __call__",
    "WrapTorchTransform": "lambd source target __call__",
    "Writer": "__enter__ __exit__ write_episode write_episodes",
    "Format": "name supports_episode_data detect open_reader open_writer",
}


class Rows:
    """What a user's own class has: items, columns and rows."""

    def __init__(self, start, count, *columns: str) -> None:
        self.lengths = np.array([count - 2, 2])
        self.rows = {name: torch.arange(start, start + count) + 1000 * place for place, name in enumerate(columns)}

    @property
    def column_names(self) -> list[str]:
        return list(self.rows)

    def __len__(self) -> int:
        return int(self.lengths.sum())

    def __getitem__(self, number) -> dict:
        return {name: rows[number] for name, rows in self.rows.items()}

    def load_chunk(self, episodes, starts, ends):
        firsts = np.cumsum(self.lengths) - self.lengths
        return [
            {name: rows[firsts[e] + s : firsts[e] + t] for name, rows in self.rows.items()}
            for e, s, t in zip(episodes, starts, ends, strict=True)
        ]

    def get_col_data(self, col):
        return self.rows[col].numpy()

    get_row_data = __getitem__


def test_sets_of_other_classes_are_concatenated():
    both = ConcatDataset([Rows(0, 5, "x"), Rows(100, 4, "x")])
    assert isinstance(both, ConcatDataset)
    assert (len(both), both.column_names, both.lengths.tolist()) == (9, ["x"], [3, 2, 2, 2])
    assert [int(item["x"]) for item in both] == [*range(5), *range(100, 104)]
    assert [int(item["x"]) for item in both.__getitems__([-1, 0, 5])] == [103, 0, 100]
    assert both.load_chunk([3, 0], [0, 1], [2, 3])[0]["x"].tolist() == [102, 103]
    assert both.get_col_data("x").tolist() == [*range(5), *range(100, 104)]
    assert both.get_row_data([8, 0])["x"].tolist() == [103, 0]
    assert sorted(int(number) for batch in ClipLoader(both, 4) for number in batch["x"]) == sorted(
        both.get_col_data("x").tolist()
    )
    for read, error in ((lambda: both[9], StepError), (lambda: both.get_col_data("y"), EntryNotFoundError)):
        with pytest.raises(error):
            read()


def test_sets_of_other_classes_are_merged_also_with_ours():
    merged = MergeDataset([Rows(0, 5, "x", "y"), Rows(50, 5, "y", "z")])
    assert isinstance(merged, MergeDataset)
    assert merged.column_names == ["x", "y", "z"]
    assert {name: int(value) for name, value in merged[1].items()} == {"x": 1, "y": 1001, "z": 1051}
    chosen = MergeDataset([Rows(0, 5, "x", "y"), Rows(50, 5, "y", "z")], [["x"], ["y"]])
    assert {name: int(value) for name, value in chosen[-1].items()} == {"x": 4, "y": 54}
    assert chosen.get_col_data("y").tolist() == [*range(50, 55)]
    buffer = ReplayBuffer(10)
    buffer.write_episode({"w": np.arange(5), "action": np.zeros((5, 1))})
    assert MergeDataset([buffer, Rows(0, 5, "x")])[2].keys() == {"w", "action", "x"}
    buffers = [ReplayBuffer(10), ReplayBuffer(10)]
    for one, data in zip(buffers, ({"z": 1, "both": 1}, {"a": 2, "both": 2}), strict=True):
        one.write_episode(episode_of(4, **data))
    assert list(MergeDataset(buffers).get_episode_data().items()) == [("z", [1]), ("both", [1]), ("a", [2])]
    with pytest.raises(DatasetError, match="expected 5 items as in the first for number 1"):
        MergeDataset([Rows(0, 5, "x"), Rows(0, 4, "y")])
    with pytest.raises(DatasetError, match="expected a list of data sets, found"):
        MergeDataset([Rows(0, 5, "x"), 3])


@pytest.mark.parametrize("name", MEMBERS)
def test_members_of_the_original_are_there(name, tmp_path):
    cls = getattr(wshard.data, name)
    sets = {"HDF5": (HDF5Writer, "a.h5"), "Folder": (FolderWriter, "f"), "Lance": (LanceWriter, "a.lance")}
    value = cls
    if name.removesuffix("Dataset") in sets:
        writer, place = sets[name.removesuffix("Dataset")]
        with writer(tmp_path / place) as out:
            out.write_episode({"pixels": np.zeros((3, 8, 8, 3), np.uint8), "action": np.zeros((3, 1))})
        value = cls(path=tmp_path / place)
    elif name == "Dataset":
        value = cls([3], [0])
    elif name in ("MergeDataset", "ConcatDataset", "GoalDataset", "ReplayBuffer"):
        buffer = ReplayBuffer(9)
        buffer.write_episode({"pixels": np.zeros((3, 8, 8, 3), np.uint8), "action": np.zeros((3, 1))})
        value = buffer if name == "ReplayBuffer" else cls(buffer if name == "GoalDataset" else [buffer])
    elif "source" in MEMBERS[name]:
        value = cls(abs)
    elif not inspect.isabstract(cls) and name.endswith("Scaler"):
        value = cls()
    members = [*MEMBERS[name].split(), *(MEMBERS["Dataset"].split() if isinstance(value, wshard.data.Dataset) else ())]
    undefined = {"column_names"} if name == "Dataset" else set()
    assert [member for member in members if member not in undefined and not hasattr(value, member)] == []


def test_columns_of_frames_have_the_stored_name_that_chose_them(tmp_path):
    frames = np.full((4, 16, 16, 3), 7, np.uint8)
    episode = {"pixels.top": frames, "pixels.wrist": frames + 1, "action": np.zeros((4, 1), np.float32)}
    for writer, place, reader, option in (
        (LanceWriter, "a.lance", LanceDataset, "image_columns"),
        (LanceVideoWriter, "b", LanceVideoDataset, "video_keys"),
        (FolderWriter, "c", ImageDataset, "image_keys"),
        (VideoWriter, "d", VideoDataset, "video_keys"),
    ):
        with writer(tmp_path / place) as out:
            out.write_episode(episode)
        for name in ("pixels_top", "pixels.top"):
            data = reader(path=tmp_path / place, **{option: [name]})
            assert set(data.column_names) == set(data[0]) == {name, "action"}
            assert abs(float(data[0][name].float().mean()) - 7) < 2
            assert reader(path=tmp_path / place, keys_to_load=[name], **{option: [name]})[0].keys() == {name}
    both = LanceDataset(tmp_path / "a.lance", keys_to_load=["pixels.top"], image_columns=["pixels_top"])
    assert (both.column_names, both.image_columns) == (["pixels.top"], {"pixels.top"})


def test_the_folder_of_the_cache_is_there(tmp_path):
    folder = get_cache_dir(tmp_path / "new", "sub")
    assert folder == tmp_path / "new" / "sub"
    assert folder.is_dir()
    with pytest.raises(FileNotFoundError):
        load_dataset("none", cache_dir=tmp_path / "read")
    assert not (tmp_path / "read").exists()


def test_readers_find_a_folder_by_name_in_cache_dir_itself_or_its_data_sets(tmp_path):
    episode = {"pixels": np.full((3, 16, 16, 3), 9, np.uint8), "action": np.zeros((3, 1), np.float32)}
    for writer, place in ((FolderWriter, "folder"), (VideoWriter, "video"), (FolderWriter, "datasets/older")):
        with writer(tmp_path / place) as out:
            out.write_episode(episode)
    for reader, name in ((FolderDataset, "folder"), (ImageDataset, "folder"), (VideoDataset, "video")):
        data = reader(name, cache_dir=tmp_path)
        assert (len(data), data.folder_keys) == (3, ["pixels"])
    assert len(FolderDataset("older", cache_dir=tmp_path)) == 3
    assert FolderDataset("folder", cache_dir=tmp_path, folder_keys=[]).folder_keys == []
    with pytest.raises(FileNotFoundError, match="none"):
        FolderDataset("none", cache_dir=tmp_path)


def episode_of(length, **data: object):
    extra = {EPISODE_DATA_KEY: data} if data else {}
    return {"x": np.arange(length), "action": np.zeros((length, 1)), "notes": np.zeros(length)} | extra


def test_a_buffer_filters_whole_episodes_and_has_their_data(tmp_path):
    def without_notes(ep):
        return {name: rows for name, rows in ep.items() if name != "notes"}

    with ReplayBuffer(10, key_filter=without_notes) as buffer:
        buffer.write_episodes([episode_of(4, seed=1), episode_of(3), episode_of(3, seed=3, task="reach")])
    assert (buffer.column_names, buffer.num_episodes, buffer.num_steps_stored) == (["x", "action"], 3, 10)
    assert buffer.get_episode_data() == {"seed": [1, None, 3], "task": [None, None, "reach"]}
    assert buffer.get_episode_data([2]) == {"seed": [3], "task": ["reach"]}
    buffer.write_episode(episode_of(4, seed=4, task="push"))
    assert buffer.get_episode_data() == {"seed": [None, 3, 4], "task": [None, "reach", "push"]}
    assert [ep.get(EPISODE_DATA_KEY) for ep in buffer.episodes()][1:] == [
        {"seed": 3, "task": "reach"},
        {"seed": 4, "task": "push"},
    ]
    assert ConcatDataset([buffer, buffer]).get_episode_data([0, 4])["seed"] == [None, 3]
    assert MergeDataset([buffer]).get_episode_data() == buffer.get_episode_data()
    with pytest.warns(FormatWarning, match="format 'folder' stores no episode data; left out: seed, task"):
        buffer.dump(tmp_path / "dumped", "folder")
    assert FolderDataset(path=tmp_path / "dumped").lengths.tolist() == [3, 3, 4]
    buffer.clear()
    assert buffer.get_episode_data() == {}
    assert classic_filter({"reward": 1, "other": 2}) == {"reward": 1}
    with pytest.raises(DatasetError, match="key_filter: expected it to return the columns to store, found True"):
        ReplayBuffer(9, key_filter=lambda _: True).write_episode(episode_of(3))


def test_what_tables_of_episodes_state_is_read_by_episode_and_named_where_it_is_left_out(tmp_path):
    with LanceWriter(tmp_path / "a.lance") as writer:
        for number in range(3):
            writer.write_episode(episode_of(4, seed=number))
    data = LanceDataset(tmp_path / "a.lance")
    assert data.get_episode_data([2, 0]) == {"seed": [2, 0]}
    assert wshard.data.select_episodes(data, [1, 2]).get_episode_data() == {"seed": [1, 2]}
    with pytest.warns(FormatWarning, match="format 'hdf5' stores no episode data; left out: seed"):
        convert(data, tmp_path / "a.h5", dest_format="hdf5", progress=False)
    assert HDF5Dataset(path=tmp_path / "a.h5").h5_path == tmp_path / "a.h5"
