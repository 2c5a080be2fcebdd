"""Verbs about files take addresses of any format: checked on a D4RL file that h5py wrote."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from wshard import open_archive, save_wshard
from wshard.cli.files import app
from wshard.testing import make_episode
from wshard.training.conversion.jobs import list_jobs
from wshard.training.conversion.location import convert_location

h5py = pytest.importorskip("h5py")
pyarrow, parquet, feather = map(pytest.importorskip, ("pyarrow", "pyarrow.parquet", "pyarrow.feather"))
RUNNER = CliRunner()


def run(*arguments: object):
    return RUNNER.invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def rows(tmp_path) -> Path:
    """Two episodes, of 4 and 6 steps."""
    with h5py.File(tmp_path / "rows.hdf5", "w") as file:
        file["observations"] = np.arange(20, dtype="f4").reshape(10, 2)
        file["actions"] = np.zeros((10, 1), "f4")
        file["rewards"] = np.ones(10, "f4")
        file["terminals"] = np.isin(np.arange(10), (3, 9))
        file["timeouts"] = np.zeros(10, bool)
    return tmp_path / "rows.hdf5"


def test_inspect_lists_the_episodes_of_a_location(rows):
    found = json.loads(run("inspect", rows, "--json").stdout)
    assert (found["format"], found["total"]) == ("d4rl", 2)
    assert [(one["key"], one["length"]) for one in found["items"]] == [("0", 4), ("1", 6)]
    text = run("inspect", rows).stdout
    assert "episode_1" in text
    assert "rows.hdf5#KEY" in text


def test_inspect_shows_one_episode_and_a_span_of_it(rows, tmp_path):
    whole = json.loads(run("inspect", f"{rows}#1", "--json").stdout)
    assert {one["block"]: one["shape"] for one in whole["blocks"]}["signal/observations"] == [6, 2]
    part = json.loads(run("inspect", f"{rows}#1@2:5", "--json").stdout)
    assert {one["block"]: one["shape"] for one in part["blocks"]}["signal/observations"] == [3, 2]
    assert "2:5" in run("inspect", f"{rows}#1@2:5").stdout
    save_wshard(make_episode(0), tmp_path / "a.wshard")
    assert "0:3" in run("inspect", f"{tmp_path / 'a.wshard'}@0:3").stdout


def test_cat_takes_a_span_of_an_address(rows):
    assert run("cat", f"{rows}#1@1:3", "observations").stdout == "t,0,1\n1,10.0,11.0\n2,12.0,13.0\n"
    assert run("cat", f"{rows}#1@1:3", "observations", "--span", "0:1").exit_code == 2
    assert "within 0:6" in run("cat", f"{rows}#1@1:30", "observations").stderr
    overwriting = run("cat", f"{rows}#1@1:3", "observations", "--format", "csv", "--output", str(rows))
    assert (overwriting.exit_code, rows.exists()) == (2, True)


def test_verify_reads_all_data_of_every_episode(rows, tmp_path):
    assert "2 of 2 episodes OK" in run("verify", rows).stdout
    assert run("verify", f"{rows}#1").stdout.startswith("OK")
    with h5py.File(rows, "r+") as file:
        values = file["observations"][:]
        del file["observations"]
        file.create_dataset("observations", data=values, chunks=(5, 2), fletcher32=True)
        place = file["observations"].id.get_chunk_info(1).byte_offset
    data = bytearray(rows.read_bytes())
    data[place] ^= 1
    rows.write_bytes(data)
    found = run("verify", rows, "--json")
    assert found.exit_code == 1
    problems = {one["path"]: one["problems"] for one in json.loads(found.stdout)["items"]}
    assert not problems[f"{rows}#0"]
    assert "observations" in problems[f"{rows}#1"][0]["error"]


@pytest.mark.parametrize(
    ("verb", "place", "said"),
    [
        ("inspect", "rows.hdf5#7", "no episode '7'"),
        ("verify", "rows.hdf5#7", "no episode '7'"),
        ("verify", "none.hdf5#7", "No such file"),
        ("repair", "rows.hdf5#1", "the address of an episode"),
    ],
)
def test_what_is_not_there_is_reported(verb, place, said, rows):
    found = run(verb, rows.parent / place)
    assert found.exit_code == 1
    assert said in found.stdout + found.stderr


def test_what_fits_two_formats_below_a_folder_stops_no_other_and_each_file_is_verified_once(tmp_path):
    save_wshard(make_episode(0), tmp_path / "a.wshard")
    for name, form in {"b.shardpack": "shardpack", "fine.hdf5": "hdf5", "odd": "lerobot"}.items():
        convert_location(tmp_path / "a.wshard", tmp_path / name, target_format=form)
    for name in ("dataset_info.json", "features.json"):  # as of RLDS
        (tmp_path / "odd" / name).write_text("{}")
    verified = run("verify", tmp_path)
    assert (verified.exit_code, verified.stdout.splitlines()[-1]) == (1, "3 of 4 episodes OK")
    assert "odd: fits the formats" in verified.stdout
    items = json.loads(run("inspect", tmp_path, "--json").stdout)["items"]
    formats = {Path(one["path"]).name: one["format"] for one in items}
    assert formats == {"a.wshard": "wshard", "b.shardpack": "shardpack", "fine.hdf5": "hdf5", "odd": ""}
    assert convert_location(tmp_path, tmp_path / "all.shardpack").converted == 3
    jobs = list_jobs([tmp_path], remembered=lambda paths: {path: "lerobot" for path in paths if path.endswith("odd")})
    assert [job.span.address.key for job in jobs if job.span.address.uri.endswith("odd")] == ["0"]


def test_a_parent_folder_is_inspected_and_verified_as_it_is_ingested(rows, tmp_path):
    (tmp_path / "deep").mkdir()
    rows.rename(tmp_path / "deep/moved.hdf5")
    save_wshard(make_episode(0), tmp_path / "own.wshard")
    found = json.loads(run("inspect", tmp_path, "--json").stdout)
    counts = {Path(one["path"]).name: (one["format"], one["total"]) for one in found["items"]}
    assert (found["total"], counts) == (3, {"moved.hdf5": ("d4rl", 2), "own.wshard": ("wshard", 1)})
    lines = run("inspect", tmp_path).stdout.splitlines()
    assert lines[1:3] == ["locations  : 2", "episodes   : 3"]
    assert run("inspect", found["items"][0]["path"]).exit_code == 0
    verified = run("verify", tmp_path)
    assert (verified.exit_code, verified.stdout.splitlines()[-1]) == (0, "3 of 3 episodes OK")
    (tmp_path / "own.wshard").write_bytes((tmp_path / "own.wshard").read_bytes()[:-9])
    assert run("verify", tmp_path).exit_code == 1


@pytest.mark.parametrize("suffix", [".npz", ".parquet", ".arrow"])
def test_a_cut_file_below_a_folder_fails_and_stops_no_other(suffix, tmp_path):
    save_wshard(make_episode(0), tmp_path / "own.wshard")
    rows = {"t": np.arange(50) / 10, "obs": np.arange(50.0), "act": np.zeros(50)}
    whole = tmp_path / f"b{suffix}"
    if suffix == ".npz":
        np.savez(whole, **rows)
    elif suffix == ".parquet":
        parquet.write_table(pyarrow.table(rows), whole)
    else:
        feather.write_feather(pyarrow.table(rows), whole, compression="uncompressed")
    assert run("verify", tmp_path).exit_code == 0
    (tmp_path / f"a{suffix}").write_bytes(whole.read_bytes()[:-30])
    found = json.loads(run("verify", tmp_path, "--json").stdout)
    bad = [Path(one["path"]).name for one in found["items"] if one["problems"]]
    assert (bad, found["total"], found["failed"]) == ([f"a{suffix}"], 3, 1)
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut" / f"c{suffix}").touch()  # to nothing
    with open_archive(tmp_path / "archive", create=True) as archive:
        report, alone = archive.ingest(tmp_path), archive.ingest(tmp_path / "cut")
    assert (report.new, [Path(one.path).name for one in report.failed]) == (2, [f"a{suffix}", f"c{suffix}"])
    assert [Path(one.path).name for one in alone.failed] == [f"c{suffix}"]


def test_a_folder_without_episodes_is_refused_by_inspect(tmp_path):
    (tmp_path / "notes.txt").write_text("nothing")
    found = run("inspect", tmp_path)
    assert (found.exit_code, "a folder: name the format" in found.stderr) == (1, True)
