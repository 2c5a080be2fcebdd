"""Verbs that read several files: one that is missing or damaged stops no other, and JSON says what text does."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from bridge_episodes import command, episode, save

import bridge.cli.main
from wshard import open_archive

WINDOWS = ("--past-lowdim-steps", "1", "--future-lowdim-steps", "1", "--field", "state=state")
VERBS = {
    "verify": ((), "2 of 5 files OK"),
    "check": ((), "3 of 5 episodes flagged"),
    "ingest": ((), "2 new, 2 embedded, 3 failed"),
    "convert": (("out", "--to", "wshard"), "2 episodes, 80 timesteps, 3 failed"),
    "shardify": (("--to", "out", *WINDOWS), "2 episodes, 3 failed"),
    "pack": (("--to", "out.shardpack"), "packed    3 records"),  # any bytes: the damaged file, too
}
"""What each verb takes besides the files, and what it says of two whole ones among five."""

OTHERS = {
    "watch": "folders that will be there as long as it runs",
    **dict.fromkeys(("show", "plot", "tag", "note", "review"), "episodes by name: all, or none is changed or shown"),
    **dict.fromkeys(("facets", "stats"), "fields"),
}


def verbs(whole=None, name=""):
    """Yield (name, command) of all verbs."""
    whole = whole or bridge.cli.main.command()
    yield name, whole
    for inner, verb in getattr(whole, "commands", {}).items():
        yield from verbs(verb, f"{name} {inner}".strip())


def test_each_verb_of_several_files_is_in_the_table():
    several = {name for name, verb in verbs() for one in verb.params if one.nargs == -1}
    assert several == {*VERBS, *OTHERS}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("first", ["missing.wshard", "a.wshard"])
def test_one_bad_file_never_stops_the_rest(tmp_path, verb, first):
    for number, path in enumerate(save(tmp_path / "made", episode(0, 0, 40), episode(1, 0, 40))):
        path.rename(tmp_path / f"{'ab'[number]}.wshard")
    shutil.rmtree(tmp_path / "made")
    (tmp_path / "damaged.wshard").write_bytes(b"x" * 100)
    (tmp_path / "empty").mkdir()
    if verb == "check":
        open_archive(tmp_path / ".wshard", create=True).close()
    others = {"a.wshard", "b.wshard", "damaged.wshard", "empty", "missing.wshard"} - {first}
    options, outcome = VERBS[verb]
    done = command(verb, first, *sorted(others), *options, folder=tmp_path)
    assert done.exit_code == 1
    assert outcome in done.output
    for bad in ("missing.wshard", "empty", *(["damaged.wshard"] if verb != "pack" else [])):
        assert bad in done.output
    if verb != "check":
        failed = command(verb, "missing.wshard", *(one.replace("out", "new") for one in options), folder=tmp_path)
        assert (failed.exit_code, "missing.wshard" in failed.output) == (1, True)
        assert not list(tmp_path.glob("new*"))


@pytest.mark.parametrize("verb", ["convert", "shardify"])
def test_a_catalogued_file_that_is_gone_stops_no_other(tmp_path, verb):
    gone, _ = save(tmp_path / "data", episode(0, 0, 40), episode(1, 0, 40))
    command("ingest", "data", folder=tmp_path)
    gone.unlink()
    options = ("out",) if verb == "convert" else ("--to", "out", *WINDOWS)
    done = command(verb, "--where", "", *options, folder=tmp_path)
    assert (done.exit_code, done.output.count("No such file or directory")) == (1, 1)
    assert "1 failed" in done.output
    assert any((tmp_path / "out").iterdir())


@pytest.mark.parametrize("verb", ["ingest", "verify", "inspect", "check", "shardify"])
def test_json_lists_the_files_that_are_not_read_as_text_does(tmp_path, verb):
    save(tmp_path / "data", episode(0, 0, 40))
    np.savez(tmp_path / "data" / "odd.npz", q=np.zeros((7, 2)), r=np.zeros((9, 4)))
    command("ingest", "data/task-0", "--archive", "known", folder=tmp_path)
    options = () if verb in ("verify", "inspect") else ("--archive", "known")
    options += ("--to", "shards", *WINDOWS) if verb == "shardify" else ()
    done = command(verb, "data", *options, "--json", folder=tmp_path)
    unread = json.loads(done.stdout)["unread"]
    assert [path.rpartition("/")[2] for path in unread] == ["odd.npz"]
    (reason,) = unread.values()
    assert reason.partition(":")[0].partition(". ")[0] in command(verb, "data", *options, folder=tmp_path).output
