"""Columns of tables that lack many values: lanes of their own, the same ones for all episodes of a file."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wshard.formats.layouts.guessing.describe import describe_guess
from wshard.formats.layouts.guessing.guess import guess_layout
from wshard.formats.layouts.guessing.reference import guess_reading
from wshard.formats.layouts.named import describe_layout, layout_reference, table_reference
from wshard.formats.layouts.options import TableOptions
from wshard.formats.open import open_location

RUNS, ROWS = 3, 40
SAVED = {
    "csv": lambda frame, path: frame.to_csv(path, index=False),
    "tsv": lambda frame, path: frame.to_csv(path, index=False, sep="\t", na_rep="nan"),
    "parquet": lambda frame, path: frame.to_parquet(path, row_group_size=17),
    "feather": lambda frame, path: frame.to_feather(path),
    "jsonl": lambda frame, path: frame.to_json(path, orient="records", lines=True),
}
OPTIONS = TableOptions(episode="run", actions=("u0", "u1"))


def _frame(**gaps: Any) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"run": np.arange(ROWS) * RUNS // ROWS})
    for name in ("x", "y", "z", "u0", "u1"):
        frame[name] = rng.normal(size=ROWS).round(6)
        frame.loc[[*gaps.get(name, ())], name] = np.nan
    return frame


def _lanes(path: Path, how: str) -> list[dict[str, Any]]:
    """Return the lanes of each episode, with one axis more for single numbers."""
    with open_location(path, how) as source:
        episodes = [source.open(key) for key in source.keys()]  # noqa: SIM118  (a Source is no mapping)
        return [{name: file.lane(name).reshape(file.length, -1) for name in file.lanes()} for file in episodes]


def _check(path: Path, how: str, frame: pd.DataFrame, expected: dict[str, list[str]]) -> None:
    found = _lanes(path, how)
    assert len(found) == RUNS
    for (_, rows), lanes in zip(frame.groupby("run"), found, strict=True):
        assert {*lanes} == {lane for lane, columns in expected.items() if columns}
        for lane, values in lanes.items():
            assert np.allclose(values, rows[expected[lane]], rtol=0, atol=1e-9, equal_nan=True), lane


GAPS = st.sets(st.integers(0, ROWS - 1), max_size=ROWS - 1) | st.sets(st.integers(0, ROWS - 1), min_size=3, max_size=6)


@given(x=GAPS, y=GAPS, u1=GAPS, suffix=st.sampled_from([*SAVED]))
def test_columns_stand_apart_by_their_gaps_in_the_whole_file(x: Any, y: Any, u1: Any, suffix: str) -> None:
    gaps, most = {"x": x, "y": y, "u1": u1}, ROWS // 10
    frame = _frame(**gaps)
    sparse = [name for name, rows in gaps.items() if len(rows) > most]
    state = {"signal/state": [name for name in "xyz" if name not in sparse]}
    state |= {f"signal/{name}": [name] for name in sparse if name != "u1"}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"runs.{suffix}")
        SAVED[suffix](frame, path)
        _check(path, table_reference(OPTIONS), frame, {**state, "action/actions": ["u0", "u1"]})  # as the user says
        acting = {"action/actions": ["u0"], "action/u1": ["u1"]} if "u1" in sparse else {"action/actions": ["u0", "u1"]}
        _check(path, guess_reading(path, is_given=True).expect(), frame, {**state, **acting})


def test_a_guess_says_which_columns_stand_apart_and_is_read_so(tmp_path: Path) -> None:
    frame = _frame(y=range(20, 26), u1=range(0, 40, 2))
    frame.to_csv(tmp_path / "runs.csv", index=False)
    described = describe_guess(guess_layout(tmp_path / "runs.csv"))
    assert described.count("; more than 10% of its rows lack a value: a lane of its own\n") == 2
    assert describe_layout(guess_reading(tmp_path / "runs.csv", is_given=True).expect()).endswith(
        "actions u0, u1, sparse y, u1 apart)"
    )
    (tmp_path / "own.toml").write_text(described)
    own = layout_reference(tmp_path / "own.toml")
    assert sorted(_lanes(tmp_path / "runs.csv", own)[0]) == ["action/actions", "action/u1", "signal/state", "signal/y"]
    stacked = described.replace('["x", "z"]', '["x", "y", "z"]').replace('["u0"]', '["u*"]')
    (tmp_path / "own.toml").write_text(stacked.replace('"u0" = "action"', "").replace('"u1" = "action"', ""))
    _check(tmp_path / "runs.csv", own, frame, {"signal/state": ["x", "y", "z"], "action/actions": ["u0", "u1"]})


def test_a_sparse_column_with_the_name_of_the_lane_is_one_of_it(tmp_path: Path) -> None:
    frame = _frame(x=range(9)).rename(columns={"x": "state"})
    frame.to_csv(tmp_path / "runs.csv", index=False)
    expected = {"signal/state": ["state", "y", "z"], "action/actions": ["u0", "u1"]}
    for how in (guess_reading(tmp_path / "runs.csv", is_given=True).expect(), table_reference(OPTIONS)):
        _check(tmp_path / "runs.csv", how, frame, expected)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_tables_of_older_archives_are_read_as_they_were(tmp_path: Path, suffix: str) -> None:
    frame = _frame(x=range(30))
    SAVED[suffix](frame, tmp_path / f"runs.{suffix}")
    older = "layout:table?episode=run&actions=u0&actions=u1"
    expected = {"signal/state": ["x", "y", "z"], "action/actions": ["u0", "u1"]}
    _check(tmp_path / f"runs.{suffix}", older, frame, expected)


def test_many_columns_are_described_in_a_line():
    many = TableOptions(actions=tuple(f"joint_{number}_command" for number in range(40)))
    line = describe_layout(table_reference(many))
    assert "actions joint_0_command, " in line
    assert ", ..., " in line
    assert line.endswith("joint_39_command)")
    assert len(line) < 120
