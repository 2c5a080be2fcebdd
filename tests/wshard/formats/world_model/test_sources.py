"""World-model data sets of the original program, and of its layouts, are read with exactly the values in them."""

from __future__ import annotations

import fcntl
import os
import pickle
import shutil
from contextlib import nullcontext
from typing import TYPE_CHECKING

import h5py
import lance
import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from world_model_sets import (
    COLUMNS,
    LENGTHS,
    SETS,
    expected_values,
    make_columns,
    sha256,
    write_folder,
    write_hdf5,
    write_lance,
)

from wshard import Episode, FormatError, detect_format, open_sink, open_source
from wshard.data import LanceDataset, load_dataset
from wshard.errors import CodecError, LimitError, MissingFileError
from wshard.formats.contract import SourceContract
from wshard.formats.open import open_location
from wshard.formats.world_model.folder import ImageFolderSource, VideoFolderSource
from wshard.formats.world_model.hdf5 import ColumnsHDF5Source
from wshard.formats.world_model.lance import LanceSource
from wshard.testing import make_episode

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from wshard.formats.source_base import Source

SOURCES = {"hdf5": ColumnsHDF5Source, "folder": ImageFolderSource, "lance": LanceSource, "video": VideoFolderSource}


@pytest.mark.parametrize("name", SETS)
def test_values_are_those_that_the_original_reads(dataset_fixtures, name):
    expected = expected_values(dataset_fixtures)
    place = dataset_fixtures / "world_model" / SETS[name]
    assert detect_format(place) == name
    found = expected["formats"][name]["load_episode_2"]
    with open_location(place) as source:
        assert [source.info(key).length for key in source.keys()] == expected["lengths"]  # noqa: SIM118
        for column, block in COLUMNS.items():
            rows = source.lane("2", block)
            stored = source.info("2").lanes[block]
            assert (rows.dtype, rows.shape[1:]) == (stored.dtype.numpy_dtype, stored.shape)
            image = rows.transpose(0, 3, 1, 2) if rows.ndim == 4 else rows
            assert sha256(image) == found[column]["sha256"]
            assert str(image.dtype) == found[column]["dtype"]
            assert np.array_equal(source.lane("2", block, 5, 9), rows[5:9])


@pytest.mark.parametrize("name", SETS)
def test_every_row_is_the_one_that_was_written(dataset_fixtures, name):
    folder = dataset_fixtures / "world_model"
    truth, start = dict(np.load(folder / "main_source.npz")), 0
    clips = next(iter(expected_values(dataset_fixtures)["formats"][name]["clips"].values()))["clips"]
    lossless = {clip["pixels_vs_source"]["max_abs"] for clip in clips} == {0}
    assert lossless == (name == "hdf5")
    with open_location(folder / SETS[name]) as source:
        for number, length in enumerate(truth["ep_len"].tolist()):
            rows = slice(start, start := start + length)
            steps = np.arange(length, dtype=np.float64)
            formula = np.stack([steps, 0 * steps + number, 0.5 * steps - number, steps * steps / 100], 1)
            assert np.array_equal(source.lane(str(number), "signal/proprio"), formula.astype(np.float32))
            for column, block in COLUMNS.items():
                found = source.lane(str(number), block)
                assert (found.dtype, found.shape) == (truth[column].dtype, truth[column][rows].shape)
                if column != "pixels" or lossless:
                    assert np.array_equal(found, truth[column][rows])
            assert found.shape[0] == length


def expected_episodes(columns: Mapping[str, np.ndarray], name: str) -> dict[str, Episode]:
    found = {}
    for number, length in enumerate(LENGTHS):
        start = sum(LENGTHS[:number])
        rows = {key: array[start : start + length] for key, array in columns.items() if key != "ep_len"}
        found[str(number)] = Episode(
            f"{name}_{number}",
            length=length,
            observations={key: rows[key] for key in ("proprio", "count", "keypoints")},
            actions={"action": rows["action"]},
            rewards=rows["reward"],
            terminations=rows["terminated"],
        )
    return found


