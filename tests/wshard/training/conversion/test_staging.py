"""Interrupted conversions to a location of many episodes continue, and write what they would have written at once."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from itertools import islice

import pytest
from paths import ROOT
from sink_places import COLLECTIONS, make_episode

import wshard.training.conversion.staging
from wshard import WShardError, detect_format, open_source, save_wshard
from wshard.testing import assert_same_episode
from wshard.training.conversion.jobs import list_jobs
from wshard.training.conversion.run import Conversion
from wshard.training.conversion.target import ConversionTarget

COUNT = 5


@pytest.fixture
def episodes(tmp_path, monkeypatch):
    """Write episodes to convert; return their folder. Parts are of one episode."""
    monkeypatch.setattr(wshard.training.conversion.staging, "PART_SIZE", 1)
    (tmp_path / "episodes").mkdir()
    for number in range(COUNT):
        save_wshard(make_episode(number), tmp_path / "episodes" / f"{number}.wshard")
    return tmp_path / "episodes"


def begin(episodes, place, name, mode="append", encode=None):
    return Conversion(ConversionTarget(str(place), name, mode=mode, encode=encode), list_jobs([episodes]))


def finish(episodes, place, name, mode="append", encode=None):
    """Convert all; return the outcome of each episode."""
    with begin(episodes, place, name, mode, encode) as conversion:
        return [outcome for _, outcome in conversion.run()]


def stop(episodes, place, name="robomimic", mode="append", after=4, copy=None):
    """Convert some, then end by an interrupt; copy: takes the folder as a process that is killed would leave it."""

    def convert():
        with begin(episodes, place, name, mode) as conversion:
            assert len([*islice(conversion.run(), after)]) == after
            if copy is not None:
                shutil.copytree(place.parent, copy, dirs_exist_ok=True)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert()


def read_files(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def read_episodes(place):
    with open_source(place, detect_format(place)) as source:
        return [source.load(key) for key in source.keys()]  # noqa: SIM118  (a Source is no mapping)


SLOW = ("zarr", "lerobot", "lerobot_v21", "video", "lance_video")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] if name in SLOW else []) for name in COLLECTIONS]
)
def test_an_interrupted_conversion_continues_after_its_last_part(tmp_path, episodes, name):
    folders = {one: tmp_path / one / "same" for one in ("whole", "stopped", "killed")}
    for folder in folders.values():
        folder.mkdir(parents=True)
        (folder / "notes.txt").write_text("own")
    lengths = finish(episodes, folders["whole"] / COLLECTIONS[name], name)
    assert lengths == [4 + number for number in range(COUNT)]
    stop(episodes, folders["stopped"] / COLLECTIONS[name], name, copy=folders["killed"])
    for one in ("stopped", "killed"):
        place = folders[one] / COLLECTIONS[name]
        assert not place.exists()
        outcomes = finish(episodes, place, name)
        assert outcomes[:2] == [None] * 2
        assert outcomes[-1:] == lengths[-1:]
        for found, wanted in zip(
            read_episodes(place), read_episodes(folders["whole"] / COLLECTIONS[name]), strict=True
        ):
            assert_same_episode(found, wanted)
        assert sorted(path.name for path in folders[one].iterdir()) == sorted([COLLECTIONS[name], "notes.txt"])
        if name not in ("lance", "lance_video"):  # whose files have random names
            assert read_files(folders[one]) == read_files(folders["whole"])


STOPPED = """
import os, sys
import wshard.training.conversion.staging
from wshard.formats.hdf5.robomimic_sink import RobomimicSink
from bridge.cli.entry import main
wshard.training.conversion.staging.PART_SIZE = 1
write, count, number = RobomimicSink.write, 0, int(sys.argv.pop())
def stop(sink, ep):
    global count
    count += 1
    if count == 4:
        os.kill(os.getpid(), number)
    return write(sink, ep)
