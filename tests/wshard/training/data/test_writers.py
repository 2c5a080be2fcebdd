"""Writers take columns, convert keeps every value, merge puts sets together, the registry knows the formats."""

from __future__ import annotations

import shutil

import lance
import numpy as np
import pytest
import torch
from world_model_sets import SETS, make_columns, write_folder, write_hdf5, write_lance, write_lance_video

from wshard import FormatError, FormatWarning, save_wshard
from wshard.data import (
    EPISODE_DATA_KEY,
    FORMATS,
    ConcatDataset,
    FolderDataset,
    FolderWriter,
    Format,
    GoalDataset,
    HDF5Dataset,
    HDF5Writer,
    LanceDataset,
    LanceVideoDataset,
    LanceVideoWriter,
    LanceWriter,
    MergeDataset,
    ReplayBuffer,
    VideoDataset,
    VideoWriter,
    WindowDataset,
    Writer,
    convert,
    detect_format,
    get_format,
    list_formats,
    load_dataset,
    merge,
    register_format,
    split_episode_data,
    split_episodes,
    validate_write_mode,
)
from wshard.errors import (
    DatasetError,
    EntryNotFoundError,
    EpisodeError,
    RecordingStateError,
    UnknownSchemeError,
    UnsupportedFormatError,
)
from wshard.testing import make_episode

WRITERS = {
    "hdf5": (HDF5Writer, "a.h5", lambda place: HDF5Dataset(path=place)),
    "folder": (FolderWriter, "a", lambda place: FolderDataset(path=place)),
    "video": (VideoWriter, "a", lambda place: VideoDataset(path=place)),
    "lance": (LanceWriter, "a.lance", LanceDataset),
    "lance_video": (LanceVideoWriter, "D", LanceVideoDataset),
}


def columns_of(count=6):
    columns = make_columns((count,), pixels=16)
    columns.pop("ep_len")
    return columns | {"task": "push", "note": ["a", "b", "a", "a", "c", "a"][:count]}


@pytest.mark.parametrize("name", WRITERS)
def test_written_columns_are_read_with_dtype_shape_and_text(tmp_path, name):
    writer, place, reader = WRITERS[name]
    columns = columns_of()
    with writer(tmp_path / place) as out:
        assert isinstance(out, Writer)
        out.write_episode({key: list(values) if key != "task" else values for key, values in columns.items()})
        out.write_episodes([columns, columns])
    data = reader(tmp_path / place)
    assert data.lengths.tolist() == [6, 6, 6]
    found = data.read_episode(1)
    assert found.keys() == columns.keys()
    for key, values in columns.items():
        if key in ("task", "note"):
            assert found[key] == ([values] * 6 if key == "task" else values)
        elif key != "pixels" or name == "hdf5":
            assert found[key].dtype == values.dtype
            assert np.array_equal(found[key], values)
    assert data[13]["note"] == "b"
    assert detect_format(tmp_path / place) is get_format(name)


@pytest.mark.parametrize("name", WRITERS)
def test_one_text_for_all_timesteps_is_a_column_whatever_its_name(tmp_path, name):
    writer, place, reader = WRITERS[name]
    with writer(tmp_path / place) as out:
        out.write_episode({"action": np.zeros((2, 1)), "said": "left", "robot/arm": ["a", "a"]})
        out.write_episode({"action": np.zeros((3, 1)), "said": ["right", "up", "up"], "robot/arm": "b"})
    data = reader(tmp_path / place)
    assert len(data.column_names) == 3
    found = convert(tmp_path / place, tmp_path / "copy", dest_format="hdf5", progress=False)
    for one in (data, load_dataset(found)):
        assert [one.read_episode(number)["said"] for number in (0, 1)] == [["left"] * 2, ["right", "up", "up"]]
        (arm,) = {*one.column_names} - {"action", "said"}
        assert [one.read_episode(number)[arm] for number in (0, 1)] == [["a"] * 2, ["b"] * 3]


