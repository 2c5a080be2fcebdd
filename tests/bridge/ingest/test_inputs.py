"""Tables, rollouts and files of the user's own, given to ingest: what is recorded, read in place, and refused."""

from __future__ import annotations

import json
import pickle
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from command_line import app
from typer.testing import CliRunner

import wshard
from wshard.errors import (
    EntryNotFoundError,
    EpisodeError,
    FormatError,
    IngestError,
    LayoutError,
    MissingFileError,
    StaleEpisodeError,
)
from wshard.formats.layouts.guessing.guess import guess_layout
from wshard.training.conversion.record import record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bridge.ingest.report import IngestReport


def _frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "run": np.repeat(["b", "a", "c"], (30, 20, 25)),
            "t": np.concatenate([np.arange(count) * 0.02 for count in (30, 20, 25)]),
            "q0": rng.normal(size=75).cumsum(),
            "u0": rng.normal(size=75),
            "q1": rng.normal(size=75).cumsum(),
            "u1": rng.normal(size=75),
            "reward": 1.0,
            "task": np.repeat(["lift", "push", "lift"], (30, 20, 25)),
        }
    )


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[wshard.Archive]:
    with wshard.open_archive(tmp_path / "lab", create=True) as archive:
        yield archive


@pytest.mark.parametrize(
    "make", [lambda frame: frame, pl.from_pandas, pa.Table.from_pandas], ids=["pandas", "polars", "pyarrow"]
)
def test_tables_in_memory_are_recorded_once(lab: wshard.Archive, make: Any) -> None:
    frame = _frame()
    report = lab.ingest(make(frame), episode="run", time="t", actions=["u1", "u0"])
    assert (report.new, report.embedded, report.failed) == (3, 3, [])
    assert lab.ingest(make(frame), episode="run", time="t", actions=["u1", "u0"]).unchanged == 3
    assert [hit.episode_id for hit in lab] == ["episode_a", "episode_b", "episode_c"]
    episode, rows = lab.episode("episode_a").load(), frame[frame.run == "a"]
    assert np.array_equal(episode.observations["state"].data, rows[["q0", "q1"]].to_numpy())
    assert np.array_equal(episode.actions["actions"].data, rows[["u1", "u0"]].to_numpy())
    assert np.array_equal(episode.rewards, rows["reward"])
    assert (episode.metadata["task"], episode.timebase.tick_hz) == ("push", pytest.approx(50))


def test_rollouts_stream_and_a_broken_one_stops_no_other(lab: wshard.Archive) -> None:
    drawn: list[int] = []

    def rollouts() -> Iterator[Any]:
        for number in range(130):
            drawn.append(number)
            observations = {"arm": {"q": np.full((11, 2), number)}, "top": np.zeros((11, 4, 4, 3), np.uint8)}
            actions = np.zeros((4 if number == 7 else 10, 1))
            yield {"observations": observations, "actions": actions, "rewards": np.ones(10), "success": number % 2 == 0}

    report = lab.ingest(rollouts())
    assert len(drawn) == 130
    assert (report.new, [failure.path for failure in report.failed]) == (129, ["rollout 7"])
    assert "'rewards'" in report.failed[0].error or "expected 4 rows" in report.failed[0].error
    episode = lab.episode("episode_8").load()
    assert (episode.length, episode.metadata["success"], float(np.sum(episode.rewards))) == (10, True, 10.0)
    assert np.array_equal(episode.observations["arm/q"].data, np.full((10, 2), 8))
    assert episode.observations["top"].data.shape == (10, 4, 4, 3)
    assert episode.metadata["final_observation"]["arm/q"] == [8, 8]


def test_rollouts_before_an_error_of_the_iterator_are_recorded(lab: wshard.Archive, tmp_path: Path) -> None:
    def rollouts() -> Iterator[Any]:
        for number in range(3):
            yield {"obs": np.zeros((5, 2)), "actions": np.zeros((5, 1)), "id": f"r{number}"}
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lab.ingest(rollouts(), into=tmp_path / "data")
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == ["r0.wshard", "r1.wshard", "r2.wshard"]