RobomimicSink.write = stop
main()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="files are not locked there")
@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.long)])
def test_the_same_command_continues_after_a_signal(tmp_path, episodes, number):
    (tmp_path / "out").mkdir()
    place = tmp_path / "out" / "a.hdf5"
    command = [
        sys.executable,
        "-c",
        STOPPED,
        "convert",
        str(episodes),
        str(place),
        "--to",
        "robomimic",
        str(number.value),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == (-9 if number == signal.SIGKILL else 130), done.stderr
    assert ("run the same command again to continue" in done.stderr) == (number == signal.SIGINT)
    assert not place.exists()
    assert finish(episodes, place, "robomimic") == [None, None, 6, 7, 8]
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["a.hdf5"]
    assert [ep.id for ep in read_episodes(place)] == [f"episode-{one}" for one in range(COUNT)]


def test_another_conversion_or_other_data_begin_anew(tmp_path, episodes):
    place = tmp_path / "a.hdf5"
    stop(episodes, place)
    assert len([*tmp_path.glob(".a.hdf5.*.draft")]) == 1
    save_wshard(make_episode(9), episodes / "0.wshard")
    assert finish(episodes, place, "robomimic") == [13, 5, 6, 7, 8]
    stop(episodes, place, mode="overwrite")
    assert finish(episodes, place, "robomimic") == [None] * 5  # to append is another conversion: all are there
    stop(episodes, place, mode="overwrite")
    assert finish(episodes, place, "robomimic", mode="overwrite", encode="png") == [13, 5, 6, 7, 8]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.hdf5", "episodes"]


def test_overwriting_keeps_the_old_until_the_end_and_what_others_add(tmp_path, episodes):
    place = tmp_path / "a"
    assert finish(episodes, place, "folder") == [4, 5, 6, 7, 8]
    (place / "notes.txt").write_text("before")
    before = read_files(place)
    stop(episodes, place, "folder", mode="overwrite")
    assert read_files(place) == before
    (episodes / "4.wshard").unlink()
    stop(episodes, place, "folder", mode="overwrite", after=3)
    with begin(episodes, place, "folder", mode="overwrite") as conversion:
        assert [outcome for _, outcome in conversion.run()] == [None, None, 6, 7]
        (place / "cam" / "other.txt").write_text("meanwhile")
    assert len(read_episodes(place)) == 4
    assert ((place / "notes.txt").read_text(), (place / "cam" / "other.txt").read_text()) == ("before", "meanwhile")


def test_what_appears_meanwhile_stays_in_mode_error(tmp_path, episodes):
    place = tmp_path / "a.hdf5"
    with pytest.raises(FileExistsError, match=r"mode 'error'.*/a\.hdf5"):  # noqa: PT012, SIM117  (raised at the end)
        with begin(episodes, place, "robomimic", mode="error") as conversion:
            assert [outcome for _, outcome in conversion.run()] == [4, 5, 6, 7, 8]
            place.write_text("theirs")
    assert place.read_text() == "theirs"


def test_errors_name_the_target_and_are_remembered(tmp_path, episodes):
    place = tmp_path / "out.hdf5"
    save_wshard(replace(make_episode(1), env_id="other"), episodes / "1.wshard")
    stop(episodes, place)
    outcomes = finish(episodes, place, "robomimic")
    assert (outcomes[0], outcomes[2]) == (None, None)
    assert isinstance(outcomes[1], WShardError)
    assert str(outcomes[1]).startswith(
        f"{place}: episode 'episode-1': expected the env_args of the file, env_name = 'arm'"
    )
    (tmp_path / "none.hdf5").mkdir()
    with pytest.raises(WShardError, match=r"/none\.hdf5: expected a file"):
        begin(episodes, tmp_path / "none.hdf5", "robomimic")
    assert not [*tmp_path.glob(".*")]


def test_a_target_that_is_refused_leaves_nothing(tmp_path, episodes):
    for place, name in (("x.lance", "lance_video"), ("x", "lance")):
        with pytest.raises(WShardError, match=rf"^{tmp_path / place}: expected a"):
            finish(episodes, tmp_path / place, name)
        assert [*tmp_path.iterdir()] == [episodes]


@pytest.mark.long
@pytest.mark.parametrize("name", ["robomimic", "minari", "zarr"])
def test_a_disk_that_is_full_ends_a_conversion_and_names_the_target(tmp_path, episodes, name):
    program = (
        "import resource, signal, sys; from wshard.cli.common import reported\n"
        "from wshard.training.conversion.jobs import list_jobs; from wshard.training.conversion.run import Conversion\n"
        "from wshard.training.conversion.target import ConversionTarget\n"
        "from wshard.formats.base import sink_class\n"
        "target = ConversionTarget(sys.argv[2], sys.argv[3]); sink_class(sys.argv[3])\n"
        "jobs = list_jobs([sys.argv[1]])\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "with reported(), Conversion(target, jobs) as conversion: list(conversion.run())\n"
    )
    save_wshard(make_episode(2000), episodes / "large.wshard")
    place = tmp_path / "out"
    command = [sys.executable, "-B", "-c", program, str(episodes), str(place), name]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stderr.startswith(f"error: {place}: File too large\n")
    assert done.returncode == 1
    assert not place.exists()


def test_episodes_that_are_read_ahead_give_the_same(tmp_path, episodes):
    (tmp_path / "out").mkdir()
    jobs = list_jobs([episodes])
    for count in (1, 3):
        target = ConversionTarget(str(tmp_path / "out" / f"{count}.shardpack"), "shardpack", encode="png")
        with Conversion(target, jobs, readers=count) as conversion:
            assert [outcome for _, outcome in conversion.run()] == [4, 5, 6, 7, 8]
    first, second = read_files(tmp_path / "out").values()
    assert first == second
