"""Damaged, hostile and odd files by layouts: errors that say what is wrong, and never other values in silence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from layout_files import FLAT, STEPS, WHOLE, save_h5, save_layout

from wshard.errors import ArrayKindError, FormatError
from wshard.formats.layouts.guessing.guess import guess_layout

if TYPE_CHECKING:
    from collections.abc import Callable


# ---- arrays that are no rows -----------------------------------------------------------------------------------------


def test_arrays_with_as_many_rows_as_an_episode_by_chance_are_not_cut_into_it(tmp_path: Path, opened: Any) -> None:
    goal, pose = np.arange(12.0).reshape(3, 4), np.arange(16.0).reshape(4, 4)
    np.savez(tmp_path / "a.npz", u=np.arange(16.0), n=np.array([4, 7, 5]), goal=goal, pose=pose)
    for number, episode in enumerate(opened(tmp_path / "a.npz", save_layout(tmp_path, FLAT))):
        assert [*episode.info.lanes] == ["action/u"]
        assert episode.metadata["goal"] == goal[number].tolist()
        assert episode.metadata["pose"] == pose.tolist()


def test_values_of_episodes_of_a_batch_are_no_timesteps_of_a_short_one(tmp_path: Path, opened: Any) -> None:
    goal = np.arange(18.0).reshape(3, 6)
    np.savez(tmp_path / "a.npz", u=np.zeros((3, 10, 2)), n=np.array([5, 10, 6]), goal=goal)
    how = save_layout(tmp_path, FLAT.replace("lengths", "row"))
    for number, episode in enumerate(opened(tmp_path / "a.npz", how)):
        assert [*episode.info.lanes] == ["action/u"]
        assert episode.metadata["goal"] == goal[number].tolist()


@pytest.mark.parametrize("rows", [5, 7, 9])
@pytest.mark.parametrize("name", ["r", "d"])
def test_rewards_and_ends_of_other_numbers_of_rows_are_refused(tmp_path: Path, name: str, rows: int, read: Any) -> None:
    np.savez(tmp_path / "a.npz", u=STEPS, **{name: np.zeros(rows)})
    with pytest.raises(FormatError, match=rf"a\.npz: '{name}': expected 6 rows, one for each timestep, found \[{rows}"):
        read(tmp_path / "a.npz", save_layout(tmp_path, WHOLE.format("npz"))).info  # noqa: B018


# ---- flags and times -------------------------------------------------------------------------------------------------

FLAGS = {
    "text": ["False", "false", "no", "0", "", "True"],
    "bytes": [b"F", b"0", b"n", b"N", b"", b"y"],
    "float": [0, 0.0, np.nan, 0, np.nan, 1],
    "bool": [False, False, False, False, False, True],
    "int": [0, 0, 0, 0, 0, 2],
}


@pytest.mark.parametrize("kind", FLAGS)
def test_flags_in_words_and_with_gaps_say_what_they_say(tmp_path: Path, kind: str, opened: Any, read: Any) -> None:
    save_h5(tmp_path / "a.h5", u=STEPS, d=FLAGS[kind], won=FLAGS[kind])
    episode = read(tmp_path / "a.h5", save_layout(tmp_path, WHOLE.format("hdf5")))
    assert episode.lane("done").tolist() == [False] * 5 + [True]
    assert episode.metadata["success"] is True
    np.savez(tmp_path / "a.npz", u=np.arange(12.0), d=np.array(FLAGS[kind] * 2))
    how = save_layout(tmp_path, FLAT.replace("lengths", "ends").replace('"n"', '"d"'))
    assert [episode.length for episode in opened(tmp_path / "a.npz", how)] == [6, 6]


@pytest.mark.parametrize("name", ["d", "won"])
def test_flags_in_other_words_are_refused(tmp_path: Path, name: str, read: Any) -> None:
    save_h5(tmp_path / "a.h5", u=STEPS, **{name: ["no", "no", "perhaps", "no", "no", "no"]})
    with pytest.raises(FormatError, match=f"'{name}': row 2: expected true or false, found 'perhaps'"):
        read(tmp_path / "a.h5", save_layout(tmp_path, WHOLE.format("hdf5"))).lane("done")


@pytest.mark.parametrize("stated", [False, "False", "no", "0"])
def test_success_of_an_episode_in_words_is_what_it_says(tmp_path: Path, stated: Any, read: Any) -> None:
    save_h5(tmp_path / "a.h5", u=STEPS, won=stated)
    assert read(tmp_path / "a.h5", save_layout(tmp_path, WHOLE.format("hdf5"))).metadata["success"] is False


@pytest.mark.parametrize("first", [1_700_000_000_000_000_000, 1.7e18, 2**63, np.datetime64("9999-01-01", "us")])
def test_times_beyond_the_clock_are_refused_rather_than_wrapped(tmp_path: Path, first: Any, read: Any) -> None:
    np.savez(tmp_path / "a.npz", u=STEPS, t=np.array([first] * 6))
    with pytest.raises(FormatError, match=r"'t': row 0: expected a time in 's' .*: state its unit, one of s, ms"):
        read(tmp_path / "a.npz", save_layout(tmp_path, WHOLE.format("npz"))).lane("time/timestamps_ns")


def test_a_time_that_is_missing_moves_no_clock(tmp_path: Path, read: Any) -> None:
    np.savez(tmp_path / "a.npz", u=STEPS, t=np.array([0, 0.1, np.nan, 0.3, 0.4, np.inf]))
    episode = read(tmp_path / "a.npz", save_layout(tmp_path, WHOLE.format("npz")))
    assert episode.info.timebase.tick_hz == 10
    assert episode.lane("time/timestamps_ns").tolist() == [0, 10**8, -(2**63), 3 * 10**8, 4 * 10**8, -(2**63)]


# ---- arrays that no lane can hold ------------------------------------------------------------------------------------


class _Writes:
    """A pickle of it writes a file when it is loaded."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return Path.touch, (self._path,)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_pickles_are_never_run_and_records_are_left_out(tmp_path: Path, save: Any, read: Any) -> None:
    odd = {"o": np.array([_Writes(tmp_path / "run")], object), "s": np.zeros(6, [("a", "f8"), ("b", "i4")])}
    save(tmp_path / "a.npz", u=STEPS, **odd)
    episode = read(tmp_path / "a.npz", save_layout(tmp_path, WHOLE.format("npz")))
    assert {*episode.metadata["left_out"]} == {"o", "s"}
    assert np.array_equal(episode.lane("action/u"), STEPS)
    how = save_layout(tmp_path, WHOLE.format("npz") + 'o = "observation"\n')
    with pytest.raises(ArrayKindError, match="pickled objects, which are never loaded; for a file that you trust"):
        read(tmp_path / "a.npz", how).info  # noqa: B018
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_any_order_and_dtype_of_numbers_isread(tmp_path: Path, save: Any, read: Any) -> None:
    arrays = {
        "fortran": np.asfortranarray(STEPS),
        "big": STEPS.astype(">f4"),
        "whole": np.arange(6, dtype=">i8") + 2**60,
        "half": np.arange(6, dtype=np.float16),
        "images": np.arange(6 * 3 * 4 * 4, dtype=np.uint8).reshape(6, 3, 4, 4),
    }
    save(tmp_path / "a.npz", u=STEPS, **arrays)
    episode = read(tmp_path / "a.npz", save_layout(tmp_path, WHOLE.format("npz")))
    for name, values in arrays.items():
        assert np.array_equal(episode.lane(f"signal/{name}")[1:5], values[1:5])


ODD: dict[str, Callable[[Path], object]] = {
    "durations.npz": lambda path: np.savez(path, act=np.zeros((9, 2)), t=np.arange(9).astype("m8[s]")),
    "members of other lengths.json": lambda path: path.write_text(
        json.dumps({"x": [[1.0, 2.0]] * 40, "y": [[0.0, "b"]] * 3, "z": [[[0.0] * 40] * 2] * 2})
    ),
    "empty lists.parquet": lambda path: pq.write_table(pa.table({"x": [[]] * 9, "act": [[1.0, 2.0]] * 9}), path),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_values_are_described(tmp_path: Path, name: str) -> None:
    ODD[name](tmp_path / name)
    assert guess_layout(tmp_path / name).arrays
