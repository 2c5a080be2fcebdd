"""Files that an ingest reads by a guess are read by every verb, which says so; what a guess leaves open is named."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from bridge_episodes import command

from wshard import convert_location, load
from wshard.errors import GuessWarning, LayoutError
from wshard.formats.open import open_location

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result

LENGTHS = (30, 41)
COUNT = sum(LENGTHS)
STATE = np.random.default_rng(0).normal(size=(COUNT, 3)).cumsum(axis=0)
ACTION = np.random.default_rng(1).normal(size=(COUNT, 2)).cumsum(axis=0)
RUN = np.repeat(["a", "b"], LENGTHS)
TIMES = np.concatenate([np.arange(length) * 0.05 for length in LENGTHS])
SAYS = "read by a guess: "


def _columns() -> dict[str, Any]:
    named = {"run": RUN, "t": TIMES}
    return named | {f"q{i}": STATE[:, i] for i in range(3)} | {f"u{i}": ACTION[:, i] for i in range(2)}


def _csv(path: Path) -> None:
    rows = zip(*(values.tolist() for values in _columns().values()), strict=True)
    path.write_text("\n".join([",".join(_columns()), *(",".join(map(str, row)) for row in rows)]))


def _lines(path: Path) -> None:
    rows = zip(*(values.tolist() for values in _columns().values()), strict=True)
    path.write_text("\n".join(json.dumps(dict(zip(_columns(), row, strict=True))) for row in rows))


def _lerobot_names(path: Path) -> None:
    """Write the columns of a data file of LeRobot, without the folder meta/ that says so; and texts."""
    lists = {"observation.state": [*STATE.astype(np.float32)], "action": [*ACTION.astype(np.float32)]}
    numbers = {"episode_index": np.repeat([0, 1], LENGTHS), "timestamp": TIMES.astype(np.float32)}
    numbers |= {"frame_index": np.concatenate([*map(np.arange, LENGTHS)]), "index": np.arange(COUNT)}
    texts = {"operator": np.repeat(["ann", "bob"], LENGTHS), "phase": np.resize(["reach", "grasp"], COUNT)}
    pq.write_table(pa.table(lists | numbers | {"task_index": np.zeros(COUNT, int)} | texts), path)


def _npz(path: Path) -> None:
    np.savez(path, joints=STATE, ctrl=ACTION, stops=np.cumsum(LENGTHS))


def _groups(path: Path) -> None:
    with h5py.File(path, "w") as file:
        for number, rows in enumerate((slice(0, LENGTHS[0]), slice(LENGTHS[0], None))):
            file[f"lab/take_{number}/joints"], file[f"lab/take_{number}/cmd"] = STATE[rows], ACTION[rows]


SURE: dict[str, tuple[Callable[[Path], None], str, str]] = {  # by name: how it is written, a key, a lane
    "own.csv": (_csv, "b", "signal/state"),
    "own.parquet": (lambda path: pq.write_table(pa.table(_columns()), path), "b", "signal/state"),
    "own.jsonl": (_lines, "b", "signal/state"),
    "lerobot.parquet": (_lerobot_names, "1", "signal/observation.state"),
    "own.npz": (_npz, "1", "signal/joints"),
    "own.h5": (_groups, "take_1", "signal/joints"),
}
OPEN: dict[str, tuple[Callable[[Path], None], str]] = {  # by name: how it is written, what is open
    "open.csv": (
        lambda path: path.write_text("batch,u0,x\n" + "\n".join(f"{i // 5},{i}.5,{i * i}" for i in range(20))),
        "4 episodes: 'batch' has one value for each",
    ),
    "open.npz": (lambda path: np.savez(path, obs=STATE, foo=ACTION), "no name says action"),
    "open.h5": (
        lambda path: _write_hdf5(path, obs=STATE[:45].reshape(5, 9, 3), act=ACTION[:45].reshape(5, 9, 2)),
        "or 9 episodes of at most 5 timesteps",
    ),
}


def _write_hdf5(path: Path, **arrays: Any) -> None:
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            file[name] = values


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of an archive that knows none of the files in its folder `in`."""
    made: Path = tmp_path_factory.mktemp("guessed")
    (made / "in").mkdir()
    for name, (write, *_) in (SURE | OPEN).items():
        write(made / "in" / name)
    _csv(made / "known.csv")
    assert command("ingest", "known.csv", folder=made).exit_code == 0
    return made