@pytest.mark.parametrize("name", WRITERS)
def test_columns_without_numbers_are_written_or_refused(tmp_path, name):
    writer, place, reader = WRITERS[name]
    episode = {"action": np.zeros((2, 1)), "x": np.zeros((2, 0))}
    if name in ("folder", "video"):
        with writer(tmp_path / place) as out:
            out.write_episode(episode)
        assert reader(tmp_path / place)[0]["x"].shape == (1, 0)
        return
    message = r"column 'x': expected at least one number a timestep, found \[0\]"
    with pytest.raises(EpisodeError, match=message), writer(tmp_path / place) as out:
        out.write_episode(episode)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("name", WRITERS)
def test_wrong_episodes_are_named_and_nothing_is_written(tmp_path, name):
    writer, place, _ = WRITERS[name]
    rows = np.zeros((2, 1))
    for episode, message in (
        (None, r"episode: expected \{column: values of its timesteps\}, found None"),
        ({"": rows}, "expected a text as the name of a column, found ''"),
        ({3: rows}, "expected a text as the name of a column, found 3"),
        ({"x": 3}, "column 'x': expected a value for each timestep, found 3"),
        ({"x": np.array(3)}, "column 'x': expected a value for each timestep"),
        ({"x": [[1], [1, 2]]}, "column 'x': expected an array"),
        ({"x": np.array(["a", None])}, "column 'x': expected values of equal shapes for each timestep, found object"),
    ):
        with pytest.raises(EpisodeError, match=message), writer(tmp_path / place) as out:
            out.write_episode(episode)
        assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("name", WRITERS)
def test_writers_write_inside_with_and_in_their_mode(tmp_path, name):
    writer, place, _ = WRITERS[name]
    with pytest.raises(RuntimeError, match="inside `with`"):
        writer(tmp_path / place).write_episode(columns_of())
    with writer(tmp_path / place) as out:
        out.write_episode(columns_of())
    with pytest.raises(RecordingStateError):
        out.write_episode(columns_of())
    with pytest.raises(FileExistsError), writer(tmp_path / place, mode="error"):
        pass
    with pytest.raises(ValueError, match="write mode must be one of"):
        writer(tmp_path / place, mode="replace")
    short = columns_of() | {"reward": np.zeros(5, np.float32)}
    with pytest.raises(EpisodeError, match=r"length mismatch|reward"), writer(tmp_path / place) as out:
        out.write_episode(short)
    with pytest.raises(EpisodeError, match="schema mismatch"), writer(tmp_path / place) as out:
        out.write_episode({key: values for key, values in columns_of().items() if key != "reward"})
    assert load_dataset(tmp_path / place).lengths.tolist() == [6]


def test_overwriting_videos_in_tables_leaves_other_files(tmp_path):
    writer, place, _ = WRITERS["lance_video"]
    for number in (2, 1):
        with writer(tmp_path / place, mode="overwrite") as out:
            out.write_episodes([columns_of()] * number)
        (tmp_path / place / "notes").mkdir(exist_ok=True)
        (tmp_path / place / "notes" / "own.txt").write_text("own")
    assert load_dataset(tmp_path / place).lengths.tolist() == [6]
    assert (tmp_path / place / "notes" / "own.txt").read_text() == "own"


def test_other_dimensions_have_the_originals_names(tmp_path):
    for name, text in (("hdf5", "shape mismatch"), ("lance", "dimension mismatch")):
        writer, place, _ = WRITERS[name]
        with pytest.raises(EpisodeError, match=text), writer(tmp_path / place) as out:
            out.write_episodes([columns_of(), columns_of() | {"action": np.zeros((6, 3), np.float32)}])
    with LanceVideoWriter(tmp_path / "v", "table", fps=5) as out:
        out.write_episode(columns_of())
    assert (tmp_path / "v" / "table.lance").is_dir()
    assert load_dataset(tmp_path / "v").lengths.tolist() == [6]
    with pytest.raises(UnsupportedFormatError, match="connect_kwargs: expected None"):
        LanceWriter(tmp_path / "a.lance", connect_kwargs={"region": "x"})