class TestColumnsHDF5Source(SourceContract):
    def make(self, tmp_path: Path) -> tuple[Source, Mapping[str, Episode]]:
        columns = make_columns(pixels=0)
        write_hdf5(tmp_path / "a.h5", columns)
        return ColumnsHDF5Source(tmp_path / "a.h5"), expected_episodes(columns, "episode")


class TestImageFolderSource(SourceContract):
    def make(self, tmp_path: Path) -> tuple[Source, Mapping[str, Episode]]:
        columns = make_columns(pixels=0)
        write_folder(tmp_path / "a", columns)
        return ImageFolderSource(tmp_path / "a"), expected_episodes(columns, "ep")


class TestLanceSource(SourceContract):
    def make(self, tmp_path: Path) -> tuple[Source, Mapping[str, Episode]]:
        columns = make_columns(pixels=0)
        write_lance(tmp_path / "a.lance", columns)
        for name in ("count", "proprio"):
            columns[name] = columns[name].astype(np.float32)
        columns["keypoints"] = columns["keypoints"].reshape(-1, 15)
        return LanceSource(tmp_path / "a.lance"), expected_episodes(columns, "episode")


TEXTS = {"task": ["push"] * 3 + ["pull"] * 9, "say": ["a", "b", "a"] + ["c"] * 9}


@pytest.mark.parametrize(("write", "name"), [(write_hdf5, "a.h5"), (write_folder, "a"), (write_lance, "a.lance")])
def test_texts_are_metadata(tmp_path, write, name):
    write(tmp_path / name, make_columns(pixels=0) | TEXTS)
    with open_location(tmp_path / name) as source:
        assert source.info("0").metadata == {"task": "push", "say": ["a", "b"]}
        assert source.lane("0", "aux/text/say", 1, 3).tolist() == [1, 0]
        assert source.info("1").metadata == {"task": "pull", "say": "c"}
        assert "signal/task" not in source.info("0").lanes


# ---- frames --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "encoding"), [("folder", "jpeg"), ("lance", "jpeg"), ("video", "mp4")])
def test_frames_stay_encoded_until_they_are_read(dataset_fixtures, name, encoding):
    with open_location(dataset_fixtures / "world_model" / SETS[name]) as source, source.open("3") as episode:
        frames = episode.encoded("signal/pixels")
        assert (frames.encoding, frames.length, frames.shape) == (encoding, 31, (64, 64, 3))
        assert np.array_equal(frames.decode(3, 6), episode["pixels"][3:6])
        again = pickle.loads(pickle.dumps(source))  # noqa: S301  (our own)
        assert again.open("3").digest() == episode.digest()


def test_a_missing_frame_is_named_and_other_episodes_are_read(tmp_path):
    write_folder(tmp_path / "a", make_columns())
    (tmp_path / "a" / "pixels" / "ep_0_step_1.jpeg").unlink()
    with open_location(tmp_path / "a") as source:
        with pytest.raises(MissingFileError, match=r"ep_0_step_1.jpeg: expected the frame of step 1"):
            source.load("0")
        assert source.load("1").length == LENGTHS[1]


def test_frames_may_be_jpg_and_gray(tmp_path):
    write_folder(tmp_path / "a", make_columns() | {"mask": make_columns()["pixels"][..., 0]})
    (tmp_path / "a" / "gray").mkdir()
    for path in sorted((tmp_path / "a" / "pixels").iterdir()):
        Image.open(path).convert("L").save(tmp_path / "a" / "gray" / f"{path.stem}.jpg")
    with open_location(tmp_path / "a") as source:
        assert source.lane("1", "signal/gray").shape == (5, 16, 16, 1)
        assert source.info("1").lanes["signal/mask"].shape == (16, 16)


