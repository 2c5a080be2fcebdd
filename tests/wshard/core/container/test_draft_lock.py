"""Drafts of killed processes go away with the next one; those of living ones, and what is not ours, stay."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from paths import ROOT

from wshard.core.container.draft import Draft, is_dead_draft, remove_dead_draft

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
