"""Arguments of the wrong kind are refused by our own errors; whole numbers of numpy are whole numbers."""

from __future__ import annotations

import io

import numpy as np
import pytest
from wshard_files import saved
from wshard_recording import writer

from wshard import (
    Channel,
    ChunkedEpisodeWriter,
    Episode,
    FormatError,
    ShardReader,
    load,
    load_wshard,
    open_episode,
    open_wshard,
    save,
    save_wshard,
)
from wshard.errors import EpisodeError, ManifestError, StepError
from wshard.testing import assert_same_episode, make_episode


@pytest.mark.parametrize("given", [5, None, [1], 1.5])
def test_what_is_neither_path_nor_file_is_refused(given):
    ways = (open_wshard, load_wshard, open_episode, ShardReader, load)
    for way in (*ways, lambda target: save_wshard(make_episode(), target), lambda target: save(make_episode(), target)):
        with pytest.raises(FormatError, match="expected a path or a binary file object, found"):
            way(given)


@pytest.mark.parametrize(
    ("start", "stop"), [(None, None), (2.0, 4), (2, 4.0), ("2", 4), (True, 4), (4, 4), (-1, 4), (0, 21)]
)
@pytest.mark.parametrize("chunked", [False, True])
def test_spans_that_are_none_are_refused(tmp_path, start, stop, chunked):
    writer = ChunkedEpisodeWriter(tmp_path, "e", 8)
    writer.write_episode_chunked(make_episode())
    manifest = writer.finalize_manifest()
    with open_episode(manifest) if chunked else open_wshard(saved(make_episode())) as file:
        with pytest.raises(StepError, match="expected whole numbers 0 <= start < stop <= 20, found"):
            file.slice(start, stop)
        found = file.slice(np.int64(2), np.uint8(9))
        assert_same_episode(found, file.slice(2, 9))
        assert found.timestep_range == [2, 8]


MASKED = np.ma.masked_equal([1, 2, 3], 2)


@pytest.mark.parametrize(
    "data",
    [[[1, 2], [3]], MASKED, [MASKED, MASKED], (1, 2, np.ma.masked)],
    ids=["ragged", "masked", "masked rows", "masked numbers"],
)
def test_arrays_that_no_file_can_hold_are_refused_by_name(tmp_path, data):
    for make in (lambda: Channel.of("s", data), lambda: Channel("s", "i64", [], data)):
        with pytest.raises(EpisodeError, match="channel 's': expected an array"):
            make()
    with writer(tmp_path / "a.wshard") as recording:
        recording.begin_episode()
        with pytest.raises(EpisodeError, match="signal/state: expected an array"):
            recording.write_timestep(0, {"state": data}, {"ctrl": 0}, 0, done=False)
    with pytest.raises(EpisodeError, match="one value per timestep: expected an array"):
        Episode("e", rewards=data)


@pytest.mark.parametrize("error", [RuntimeError("it requires grad"), TypeError("unsupported BFloat16")])
def test_tensors_that_are_not_arrays_are_refused_by_our_own_error(tmp_path, error):
    class Tensor:
        def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
            raise error

    with pytest.raises(EpisodeError, match=f"channel 's': expected an array: {error}"):
        Channel.of("s", Tensor())
    with writer(tmp_path / "a.wshard") as recording:
        recording.begin_episode()
        with pytest.raises(EpisodeError, match=f"signal/state: expected an array: {error}"):
            recording.write_timestep(0, {"state": Tensor()}, {"ctrl": 0}, 0, done=False)


@pytest.mark.parametrize("name", ["ticks", "timestamps_ns"])
def test_masked_times_are_refused(name):
    with pytest.raises(EpisodeError, match="expected an array without masked elements"):
        setattr(make_episode(T=3), name, MASKED)


def test_a_mask_that_hides_nothing_is_not_a_matter():
    found = Channel.of("s", np.ma.masked_equal([1, 2, 3], 7))
    assert type(found.data) is np.ndarray
    assert found.data.tolist() == [1, 2, 3]
    assert Episode("e", rewards=np.ma.masked_equal([1, 2, 3], 7)).rewards.tolist() == [1, 2, 3]


@pytest.mark.parametrize("size", [np.int64(8), np.uint8(8)])
def test_chunks_are_counted_by_any_whole_numbers(tmp_path, size):
    ep = make_episode()
    ep.length = np.int64(20)
    writer = ChunkedEpisodeWriter(tmp_path / "a", ep.id, size)
    writer.write_episode_chunked(ep)
    with open_episode(writer.finalize_manifest()) as file:
        assert_same_episode(file.load(), make_episode())
    writer = ChunkedEpisodeWriter(tmp_path / "b", ep.id)
    ep.timestep_range = np.array([30, 49])
    writer.write_chunk(ep, np.int64(0))
    assert writer.manifest.rows()[0].start == 30


@pytest.mark.parametrize("size", [0, -1, 1.5, "5", None, True])
def test_chunk_sizes_that_are_none_are_refused_before_anything_is_written(tmp_path, size):
    with pytest.raises(EpisodeError, match="chunk_size_t: expected a whole number of timesteps, at least 1"):
        ChunkedEpisodeWriter(tmp_path / "a", "e", size)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("index", [1.5, "0", True])
def test_chunk_indices_that_are_none_are_refused_before_anything_is_written(tmp_path, index):
    with pytest.raises(ManifestError, match="expected an index"):
        ChunkedEpisodeWriter(tmp_path, "e").write_chunk(make_episode(), index)
    with pytest.raises(EpisodeError, match="length > 0, a whole number, found '20'"):
        ChunkedEpisodeWriter(tmp_path, "e").write_chunk(Episode("e", length="20"))
    assert list(tmp_path.iterdir()) == []


def test_frames_are_counted_by_any_whole_numbers():
    first, second = io.BytesIO(), io.BytesIO()
    save_wshard(make_episode(image_size=8), first, "zstd", frame_steps=np.int64(4))
    save_wshard(make_episode(image_size=8), second, "zstd", frame_steps={"signal/*": np.int32(4), "*": 4})
    assert first.getvalue() == second.getvalue()
