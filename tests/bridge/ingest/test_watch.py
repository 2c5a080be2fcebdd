"""Watching folders: what comes is taken in once it is finished, by a real process in real folders."""

# ruff: noqa: ANN002, ANN003 -- as in tests, whose helpers these are
from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from itertools import islice

import numpy as np
import pytest
from bridge_episodes import assert_complete, command, episode, files, ingest, save
from databases import SQLITE_FIRST

from bridge.ingest import watch as watching
from catalog.location import place_of
from wshard import Catalog, TrajectoryIngestor, open_archive
from wshard.errors import CatalogNotFoundError, MissingExtraError, SourceNotFoundError

PATIENCE = 30.0
# A shell starts what runs in the background with Ctrl-C switched off.
WATCH = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from bridge.cli.main import main; main()"
)


@contextmanager
def watched(archive, *folders, **changes):
    """Run `wshard watch` until the end of the block, which is Ctrl-C; yield what it has said by then, line by line."""
    said = {"out": [], "code": None}
    command = [sys.executable, "-W", "error", "-c", WATCH, "watch", *map(str, folders), "-a", str(archive)]
    command += ["--windows", "whole"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **changes)
    listener = threading.Thread(target=lambda: said["out"].extend(iter(process.stdout.readline, "")))
    try:
        assert process.stderr.readline().startswith("watching")
        listener.start()
        yield said
    finally:
        process.send_signal(said.get("signal", signal.SIGINT))
        if listener.ident is not None:
            listener.join(PATIENCE)
        _, err = process.communicate(timeout=PATIENCE)
        said.update(err=err, code=process.returncode)


def until_stopped(said, pattern=r"(\d+) {}", **counts):
    """Wait until so many were reported, in all batches: what is interrupted before that is in no summary."""
    deadline = time.monotonic() + PATIENCE
    for name, wanted in counts.items():
        while sum(map(int, re.findall(pattern.format(name), "".join(said["out"])))) < wanted:
            assert time.monotonic() < deadline, f"expected {wanted} {name} within {PATIENCE} s, found {said['out']}"
            time.sleep(0.05)