@pytest.mark.parametrize("after", [3, pytest.param(70, marks=pytest.mark.long)])
def test_ctrl_c_in_an_iterator_leaves_whole_episodes(lab: wshard.Archive, after: int) -> None:
    def rollouts(end: int) -> Iterator[Any]:
        for number in range(75):
            if number == end:
                raise KeyboardInterrupt  # as Ctrl-C does; a signal would end a worker whose handler a browser has taken
            yield {"observations": np.full((5, 2), number), "actions": np.zeros((5, 1)), "id": f"r{number}"}

    with pytest.raises(KeyboardInterrupt):
        lab.ingest(rollouts(after))
    written = [path for path in (lab.folder / "episodes").rglob("*") if path.is_file()]
    assert sorted(wshard.load_wshard(path).id for path in written) == sorted(f"r{number}" for number in range(after))
    report = lab.ingest(rollouts(-1))
    assert (report.new, len(lab), report.failed) == (75, 75, [])


def test_two_ingests_of_one_table_at_once_add_each_episode_once(tmp_path: Path) -> None:
    _frame().to_csv(tmp_path / "runs.csv", index=False)

    def ingest(_: int) -> IngestReport:
        with wshard.open_archive(tmp_path / "lab", create=True) as archive:
            return archive.ingest(tmp_path / "runs.csv", episode="run", time="t", actions=["u0", "u1"])

    with ThreadPoolExecutor(2) as pool:
        reports = [*pool.map(ingest, range(2))]
    assert sum(report.new for report in reports) == 3
    assert [report.failed for report in reports] == [[], []]
    with wshard.open_archive(tmp_path / "lab") as archive:
        assert len(archive) == len(archive.search(f"{tmp_path / 'runs.csv'}#a", 5)) == 3


def test_files_that_are_gone_or_changed_since_are_named(lab: wshard.Archive, tmp_path: Path) -> None:
    path, description = tmp_path / "a.npz", tmp_path / "own.toml"
    arrays = {"q": np.arange(60.0).reshape(30, 2), "u": np.ones(30)}
    np.savez(path, n=[10, 20], **arrays)
    rule = '[episodes]\nby = "lengths"\narray = "n"\n[arrays]\nu = "action"\n'
    description.write_text(f'layout = 1\ncontainer = "npz"\n{rule}')
    assert lab.ingest(path, layout=description).new == 2
    np.savez(path, n=[11, 19], **arrays)
    with pytest.raises(StaleEpisodeError, match=r"a\.npz#1: changed since it was ingested"):
        lab.episode(f"{path}#1").load()
    np.savez(path, n=[30], **arrays)
    with pytest.raises(EntryNotFoundError, match=r"a\.npz: no episode '1'"):
        lab.search(f"{path}#1")
    description.unlink()
    with pytest.raises(LayoutError, match=r"own\.toml: expected a description of a layout, found none"):
        lab.episode(f"{path}#1").load()
    path.unlink()
    with pytest.raises(MissingFileError, match=r"'.*a\.npz#1' is missing"):
        lab.search(f"{path}#1")


def test_one_rollout_and_another_folder(lab: wshard.Archive, tmp_path: Path) -> None:
    one = {"id": "first", "obs": np.arange(6.0)[:, None], "act": np.zeros((5, 1)), "done": np.arange(5) == 4, "fps": 25}
    assert lab.ingest(one, into=tmp_path / "recorded").new == 1
    assert [path.name for path in (tmp_path / "recorded").iterdir()] == ["first.wshard"]
    episode = wshard.load_wshard(tmp_path / "recorded" / "first.wshard")
    assert (episode.timebase.tick_hz, episode.terminations.tolist()) == (25, [False] * 4 + [True])


