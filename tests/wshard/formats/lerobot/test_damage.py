"""Damaged and hostile data sets are refused by name and place, and do not hold up the episodes beside them."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from typing import TYPE_CHECKING, Any

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wshard import FormatError, TrajectoryIngestor, list_episodes, open_sink
from wshard.errors import CodecError, EntryNotFoundError, LimitError, MissingFileError, UnsupportedFormatError
from wshard.formats.lerobot.open_parquet import MAX_ROWS
from wshard.formats.lerobot.source import LeRobotSource
from wshard.testing import assert_same_episode, make_episode

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

V21_DATA = "data/chunk-000/episode_000001.parquet"
LFS_POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 123456\n"
V3_DATA = "data/chunk-000/file-000.parquet"
V3_EPISODES = "meta/episodes/chunk-000/file-000.parquet"


@pytest.fixture
def v21(dataset_fixtures, tmp_path) -> Path:
    return shutil.copytree(dataset_fixtures / "lerobot" / "lerobot_v21_image", tmp_path / "v21")


@pytest.fixture
def v3(dataset_fixtures, tmp_path) -> Path:
    return shutil.copytree(dataset_fixtures / "lerobot" / "lerobot_v3_video_h264", tmp_path / "v3")


def change_info(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    info = json.loads((folder / "meta/info.json").read_text())
    change(info)
    (folder / "meta/info.json").write_text(json.dumps(info))


def change_table(path: Path, change: Callable[[pa.Table], pa.Table], **options: Any) -> None:
    table = change(pq.read_table(path))
    pq.write_table(table, path, **options)


def replaced(name: str, values: Any) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        place = table.column_names.index(name)
        return table.set_column(place, table.schema.field(name), pa.array(values(table), table.schema.field(name).type))

    return change


def load_all(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    with LeRobotSource(folder) as source:
        for key in source.keys():  # noqa: SIM118  (a Source is no mapping)
            try:
                found[key] = source.load(key).length
            except FormatError as error:
                found[key] = str(error)
    return found


def assert_one_is_refused(folder: Path, text: str) -> None:
    found = load_all(folder)
    assert (found["0"], found["2"]) == (7, 20)
    assert text in found["1"]


DATA_DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "of another episode": (
        lambda path: change_table(path, replaced("episode_index", lambda table: [2] * len(table))),
        "expected the 12 rows of episode 1, found 12 rows, there of episodes 2 to 2",
    ),
    "short": (lambda path: change_table(path, lambda table: table.slice(0, 9)), "expected rows 0 to 11, found 9 rows"),
    "long": (lambda path: change_table(path, lambda t: pa.concat_tables([t, t])), "expected rows 0 to 11"),
    "without a column": (lambda path: change_table(path, lambda table: table.drop(["action"])), "column 'action'"),
    "with a hole": (
        lambda path: change_table(path, replaced("next.reward", lambda table: [None] * len(table))),
        "column 'next.reward': expected a value in every row",
    ),
    "without an image": (
        lambda path: change_table(path, replaced("observation.images.top", lambda table: [None] * len(table))),
        "column 'observation.images.top': row 0: expected the bytes of an image",
    ),
    "with ragged rows": (
        lambda path: change_table(path, replaced("observation.grid", lambda t: [[[1, 2]] * 3] * len(t))),
        "column 'observation.grid'",
    ),
}


@pytest.mark.parametrize("damage", [*DATA_DAMAGES])
def test_a_damaged_data_file_is_that_of_one_episode(v21, damage):
    change, text = DATA_DAMAGES[damage]
    change(v21 / V21_DATA)
    if damage == "long":
        assert "expected the 12 rows of episode 1, found 24 rows" in load_all(v21)["1"]
        return
    assert_one_is_refused(v21, text)


def test_row_groups_may_be_any(v3):
    whole = load_all(v3)
    with LeRobotSource(v3) as source:
        expected = {key: source.lane(key, "signal/observation.state") for key in source.keys()}  # noqa: SIM118
    change_table(v3 / V3_DATA, lambda table: table, row_group_size=5)
    with LeRobotSource(v3) as source:
        for key, values in expected.items():
            assert np.array_equal(source.lane(key, "signal/observation.state"), values)
            assert np.array_equal(source.lane(key, "signal/observation.state", 2, 6), values[2:6])
    assert load_all(v3) == whole


def test_a_damaged_row_group_is_that_of_one_episode(tmp_path):
    """Rows are read ahead of those that are needed: the others' damage must not be theirs."""
    with open_sink(tmp_path / "set", "lerobot") as sink:
        for number in range(40):
            sink.write(make_episode(number))
    path = tmp_path / "set" / V3_DATA
    data = bytearray(path.read_bytes())
    metadata = pq.read_metadata(path)
    assert metadata.num_row_groups == 40
    column = metadata.row_group(20).column(0)
    start = column.dictionary_page_offset or column.data_page_offset
    data[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    path.write_bytes(data)
    found = load_all(tmp_path / "set")
    assert [key for key, length in found.items() if length != 20] == ["20"]
    assert "file-000.parquet: expected a Parquet file" in found["20"]


def test_a_damaged_video_costs_its_frames_alone(v3):
    path = v3 / "videos/observation.images.top/chunk-000/file-000.mp4"
    os.truncate(path, 2000)
    with LeRobotSource(v3) as source:
        assert source.lane("1", "signal/observation.state").shape == (12, 4)
        assert source.lane("1", "signal/observation.images.wrist").shape == (12, 64, 64, 3)
        with pytest.raises(FormatError, match=r"file-000\.mp4"):
            source.lane("1", "signal/observation.images.top")
    path.unlink()
    with LeRobotSource(v3) as source, pytest.raises(MissingFileError, match=r"file-000\.mp4"):
        source.lane("1", "signal/observation.images.top")


@pytest.mark.parametrize("damaged", ["1", "2"])
def test_damage_in_the_first_frame_of_an_episode_is_not_that_of_the_one_before(v3, damaged):
    """The last frame of the one before is decoded when the decoder is given the next one, too."""
    path = v3 / "videos/observation.images.top/chunk-000/file-000.mp4"
    with av.open(str(path)) as video:
        packets = sorted((packet.pts, packet.pos, packet.size) for packet in video.demux(video=0) if packet.size)
    _, place, size = packets[{"1": 7, "2": 19}[damaged]]
    data = bytearray(path.read_bytes())
    data[place + size // 2 : place + size] = b"\xff" * (size - size // 2)
    with LeRobotSource(v3) as source:
        expected = {key: source.lane(key, "signal/observation.images.top") for key in "012"}
        path.write_bytes(data)
    with LeRobotSource(v3) as source:
        for key in "012":
            if key == damaged:
                with pytest.raises(CodecError, match="cannot be decoded"):
                    source.lane(key, "signal/observation.images.top")
            else:
                assert np.array_equal(source.lane(key, "signal/observation.images.top"), expected[key])


def test_wrong_times_of_a_video_are_refused(v3):
    change_table(
        v3 / V3_EPISODES, replaced("videos/observation.images.top/from_timestamp", lambda table: [0.03] * len(table))
    )
    with LeRobotSource(v3) as source, pytest.raises(FormatError, match="expected a frame within"):
        source.lane("0", "signal/observation.images.top")


def test_a_damaged_line_is_that_of_one_episode(v21):
    lines = (v21 / "meta/episodes.jsonl").read_text().splitlines()
    (v21 / "meta/episodes.jsonl").write_text("\n".join([lines[0], lines[1][:20], lines[2]]))
    assert_one_is_refused(v21, "episodes.jsonl: line 2: expected a JSON object")


@pytest.mark.parametrize("workers", [1, 2])
def test_a_damaged_line_stops_no_other_episode_from_being_ingested(v21, tmp_path, workers):
    path = v21 / "meta/episodes.jsonl"
    path.write_text(path.read_text().replace('{"episode_index": 1,', '#"episode_index": 1,'))
    with TrajectoryIngestor(tmp_path / "archive", limits=None) as ingestor:
        report = ingestor.ingest([v21], windows="whole", workers_count=workers)
    assert (report.new, [failure.key for failure in report.failed]) == (2, ["1"])
    assert "episodes.jsonl: line 2: expected a JSON object" in report.failed[0].error


@pytest.mark.parametrize(
    ("old", "new", "damaged"),
    [
        ('"episode_index": 1,', '"episode_index": 2,', {"1": "expected 3 episodes", "2": "found it twice"}),
        ('"episode_index": 1,', '"episode_index": -1,', {"1": "expected 3 episodes"}),
        ('"length": 12', '"length": -12', {"1": "length: expected 0 or more, found -12"}),
        ("}\n", " ", {"0": "expected a JSON object", "1": "expected 3 episodes", "2": "expected 3 episodes"}),
    ],
)
def test_a_wrong_number_in_the_list_of_episodes_is_that_of_one(v21, old, new, damaged):
    path = v21 / "meta/episodes.jsonl"
    path.write_text(path.read_text().replace(old, new))
    found = load_all(v21)
    assert {key for key, value in found.items() if isinstance(value, str)} == set(damaged)
    assert all(text in found[key] for key, text in damaged.items())
    assert len(found) == 3
    with pytest.raises(FormatError):  # which would number on from the damaged ones
        open_sink(v21, "lerobot_v21").write(make_episode())


def test_a_wrong_row_in_the_table_of_episodes_is_that_of_one(v3):
    for column, values, text in (
        ("length", [7, None, 20], "length: expected 0 or more, found -1"),
        ("dataset_from_index", [0, -5, 19], "dataset_from_index: expected 0 or more, found -5"),
    ):
        table = pq.read_table(v3 / V3_EPISODES)
        change_table(v3 / V3_EPISODES, replaced(column, lambda _, values=values: values))
        assert_one_is_refused(v3, text)
        pq.write_table(table, v3 / V3_EPISODES)


def test_a_damaged_row_group_of_the_table_of_episodes_costs_its_own(v3):
    change_table(v3 / V3_EPISODES, lambda table: table, row_group_size=1)
    column = pq.read_metadata(v3 / V3_EPISODES).row_group(1).column(0)
    start = column.dictionary_page_offset or column.data_page_offset
    data = bytearray((v3 / V3_EPISODES).read_bytes())
    data[start : start + 8] = b"\xff" * 8
    (v3 / V3_EPISODES).write_bytes(data)
    assert_one_is_refused(v3, "file-000.parquet: expected a Parquet file")


def test_a_damaged_note_is_that_of_one_episode(tmp_path):
    with open_sink(tmp_path / "set", "lerobot") as sink:
        for number in range(3):
            sink.write(make_episode(number))
    path = tmp_path / "set/meta/wshard.jsonl"
    path.write_text(path.read_text().replace('"reach-0001"', '"reach-0001'))
    found = load_all(tmp_path / "set")
    assert (found["0"], found["2"]) == (20, 20)
    assert "wshard.jsonl: line 2: expected a JSON object" in found["1"]


def test_a_damaged_table_of_episodes_is_that_of_those_in_it(v3):
    table = pq.read_table(v3 / V3_EPISODES)
    for number in range(3):
        pq.write_table(table.slice(number, 1), v3 / f"meta/episodes/chunk-000/file-00{number}.parquet")
    os.truncate(v3 / "meta/episodes/chunk-000/file-001.parquet", 100)
    assert_one_is_refused(v3, "file-001.parquet: expected a Parquet file")


INFO_DAMAGES: dict[str, tuple[Callable[[dict[str, Any]], object], type[Exception], str]] = {
    "an older version": (
        lambda info: info.update(codebase_version="v1.6"),
        UnsupportedFormatError,
        "found 'v1.6'",
    ),
    "no rate": (lambda info: info.update(fps=0), FormatError, "fps: expected a number above 0"),
    "a path upwards": (lambda info: info.update(data_path="../{episode_index}.parquet"), FormatError, "path inside"),
    "an absolute path": (lambda info: info.update(data_path="/etc/{episode_index}"), FormatError, "path inside"),
    "an attribute": (lambda info: info.update(data_path="{episode_index.__class__}"), FormatError, "template"),
    "a wide number": (lambda info: info.update(data_path="{episode_index:0999999999d}"), FormatError, "template"),
    "no features": (lambda info: info.update(features=[]), FormatError, "features: expected"),
    "a vast shape": (
        lambda info: info["features"]["action"].update(shape=[1 << 20, 1 << 20]),
        FormatError,
        "shape: expected",
    ),
    "a flat camera": (
        lambda info: info["features"]["observation.images.top"].update(shape=[64]),
        FormatError,
        "expected the shape of a frame",
    ),
}


@pytest.mark.parametrize("damage", [*INFO_DAMAGES])
def test_a_wrong_info_is_refused(v21, damage):
    change, error, text = INFO_DAMAGES[damage]
    change_info(v21, change)
    with LeRobotSource(v21) as source, pytest.raises(error) as refused:
        source.load(source.keys()[0])
    assert text in str(refused.value)


@pytest.mark.parametrize("name", ["v21", "v3"])
def test_a_data_set_with_a_damaged_info_is_reported(request, name):
    folder = request.getfixturevalue(name)
    os.truncate(folder / "meta/info.json", 1000)
    with TrajectoryIngestor(folder.parent / "archive", limits=None) as ingestor:
        (failure,) = ingestor.ingest([folder.parent]).failed
    assert "meta/info.json: expected JSON" in failure.error


def test_keys_are_numbers_as_they_are_printed(v21):
    with LeRobotSource(v21) as source:
        for key in ("01", "+1", "1.0", "-1", "", "٣", "9" * 5000):
            with pytest.raises(EntryNotFoundError):
                source.load(key)


def test_a_pickled_source_of_a_damaged_folder_fails_when_it_is_used(v21):
    source = pickle.loads(pickle.dumps(LeRobotSource(v21)))  # noqa: S301  (our own)
    (v21 / "meta/info.json").write_text("[" * 100_000)
    with pytest.raises(FormatError, match="expected JSON"):
        source.keys()


def test_a_total_of_millions_lists_no_episodes_that_there_never_were(v21):
    change_info(v21, lambda info: info.update(total_episodes=10_000_000))
    assert [address.key for address, _ in list_episodes(v21)] == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"task_index": 1, "ta', "expected a JSON object"),
        ('{"task": "x"}', "with task_index and"),
    ],
)
def test_a_damaged_line_of_tasks_is_refused(v21, line, message):
    with (v21 / "meta/tasks.jsonl").open("a") as file:
        file.write(f"{line}\n")
    path = v21 / "meta/episodes.jsonl"
    rows = [json.loads(row) | {"tasks": []} for row in path.read_text().splitlines()]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert all(message in text for text in load_all(v21).values())


