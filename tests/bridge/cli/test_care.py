"""Commands that could do harm by a slip: pruning, empty names, Ctrl-C twice, restoring; and that they do not."""

# ruff: noqa: ANN002, ANN003 -- as in tests, whose helpers these are
from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from bridge_episodes import assert_complete, copies, counts, episode, files, ingest, opened_archive, save
from command_line import app
from paths import ROOT
from typer.testing import CliRunner

import bridge.cli.ingest
from bridge import IngestReport
from bridge.episodes.read import Failure
from bridge.maintenance import restore_archive
from catalog.location import archive_named
from wshard import TrajectoryIngestor, TrajectoryRetriever
from wshard.errors import CatalogExistsError, CatalogNotFoundError, SourceNotFoundError


@pytest.fixture
def folder(tmp_path):
    save(tmp_path / "data", *(episode(task, number, 8) for task in range(2) for number in range(4)))
    return tmp_path / "data"


@pytest.fixture
def archive(tmp_path, folder):
    ingest(tmp_path / "archive", folder)
    return tmp_path / "archive"


def wshard(*arguments, **changes):
    return CliRunner().invoke(app, [*map(str, arguments)], **changes)


def catalogued(archive):
    with opened_archive(archive) as opened:
        return opened.catalog.query.count()


def test_pruning_most_of_a_folder_must_be_meant(archive, folder):
    for path in files(folder)[:5]:
        path.unlink()
    done = wshard("ingest", folder, "-a", archive, "--prune")
    assert done.exit_code == 1
    assert "5 of 8 episodes" in done.stderr
    assert "--yes" in done.stderr
    assert catalogued(archive) == 8
    assert wshard("ingest", folder, "-a", archive, "--prune", "--yes").exit_code == 0
    assert catalogued(archive) == 3


def test_pruning_some_of_a_folder_needs_no_word(archive, folder):
    for path in files(folder)[::2]:
        path.unlink()
    assert wshard("ingest", folder, "-a", archive, "--prune").exit_code == 0
    assert catalogued(archive) == 4


def test_a_disk_that_is_not_there_costs_nothing(archive, folder):
    """An empty folder is what a mount point shows of a disk that is missing."""
    shutil.rmtree(folder)
    folder.mkdir()
    done = wshard("ingest", folder, "-a", archive, "--prune")
    assert (done.exit_code, catalogued(archive)) == (1, 8)
    assert "is a disk missing?" in done.stderr


def test_one_disk_of_several_that_is_not_there_costs_nothing(archive, folder):
    (folder / "task-0").rename(folder.parent / "unplugged")
    (folder / "task-0").mkdir()
    done = wshard("ingest", folder, "-a", archive, "--prune")
    assert (done.exit_code, catalogued(archive)) == (1, 8)
    assert f"4 of 8 episodes that are catalogued here are gone, and {folder / 'task-0'} is empty: " in done.stderr
    assert wshard("ingest", folder, "-a", archive, "--prune", "--yes").exit_code == 0
    assert catalogued(archive) == 4


def test_a_deleted_folder_can_be_pruned(archive, folder):
    shutil.rmtree(folder / "task-0")
    assert wshard("ingest", folder / "task-0", "-a", archive).exit_code == 1
    assert wshard("ingest", folder / "task-0", "-a", archive, "--prune").exit_code == 1
    assert catalogued(archive) == 8
    assert wshard("ingest", folder / "task-0", "-a", archive, "--prune", "--yes").exit_code == 0
    assert_complete(archive, files(folder))
    mistyped = wshard("ingest", folder / "task-7", "-a", archive, "--prune", "--yes")
    assert mistyped.exit_code == 1
    assert "no catalogued episodes below it" in mistyped.stderr
    assert counts(ingest(archive, folder, prune=True)) == {"unchanged": 4}


def test_files_that_were_moved_within_the_folder_are_not_pruned(archive, folder):
    (folder / "task-0").rename(folder / "task-8")
    (folder / "task-1").rename(folder / "task-9")
    assert wshard("ingest", folder, "-a", archive, "--prune").exit_code == 0
    assert catalogued(archive) == 8


@pytest.mark.parametrize("arguments", [("ingest", ""), ("watch", ""), ("ls", "-a", ""), ("backup", "")])
def test_an_empty_name_is_a_mistake_and_not_this_folder(folder, monkeypatch, arguments):
    monkeypatch.chdir(folder)
    done = wshard(*arguments)
    assert done.exit_code == 2
    assert "found an empty text" in done.output.replace("│", "").replace("\n", "")
    assert not (folder / ".wshard").exists()


def test_an_empty_name_is_refused_in_python_too(archive, folder, monkeypatch):
    monkeypatch.chdir(folder)
    with TrajectoryIngestor(archive) as ingestor:
        with pytest.raises(SourceNotFoundError, match="empty"):
            ingestor.ingest("")
        report = ingestor.ingest(["", folder])
    assert len(report.failed) == 1
    assert "empty" in str(report.failed[0])
    assert not report.ok
    for opened in (TrajectoryIngestor, TrajectoryRetriever):
        with pytest.raises(CatalogNotFoundError, match="empty"):
            opened("")
    with pytest.raises(CatalogNotFoundError, match="empty"):
        archive_named(Path(archive).name[:0])


