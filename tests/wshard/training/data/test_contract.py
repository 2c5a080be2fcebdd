"""The names of the original are there with its parameters and defaults; every point that it gets wrong has a test.

`pytest tests/wshard/training/data` runs the tests of all points.
"""

from __future__ import annotations

import inspect
import multiprocessing
from pathlib import Path

import numpy as np
import pytest
import torch
from world_model_sets import make_columns, write_lance

import wshard.data
from wshard.errors import NoClipsWarning, UnsupportedFormatError

READ = "frameskip=1, num_steps=1, transform=None, keys_to_load=None"
LANCE = (
    f"path=None, table_name=None, *, uri=None, {READ}, keys_to_cache=None, keys_to_merge=None, image_columns=None, "
    "episode_index_column='episode_idx', step_index_column='step_idx', connect_kwargs=None"
)
SIGNATURES = {  # those that the original states; options of this project follow, by keyword only
    "HDF5Dataset": f"name=None, {READ}, keys_to_cache=None, keys_to_merge=None, cache_dir=None, path=None, "
    "storage_options=None",
    "FolderDataset": f"name=None, {READ}, folder_keys=None, cache_dir=None, path=None",
    "ImageDataset": "name=None, image_keys=None, **kw",
    "VideoDataset": "name=None, video_keys=None, **kw",
    "LanceDataset": LANCE,
    "LanceVideoDataset": "path=None, *, video_keys=None, decoder_cache_size=16, blob_buffer_size=4194304, **kw",
    "LeRobotAdapter": "repo_id, root=None, episodes=None, frameskip=1, num_steps=1, transform=None, keys_to_load=None, "
    "keys_to_cache=None, primary_camera_key=None, key_aliases=None, **lerobot_kwargs",
    "HDF5Writer": "path, *, mode='append'",
    "FolderWriter": "path, *, mode='append'",
    "VideoWriter": "path, fps=25, codec='libx264', *, mode='append'",
    "LanceWriter": "path, table_name=None, *, jpeg_quality=95, connect_kwargs=None, mode='append'",
    "LanceVideoWriter": "path, table_name=None, *, fps=10, codec='libx264', connect_kwargs=None, mode='append'",
    "Dataset": "lengths, offsets, frameskip=1, num_steps=1, transform=None",
    "MergeDataset": "datasets, keys_from_dataset=None",
    "ConcatDataset": "datasets",
    "GoalDataset": "dataset, goal_probabilities=(0.3, 0.5, 0.0, 0.2), gamma=0.99, current_goal_offset=None, "
    "goal_keys=None, seed=None",
    "ReplayBuffer": "max_steps, history_len=1, frameskip=1, sampler=None, transform=None, key_filter=None",
    "load_dataset": "name, cache_dir=None, format=None, **kwargs",
    "convert": "source, dest, *, source_format=None, dest_format='lance', cache_dir=None, progress=True, **kwargs",
    "merge": "sources, dest, *, dest_format='lance', source_formats=None, mode='error', cache_dir=None, "
    "progress=True, **kwargs",
    "ZScoreScaler": "mean=None, std=None, eps=1e-08",
    "PercentileScaler": "low=1.0, high=99.0, q_low=None, q_high=None, eps=1e-08",
    "get_scaler": "method='zscore', **kw",
    "column_normalizer": "dataset, source, target, method='zscore', **kw",
    "register_format": "cls",
    "list_formats": "",
    "get_format": "name",
    "detect_format": "path",
}
OTHER_NAMES = [
    *("FORMATS", "WRITE_MODES", "EPISODE_DATA_KEY", "Format", "Writer", "split_episode_data", "validate_write_mode"),
    *("classic_filter", "get_cache_dir", "ensure_dir_exists", "IdentityScaler", "WrapTorchTransform"),
]