def _run(verb: str, name: str, folder: Path, out: Path) -> Result:
    key, lane = SURE[name][1:] if name in SURE else ("", "signal/state")
    place, one = f"in/{name}", f"in/{name}#{key}" if key else f"in/{name}"
    arguments = {
        "inspect": [place],
        "inspect one": [one],
        "verify": [place],
        "verify one": [one],
        "cat": [one, lane, "--span", "0:2"],
        "convert": [place, out / "episodes"],
        "export": [place, "--format", "shardpack", "-o", out / "all.shardpack"],
        "shardify": [place, "--to", out / "shards", "--field", f"x={lane}"],
        "check": [place],
        "search": [one, "--top", "1"],
    }[verb]
    return command(verb.partition(" ")[0], *arguments, folder=folder)


VERBS = (
    *("inspect", "inspect one", "verify", "verify one", "cat"),
    *("convert", "export", "shardify", "check", "search"),
)


@pytest.mark.parametrize(
    ("verb", "name"),
    [*((verb, "own.csv") for verb in VERBS), *((verb, name) for verb in ("cat", "search") for name in [*SURE][1:])],
)
def test_every_verb_reads_what_an_ingest_does_and_says_once_by_which_guess(folder, tmp_path, verb, name):
    done = _run(verb, name, folder, tmp_path)
    said = [line for line in done.stderr.splitlines() if SAYS in line]
    assert len(said) == 1, done.output
    assert f"{name}: {SAYS}" in said[0]
    assert f"`wshard layout guess in/{name}` writes it down for --layout" in said[0].replace(f"{folder}/", "")
    may_fail = verb == "check" or (verb == "search" and SURE[name][2] != "signal/state")  # flagged; other lanes
    assert done.exit_code in (0, int(may_fail)), done.output


@pytest.mark.parametrize("name", OPEN)
@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_names_what_a_guess_leaves_open_and_how_to_describe_it(folder, tmp_path, verb, name):
    done = _run(verb, name, folder, tmp_path)
    assert done.exit_code == 1, done.output
    said = " ".join(done.output.split())
    assert OPEN[name][1] in said
    assert f"`wshard layout guess in/{name}` writes a description" in said.replace(f"{folder}/", "")
    assert "magic" not in said


@pytest.mark.parametrize("verb", ["inspect", "verify", "convert", "check"])
def test_a_folder_of_guessed_files_is_read_and_what_is_not_is_named(folder, tmp_path, verb):
    done = command(verb, "in", *[tmp_path / "out"][: verb == "convert"], folder=folder)
    assert done.exit_code in (0, int(verb == "check")), done.output
    said = done.stderr.replace(f"{folder}/", "")
    read = [line for line in said.splitlines() if SAYS in line]
    assert {name for name in SURE if any(name in line for line in read)} >= {"lerobot.parquet", "own.npz", "own.h5"}
    assert "and 2 other files: read by a guess" in said  # equal columns are one guess
    unread = [line for line in said.splitlines() if "not read: in/open." in line]
    assert all(any(reason in line for line in unread) for _, reason in OPEN.values())


@pytest.mark.parametrize("name", [*SURE, *OPEN])
def test_layout_guess_promises_what_an_ingest_keeps(folder, tmp_path, name):
    described = command("layout", "guess", f"in/{name}", folder=folder)
    assert described.exit_code == 0, described.output
    assert "layout guess" not in described.stderr  # no advice to do what was just done
    taken = command("ingest", f"in/{name}", "--archive", folder / "taken", folder=folder)
    assert (described.stderr == "") == (taken.exit_code == 0) == (name in SURE), described.stderr + taken.output
    (tmp_path / "own.toml").write_text(described.stdout)
    how = ("--layout", tmp_path / "own.toml")
    read = command("verify", f"in/{name}", *how, folder=folder)
    assert (read.exit_code == 0) == (name in SURE or "OPEN" not in described.stdout), read.output
    assert SAYS not in read.stderr