def test_an_added_episode_changes_no_other(v21):
    before = [*list_episodes(v21)]
    shutil.copy2(v21 / V21_DATA, v21 / "data/chunk-000/episode_000003.parquet")
    with (v21 / "meta/episodes.jsonl").open("a") as file:
        file.write('{"episode_index": 3, "tasks": ["push the T"], "length": 12}\n')
    change_info(v21, lambda info: info.update(total_episodes=4))
    assert list_episodes(v21)[:3] == before
    (v21 / "meta/episodes.jsonl").write_text(
        (v21 / "meta/episodes.jsonl").read_text().replace("push the T", "pull the T", 1)
    )
    changed = [one != other for one, other in zip(list_episodes(v21), before, strict=False)]
    assert changed == [False, True, False]


@pytest.mark.parametrize("name", [V3_DATA, V3_EPISODES, "meta/info.json", "video"])
def test_a_pipe_or_a_pointer_in_place_of_a_file_is_refused_at_once(v3, name):
    path = next(v3.rglob("*.mp4")) if name == "video" else v3 / name
    for put, message in (
        (lambda: os.mkfifo(path), "a named pipe"),
        (lambda: path.write_text(LFS_POINTER), "git lfs pull"),
    ):
        path.unlink()
        put()
        with pytest.raises((FormatError, CodecError), match=message), LeRobotSource(v3) as source:
            assert [lane.data for lane in source.load("0").lanes().values()]


