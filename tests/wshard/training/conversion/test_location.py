"""`wshard.convert_location` does in Python what `wshard convert` does, and says what became of each episode."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sink_places import make_episode

import wshard
from wshard import EpisodeAddress, FormatError, convert_location, load_wshard, open_source, save_wshard


@pytest.fixture
def episodes(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(3):
        save_wshard(make_episode(number), folder / f"{number}.wshard")
    return folder


def test_places_are_converted_once_and_what_failed_is_reported(episodes, tmp_path):
    (episodes / "3.wshard").write_bytes((episodes / "2.wshard").read_bytes()[:-500] + bytes(500))
    report = convert_location(episodes, tmp_path / "out.hdf5", lane_map={"state": "joints"})
    assert (report.target.format, report.converted, report.skipped, report.timesteps) == ("robomimic", 3, 0, 4 + 5 + 6)
    ((job, error),) = report.failed
    assert (job.span.address.key, isinstance(error, FormatError)) == ("3.wshard", True)
    assert report.losses["aux/truncations: no dataset for it"] == 3  # not of the one that failed
    (episodes / "3.wshard").unlink()
    again = convert_location(episodes, tmp_path / "out.hdf5", lane_map={"state": "joints"})
    assert (again.converted, again.skipped, again.failed, again.renamed) == (0, 3, [], [])
    with open_source(tmp_path / "out.hdf5", "robomimic") as source:
        assert len(source.keys()) == 3
        found = source.load(source.keys()[1])
    assert np.array_equal(found["joints"], make_episode(1)["state"])


def test_several_places_spans_and_files_are_taken_and_lossy_formats_refused(episodes, tmp_path):
    other = replace(make_episode(7), id="episode-0")
    save_wshard(other, tmp_path / "other.wshard")
    places = [f"{episodes}#1.wshard@1:3", EpisodeAddress(str(tmp_path / "other.wshard")), episodes / "0.wshard"]
    report = convert_location(places, tmp_path / "out", workers=2)
    assert report.failed == []
    assert (report.target.format, report.converted, report.losses) == ("wshard", 3, {})
    assert len(report.renamed) == 1
    names = {path.stem: load_wshard(path).length for path in (tmp_path / "out").iterdir()}
    assert sorted(names.values()) == [2, 4, 11]
    with pytest.raises(FormatError, match=r"strict: rlds loses data, nothing was written: aux/truncations"):
        convert_location(episodes, tmp_path / "set", target_format="rlds", strict=True)
    assert not (tmp_path / "set").exists()


def test_the_function_of_the_reference_package_converts_one_episode(episodes, tmp_path):
    assert wshard.convert(episodes / "0.wshard", tmp_path / "a.npz").id == "episode-0"
