"""From a file of one's own to the first hit by commands alone: a table, arrays in an .npz and in an HDF5 file."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest
from bridge_episodes import command, episode, save

from wshard.core.media import encode_video
from wshard.training.conversion.record import record

if TYPE_CHECKING:
    from pathlib import Path

LENGTHS = (40, 55, 48, 61)


def _walk(seed: int, length: int, width: int) -> Any:
    return np.random.default_rng(seed).normal(size=(length, width)).cumsum(axis=0)


def _episodes() -> list[dict[str, Any]]:
    return [{"q": _walk(seed, length, 3), "u": _walk(seed + 9, length, 2)} for seed, length in enumerate(LENGTHS)]


def _write_table(folder: Path) -> str:
    lines = ["run,t,q0,q1,q2,u0,u1"]
    for name, one in zip("abcd", _episodes(), strict=True):
        for row, values in enumerate(np.hstack([one["q"], one["u"]])):
            lines.append(",".join([name, f"{row * 0.05:.2f}", *map(repr, values.tolist())]))
    (folder / "own.csv").write_text("\n".join(lines))
    return "own.csv#b"


def _write_npz(folder: Path) -> str:
    episodes = _episodes()
    joined = {name: np.concatenate([one[name] for one in episodes]) for name in ("q", "u")}
    np.savez(folder / "own.npz", joints=joined["q"], ctrl=joined["u"], stops=np.cumsum(LENGTHS))
    return "own.npz#1"


def _write_hdf5(folder: Path) -> str:
    with h5py.File(folder / "own.h5", "w") as file:
        for number, one in enumerate(_episodes()):
            file[f"lab/take_{number}/arm/joints"] = one["q"]
            file[f"lab/take_{number}/arm/cmd"] = one["u"]
    return "own.h5#take_1"


@pytest.mark.parametrize("write", [_write_table, _write_npz, _write_hdf5])
def test_a_file_of_a_new_user_is_searched_after_one_command(tmp_path, write):
    name = write(tmp_path)
    place = name.partition("#")[0]
    done = command("ingest", place, folder=tmp_path)
    assert done.exit_code == 0, done.output
    assert f"{len(LENGTHS)} new" in done.output
    assert "by guess" in done.stderr or "(guessed; `wshard layout guess PATH` writes it down)" in done.stderr
    hits = command("search", name, "--top", "3", folder=tmp_path)
    assert hits.exit_code == 0, hits.output
    assert name in hits.stdout.splitlines()[1]
    few = command("search", name, "--max-length", "50", "-w", "length:41..", "--json", folder=tmp_path)
    assert len(json.loads(few.stdout)["items"]) == 1
    described = command("layout", "guess", place, folder=tmp_path)
    assert (described.exit_code, described.stderr) == (0, "")
    (tmp_path / "own.toml").write_text(described.stdout)
    again = command("ingest", place, "--layout", "own.toml", "--archive", "other", folder=tmp_path)
    assert again.exit_code == 0, again.output
    first, second = (
        command("search", name, "--json", *archive, folder=tmp_path).stdout for archive in ((), ("--archive", "other"))
    )
    assert [one["score"] for one in json.loads(first)["items"]] == [one["score"] for one in json.loads(second)["items"]]


PLAIN = {"obs": _walk(0, 40, 5), "act": _walk(1, 40, 2), "rew": np.zeros(40)}
SURE = PLAIN | {"blob": _walk(2, 40, 3), "matrix": np.eye(3)}  # names of no meaning
UNSURE = {
    "named as rows of other data": SURE | {"layer": np.zeros((70, 64))},
    "rows of another number": SURE | {"qpos": _walk(2, 33, 3)},
    "no actions": {"obs": SURE["obs"], "rew": SURE["rew"]},
    "actions of another number": SURE | {"act": _walk(1, 33, 2)},
}


@pytest.mark.parametrize("suffix", ["npz", "h5"])
@pytest.mark.parametrize("case", ["sure", *UNSURE])
def test_arrays_are_read_by_a_guess_only_where_it_is_sure(tmp_path, case, suffix):
    arrays = UNSURE.get(case, SURE)
    for number in range(2):
        if suffix == "npz":
            np.savez(tmp_path / f"e{number}.npz", **arrays)
        else:
            with h5py.File(tmp_path / f"e{number}.h5", "w") as file:
                for name, values in arrays.items():
                    file[name] = values
    for place, advised in ((".", "layout guess"), (f"e0.{suffix}", f"e0.{suffix}` writes a description")):
        done = command("ingest", place, folder=tmp_path)
        assert done.exit_code == (case != "sure"), done.output
        if case == "sure":
            kind = {"h5": "hdf5"}.get(suffix, suffix)
            assert f"read as: {kind} as " in done.stderr
            assert all(one in done.stderr for one in ("observation=obs", "action=act", "reward=rew"))
        else:
            assert advised in done.stderr
            assert "give it with --layout" in done.stderr


def test_a_table_whose_columns_say_what_they_are_is_ingested_by_a_guess(tmp_path):
    name = _write_table(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "notes.csv").write_text("who,when\nme,now\n")
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 12345\n"
    (tmp_path / "sub" / "big.parquet").write_text(pointer)
    done = command("ingest", ".", folder=tmp_path)
    assert "by guess, episodes by column 'run', clock 't', actions u0, u1): 4 episodes of 1 location" in done.stderr
    assert "not read: sub/notes.csv: of no known layout: " in done.stderr
    assert "failed: sub/big.parquet: expected data, found a pointer of Git LFS: run `git lfs pull`" in done.stderr
    assert "4 new" in done.stdout
    assert command("search", name, folder=tmp_path).exit_code == 0
    assert "4 unchanged" in command("ingest", "own.csv", folder=tmp_path).stdout


def test_a_table_that_may_be_read_in_two_ways_is_refused_with_both(tmp_path):
    rows = "\n".join(f"{row // 5},{row}.5,{row * row}" for row in range(20))
    (tmp_path / "own.csv").write_text(f"batch,u0,x\n{rows}")
    done = command("ingest", "own.csv", folder=tmp_path)
    assert done.exit_code == 1
    assert "equally likely: one episode: no array says where others begin; or 4 episodes: 'batch'" in done.stderr
    assert command("ingest", "own.csv", "--episode-column", "batch", folder=tmp_path).exit_code == 0


def test_what_an_ingest_said_is_not_said_again_without_news(tmp_path):
    odd = episode(0, id="odd")
    odd.observations = {}
    save(tmp_path / "in", episode(1, id="fine"), odd)
    said = [" ".join(command("ingest", "in", "--archive", "lab", folder=tmp_path).output.split()) for _ in range(2)]
    assert ["catalogued, not embedded: " in one for one in said] == [True, False]
    assert all("nothing: 1 episode (wshard ls --where '-vectors:1..')" in one for one in said)


def test_a_video_beside_a_table_is_named_and_then_read_as_its_camera(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    for name in "ab":
        rows = "\n".join(f"{step / 10},{step},{step % 3}" for step in range(12))
        (folder / f"{name}.csv").write_text(f"t,q0,u0\n{rows}")
        encode_video(np.full((12, 16, 16, 3), 90, np.uint8), folder / f"{name}.mp4", fps=10)
    without = command("ingest", "in", "--archive", "without", folder=tmp_path)
    assert "in/b.mp4: a video beside data of its name: `wshard layout guess FOLDER`" in without.stderr
    assert "unrecognized format" not in without.stderr
    (tmp_path / "own.toml").write_text(command("layout", "guess", "in", folder=tmp_path).stdout)
    for options in (("--layout", "own.toml"), ()):
        done = command("ingest", "in", "--archive", "lab", *options, folder=tmp_path)
        assert done.exit_code == 0, done.output
        assert "mp4" not in done.output
    shown = command("inspect", "in/a.csv", "--layout", "own.toml", folder=tmp_path)
    assert "12x16x16x3" in shown.stdout


def test_a_map_is_for_files_of_a_layout_too_and_a_layout_given_anew_removes_it(tmp_path):
    np.savez(tmp_path / "a.npz", **PLAIN)
    (tmp_path / "own.toml").write_text(command("layout", "guess", "a.npz", folder=tmp_path).stdout)
    for options, lane in (
        (("--layout", "own.toml"), "obs"),
        (("--map", "obs=state"), "state"),
        ((), "state"),
        (("--layout", "own.toml"), "obs"),
    ):
        done = command("ingest", ".", *options, folder=tmp_path)
        assert done.exit_code == 0, done.output
        shown = command("show", "a", folder=tmp_path).stdout
        assert "own.toml" in shown
        assert f"lane signal/{lane} " in shown


def test_the_format_of_an_episode_is_shown_in_words(tmp_path):
    np.savez(tmp_path / "a.npz", **PLAIN)
    assert command("ingest", ".", folder=tmp_path).exit_code == 0
    assert "observation=obs, action=act" in command("show", "a", folder=tmp_path).stdout


def test_a_map_is_taken_back(tmp_path):
    np.savez(tmp_path / "a.npz", **PLAIN)
    (tmp_path / "own.toml").write_text(command("layout", "guess", "a.npz", folder=tmp_path).stdout)
    assert command("ingest", ".", "--layout", "own.toml", "--map", "obs=state", folder=tmp_path).exit_code == 0
    assert command("ingest", ".", "--no-map", "--map", "obs=x", folder=tmp_path).exit_code == 2
    assert "1 changed" in command("ingest", ".", "--no-map", folder=tmp_path).stdout
    shown = command("show", "a", folder=tmp_path).stdout
    assert "own.toml" in shown
    assert "lane signal/obs " in shown


def test_the_advice_is_for_most_of_the_files_that_can_be_opened(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    np.savez(data / "weights.npz", w1=np.zeros((64, 32)))
    whole = (data / "weights.npz").read_bytes()
    (data / "a.npz").write_bytes(whole[:100])
    (data / "b.csv").write_bytes(b"")
    (data / "c.csv").write_bytes(whole)
    record([{"obs": np.random.default_rng(0).normal(size=(30, 2)), "id": "e0"}], data)
    ingest = partial(command, "ingest", "data", folder=tmp_path)
    alone = ingest().stderr
    assert "a.npz: expected arrays, found a damaged or cut .npz file" in alone
    assert "`wshard layout guess" in alone
    for number in range(3):
        (data / f"q{number}.csv").write_text("when,q\n" + "".join(f"{t / 10},{t * t % 7}\n" for t in range(9)))
    advised = ingest().stderr
    assert f"\n`wshard layout guess {data}/q0.csv` writes" in advised
    assert "--time-column NAME" in advised
    assert "layout guess" not in advised.partition("q0.csv` writes")[2]
    assert "3 new" in ingest("--time-column", "when").stdout
    for file in ("weights.npz", "c.csv", *(f"q{number}.csv" for number in range(3))):
        (data / file).unlink()
    damaged = ingest().stderr
    assert "not read: " in damaged
    assert "layout guess" not in damaged


def test_a_text_in_an_archive_without_tasks_is_answered_by_how_to_give_them(tmp_path: Path) -> None:
    record([{"obs": np.random.default_rng(0).normal(size=(30, 2)), "id": "e0"}], tmp_path / "data")
    invoke = partial(command, folder=tmp_path)
    invoke("ingest", "data")
    search = ("search", "--text", "open drawer")
    assert "no episode has a task or a note" in invoke(*search).stderr
    invoke("note", "drops the cup", "e0")
    assert "no episode that passes has a word of 'open drawer' among the words of tasks" in invoke(*search).stderr