def test_whole_floats_are_numbers_and_others_refuse_their_episode_only(v3):
    expected = [LeRobotSource(v3).load(key) for key in ("0", "1")]
    names = pq.read_table(v3 / V3_EPISODES).column_names
    for column in ("length", *(name for name in names if name.endswith("/file_index"))):
        if column.startswith("meta/"):
            continue

        def as_floats(table: pa.Table, values: Any, column: str = column) -> pa.Table:
            return table.set_column(table.column_names.index(column), column, pa.array(values, pa.float64()))

        whole = pq.read_table(v3 / V3_EPISODES)
        values = [float(value) for value in whole[column].to_pylist()]
        pq.write_table(as_floats(whole, values), v3 / V3_EPISODES)
        for key, episode in enumerate(expected):
            assert_same_episode(LeRobotSource(v3).load(str(key)), episode)
        for wrong in (float("nan"), 0.5, 1e300):
            pq.write_table(as_floats(whole, [values[0], wrong, *values[2:]]), v3 / V3_EPISODES)
            source = LeRobotSource(v3)
            assert_same_episode(source.load("0"), expected[0])
            with pytest.raises(FormatError, match="episode 1: "):
                source.load("1")
        pq.write_table(whole, v3 / V3_EPISODES)


def test_more_episodes_than_any_data_set_has_are_refused(v3):
    numbers = pa.array(np.zeros(MAX_ROWS + 1, np.int64))
    pq.write_table(pa.table({"episode_index": numbers, "length": numbers}), v3 / V3_EPISODES)
    with pytest.raises(LimitError, match=f"expected at most {MAX_ROWS}"):
        LeRobotSource(v3).keys()