def test_a_stray_file_or_folder_is_not_a_column(tmp_path):
    write_folder(tmp_path / "a", make_columns())
    (tmp_path / "a" / "README.md").write_text("own")
    (tmp_path / "a" / "notes").mkdir()
    with open_location(tmp_path / "a") as source:
        assert not {"signal/README", "signal/notes"} & source.info("0").lanes.keys()


# ---- what is there, and what changed -------------------------------------------------------------------------------


def test_a_set_without_episodes_is_read(tmp_path):
    none = {"action": np.zeros((0, 2), np.float32), "ep_len": np.zeros(0, np.int32)}
    write_hdf5(tmp_path / "a.h5", none)
    write_folder(tmp_path / "a", none)
    lance.write_dataset(pa.table({"episode_idx": pa.array([], pa.int32())}), tmp_path / "a.lance")
    h5py.File(tmp_path / "empty.h5", "w").close()
    assert ColumnsHDF5Source(tmp_path / "empty.h5").keys() == []
    for name in ("a.h5", "a", "a.lance"):
        with open_location(tmp_path / name) as source:
            assert source.keys() == []


def test_an_appended_episode_of_a_table_changes_no_other(tmp_path):
    write_lance(tmp_path / "a.lance", make_columns(pixels=0))
    with LanceSource(tmp_path / "a.lance") as source:
        before = {key: source.fingerprint(key) for key in source.keys()}  # noqa: SIM118
    more = make_columns((0, 0, 0, 2), pixels=0)
    write_lance(tmp_path / "a.lance", more, mode="append")
    with LanceSource(tmp_path / "a.lance") as source:
        assert source.keys() == ["0", "1", "2", "3"]
        assert {key: source.fingerprint(key) for key in before} == before
        assert source.fingerprint("3") != before["2"]


def test_rows_of_a_table_are_one_episode_after_the_other(tmp_path):
    numbers = pa.array([0, 1, 0], pa.int32())
    lance.write_dataset(pa.table({"episode_idx": numbers, "step_idx": numbers}), tmp_path / "a.lance")
    with pytest.raises(FormatError, match="expected the rows of an episode one after the other"):
        LanceSource(tmp_path / "a.lance").keys()


# ---- damage --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", [lambda path: os.truncate(path, path.stat().st_size - 30), os.unlink])
@pytest.mark.parametrize(
    ("number", "lost"),
    [(0, {"0", "1"}), (1, {"1", "2", "3", "4"}), (2, {"4", "5"}), (3, {"5"})],
)
def test_a_damaged_file_of_a_table_costs_the_episodes_that_can_be_in_it(tmp_path, damage, number, lost):
    """An episode may go on in the next file, and what is in a damaged one is unknown."""
    place = tmp_path / "a.lance"
    for count, numbers in enumerate(([0, 0, 1], [1, 2, 2, 3, 4], [4, 5, 5], [6])):
        steps = [0, 1, 0] if not count else [1, 0, 1, 0, 0] if count == 1 else [1, 0, 1] if count == 2 else [0]
        table = {"episode_idx": np.array(numbers, np.int32), "step_idx": np.array(steps, np.int32)}
        rows = pa.table(table | {"x": np.array(numbers, np.float64)})
        lance.write_dataset(rows, str(place), mode="append" if count else "create")
    fragment = lance.dataset(str(place)).get_fragments()[number]
    damage(place / "data" / fragment.data_files()[0].path)
    with LanceSource(place) as source:
        failed = set()
        for key in source.keys():  # noqa: SIM118  (a Source is no mapping)
            try:
                assert set(source.load(key).observations["x"].data.tolist()) == {float(key)}
            except FormatError:
                failed.add(key)
        assert failed == lost
        assert {*source.keys()} == {*"0123456"} - ({"6"} if number == 3 else set())
        with pytest.raises(FormatError, match="episode 9 may be there"):
            source.info("9")
    if number == 3:
        with pytest.raises(FormatError, match="rows of episode 5 may be there"):
            open_sink(place, "lance").write(make_episode())


