"""Mode "overwrite" of conversions, for every format: the old set goes only when a complete new one replaces it."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from sink_places import COLLECTIONS, make_episode

from wshard import FormatError, save_wshard
from wshard.training.conversion.jobs import list_jobs
from wshard.training.conversion.run import Conversion
from wshard.training.conversion.target import ConversionTarget

PLACES = COLLECTIONS | {"wshard": "set", "dreamerv3": "set"}


def convert(source, place, name, mode):
    target = ConversionTarget(str(place), name, mode=mode)
    jobs = list_jobs([source])
    target.prepare(len(jobs))
    with Conversion(target, jobs) as conversion:
        return [outcome for _, outcome in conversion.run()]


def read_files(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def write_episodes(folder, numbers, damaged=()):
    folder.mkdir()
    for number in numbers:
        save_wshard(make_episode(number), folder / f"{number}.wshard")
        if number in damaged:
            data = (folder / f"{number}.wshard").read_bytes()
            (folder / f"{number}.wshard").write_bytes(data[:-200] + bytes(200))
    return folder


@pytest.mark.parametrize("name", PLACES)
def test_one_episode_that_fails_keeps_the_old_set(tmp_path, name):
    (tmp_path / "out").mkdir()
    place = tmp_path / "out" / PLACES[name]
    assert convert(write_episodes(tmp_path / "old", [0, 1]), place, name, "error") == [4, 5]
    before = read_files(tmp_path / "out")
    new = write_episodes(tmp_path / "new", [2, 3, 4], damaged=[3])
    with pytest.raises(FormatError, match=r"1 in 3 episodes, and kept what was there.*3\.wshard"):
        convert(new, place, name, "overwrite")
    assert read_files(tmp_path / "out") == before
    assert [path.name for path in (tmp_path / "out").iterdir()] == [PLACES[name]]
    (new / "3.wshard").unlink()
    assert convert(new, place, name, "overwrite") == [6, 8]


def test_one_episode_that_fails_keeps_the_source_that_is_converted_onto_itself(tmp_path):
    folder = write_episodes(tmp_path / "set", [0, 1, 2], damaged=[1])
    before = read_files(folder)
    with pytest.raises(FormatError, match="kept what was there"):
        convert(folder, folder, "wshard", "overwrite")
    assert read_files(folder) == before
    shutil.rmtree(folder)
    write_episodes(folder, [0, 1])
    assert convert(folder, folder, "wshard", "overwrite") == [4, 5]


@pytest.mark.parametrize("name", ["wshard", "dreamerv3"])
def test_files_of_others_beside_episodes_stay(tmp_path, name):
    folder = tmp_path / "set"
    folder.mkdir()
    others = [folder / one for one in ("my.wshard", "0000.npz", "a.rrd", "notes.txt", "deep/0.wshard", "deep/0.npz")]
    (folder / "deep").mkdir()
    for path in others:
        path.write_text("own")
    source = write_episodes(tmp_path / "new", [0, 1])
    with pytest.raises(FormatError, match="expected an empty or new folder"):
        convert(source, folder, name, "overwrite")
    assert convert(source, folder, name, "append") == [4, 5]
    (source / "0.wshard").unlink()
    assert convert(source, folder, name, "overwrite") == [5]
    assert {path.read_text() for path in others} == {"own"}
    assert len(read_files(folder)) == len(others) + 1


@pytest.mark.parametrize("mode", ["append", "overwrite"])
@pytest.mark.parametrize("name", ["wshard", "dreamerv3"])
def test_a_file_of_others_is_not_replaced_by_an_episode(tmp_path, name, mode):
    source, place = write_episodes(tmp_path / "new", [0]) / "0.wshard", tmp_path / "thesis.npz"
    np.savez(place, weights=np.arange(9))
    before = place.read_bytes()
    with pytest.raises(FormatError, match="found another file: choose another path"):
        convert(source, place, name, mode)
    assert place.read_bytes() == before
    place.unlink()
    for _ in range(2):
        assert convert(source, place, name, mode) == [4]