def test_data_that_are_neither_are_refused(lab: wshard.Archive, tmp_path: Path) -> None:
    with pytest.raises(EpisodeError, match="expected arrays with a row per timestep"):
        raise lab.ingest([{"note": "x"}]).failed[0].cause or AssertionError
    with pytest.raises(IngestError, match="into: expected data in memory"):
        lab.ingest(tmp_path, into=tmp_path)
    with pytest.raises(LayoutError, match="found data in memory"):
        lab.ingest(_frame(), layout="table")
    with pytest.raises(LayoutError, match="expected an array 'u9', found run, t, q0"):
        raise lab.ingest(_frame(), episode="run", actions=["u9"]).failed[0].cause or AssertionError
    with pytest.raises(TypeError, match="unexpected option 'epsiode'"):
        lab.ingest(_frame(), epsiode="run")


def test_the_only_column_of_a_lane_names_its_channel(lab: wshard.Archive) -> None:
    lab.ingest(_frame(), episode="run", time="t", actions="u0")
    assert lab.episode("episode_a").load().actions["actions"].names == ("u0",)


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_columns_of_a_table_are_said_on_the_command_line(tmp_path: Path, suffix: str) -> None:
    frame, path, archive = _frame(), tmp_path / f"x.{suffix}", str(tmp_path / "lab")
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_json(path, orient="records", lines=True)
    columns = ["--episode-column", "run", "--time-column", "t", "--actions", "u0,u1"]
    ingested = CliRunner().invoke(app, ["ingest", str(path), "--archive", archive, *columns])
    assert ingested.exit_code == 0, ingested.output
    assert "read as: table (episodes by column 'run', clock 't', actions u0, u1): 3 episodes of 1 location" in (
        " ".join(ingested.stderr.split())
    )
    found = CliRunner().invoke(app, ["search", f"{path}#a", "--archive", archive, "--json"])
    assert json.loads(found.stdout)["items"][0]["key"] == "a"
    again = CliRunner().invoke(app, ["ingest", str(path), "--archive", archive])  # the columns are remembered
    assert "3 unchanged" in again.output
    wrong = CliRunner().invoke(app, ["ingest", str(path), "--archive", archive, "--layout", "table", *columns])
    assert (wrong.exit_code, "found two" in wrong.stderr) == (2, True)


