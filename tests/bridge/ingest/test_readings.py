"""A corrected reading of a location replaces the episodes of the earlier one."""

from __future__ import annotations

import h5py
import numpy as np
import pytest

from bridge.episodes.chosen_spans import find_spans
from wshard import TrajectoryIngestor, open_archive, save_wshard
from wshard.errors import CollectionError
from wshard.formats.base import open_sink
from wshard.formats.layouts.source import LayoutSource
from wshard.formats.open import open_location
from wshard.testing import make_episode

_BY_GROUP = """layout = 1
name = "{name}"
container = "hdf5"
[episodes]
by = "group"
group = "{group}"
[arrays]
"q" = "observation"
"""
_BY_FILE = """layout = 1
name = "whole"
container = "hdf5"
[episodes]
by = "file"
[arrays]
"runs/a/q" = "observation"
"""


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(3)
    (tmp_path / "logs").mkdir()
    for number in range(2):
        with h5py.File(tmp_path / "logs" / f"log{number}.h5", "w") as file:
            for name in "abc":
                file[f"runs/{name}/q"] = rng.normal(size=(40, 3))
            file["tests/z/q"] = rng.normal(size=(40, 3))
    for name, group in {"runs": "runs/*", "one": "runs/b", "tests": "tests/*"}.items():
        (tmp_path / f"{name}.toml").write_text(_BY_GROUP.format(name=name, group=group))
    (tmp_path / "whole.toml").write_text(_BY_FILE)
    return tmp_path


def ingest(folder, layout):
    with TrajectoryIngestor(folder / "archive") as ingestor:
        return ingestor.ingest(folder / "logs", layout=folder / f"{layout}.toml")


def keys(archive):
    return sorted((row.path.rpartition("/")[2], row.key) for row in archive.catalog.query.select("").rows)


def test_only_episodes_of_the_last_reading_stay(folder):
    ingest(folder, "whole")
    report = ingest(folder, "runs")
    assert (report.new, report.missing, report.earlier.episodes, report.earlier.locations) == (6, 0, 2, 2)
    with open_archive(folder / "archive") as archive:
        assert keys(archive) == [(f"log{number}.h5", key) for number in range(2) for key in "abc"]
    assert ingest(folder, "runs").earlier is None


def test_snapshots_of_the_earlier_reading_are_reported_with_the_command_that_saves_them_anew(folder):
    ingest(folder, "whole")
    with open_archive(folder / "archive") as archive:
        archive.catalog.collections.save_snapshot("long", "length:>=40")
    text = (folder / "whole.toml").read_text().replace('= "observation"', '= "observation/joints"')
    (folder / "whole.toml").write_text(text)
    report = ingest(folder, "whole")
    assert report.changed == 2
    (line,) = report.stale
    assert (
        "'long': 2 of its 2 picks are of episodes that are not as they were: 2 changed, by their files or layout ("
        in line
    )
    assert "`wshard collection save long --where length:40..` saves it anew" in line
    with open_archive(folder / "archive") as archive:
        with pytest.raises(CollectionError, match="saves it anew"):
            find_spans(archive.catalog, collection="long", where=None)
        archive.catalog.collections.save_snapshot("long", "length:>=40")
        assert archive.catalog.collections.gone() == {}
    assert ingest(folder, "whole").stale == []


def test_the_only_episode_of_a_file_passes_its_tags_on_and_others_stay_with_theirs(folder):
    ingest(folder, "whole")
    with open_archive(folder / "archive") as archive:
        archive.catalog.annotations.tag([archive.catalog.episodes.named("log0").id], "good")
    assert ingest(folder, "one").earlier.transferred == 1
    with open_archive(folder / "archive") as archive:
        assert [row.key for row in archive.catalog.query.select("tag:good").rows] == ["b"]
    report = ingest(folder, "runs")  # b is in both: the same episode
    assert (report.new, report.unchanged + report.changed, report.earlier) == (4, 2, None)
    report = ingest(folder, "whole")  # one of three: which of them was tagged is not the whole file
    assert (report.earlier.apart, report.missing) == (1, 1)
    with open_archive(folder / "archive") as archive:
        assert [row.key for row in archive.catalog.query.select("tag:good").rows] == ["b"]
        assert keys(archive) == [("log0.h5", ""), ("log0.h5", "b"), ("log1.h5", "")]


def test_a_reading_that_fails_replaces_nothing(folder):
    ingest(folder, "runs")
    (folder / "tests.toml").write_text(_BY_GROUP.format(name="tests", group="nothing/*"))
    assert ingest(folder, "tests").earlier is None
    with open_archive(folder / "archive") as archive:
        assert len(keys(archive)) == 6


def test_files_of_a_layout_whose_folder_is_renamed_keep_what_people_wrote(folder):
    ingest(folder, "runs")
    with open_archive(folder / "archive") as archive:
        ids = archive.catalog.query.ids("")
        archive.catalog.annotations.tag(ids, "good")
    (folder / "logs").rename(folder / "older")
    np.savez(folder / "older" / "other.npz", q=np.arange(3))
    with TrajectoryIngestor(folder / "archive") as ingestor:
        report = ingestor.ingest(folder / "older", prune=True)
    assert (report.moved, report.new, [*report.unread]) == (6, 0, [str(folder / "older" / "other.npz")])
    with open_archive(folder / "archive") as archive:
        assert archive.catalog.query.count("tag:good") == archive.catalog.query.count() == 6


def test_files_that_nothing_reads_are_not_tried_by_the_layouts_of_the_archive(folder, monkeypatch):
    ingest(folder, "runs")
    for number in range(3):
        np.savez(folder / "logs" / f"other{number}.npz", q=np.arange(3 + number))
    opened = []
    monkeypatch.setattr(LayoutSource, "keys", _recording(opened, LayoutSource.keys))
    with TrajectoryIngestor(folder / "archive") as ingestor:
        report = ingestor.ingest(folder / "logs")
    assert (report.unchanged, len(report.unread)) == (6, 3)
    assert {*opened} == {str(folder / "logs" / f"log{number}.h5") for number in range(2)}


def _recording(opened, keys):
    def list_keys(source):
        opened.append(str(source._place))
        return keys(source)

    return list_keys


def _write(path, kind):
    path.parent.mkdir()
    if kind == "wshard":
        save_wshard(make_episode(0), path)
        return
    with open_sink(path, kind) as sink:
        sink.write(make_episode(0))


@pytest.mark.parametrize(
    ("kind", "name"), [("wshard", "a.wshard"), ("robomimic", "a.hdf5"), ("lerobot", "a"), ("zarr", "a.zarr")]
)
def test_a_moved_location_keeps_the_names_that_a_map_gave_its_lanes(tmp_path, kind, name):
    _write(tmp_path / "in" / name, kind)
    with open_location(tmp_path / "in" / name) as source:
        lane = next(lane for lane in source.info(source.keys()[0]).lanes if lane.endswith("joint_pos"))
    with TrajectoryIngestor(tmp_path / "archive") as ingestor:
        first = ingestor.ingest(tmp_path / "in" / name, lane_map={lane.partition("/")[2]: "arm"})
        assert (first.new, first.failed) == (1, [])
        (tmp_path / "in").rename(tmp_path / "moved")
        report = ingestor.ingest(tmp_path / "moved", prune=True)
        assert (report.moved, report.new, report.failed) == (1, 0, [])
        (row,) = ingestor._archive.catalog.query.select("").rows
        assert "arm" in row.lane_map
        ingestor.ingest(tmp_path / "moved", lane_map={})
        (row,) = ingestor._archive.catalog.query.select("").rows
        assert row.lane_map == ""
