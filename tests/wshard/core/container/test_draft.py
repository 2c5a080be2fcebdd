"""Drafts: files and folders that appear whole, in place of what was there, or not at all."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from wshard import FormatError
from wshard.core.container.draft import Draft
from wshard.errors import RecordingStateError


def _tree(folder):
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_a_new_folder_appears_when_it_is_published(tmp_path):
    draft = Draft(tmp_path / "new", folder=True)
    (draft.path / "a").write_text("1")
    assert not (tmp_path / "new").exists()
    draft.publish()
    assert _tree(tmp_path) == {"new/a": "1"}


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_what_is_of_others_stays(tmp_path, mode):
    target = tmp_path / "data"
    (target / "deep").mkdir(parents=True)
    for name in ("own", "deep/own", "notes.txt", "deep/notes.txt"):
        (target / name).write_text("old")
    draft = Draft(target, mode, folder=True, owned=("own", "deep/own"))
    (draft.path / "own").unlink(missing_ok=True)
    (draft.path / "own").write_text("new")
    assert (target / "own").read_text() == "old"
    draft.publish()
    assert _tree(target) == {"own": "new", "notes.txt": "old", "deep/notes.txt": "old"} | (
        {"deep/own": "old"} if mode == "append" else {}
    )
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_a_discarded_draft_leaves_the_target(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a").write_text("1")
    for mode in ("append", "overwrite"):
        draft = Draft(tmp_path / "data", mode, folder=True, owned=["a"])
        (draft.path / "b").write_text("2")
        draft.discard()
    assert _tree(tmp_path) == {"data/a": "1"}


def test_a_file_is_copied_before_it_grows(tmp_path):
    target = tmp_path / "one"
    target.write_text("old")
    draft = Draft(target, "append", folder=False)
    with draft.path.open("a") as file:
        file.write(" and new")
    assert target.read_text() == "old"
    draft.publish()
    assert _tree(tmp_path) == {"one": "old and new"}


@pytest.mark.parametrize("folder", [True, False])
def test_what_appears_meanwhile_stays_in_mode_error(tmp_path, folder):
    target = tmp_path / "data"
    draft = Draft(target, folder=folder)
    (draft.path / "a" if folder else draft.path).write_text("own")
    if folder:
        target.mkdir()
    (target / "a" if folder else target).write_text("theirs")
    with pytest.raises(FileExistsError, match="mode 'error'"):
        draft.publish()
    draft.discard()
    assert list(_tree(tmp_path).values()) == ["theirs"]


def test_what_appears_while_a_draft_is_flushed_stays_in_mode_error(tmp_path, monkeypatch):
    target, sync = tmp_path / "data", os.fsync
    draft = Draft(target, folder=False)
    draft.path.write_text("own")

    def sync_slowly(descriptor):
        sync(descriptor)
        target.write_text("theirs")

    monkeypatch.setattr(os, "fsync", sync_slowly)
    with pytest.raises(FileExistsError, match="mode 'error'"):
        draft.publish()
    draft.discard()
    assert _tree(tmp_path) == {"data": "theirs"}


def test_of_writers_that_publish_at_one_moment_one_wins(tmp_path):
    target = tmp_path / "set"
    target.mkdir()
    (target / "rows").write_text("old")
    for round_ in range(5):
        names = [path.name for path in target.iterdir()]
        drafts = [Draft(target, "overwrite", folder=True, owned=names) for _ in range(4)]
        for number, draft in enumerate(drafts):
            (draft.path / "rows").write_text(f"{round_} {number}")
            (draft.path / f"more {number}").touch()
        together = threading.Barrier(len(drafts))

        def publish(draft, together=together):
            together.wait()
            try:
                draft.publish()
            except RecordingStateError:
                draft.discard()
                return False
            return True

        with ThreadPoolExecutor(len(drafts)) as pool:
            won = list(pool.map(publish, drafts))
        assert sum(won) == 1
        assert (target / "rows").read_text() == f"{round_} {won.index(True)}"
        assert sorted(path.name for path in target.iterdir()) == [f"more {won.index(True)}", "rows"]
        assert [path.name for path in tmp_path.iterdir()] == ["set"]


def test_wrong_modes_and_targets_are_refused(tmp_path):
    with pytest.raises(FormatError, match="write mode must be one of append, overwrite, error, found 'w'"):
        Draft(tmp_path / "x", "w", folder=True)
    with pytest.raises(FileExistsError, match="mode 'error'"):
        Draft(tmp_path, "error", folder=True)
    with pytest.raises(FormatError, match="expected a file or an unused path"):
        Draft(tmp_path, "overwrite", folder=False)
    assert list(tmp_path.iterdir()) == []
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FormatError, match="expected a file or an unused path"):
        Draft(tmp_path / "pipe", "overwrite", folder=False)