def test_rows_without_a_value_damage_their_episode_alone(tmp_path):
    lengths, step = [3, 3, 3, 3, 3, 3], pa.list_(pa.float32(), 2)
    values = [None if row == 13 else [row, row] for row in range(sum(lengths))]
    table = {
        "episode_idx": pa.array(np.repeat(np.arange(6), lengths), pa.int32()),
        "step_idx": pa.array(np.concatenate([np.arange(length) for length in lengths]), pa.int32()),
        "state": pa.array(values, step),
    }
    lance.write_dataset(pa.table(table), tmp_path / "a.lance")
    with LanceSource(tmp_path / "a.lance") as source:
        for key in map(str, range(6)):  # read ahead, too
            if key == "4":
                with pytest.raises(FormatError, match="expected values, found 1 nulls"):
                    source.lane(key, "signal/state")
            else:
                assert source.lane(key, "signal/state")[:, 0].tolist() == [3 * int(key) + step for step in range(3)]


def _add_virtual(file: h5py.File) -> None:
    layout = h5py.VirtualLayout((12,), "f4")
    layout[:] = h5py.VirtualSource("other.h5", "x", (12,))
    file.create_virtual_dataset("outside", layout)


DAMAGE = {
    "column 'reward': expected 8 rows, found 3": lambda file: file["reward"].resize((3,)),
    "expected data, found a link": lambda file: file.__setitem__("outside", h5py.ExternalLink("/etc/passwd", "/x")),
    "found a reference to those": lambda file: file.create_dataset("o", (12,), "u1", external=[("/etc/passwd", 0, 12)]),
    "found a reference to those of other files": _add_virtual,
    "expected a dataset 'outside', found a group": lambda file: file.create_group("outside"),
    "column 'outside': dtype: expected one of": lambda file: file.__setitem__("outside", np.zeros(12, np.complex64)),
}


@pytest.mark.parametrize("message", DAMAGE)
def test_what_is_wrong_with_an_hdf5_file_is_stated(tmp_path, message):
    write_hdf5(tmp_path / "a.h5", make_columns(pixels=0))
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        DAMAGE[message](file)
    with ColumnsHDF5Source(tmp_path / "a.h5") as source, pytest.raises(FormatError, match=message):
        source.load("1")


@pytest.mark.parametrize(
    ("name", "values", "damaged"),
    [
        ("ep_len", [3, -1, 4], {"0", "1", "2"}),
        ("ep_len", [3, 5, 5], {"2"}),
        ("ep_len", [9, 5, 4], {"0", "1"}),
        ("ep_offset", [0, 3, 9], {"1", "2"}),
    ],
)
def test_wrong_bounds_cost_the_episodes_beside_them_alone(tmp_path, name, values, damaged):
    write_hdf5(tmp_path / "a.h5", make_columns(pixels=0))
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        file[name][:] = values
    with open_location(tmp_path / "a.h5") as source:
        for key in ("0", "1", "2"):
            with pytest.raises(FormatError, match="expected") if key in damaged else nullcontext():
                assert source.load(key).length == LENGTHS[int(key)]
    with pytest.raises(FormatError, match="expected"), open_sink(tmp_path / "a.h5", "hdf5") as sink:
        sink.write(make_episode())