@pytest.mark.parametrize("name", ["hdf5", "folder", "video"])
def test_what_a_format_cannot_hold_is_refused(tmp_path, name):
    writer, place, _ = WRITERS[name]
    with pytest.raises(EpisodeError, match=r"stores rows only, found \['success'\]"), writer(tmp_path / place) as out:
        out.write_episode(columns_of() | {EPISODE_DATA_KEY: {"success": True}})


STATED = {"success": True, "seed": 2**40, "score": 0.1, "raw": b"\xff", "words": "pick", "goal": np.float32([1, 2])}
OTHER = STATED | {"success": False, "goal": np.float32([3])}


def stated(place, name):
    data = WRITERS[name][2](place).get_episode_data()
    return [{key: values[number] for key, values in data.items()} for number in range(len(next(iter(data.values()))))]


@pytest.mark.parametrize("name", ["lance", "lance_video"])
def test_what_is_stated_once_is_in_a_table_beside(tmp_path, name):
    writer, place, _ = WRITERS[name]
    expected = [{key: getattr(value, "tolist", lambda value=value: value)() for key, value in one.items()}
                for one in (STATED, OTHER)]  # fmt: skip
    for one in (STATED, OTHER):
        with writer(tmp_path / place) as out:
            out.write_episode(columns_of() | {EPISODE_DATA_KEY: one})
    table = tmp_path / place / "D_episodes.lance" if name == "lance_video" else tmp_path / "a_episodes.lance"
    rows = lance.dataset(table)
    assert rows.schema.names == ["episode_idx", *sorted(STATED)]
    types = ["int32", "list<item: float>", "large_binary", "double", "int64", "bool", "string"]
    assert list(map(str, rows.schema.types)) == types
    assert rows.to_table().to_pylist() == [{"episode_idx": 0} | expected[0], {"episode_idx": 1} | expected[1]]
    assert stated(tmp_path / place, name) == expected
    for wrong, message in (
        ({"success": True}, r"episode-data key mismatch: missing \['goal', 'raw'"),
        ({}, "episode-data key mismatch"),
        (STATED | {"success": "yes"}, "episode data 'success': expected"),
        (STATED | {"success": object()}, "expected a text, bytes, a number"),
    ):
        with pytest.raises(ValueError, match=message), writer(tmp_path / place) as out:
            out.write_episode(columns_of() | {EPISODE_DATA_KEY: wrong})
    with pytest.warns(FormatWarning, match="episode data left out: goal: expected a text"):
        convert(tmp_path / place, tmp_path / "copy", dest_format="lance_video", progress=False)
    scalars = [{key: value for key, value in one.items() if key != "goal"} for one in expected]
    assert stated(tmp_path / "copy", "lance_video") == scalars
    with writer(tmp_path / place, mode="overwrite") as out:
        out.write_episode(columns_of())
    assert not table.exists()
    with pytest.raises(ValueError, match="Regenerate it with episode data"), writer(tmp_path / place) as out:
        out.write_episode(columns_of() | {EPISODE_DATA_KEY: STATED})


def test_frames_may_come_with_their_channels_first(tmp_path):
    frames = torch.arange(4 * 3 * 8 * 8, dtype=torch.uint8).reshape(4, 3, 8, 8)
    with HDF5Writer(tmp_path / "a.h5") as out:
        out.write_episode({"pixels": frames.numpy(), "rgb": frames, "left": list(frames), "action": torch.zeros(4, 2)})
    item = HDF5Dataset(path=tmp_path / "a.h5", num_steps=4)[0]
    assert all(torch.equal(item[name], frames) for name in ("pixels", "rgb", "left"))


