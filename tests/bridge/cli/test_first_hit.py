"""From a file of one's own to the first hit by commands alone: a table, arrays in an .npz and in an HDF5 file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest
from bridge_episodes import command, episode, save

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


SURE = {"obs": _walk(0, 40, 5), "act": _walk(1, 40, 2), "rew": np.zeros(40)}
UNSURE = {
    "a name of no meaning": SURE | {"blob": _walk(2, 40, 3)},
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
    assert "not read: 1 file of no known layout: " in done.stderr
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
