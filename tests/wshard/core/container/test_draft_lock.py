"""Drafts of killed processes go away with the next one; those of living ones, and what is not ours, stay."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from paths import ROOT

from wshard import convert_location, open_sink
from wshard.core.container.draft import Draft, is_dead_draft, remove_dead_draft
from wshard.formats.open import open_location
from wshard.testing import make_episode

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="files are not locked there")

OWNER = """
import sys, time
from wshard.core.container.draft import Draft
for name in ("data", "one"):
    draft = Draft(f"{sys.argv[1]}/{name}", "overwrite", folder=name == "data", owned=["rows"])
    (draft.path / "rows" if name == "data" else draft.path).write_text("half")
print("ready", flush=True)
time.sleep(600)
"""


@pytest.fixture
def owner(tmp_path):
    """Start a process that has a draft of a folder and one of a file."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "rows").write_text("old")
    child = subprocess.Popen([sys.executable, "-c", OWNER, str(tmp_path)], stdout=subprocess.PIPE, cwd=ROOT, text=True)
    assert child.stdout.readline() == "ready\n"
    yield child
    child.kill()
    child.wait()
    child.stdout.close()


def hidden(folder, end="draft"):
    return sorted(path for path in folder.iterdir() if path.name.startswith(".") and path.name.endswith(end))


def test_drafts_go_when_their_owner_is_gone(owner, tmp_path):
    (tmp_path / ".data.01234567.draft").mkdir()  # of somebody else: nothing says that it is ours
    (tmp_path / ".data.89abcdef.draft.lock").write_text("another program")
    theirs = len(hidden(tmp_path))
    assert theirs == 3
    locks = [lock for lock in hidden(tmp_path, "lock") if "89abcdef" not in lock.name]
    assert not any(is_dead_draft(lock) or remove_dead_draft(lock) for lock in locks)
    Draft(tmp_path / "data", "append", folder=True, owned=["rows"]).discard()
    assert len(hidden(tmp_path)) == theirs  # the owner lives
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    assert all(is_dead_draft(lock) for lock in locks)
    draft = Draft(tmp_path / "data", "append", folder=True, owned=["rows"])
    (draft.path / "more").write_text("new")
    draft.publish()
    Draft(tmp_path / "one", folder=False).discard()
    assert [path.name for path in hidden(tmp_path)] == [".data.01234567.draft"]
    assert [path.name for path in hidden(tmp_path, "lock")] == [".data.89abcdef.draft.lock"]
    assert {path.name: path.read_text() for path in (tmp_path / "data").iterdir()} == {"rows": "old", "more": "new"}


def test_data_that_were_put_aside_come_back(owner, tmp_path):
    (draft,) = (path for path in hidden(tmp_path) if path.is_dir())
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    (tmp_path / "data").rename(draft.with_name(f"{draft.name}.old"))  # as it was between two renames
    Draft(tmp_path / "data", "append", folder=True, owned=["rows"]).discard()
    assert (tmp_path / "data" / "rows").read_text() == "old"
    assert not hidden(tmp_path, "old")


SWAPPED = """
import os, signal, sys
from pathlib import Path
import wshard.core.files.exchange as exchange
from wshard.core.container.draft import Draft
from wshard import convert_location
swap, (place, way, can_swap) = exchange._swap, sys.argv[1:]

def swap_and_die(new, target, aside):
    if target != Path(place, "data"):  # a draft in the draft of a conversion
        return swap(new, target, aside)
    old = os.open(target, os.O_RDONLY | os.O_DIRECTORY)
    swap(new, target, aside)
    os.close(os.open("theirs", os.O_CREAT | os.O_WRONLY, dir_fd=old))  # as a program in that folder does
    os.kill(os.getpid(), signal.SIGKILL)

exchange._swap = swap_and_die
if can_swap == "no":
    exchange.sys = type("system", (), {"platform": "other"})
if way == "convert":
    convert_location(f"{place}/more", f"{place}/data", target_format="folder", mode="overwrite")
draft = Draft(f"{place}/data", "overwrite", folder=True, owned=["rows", "gone"])
(draft.path / "rows").write_text("new")
draft.publish()
"""


@pytest.mark.parametrize("can_swap", ["yes", "no"])
def test_a_file_that_appeared_before_a_kill_between_swap_and_clean_up_stays(tmp_path, can_swap):
    (tmp_path / "data").mkdir()
    for name in ("rows", "gone", "notes"):
        (tmp_path / "data" / name).write_text("old")
    command = [sys.executable, "-c", SWAPPED, str(tmp_path), "draft", can_swap]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == -signal.SIGKILL
    Draft(tmp_path / "data", "append", folder=True, owned=["rows"]).discard()
    texts = {path.name: path.read_text() for path in (tmp_path / "data").iterdir()}
    assert texts == {"rows": "new", "notes": "old", "theirs": ""}
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_a_conversion_that_was_killed_there_ends_complete_with_the_file_of_others(tmp_path):
    for name, seeds in (("data", (0,)), ("more", (1, 2))):
        with open_sink(tmp_path / name, "folder") as sink:
            for seed in seeds:
                sink.write(make_episode(seed, T=6 + seed))
    command = [sys.executable, "-c", SWAPPED, str(tmp_path), "convert", "yes"]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == -signal.SIGKILL
    report = convert_location(tmp_path / "more", tmp_path / "data", target_format="folder", mode="overwrite")
    assert not report.failed
    with open_location(tmp_path / "data") as source:
        assert [source.open(key).length for key in source.keys()] == [7, 8]  # noqa: SIM118
    assert (tmp_path / "data" / "theirs").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"data", "more"}