def test_what_is_stated_once_is_apart():
    assert EPISODE_DATA_KEY == "_episode_data"  # the original's, which programs may spell out
    steps, about = split_episode_data({"x": [1], EPISODE_DATA_KEY: {"success": True}})
    assert (steps, about) == ({"x": [1]}, {"success": True})
    columns = {"x": [1]}
    assert split_episode_data(columns)[0] is columns
    assert split_episode_data({"x": [1], "_episode_data": {"seed": 1}}) == (columns, {"seed": 1})
    with pytest.raises(ValueError, match="write mode must be one of append, overwrite, error"):
        validate_write_mode("w")


# ---- convert and merge ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SETS)
def test_sets_are_converted_without_a_change_of_values(dataset_fixtures, tmp_path, name):
    source = dataset_fixtures / "world_model" / SETS[name]
    place = convert(source, tmp_path / "a", dest_format="hdf5", progress=False)
    assert place == tmp_path / "a.h5"
    old, new = load_dataset(source, num_steps=4), load_dataset(place, num_steps=4)
    assert set(old.column_names) == set(new.column_names)
    for number in (0, 30, len(old) - 1):
        assert all(torch.equal(column, new[number][key]) for key, column in old[number].items())


def test_jpeg_frames_are_converted_byte_for_byte(dataset_fixtures, tmp_path):
    source = dataset_fixtures / "world_model" / "main.lance"
    place = convert(source, tmp_path / "a", dest_format="folder", progress=False)
    again = convert(place, tmp_path / "b", dest_format="lance", progress=False)
    old, new = LanceDataset(source, num_steps=3), LanceDataset(again, num_steps=3)
    assert all(torch.equal(column, new[7][key]) for key, column in old[7].items())


def test_a_destination_that_is_a_source_is_refused(tmp_path):
    write_hdf5(tmp_path / "a.h5", make_columns())
    write_hdf5(tmp_path / "b.h5", make_columns())
    before = (tmp_path / "a.h5").read_bytes()
    (tmp_path / "link.h5").symlink_to(tmp_path / "a.h5")
    for place in ("a.h5", "a", "link.h5"):
        with pytest.raises(DatasetError, match="a destination that is not the source"):
            convert(tmp_path / "a.h5", tmp_path / place, dest_format="hdf5", progress=False)
    with pytest.raises(DatasetError, match="a destination that is not the source"):
        merge([tmp_path / "b.h5", tmp_path / "a.h5"], tmp_path / "a.h5", dest_format="hdf5", mode="append")
    assert (tmp_path / "a.h5").read_bytes() == before


def test_readers_and_writers_get_their_options_and_sets_of_any_kind_are_converted(tmp_path):
    write_hdf5(tmp_path / "a.h5", make_columns())
    place = convert(
        tmp_path / "a.h5", tmp_path / "b", keys_to_load=["action", "pixels"], jpeg_quality=50, progress=False
    )
    assert set(load_dataset(place).column_names) == {"action", "pixels"}
    data = HDF5Dataset(path=tmp_path / "a.h5")
    buffer = ReplayBuffer(100)
    for episode in range(3):
        buffer.write_episode(data.read_episode(episode))
    for number, source in enumerate((ConcatDataset([data]), GoalDataset(data, goal_keys={"count": "goal"}), buffer)):
        place = convert(source, tmp_path / f"{number}.h5", dest_format="hdf5", progress=False)
        assert np.array_equal(load_dataset(place).get_col_data("keypoints"), data.get_col_data("keypoints"))
    buffer.dump(tmp_path / "dumped.h5", "hdf5")
    assert load_dataset(tmp_path / "dumped.h5").lengths.tolist() == [3, 5, 4]


