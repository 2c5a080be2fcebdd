"""Ingest names the arrays that episodes lack, once, with what adds them."""

from __future__ import annotations

import json

import h5py
import numpy as np
import pytest
from bridge_episodes import command

LAYOUT = """layout = 1
container = "hdf5"
rest = "{rest}"
[arrays]
"state" = "observation"
"action" = "action"
"""


@pytest.fixture
def folder(tmp_path):
    """Make five files of which two have a force, and all a record, which no lane can hold."""
    rng = np.random.default_rng(0)
    (tmp_path / "logs").mkdir()
    for number in range(5):
        with h5py.File(tmp_path / "logs" / f"{number}.h5", "w") as file:
            file["state"], file["action"] = rng.normal(size=(30, 4)), rng.normal(size=(30, 2))
            file["records"] = np.zeros(30, [("a", "f4")])
            if number < 2:
                file["extra/force"] = rng.normal(size=(30, 3))
    return tmp_path


def ingest(folder, options=()):
    return command("ingest", "logs", *options, folder=folder)


def test_arrays_that_a_description_leaves_out_are_named_until_it_has_them(folder):
    layout = folder / "own.toml"
    layout.write_text(LAYOUT.format(rest="skip"))
    shown = ingest(folder, ("--layout", "own.toml"))
    assert "records (5 of 5 episodes), extra/force (2 of 5 episodes)" in shown.stderr
    assert f'add "records" = "observation" (or "metadata") below [arrays] in {layout}' in shown.stderr
    assert "in the description" not in ingest(folder).stderr  # of unchanged files
    layout.write_text(layout.read_text() + '"extra/force" = "observation"\n')
    shown = ingest(folder)
    assert "records (5 of 5 episodes); " in shown.stderr
    assert "2 changed" in shown.stdout


def test_arrays_that_no_lane_can_hold_are_named_with_the_reason(folder):
    (folder / "own.toml").write_text(LAYOUT.format(rest="observation"))
    shown = ingest(folder, ("--layout", "own.toml"))
    assert "left out: records ([('a', '<f4')] [30]; 5 of 5 episodes)" in shown.stderr


def test_many_arrays_are_counted(folder):
    (folder / "own.toml").write_text(LAYOUT.format(rest="skip"))
    with h5py.File(folder / "logs" / "0.h5", "a") as file:
        for number in range(20):
            file[f"more/{number}"] = np.zeros(30)
    (found,) = json.loads(ingest(folder, ("--layout", "own.toml", "--json")).stdout)["left_out"]
    assert (found["undescribed"], found["episodes"]) == (True, 5)
    counts = {one["path"]: one["episodes"] for one in found["arrays"]}
    assert len(counts) == 18  # extra/force and 15 of more in the first file, and how many others it has
    assert (counts["extra/force"], counts["more/0"], counts["6 others"], counts["records"]) == (2, 1, 1, 4)