def test_files_are_inspected_by_a_layout_before_they_are_ingested(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", q=np.zeros((20, 3)), u=np.zeros((20, 2)), where=np.array([8, 20]))
    (tmp_path / "own.toml").write_text(
        'layout = 1\ncontainer = "npz"\n[episodes]\nby = "stops"\narray = "where"\n'
        '[arrays]\nu = "action"\nwhere = "skip"\n'
    )
    how = ["--layout", str(tmp_path / "own.toml")]
    listed = CliRunner().invoke(app, ["inspect", str(tmp_path / "a.npz"), *how])
    assert f"layout:{tmp_path}/own.toml" in listed.stdout.replace("\n", "")
    assert "episodes   : 2" in listed.stdout
    shown = CliRunner().invoke(app, ["inspect", f"{tmp_path}/a.npz#1", *how, "--json"])
    assert json.loads(shown.stdout)["episode"]["length"] == 12
    assert CliRunner().invoke(app, ["verify", str(tmp_path / "a.npz"), *how]).exit_code == 0


def test_an_ingest_says_by_what_episodes_are_compared(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lanes = [
        {"state": rng.normal(size=(30, 2))},
        {"force": rng.normal(size=(30, 3))},
        {"state": np.full((30, 2), np.nan)},
    ]
    record([{"obs": one, "id": f"e{number}"} for number, one in enumerate(lanes)], tmp_path / "data")
    archive = str(tmp_path / "lab")
    done = CliRunner().invoke(app, ["ingest", str(tmp_path / "data"), "--archive", archive])
    line = next(line for line in done.stderr.splitlines() if line.startswith("compared by"))
    for part in (
        "signal/state[2] (2 channels): 1 episode",
        "signal/force[3] (3 channels): 1 episode",
        "nothing: 1 episode",
    ):
        assert part in line
    listed = CliRunner().invoke(app, ["ls", "--archive", archive, "--where", "-vectors:1..", "--json"])
    assert [one["episode_id"] for one in json.loads(listed.stdout)["items"]] == ["e2"]


def test_files_of_no_known_layout_are_named_with_the_way_on(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    record([{"obs": np.random.default_rng(0).normal(size=(30, 2)), "id": "e0"}], tmp_path / "data")
    np.savez(tmp_path / "data" / "weights.npz", w1=np.zeros((64, 32)), b1=np.zeros(32))
    (tmp_path / "data" / "settings.json").write_text("{}")
    done = CliRunner().invoke(app, ["ingest", str(tmp_path / "data"), "--archive", str(tmp_path / "lab")])
    assert f"not read: {tmp_path}/data/weights.npz: of no known layout: " in done.stderr
    assert f"\n`wshard layout guess {tmp_path}/data/weights.npz` writes" in done.stderr
    assert "skipped: 1 .json" in done.stderr


def test_a_pickle_is_refused_with_the_line_that_takes_one(tmp_path: Path) -> None:
    rows = {"observations": np.zeros((9, 2)), "actions": np.zeros((9, 1))}
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "demos.pkl").write_bytes(pickle.dumps([rows] * 3))
    runner = CliRunner()
    for place in ("in/demos.pkl", "in"):
        done = runner.invoke(app, ["ingest", str(tmp_path / place), "--archive", str(tmp_path / "lab")])
        assert done.exit_code, done.output
        assert "demos.pkl" in done.stderr
        assert "wshard reads none" in done.stderr
    (tmp_path / "empty.npz").touch()
    with pytest.raises(FormatError, match="found an empty file"):
        guess_layout(tmp_path / "empty.npz")
    with pytest.raises(FormatError, match=r"found a pickle: .* if you trust it, `python -c '.*`") as refused:
        guess_layout(tmp_path / "in" / "demos.pkl")
    line = str(refused.value).split("python -c ")[1].rstrip("`")
    subprocess.run([sys.executable, "-c", *shlex.split(line)], cwd=tmp_path, check=True)
    with wshard.open_archive(tmp_path / "lab") as archive:
        assert len(archive) == 3


@pytest.mark.parametrize("suffix", ["csv", "parquet", "frame"])
def test_a_sparse_column_keeps_no_episode_from_being_compared(lab: wshard.Archive, tmp_path: Path, suffix: str) -> None:
    frame = _frame()
    frame["load"] = np.where(np.arange(len(frame)) % 10 == 0, 1.5, np.nan)
    again = frame[frame.run == "b"].assign(run="again", load=np.nan)
    again["q0"] += 1e-3
    frame, path = pd.concat([frame, again], ignore_index=True), tmp_path / f"runs.{suffix}"
    if suffix != "frame":
        frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path)
    report = lab.ingest(frame if suffix == "frame" else path, episode="run", time="t", actions=["u0", "u1"])
    assert (report.new, report.embedded, report.unembedded) == (4, 4, [])
    hits = lab.search("episode_b", 4)
    assert [hit.episode_id for hit in hits[:2]] == ["episode_b", "episode_again"]
    assert (len(hits), hits.answered.left_out) == (4, ())


@pytest.mark.parametrize(("name", "step"), [("zeit_ms", 20), ("t (us)", 20_000), ("time_sec", 0.02), ("t", 0.02)])
def test_the_name_of_a_time_column_says_its_unit(tmp_path: Path, name: str, step: float) -> None:
    frame, path = _frame(), tmp_path / "a.csv"
    frame.assign(t=np.arange(len(frame)) * step).rename(columns={"t": name}).to_csv(path, index=False)
    printed = CliRunner().invoke(app, ["ingest", str(path), "--archive", str(tmp_path / "lab"), "--time-column", name])
    assert printed.exit_code == 0, printed.output
    with wshard.open_archive(tmp_path / "lab") as lab:
        assert lab.episode("a").load().timebase.tick_hz == pytest.approx(50)