@pytest.mark.parametrize("name", WRITERS)
def test_arrays_with_the_shape_of_images_are_converted_as_they_are(tmp_path, name):
    rng, (_, place, _) = np.random.default_rng(0), WRITERS[name]
    columns = {
        "action": rng.normal(size=(6, 2)),
        "keypoints": rng.normal(size=(6, 5, 3)).astype(np.float32),
        "features": rng.normal(size=(6, 3, 5, 7)).astype(np.float32),
        "heat": rng.random((6, 8, 8, 3), np.float32),
        "mask": rng.random((6, 8, 8, 1)) > 0.5,
        "codes": rng.integers(0, 256, (6, 3, 8, 2), np.uint8),
    }
    with HDF5Writer(tmp_path / "source.h5") as out:
        out.write_episode(columns)
    found = load_dataset(convert(tmp_path / "source.h5", tmp_path / place, dest_format=name, progress=False))
    for key, values in found.read_episode(0).items():
        assert values.dtype == columns[key].dtype
        assert np.array_equal(values, columns[key])


def test_sets_of_older_versions_are_read(tmp_path):
    columns = make_columns(pixels=16)
    write_lance(tmp_path / "a.lance", make_columns(pixels=0) | {"task": ["push"] * 3 + ["pull", "lift"] * 4 + ["lift"]})
    data = load_dataset(tmp_path / "a.lance", num_steps=2)
    assert [data[number]["task"] for number in (0, 2, 3)] == ["push", "pull", "lift"]
    write_folder(
        tmp_path / "old", {"video" if name == "pixels" else name: one for name, one in columns.items()}, video=True
    )
    old = load_dataset(tmp_path / "old", num_steps=2)
    assert isinstance(old, VideoDataset)
    assert old[0]["video"].shape == (2, 3, 16, 16)
    write_lance_video(tmp_path / "D", columns)
    table, folder = load_dataset(tmp_path / "D" / "D.lance", num_steps=2), load_dataset(tmp_path / "D", num_steps=2)
    assert isinstance(table, LanceVideoDataset)
    assert torch.equal(table[1]["pixels"], folder[1]["pixels"])


def test_wrong_sources_are_named():
    for sources, options, message in (
        ("a.h5", {}, "merge: expected at least two sources, found 'a.h5'"),
        (None, {}, "merge: expected at least two sources, found None"),
        (["a.h5", "b.h5"], {"source_formats": ["hdf5"]}, "source_formats: expected one for each of 2 sources"),
    ):
        with pytest.raises(DatasetError, match=message):
            merge(sources, "to", **options)


def test_merged_sets_are_one_after_the_other(tmp_path):
    for place in ("a.h5", "b.h5"):
        write_hdf5(tmp_path / place, make_columns())
    place = merge([tmp_path / "a.h5", tmp_path / "b.h5"], tmp_path / "both", dest_format="folder", progress=False)
    assert load_dataset(place).lengths.tolist() == [3, 5, 4] * 2
    with pytest.raises(FileExistsError):
        merge([tmp_path / "a.h5", tmp_path / "b.h5"], place, dest_format="folder", progress=False)
    with pytest.raises(DatasetError, match="at least two sources"):
        merge([place], tmp_path / "x")
    write_hdf5(tmp_path / "c.h5", {key: rows for key, rows in make_columns().items() if key != "reward"})
    with pytest.raises(ValueError, match=r"c.h5: missing columns: \['reward'\]"):
        merge([tmp_path / "a.h5", tmp_path / "c.h5"], tmp_path / "x")


class StoppedDataset(HDF5Dataset):
    """Reads one episode after the other until it is interrupted at one."""

    def __init__(self, stop_at: int, **options: object) -> None:
        super().__init__(**options)
        self.stop_at, self.read = stop_at, []

    def read_episode(self, number, **how: object):
        if number == self.stop_at:
            raise KeyboardInterrupt
        self.read.append(number)
        return super().read_episode(number, **how)