def test_one_lane_may_be_named_without_a_list(tmp_path, folder):
    ingest(tmp_path / "one", folder, lanes="state")
    ingest(tmp_path / "list", folder, lanes=["state"])
    with TrajectoryRetriever(tmp_path / "one", lanes="state") as retriever:
        assert len(retriever.search_similar_episodes(episode(0, 0, 8), 3)) == 3
    with opened_archive(tmp_path / "one") as one, opened_archive(tmp_path / "list") as listed:
        families = [{row.family for row in opened.catalog.vectors.spaces()} for opened in (one, listed)]
        assert families[0] == families[1]


def test_backup_and_restore(archive, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "8 episodes" in wshard("backup", "backup.db", "-a", "archive").stdout
    with opened_archive(archive) as opened:
        opened.catalog.episodes.remove(opened.catalog.query.ids()[2:])
    copies(archive)
    refused = wshard("restore", "backup.db", "-a", "archive")
    assert refused.exit_code == 1
    assert "--force" in refused.stderr
    assert catalogued(archive) == 2
    assert "8 episodes" in wshard("restore", "backup.db", "-a", "archive", "--force").stdout
    assert not (archive / "index").exists()
    assert_complete(archive, files(folder))
    copies(archive)
    (archive / "index" / "notes.txt").write_text("not of this software")
    assert wshard("restore", "backup.db", "-a", "archive", "--force").exit_code == 0
    assert [path.name for path in (archive / "index").iterdir()] == ["notes.txt"]
    assert wshard("restore", "backup.db", "-a", "elsewhere").exit_code == 0
    assert_complete(tmp_path / "elsewhere", files(folder))
    with pytest.raises(CatalogExistsError):
        restore_archive(tmp_path / "backup.db", archive)
    (archive / "catalog.db").write_bytes(b"x" * 9000)
    restored = wshard("restore", "backup.db", "-a", "archive", "--force")
    assert "the damaged catalog was moved to" in restored.stderr
    assert_complete(archive, files(folder))


@pytest.mark.parametrize("product", ["postgresql"], indirect=True)
def test_backup_and_restore_of_a_server(place, folder, server, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{server.process.bin_path}:{os.environ['PATH']}")
    monkeypatch.setenv("WSHARD_ARCHIVE", place)
    ingest(place, folder)
    saved = str(tmp_path / "backup.dump")
    assert "8 episodes" in wshard("backup", saved).stdout
    with opened_archive(place) as opened:
        opened.catalog.episodes.remove(opened.catalog.query.ids()[2:])
    assert "--force" in wshard("restore", saved).stderr
    assert "8 episodes" in wshard("restore", saved, "--force").stdout
    assert_complete(place, files(folder))


SLOW = """
import signal, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from wshard.cli.interrupts import interrupt_once
interrupt_once()
try:
    print("go", flush=True)
    time.sleep(60)
finally:
    print("cleaning", flush=True)
    time.sleep(60)
"""


def test_a_second_ctrl_c_ends_at_once_without_a_trace():
    process = subprocess.Popen([sys.executable, "-c", SLOW], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for expected in ("go\n", "cleaning\n"):
        assert process.stdout.readline() == expected
        process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors.strip()) == (130, "interrupted")


LEAVING = """
import atexit, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
def leave():
    print("leaving", flush=True)
    time.sleep(60)
from bridge.cli import entry
entry.end_when_interrupted()
atexit.register(leave)  # as libraries do that the command imports
sys.argv = ["wshard", "--help"]
entry.main()
"""


def test_ctrl_c_while_python_leaves_shows_no_trace():
    with subprocess.Popen(
        [sys.executable, "-c", LEAVING], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            while process.stdout.readline() != "leaving\n":
                assert process.poll() is None
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=20)
        finally:
            process.kill()
    assert (process.returncode, errors.strip()) == (130, "interrupted")


@pytest.mark.parametrize("command", ["bridge.cli.entry", "demo.__main__"])
@pytest.mark.parametrize("after", [0.1, *(pytest.param(seconds, marks=pytest.mark.long) for seconds in (0.02, 0.25))])
def test_an_early_ctrl_c_is_one_line(tmp_path, command, after):
    """The moment when the command's own first line runs is the earliest that can be answered."""
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "import wshard.cli.interrupts\n"
        f"from {command} import main\n"
        "real = wshard.cli.interrupts.end_when_interrupted\n"
        f"import {command} as module\n"
        "def report(): real(); print('go', flush=True)\n"
        "module.end_when_interrupted = report\n"
        "main()"
    )
    arguments = ["--help"] if command == "bridge.cli.entry" else ["--folder", str(tmp_path)]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": ""},
    )
    assert process.stdout.readline() == "go\n"
    time.sleep(after)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode in (0, 130)
    assert "Traceback" not in errors


def test_of_many_files_that_a_batch_left_out_the_first_are_reported(capsys):
    failed = [Failure(f"/data/{number}.wshard", f"cut at {chr(97 + number)}") for number in range(25)]
    bridge.cli.ingest.print_batch(IngestReport(failed=failed), as_json=False)
    shown = capsys.readouterr()
    lines = shown.err.splitlines()
    assert (lines[0], len(lines)) == ("failed: /data/0.wshard: cut at a", 9)
    assert lines[-1] == "failed: 17 more (--json lists all)"
    assert shown.out == "nothing to do, 25 failed\n"