def test_a_file_that_is_being_written_is_refused_with_advice(tmp_path):
    write_hdf5(tmp_path / "a.h5", make_columns())
    with (tmp_path / "a.h5").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # as the library does while it writes
        with pytest.raises(
            BlockingIOError, match=r"another program writes to it: read it once that has closed it: .*a\.h5"
        ):
            load_dataset(tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5", "r+", libver="latest"):
        shutil.copy(tmp_path / "a.h5", tmp_path / "killed.h5")
    with pytest.raises(
        FormatError, match=r"killed\.h5: expected a file that its writer has closed, .*`h5clear -s FILE`"
    ):
        load_dataset(tmp_path / "killed.h5")


@pytest.mark.timeout(30)
def test_texts_on_which_the_library_would_never_end_are_refused(tmp_path):
    with open_sink(tmp_path / "a.h5", "hdf5") as sink:
        for number in range(3):
            sink.write(make_episode(number))
    data = bytearray((tmp_path / "a.h5").read_bytes())
    heap = data.index(b"GCOL\1")
    data[heap + 64 : heap + 128] = bytes(64)
    (tmp_path / "a.h5").write_bytes(data)
    with ColumnsHDF5Source(tmp_path / "a.h5") as source, pytest.raises(FormatError, match=r"a\.h5: byte \d+: 0 bytes"):
        source.load("0")


def test_a_chunk_that_is_larger_than_memory_is_refused(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["ep_len"], file["ep_offset"] = np.array([4], np.int32), np.array([0])
        file.create_dataset("bomb", (4, 1 << 29), "f4", chunks=(1, 1 << 29), compression="gzip")
    with ColumnsHDF5Source(tmp_path / "a.h5") as source, pytest.raises(LimitError, match="expected chunks of at most"):
        source.load("0")


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("part", [0.2, 0.95])
def test_a_file_that_ends_too_early_is_a_typed_error(dataset_fixtures, tmp_path, name, part):
    original, place = dataset_fixtures / "world_model" / SETS[name], tmp_path / SETS[name]
    if original.is_dir():
        shutil.copytree(original, place, copy_function=shutil.copyfile)
    else:
        shutil.copyfile(original, place)
    for path in [place, *place.rglob("*")]:
        path.chmod(0o755)
    damaged = max((path for path in (place, *place.rglob("*")) if path.is_file()), key=lambda path: path.stat().st_size)
    os.truncate(damaged, int(damaged.stat().st_size * part))
    with SOURCES[name](place) as opened, pytest.raises(FormatError):
        _ = [opened.load(key) for key in "01234"]


def test_what_a_table_beside_it_states_of_an_episode_is_its_metadata(tmp_path):
    write_lance(tmp_path / "a.lance", make_columns(pixels=0))
    table = {"episode_idx": pa.array([0, 1, 2], pa.int32()), "success": [True, False, None], "task": ["a", "b", "c"]}
    table |= {"goal": [[0.5], [1.0, 2.0], []], "raw": [b"1", b"2", b"3"]}
    lance.write_dataset(pa.table(table), tmp_path / "a_episodes.lance")
    assert detect_format(tmp_path / "a.lance") == "lance"
    with LanceSource(tmp_path / "a.lance") as source:
        assert source.info("1").metadata == {"success": False, "task": "b", "goal": [1.0, 2.0]}
        assert source.info("2").metadata == {"task": "c", "goal": []}
    data = LanceDataset(tmp_path / "a.lance")
    assert data.get_episode_data()["success"] == [True, False, None]
    assert "goal" in data.episode_column_names


def test_an_image_that_is_a_link_is_not_quoted(tmp_path):
    frames = np.random.default_rng(0).integers(0, 255, (3, 16, 16, 3), np.uint8)
    with open_sink(tmp_path / "set", "folder") as sink:
        sink.write(Episode("a", observations={"pixels": frames}, actions={"ctrl": np.zeros((3, 1), np.float32)}))
    (tmp_path / "other").write_text("confidential")
    image = min((tmp_path / "set").rglob("*.jpeg"))
    image.unlink()
    image.symlink_to(tmp_path / "other")
    with (
        open_source(tmp_path / "set", "folder") as source,
        pytest.raises(CodecError, match="expected a JPEG") as caught,
    ):
        source.load(source.keys()[0])
    assert "conf" not in str(caught.value)