def test_an_interrupted_conversion_of_a_data_set_is_continued(tmp_path, monkeypatch):
    monkeypatch.setattr("wshard.training.conversion.staging.PART_SIZE", 1)
    write_hdf5(tmp_path / "a.h5", make_columns())
    with pytest.raises(KeyboardInterrupt):
        convert(StoppedDataset(2, path=tmp_path / "a.h5"), tmp_path / "to" / "b", dest_format="folder", progress=False)
    assert not (tmp_path / "to" / "b").exists()
    rest = StoppedDataset(9, path=tmp_path / "a.h5")
    place = convert(rest, tmp_path / "to" / "b", dest_format="folder", progress=False)
    assert rest.read[-1:] == [2]
    assert 0 not in rest.read
    assert [path.name for path in (tmp_path / "to").iterdir()] == ["b"]
    found, wanted = load_dataset(place, num_steps=3), HDF5Dataset(path=tmp_path / "a.h5", num_steps=3)
    assert all(torch.equal(column, found[4][name]) for name, column in wanted[4].items() if name != "pixels")


def test_episode_data_of_merged_sets_have_the_same_names(tmp_path):
    for place, stated_here in (("a", {"scene": "x"}), ("b", {"scene": "y"}), ("c", {}), ("d", {"seed": 1})):
        with LanceWriter(tmp_path / f"{place}.lance") as out:
            out.write_episode(columns_of() | ({EPISODE_DATA_KEY: stated_here} if stated_here else {}))
    a, b, c, d = (tmp_path / f"{place}.lance" for place in "abcd")
    place = merge([a, b], tmp_path / "both", progress=False)
    assert load_dataset(place).get_episode_data()["scene"] == ["x", "y"]
    for other, found in ((c, r"\['scene'\]; unexpected .*: \[\]"), (d, r"\['scene'\]; unexpected .*: \['seed'\]")):
        with pytest.raises(DatasetError, match=f"{other.name}: missing columns of episode data: {found}"):
            merge([a, other], tmp_path / "no", progress=False)
    assert not (tmp_path / "no.lance").exists()
    with pytest.warns(FormatWarning, match="left out: scene"):
        place = merge([a, c], tmp_path / "no", dest_format="hdf5", progress=False)
    assert load_dataset(place).lengths.tolist() == [6, 6]


def test_episode_data_of_two_types_are_left_out_with_a_warning(tmp_path):
    for name, stated in (("a", {"seed": 1, "scene": "x"}), ("b", {"seed": 1.5, "scene": "y"})):
        with LanceWriter(tmp_path / f"{name}.lance") as out:
            out.write_episode(columns_of() | {EPISODE_DATA_KEY: stated})
    with pytest.warns(FormatWarning, match="episode data left out: seed: expected"):
        place = merge([tmp_path / "a.lance", tmp_path / "b.lance"], tmp_path / "c", progress=False)
    assert load_dataset(place).get_episode_data() == {"scene": ["x", "y"]}


# ---- names ---------------------------------------------------------------------------------------------------------


def test_formats_are_detected_in_the_order_of_the_original(dataset_fixtures, tmp_path):
    assert list(FORMATS) == ["lance", "folder", "lerobot", "hdf5", "video", "lance_video"]
    assert list_formats()[:6] == list(FORMATS)
    assert {"wshard", "dreamerv3"} <= set(list_formats())
    for name, place in SETS.items():
        assert detect_format(dataset_fixtures / "world_model" / place).name == name
    (tmp_path / "D_videos.lance").mkdir()
    (tmp_path / "D.lance").mkdir()
    for place, name in (
        ("x.LANCE", "lance"), ("s3://b/x.lance", "lance"), ("lerobot://a/b.lance", "lance"), ("lerobot://a", "lerobot"),
        (tmp_path, "lance_video"), (tmp_path / "D.lance", "lance_video"), ("nowhere.h5", "hdf5"),
    ):  # fmt: skip
        assert detect_format(place).name == name
    assert detect_format("X.H5") is None
    for content in (b"", b"nothing"):
        (tmp_path / "x.h5").write_bytes(content)
        assert detect_format(tmp_path / "x.h5").name == "hdf5"
    assert detect_format(tmp_path / "nothing") is None