POINTS = {  # section 19 of what is known of the original: what must be better, and where that is tested
    "1 load_chunk is checked": "test_clips.test_chunks_end_with_their_episode",
    "2 dtypes and shapes stay": "test_writers.test_written_columns_are_read_with_dtype_shape_and_text",
    "3 every episode is checked": "test_writers.test_other_dimensions_have_the_originals_names",
    "4 writers are atomic": "../../../processes/test_killed_writers.test_a_writer_that_is_killed_at_any_stage_leaves_"
    "the_old_or_the_new",
    "5 images are what is declared so": "test_writers.test_arrays_with_the_shape_of_images_are_converted_as_they_are",
    "6 readers get options of convert": "test_writers.test_readers_and_writers_get_their_options_and_sets_of_any_kind_"
    "are_converted",
    "7 the working directory is first": "test_writers.test_names_are_searched_here_then_in_the_caches",
    "8 goals are of seed, epoch, clip": "test_goals.test_workers_and_epochs_draw_other_goals_but_the_same_in_every_run",
    "9 goals over derived sets": "test_goals.test_goals_over_concatenated_merged_and_replayed_sets",
    "10 rows of concatenated sets": "test_clips.test_concatenated_and_merged_sets_give_the_originals_items",
    "11 clips cost no memory": "test_clips.test_clips_of_a_million_cost_memory_for_episodes_alone",
    "12 scalers of one number": "test_replay.test_columns_of_one_number_are_one_feature",
    "13 frames of any size": "test_contract.test_frames_of_any_size_keep_it",
    "14 no effect on the process": "test_contract.test_reading_changes_nothing_of_the_process",
    "15 empty sets": "test_contract.test_sets_without_episodes_are_read",
    "16 suffixes": "test_writers.test_sets_are_converted_without_a_change_of_values",
    "17 numbers are [T]": "test_writers.test_written_columns_are_read_with_dtype_shape_and_text",
    "18 a generator of one's own": "test_replay.test_samples_are_drawn_by_the_buffers_own_generator",
    "19 older tables": "test_writers.test_sets_of_older_versions_are_read",
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_parameters_and_defaults_are_those_of_the_original(name):
    found = inspect.signature(getattr(wshard.data, name)).parameters.values()
    text = str(inspect.Signature([one.replace(annotation=one.empty) for one in found]))[1:-1]
    assert text == SIGNATURES[name] or text.startswith(f"{SIGNATURES[name]}, *, ")


def test_the_other_names_are_there():
    names = {*SIGNATURES, *OTHER_NAMES}
    assert names <= set(wshard.data.__all__)
    assert all(hasattr(wshard.data, name) for name in names)


@pytest.mark.parametrize("point", POINTS)
def test_every_point_has_a_test(point):
    module, _, name = POINTS[point].rpartition(".")
    assert f"\ndef {name}(" in Path(__file__).parent.joinpath(f"{module}.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("size", [(51, 50), (16, 16), (33, 21)])
def test_frames_of_any_size_keep_it(tmp_path, size):
    frames = np.full((4, *size, 3), 90, np.uint8)
    for writer, reader, place in (
        (wshard.data.VideoWriter, lambda path: wshard.data.VideoDataset(path=path), "a"),
        (wshard.data.LanceVideoWriter, wshard.data.LanceVideoDataset, "D"),
    ):
        with writer(tmp_path / place) as out:
            out.write_episode({"pixels": frames, "action": np.zeros((4, 1), np.float32)})
        found = reader(tmp_path / place)[0]["pixels"]
        assert found.shape == (1, 3, *size)
        assert abs(int(found.float().mean()) - 90) <= 2


def test_reading_changes_nothing_of_the_process(tmp_path):
    before = (multiprocessing.get_start_method(allow_none=True), torch.multiprocessing.get_sharing_strategy())
    state = np.random.get_state()[1].tolist()  # noqa: NPY002  (it is what must not change)
    write_lance(tmp_path / "a.lance", make_columns((5,), pixels=0))
    assert len(wshard.data.load_dataset(tmp_path / "a.lance", num_steps=2)[0]["action"]) == 2
    assert before == (
        multiprocessing.get_start_method(allow_none=True),
        torch.multiprocessing.get_sharing_strategy(),
    )
    assert state == np.random.get_state()[1].tolist()  # noqa: NPY002


@pytest.mark.parametrize("place", ["a.h5", "a.lance", "folder"])
def test_sets_without_episodes_are_read(tmp_path, place):
    writers = {"a.h5": wshard.data.HDF5Writer, "a.lance": wshard.data.LanceWriter, "folder": wshard.data.FolderWriter}
    with writers[place](tmp_path / place):
        pass
    with pytest.warns(NoClipsWarning, match=f"{place}: no clips of 1 timestep .*: there are no episodes"):
        data = wshard.data.load_dataset(tmp_path / place)
    assert (len(data), list(data.lengths)) == (0, [])


def test_clips_longer_than_all_episodes_are_warned_of(tmp_path):
    write_lance(tmp_path / "a.lance", make_columns((5, 3), pixels=0))
    with pytest.warns(NoClipsWarning, match=r"no clips of 6 timesteps \(.*: the longest of 2 episodes has 5"):
        assert len(wshard.data.load_dataset(tmp_path / "a.lance", num_steps=3, frameskip=2)) == 0


def test_options_of_lerobots_own_loader_are_named():
    with pytest.raises(UnsupportedFormatError, match="video_backend: expected None, found 'pyav'"):
        wshard.data.LeRobotAdapter("me/robot", video_backend="pyav")