@pytest.mark.parametrize(
    ("name", "advice"), [("a.mp4", "--layout video"), ("a.pkl", "python -c"), ("a.txt", "a file .h5")]
)
def test_layout_guess_says_what_else_to_do_with_what_has_no_arrays(tmp_path, name, advice):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / name).write_bytes(b"x")
    ways = [("layout", "guess", f"in/{name}"), ("layout", "guess", "in"), ("ingest", "in", "--archive", "archive")]
    for verb in ways[: 2 if name == "a.txt" else 3]:
        done = command(*verb, folder=tmp_path)
        assert done.exit_code == 1
        assert advice in done.stderr
        assert "layout guess" not in done.stderr


@pytest.mark.parametrize("name", [*SURE, *OPEN])
def test_layout_guess_of_a_folder_promises_what_an_ingest_keeps(folder, tmp_path, name):
    (tmp_path / "in").mkdir()
    shutil.copy(folder / "in" / name, tmp_path / "in")
    described = command("layout", "guess", "in", folder=tmp_path)
    taken = command("ingest", "in", "--archive", "archive", folder=tmp_path)
    assert (described.stderr == "") == (taken.exit_code == 0), described.stderr + taken.output


def test_columns_of_texts_are_metadata_or_texts_of_steps(folder):
    described = command("layout", "guess", "in/lerobot.parquet", folder=folder).stdout
    assert '"operator" = "metadata"' in described
    assert '"task_index" = "skip"' in described
    with pytest.warns(GuessWarning, match="read by a guess"):
        source = open_location(folder / "in" / "lerobot.parquet")
    with source:
        episode, info = source.load("1"), source.info("1")
    assert episode.metadata["operator"] == "bob"
    assert sorted(info.metadata["phase"]) == ["grasp", "reach"]
    lanes = ("action/action", "aux/text/phase", "signal/observation.state", "time/timestamps_ns")
    assert sorted(info.lanes) == [*lanes]


def test_python_reads_by_the_same_guess_and_warns(folder, tmp_path):
    np.savez(tmp_path / "one.npz", obs=STATE, act=ACTION)
    with pytest.warns(GuessWarning, match=r"one.npz: read by a guess: npz as observation=obs, action=act"):
        assert np.array_equal(load(tmp_path / "one.npz").actions["act"].data, ACTION)
    with pytest.warns(GuessWarning, match="read by a guess"):
        assert convert_location(folder / "in" / "own.csv", tmp_path / "out").converted == len(LENGTHS)
    with pytest.raises(LayoutError, match="no name says action"):
        load(folder / "in" / "open.npz")


@pytest.mark.parametrize("name", ["a.pkl", "a.npy", "a.json", "a.mp4"])
@pytest.mark.parametrize("verb", ["inspect", "verify", "cat", "convert", "export", "repair"])
def test_what_no_guess_is_made_of_is_refused_with_what_to_do_instead(folder, tmp_path, verb, name):
    (tmp_path / name).write_bytes(b"[1]")
    options = {"cat": ["reward"], "convert": ["out"], "export": ["-f", "wshard", "-o", "out"]}.get(verb, [])
    done = command(verb, name, *options, folder=tmp_path)
    assert done.exit_code == 1
    assert any(one in done.stderr for one in ("layout guess", "--layout video", "python -c", "wshard verify"))
    assert "magic" not in done.stderr


@pytest.mark.parametrize("name", [*SURE, *OPEN])
def test_repair_names_what_it_repairs_and_what_to_use_instead(folder, name):
    done = command("repair", f"in/{name}", folder=folder)
    assert done.exit_code == 1
    assert f"in/{name}: repair: expected a file .wshard, .shard, .shardpack, found another format" in done.stderr
    assert f"`wshard verify in/{name}`" in done.stderr