def until(archive, count, where=""):
    """Wait until the archive has so many episodes with vectors."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        with contextlib.suppress(CatalogNotFoundError), open_archive(archive) as opened:
            catalog = opened.catalog
            if (
                catalog.query.count(where)
                == count
                == sum(catalog.vectors.state(row.id)[0] for row in catalog.vectors.spaces())
            ):
                return
        time.sleep(0.1)
    raise AssertionError(f"expected {count} episodes within {PATIENCE} s")


@SQLITE_FIRST
def test_what_is_there_and_what_comes_is_taken_in(place, tmp_path):
    folder, archive, made = tmp_path / "data", place, tmp_path / "made"
    save(folder, *(episode(0, number, 8) for number in range(3)))
    first, *rest = save(made, *(episode(1, number, 8) for number in range(6)))
    with watched(archive, folder) as said:
        until(archive, 3)
        (folder / "first.wshard").write_bytes(b"")
        first.rename(folder / "first.wshard")  # replaces it, as an atomic save does
        until(archive, 4)
        shutil.copytree(made / "task-1", folder / "new" / "deeper")  # folders come with what is in them
        until(archive, 4 + len(rest))
        files(folder / "new")[0].rename(folder / "moved.wshard")
        shutil.copy(rest[0], folder / "copy.wshard.partial")  # what is not finished by its name
        (folder / ".hidden").mkdir()
        shutil.copy(rest[0], folder / ".hidden" / "x.wshard")
        save(folder / "last", episode(2, 0, 8))
        until_stopped(said, new=10, moved=1)
    assert said["code"] == 0
    assert said["err"] == ""
    assert "10 new" in said["out"][-1]
    assert "1 moved" in said["out"][-1]
    assert_complete(archive, [path for path in files(folder) if ".hidden" not in path.parts])


@pytest.mark.long
def test_whose_file_another_episode_took_is_reported(tmp_path):
    folder, archive = tmp_path / "data", tmp_path / "archive"
    first, second = save(folder, episode(0, 0, 8), episode(0, 1, 9))
    ingest(archive, folder)
    with watched(archive, folder, "--json") as said:
        first.rename(second)
        until_stopped(said, moved=1, pattern=r'"{}": (\d+)')
    message = [one for line in said["out"] for one in json.loads(line)["replaced"]]
    assert [one.pop("id") for one in message] == [2]
    assert message == [{"file_path": str(second), "before": episode(0, 1).id, "now": episode(0, 0).id}]


@pytest.mark.parametrize(
    ("how", "scored", "flagged"), [(["--check"], 1, 1), (["--no-check"], 0, 0), (["--limits", "{}/lenient.toml"], 1, 0)]
)
def test_what_comes_is_checked_as_it_was_wished(tmp_path, monkeypatch, how, scored, flagged):
    folder, archive, broken = tmp_path / "data", tmp_path / "archive", episode(0, 0, 8)
    broken.observations["state"].data[3, 0] = np.nan
    save(folder, broken)
    (tmp_path / "lenient.toml").write_text("nan = 1e9")
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # the command would change what SIGTERM does to the tests
    watch = TrajectoryIngestor.watch
    monkeypatch.setattr(TrajectoryIngestor, "watch", lambda *args, **options: islice(watch(*args, **options), 1))
    arguments = [word.format(tmp_path) for word in how]
    done = command("watch", folder, "-a", archive, "--windows", "whole", *arguments, folder=tmp_path)
    assert "1 new" in done.output
    with open_archive(archive) as opened:
        assert opened.catalog.query.count("score.quality.nan:0..") == scored
        assert opened.catalog.query.count("flag:nan") == flagged


@pytest.mark.long
def test_a_file_that_grows_slowly_waits_and_a_damaged_one_is_reported_once(tmp_path):
    folder, archive = tmp_path / "data", tmp_path / "archive"
    folder.mkdir()
    good, bad, nan = save(tmp_path / "made", *(episode(0, number, 400) for number in range(3)))
    data = good.read_bytes()
    with watched(archive, folder) as said:
        damaged = bytearray(bad.read_bytes())
        damaged[len(damaged) // 2] ^= 1
        (folder / "bad.wshard").write_bytes(damaged)
        with (folder / "slow.wshard").open("wb") as file:
            for start in range(0, len(data), len(data) // 5):
                file.write(data[start : start + len(data) // 5])
                file.flush()
                time.sleep(0.3)
        until(archive, 1)
        os.utime(nan)
        shutil.copy(nan, folder / "more.wshard")
        until(archive, 2)
        shutil.copy(bad, folder / "bad.wshard")  # mended
        until(archive, 3)
        said["signal"] = signal.SIGTERM
    assert said["code"] == 0
    message = said["err"].splitlines()
    assert len(message) == 1
    assert "bad.wshard" in message[0]
    assert "Checksum mismatch" in message[0]


def collect(ingestor, folder, enough, **changes):
    """Watch in this process until `enough` says so of the reports."""
    reports, stop = [], threading.Event()
    for report in ingestor.watch(folder, stop=stop, windows="whole", **changes):
        reports.append(report)
        if enough(reports):
            stop.set()
    return reports


def test_errors_are_reported_and_what_came_is_tried_again(place, tmp_path, monkeypatch):
    monkeypatch.setattr(watching, "_WAIT_S", 0.1)
    paths = save(tmp_path / "data", *(episode(0, number, 8) for number in range(4)))
    calls = []
    with TrajectoryIngestor(place) as ingestor:
        real = ingestor.ingest

        def refuse(listed, **options):
            calls.append(len(listed))
            if 2 <= len(calls) <= 3:
                raise OSError(28, "No space left on device")
            return real(listed, **options)

        monkeypatch.setattr(ingestor, "ingest", refuse)
        reports = collect(ingestor, tmp_path / "data", lambda seen: any(report.new for report in seen))
    assert [len(report.failed) for report in reports] == [1, 1, 0]
    assert "No space left" in reports[0].failed[0].error
    assert reports[0].failed[0].path == place_of(place).name
    assert reports[-1].new == len(paths)


def test_a_file_that_goes_as_it_is_taken_does_not_block_others(tmp_path, monkeypatch):
    monkeypatch.setattr(watching, "_STILL_S", 0.0)
    first, second = save(tmp_path / "data", episode(0, 0, 8), episode(0, 1, 8))
    with TrajectoryIngestor(tmp_path / "archive") as ingestor:

        def take(paths):
            first.unlink(missing_ok=True)
            return ingestor.ingest(paths)

        ticks = iter([[str(first), str(second)], [], []])
        (report,) = watching._batches(ingestor._archive, take, ticks)
    assert (report.new, report.failed) == (1, [])


def test_ctrl_c_that_a_library_turns_into_an_error_of_its_own_ends_the_watch(tmp_path):
    def take(_paths):
        try:
            raise KeyboardInterrupt
        finally:
            raise AssertionError  # as SQLAlchemy does where a commit is interrupted

    with TrajectoryIngestor(tmp_path / "archive") as ingestor, pytest.raises(KeyboardInterrupt):
        list(watching._batches(ingestor._archive, take, iter([[], []])))


def test_work_that_an_earlier_run_left_is_finished_first(tmp_path):
    folder, archive = tmp_path / "data", tmp_path / "archive"
    save(folder, *(episode(0, number, 8) for number in range(4)))
    ingest(archive, folder)
    with Catalog.open(archive / "catalog.db") as catalog:
        catalog.episodes.withdraw(catalog.query.ids()[:2])
    with TrajectoryIngestor(archive) as ingestor:
        reports = collect(ingestor, folder, len)
    assert [report.embedded for report in reports] == [2]


def test_lost_events_are_made_up_for(tmp_path, monkeypatch):
    """A folder that is removed and made again is no longer listened to; looking through it finds what came."""
    monkeypatch.setattr(watching, "_LOOK_AGAIN_S", 0.5)
    monkeypatch.setattr(watching, "_files", lambda *_: iter(()))
    folder = tmp_path / "data"
    save(folder, episode(0, 0, 8))

    def act(seen):
        if len(seen) == 1:
            shutil.rmtree(folder)
            save(folder, episode(0, 1, 8), episode(0, 2, 8))
        return sum(report.new for report in seen) == 3

    with TrajectoryIngestor(tmp_path / "archive") as ingestor:
        assert sum(report.new for report in collect(ingestor, folder, act)) == 3


def test_a_linked_folder_is_watched_and_a_circle_of_links_does_no_harm(tmp_path):
    folder, archive, elsewhere = tmp_path / "data", tmp_path / "archive", tmp_path / "elsewhere"
    save(elsewhere, episode(0, 0, 8))
    save(folder, episode(1, 0, 8))
    (folder / "link").symlink_to(elsewhere)
    (folder / "again").symlink_to(elsewhere)
    (elsewhere / "back").symlink_to(folder)

    def act(seen):
        if len(seen) == 1:
            save(elsewhere, episode(0, 1, 8))
        return sum(report.new for report in seen) == 3

    with TrajectoryIngestor(archive) as ingestor:
        collect(ingestor, folder, act)
    assert ingest(archive, folder).unchanged == 3
    assert_complete(archive, [*files(elsewhere / "task-0"), *files(folder / "task-1")])


@pytest.mark.parametrize("wrong", ["", "none", "file"])
def test_only_folders_can_be_watched(tmp_path, monkeypatch, wrong):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("x")
    with TrajectoryIngestor(tmp_path / "archive") as ingestor, pytest.raises(SourceNotFoundError, match="folders"):
        ingestor.watch(wrong)


def test_without_watchfiles_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    with (
        TrajectoryIngestor(tmp_path / "archive") as ingestor,
        pytest.raises(MissingExtraError, match=r"wshard\[watch\]"),
    ):
        ingestor.watch(tmp_path)


@pytest.mark.long
def test_a_data_set_that_comes_in_pieces_is_complete_in_the_end(tmp_path, dataset_fixtures):
    """Its files come in folders of folders, with pauses in which what is there is tried."""
    source, place = dataset_fixtures / "lerobot" / "lerobot_v21_image", tmp_path / "new" / "set"
    (tmp_path / "new").mkdir()
    with watched(tmp_path / "archive", tmp_path / "new") as said:
        shutil.copytree(source / "meta", place / "meta")
        for number, path in enumerate(sorted((source / "data").rglob("*.parquet")), 1):
            target = place / path.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
            until(tmp_path / "archive", number)
    assert said["code"] == 0