def test_formats_are_registered_once():
    with pytest.raises(ValueError, match="non-empty"):
        register_format(type("Nameless", (Format,), {}))
    with pytest.raises(ValueError, match="already registered"):
        register_format(type("Second", (Format,), {"name": "lance"}))
    with pytest.raises(ValueError, match=r"unknown format 'parquet'; available: \['lance'"):
        get_format("parquet")
    for call, message in (
        (lambda: Format.detect("x"), "does not support reading"),
        (lambda: Format.open_reader("x"), "does not support reading"),
        (lambda: Format.open_writer("x"), "read-only"),
    ):
        with pytest.raises(NotImplementedError, match=message):
            call()
    assert [name for name, one in FORMATS.items() if one.supports_episode_data] == ["lance", "lance_video"]


# ---- finding -------------------------------------------------------------------------------------------------------


@pytest.fixture
def homes(tmp_path, monkeypatch):
    for name in ("STABLEWM_HOME", "HF_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    for name in ("HF_LEROBOT_HOME", "HF_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_names_are_searched_here_then_in_the_caches(homes):
    cached = homes / "STABLEWM_HOME" / "datasets"
    hub = homes / "HF_HOME" / "hub" / "datasets--me--table"
    (hub / "refs").mkdir(parents=True)
    (hub / "refs" / "main").write_text("abc\n")
    for folder in (homes / "data", cached / "data", cached / "user--repo", hub / "snapshots" / "abc"):
        folder.mkdir(parents=True)
    sets = {"data/a.h5": 1, "STABLEWM_HOME/datasets/data/a.h5": 2, "STABLEWM_HOME/datasets/b.h5": 3}
    sets |= {"STABLEWM_HOME/datasets/user--repo/train.h5": 4}
    for place, length in sets.items():
        write_hdf5(homes / place, make_columns((length,), pixels=0))
    write_lance(hub / "snapshots" / "abc" / "t.lance", make_columns((5,), pixels=0))
    found = {name: load_dataset(name).lengths.tolist() for name in ("data/a.h5", "b", "user/repo", "me/table")}
    assert found == {"data/a.h5": [1], "b": [3], "user/repo": [4], "me/table": [5]}
    assert HDF5Dataset("b").lengths.tolist() == [3]
    assert load_dataset(["b", "data/a.h5"], num_steps=1).lengths.tolist() == [3, 1]
    for name in ("data/none.h5", "none", "../none", "user/none"):
        with pytest.raises(FileNotFoundError, match="Cannot resolve"):
            load_dataset(name)
    with pytest.raises(OSError, match=r"ftp://127.0.0.1:9: expected an answer of the store, found: .*refused"):
        load_dataset("ftp://127.0.0.1:9/x")
    (homes / "notes.txt").write_text("x")
    with pytest.raises(ValueError, match="No format detected"):
        load_dataset("notes.txt")


def test_folders_of_several_sets_name_them(homes, dataset_fixtures):
    (homes / "sets" / "files").mkdir(parents=True)
    shutil.copyfile(dataset_fixtures / "other" / "d4rl.hdf5", homes / "sets" / "a.hdf5")
    save_wshard(make_episode(0), homes / "sets" / "files" / "0.wshard")
    with pytest.raises(DatasetError, match=r"sets: it has the data sets a.hdf5 \(d4rl\), files \(wshard\): load one"):
        load_dataset("sets")
    (homes / "sets" / "a.hdf5").unlink()
    (homes / "sets").rename(homes / "files")
    (homes / "deeper" / "down").mkdir(parents=True)
    (homes / "files").rename(homes / "deeper" / "down" / "files")
    with pytest.raises(DatasetError, match=r"down: it has the data sets files/files \(wshard\): load one"):
        load_dataset("deeper/down")
    with pytest.raises(DatasetError, match="format='wshard' reads all episode files below it"):
        load_dataset("deeper")
    assert len(load_dataset("deeper", format="wshard").lengths) == 1


def test_folders_of_several_files_are_ambiguous(homes):
    (homes / "many").mkdir()
    for place in ("many/a.h5", "many/b.h5"):
        write_hdf5(homes / place, make_columns((2,), pixels=0))
    with pytest.raises(ValueError, match="Ambiguous"):
        load_dataset("many")
    for name in ("a", "b"):
        write_lance(homes / "many" / f"{name}.lance", make_columns((2,), pixels=0))
    with pytest.raises(FormatError, match="Ambiguous"):
        LanceDataset(homes / "many")
    assert LanceDataset(homes / "many", "b").lengths.tolist() == [2]
    (homes / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=r"No .h5/.hdf5"):
        HDF5Dataset(path=homes / "empty")


def test_lerobot_columns_have_the_names_of_the_original(dataset_fixtures, homes):
    root = dataset_fixtures / "lerobot" / "lerobot_v3_video_h264"
    (homes / "HF_HOME" / "lerobot" / "me").mkdir(parents=True)
    (homes / "HF_HOME" / "lerobot" / "me" / "robot").symlink_to(root)
    plain = load_dataset(root, num_steps=2)
    cameras = [name for name in plain.column_names if plain.is_image(name)]
    options = {"primary_camera_key": cameras[0]}
    data = load_dataset("lerobot://me/robot", num_steps=2, **options)
    assert data.column_names == ["pixels", "action", "proprio", "ep_idx", "step_idx"]
    item, expected = data[3], plain[3]
    assert item["pixels"].dtype == torch.float32
    assert torch.equal((item["pixels"] * 255).round().to(torch.uint8), expected[cameras[0]])
    assert torch.equal(item["proprio"], expected["observation.state"])
    assert torch.equal(item["action"], expected["action"])
    assert item["step_idx"].tolist() == [3, 4]
    assert load_dataset("lerobot://me/robot", **options)[0]["pixels"].ndim == 3
    subset = load_dataset("lerobot://me/robot", episodes=[1], **options)
    assert (len(subset.lengths), subset[0]["ep_idx"].tolist()) == (1, [0])
    if len(cameras) > 1:
        with pytest.raises(ValueError, match="primary_camera_key"):
            load_dataset("lerobot://me/robot")
    both = ConcatDataset([data, data])
    parts = [split_episodes(one, {"all": 1})["all"] for one in (data, both)]
    for made in (*parts, MergeDataset([data])):
        assert torch.equal(made[3]["pixels"], item["pixels"])
    assert WindowDataset(data, history=2)[4]["pixels"].dtype == torch.float32
    wrong = (
        ({"primary_camera_key": "observation.state"}, r"primary_camera_key: .*, found 'observation\.state'"),
        ({"keys_to_load": ["nope"]}, "no column 'nope'; there are pixels, action"),
        ({"keys_to_load": 3}, "keys_to_load: expected names of columns, found 3"),
        ({"key_aliases": ["x"]}, "key_aliases: expected {native name: name}, found"),
    )
    for options_, message in wrong:
        with pytest.raises((DatasetError, EntryNotFoundError), match=message):
            load_dataset("lerobot://me/robot", **(options | options_))
    assert load_dataset("lerobot://me/robot", keys_to_load="action", **options).column_names == ["action"]
    with pytest.raises(UnknownSchemeError, match="expected a path, or a URI of scheme"):
        load_dataset("nfs9://bucket/a.lance")
    place = convert("lerobot://me/robot", homes / "out.h5", dest_format="hdf5", progress=False, **options)
    assert "pixels" in load_dataset(place).column_names
