"""Folders that take the place of others: what is not owned stays, whatever it is and whenever it appears."""

from __future__ import annotations

import os
import stat

import pytest

import wshard.core.files.exchange
from wshard import FormatError
from wshard.core.container.draft import Draft
from wshard.errors import RecordingStateError


def make(folder, names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"old {name}")
    return folder


def tree(folder):
    """Return what is below a folder: texts of files, targets of links, None for folders."""
    found = {}
    for path in folder.rglob("*"):
        is_link = path.is_symlink()
        found[path.relative_to(folder).as_posix()] = (
            str(path.readlink()) if is_link else None if path.is_dir() else path.read_text()
        )
    return found


def test_links_empty_folders_modes_and_pipes_stay(tmp_path):
    target = make(tmp_path / "set", ["data/own", "data/notes", "gone/own"])
    (target / "empty" / "deep").mkdir(parents=True)
    (target / "folder link").symlink_to("..")
    (target / "broken link").symlink_to("nowhere")
    os.mkfifo(target / "pipe")
    target.chmod(0o750)
    (target / "data").chmod(0o2771)
    inode = (target / "data/notes").stat().st_ino
    draft = Draft(target, "overwrite", folder=True, owned=["data/own", "gone/own"])
    make(draft.path, ["data/new"])
    draft.publish()
    assert stat.S_ISFIFO((target / "pipe").stat().st_mode)
    (target / "pipe").unlink()
    assert tree(target) == {
        "data": None,
        "data/new": "old data/new",
        "data/notes": "old data/notes",
        "empty": None,
        "empty/deep": None,
        "folder link": "..",
        "broken link": "nowhere",
    }
    assert (stat.S_IMODE(target.stat().st_mode), stat.S_IMODE((target / "data").stat().st_mode)) == (0o750, 0o2771)
    assert (target / "data/notes").stat().st_ino == inode
    assert [path.name for path in tmp_path.iterdir()] == ["set"]


@pytest.mark.parametrize("swaps", [True, False])
def test_what_appears_during_the_swap_stays(tmp_path, monkeypatch, swaps):
    target = make(tmp_path / "set", ["own", "changed", "same"])
    swap, unlink = wshard.core.files.exchange._swap, type(target).unlink

    def swap_late(first, second, aside):
        make(target, ["sub/new"])
        (target / "new folder").mkdir()
        (tmp_path / "temporary").write_text("newer")
        (tmp_path / "temporary").replace(target / "changed")
        swap(first, second, aside)
        make(first, ["later"])

    def unlink_late(path, *, missing_ok=False):
        if path.name == "own" and not (path.parent / "last").exists():
            make(path.parent, ["last"])
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(wshard.core.files.exchange, "_swap", swap_late)
    monkeypatch.setattr(type(target), "unlink", unlink_late)
    if not swaps:
        monkeypatch.setattr(wshard.core.files.exchange.sys, "platform", "other")
    draft = Draft(target, "overwrite", folder=True, owned=["own"])
    make(draft.path, ["new own"])
    draft.publish()
    assert tree(target) == {
        "new own": "old new own",
        "changed": "newer",
        "same": "old same",
        "sub": None,
        "sub/new": "old sub/new",
        "new folder": None,
        "later": "old later",
        "last": "old last",
    }
    assert [path.name for path in tmp_path.iterdir()] == ["set"]


@pytest.mark.parametrize("name", ["taken", "taken/below"])
def test_a_file_of_others_with_the_name_of_a_new_one_is_not_replaced(tmp_path, name):
    target = make(tmp_path / "set", ["own", "taken"])
    draft = Draft(target, "append", folder=True, owned=["own"])
    make(draft.path, [name])
    with pytest.raises(FileExistsError, match="expected no file of others"):
        draft.publish()
    draft.discard()
    assert tree(tmp_path) == {"set": None, "set/own": "old own", "set/taken": "old taken"}


@pytest.mark.parametrize("folder", [True, False])
@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_what_another_writer_published_meanwhile_is_not_replaced(tmp_path, mode, folder):
    target = tmp_path / "set"
    (make(target, ["own"]) if folder else target).touch()
    drafts = [Draft(target, mode, folder=folder, owned=["own" if folder else ""]) for _ in range(2)]
    for number, draft in enumerate(drafts):
        own = draft.path / "own" if folder else draft.path
        own.unlink(missing_ok=True)
        own.write_text(f"{number}")
    drafts[0].publish()
    with pytest.raises(RecordingStateError, match="expected no other writer"):
        drafts[1].publish()
    drafts[1].discard()
    assert (target / "own" if folder else target).read_text() == "0"


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_only_an_empty_folder_or_a_data_set_is_written_to(tmp_path, mode):
    target = make(tmp_path / "set", ["notes"])
    with pytest.raises(FormatError, match="expected an empty or new folder, or a data set of this format"):
        Draft(target, mode, folder=True)
    (target / "notes").rename(target / ".hidden")
    draft = Draft(target, mode, folder=True)
    make(draft.path, ["new"])
    draft.publish()
    assert tree(target) == {".hidden": "old notes", "new": "old new"}
    (target / "link").symlink_to(make(tmp_path / "else", ["own"]))
    with pytest.raises(FormatError, match="expected no link in a data set"):
        Draft(target, mode, folder=True, owned=["new", "link/own"])
    assert tree(tmp_path / "else") == {"own": "old own"}
    with pytest.raises(FormatError, match="expected an unused path or a data set of this format"):
        Draft(target / "new", "overwrite", folder=False)
