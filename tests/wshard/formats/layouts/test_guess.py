"""Layouts guessed from arrays: what each is, where episodes are, and the readings that are equally likely."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest

from wshard.errors import FormatError, LayoutError, WShardError
from wshard.formats.layouts.guessing.describe import describe_guess
from wshard.formats.layouts.guessing.guess import guess_layout
from wshard.formats.layouts.guessing.reference import guess_reading
from wshard.formats.layouts.named import layout_reference
from wshard.formats.layouts.parse import parse_layout
from wshard.formats.open import open_location

if TYPE_CHECKING:
    from pathlib import Path

LENGTHS = (4, 7, 5)
ROWS = sum(LENGTHS)
ENDS = np.isin(np.arange(ROWS), np.cumsum(LENGTHS) - 1)


def _numbers(*shape: int) -> Any:
    return np.random.default_rng(len(shape) + shape[0]).normal(size=shape)


def _episodes(path: Path, described: str) -> list[Any]:
    description = path.with_suffix(".toml")
    description.write_text(described)
    with open_location(path, layout_reference(description)) as source:
        return [source.load(key) for key in source.keys()]  # noqa: SIM118  (a Source is no mapping)


def test_a_description_is_read_as_it_was_guessed(tmp_path):
    rows = {"q": _numbers(ROWS, 3), "u": _numbers(ROWS, 2), "rew": _numbers(ROWS), "done": ENDS}
    np.savez(tmp_path / "runs.npz", **rows, task=np.array(["a", "b", "c"]), odd=np.array([None]))
    guess = guess_layout(tmp_path / "runs.npz")
    described = describe_guess(guess)
    assert guess.is_certain
    assert parse_layout(described, "runs.toml") == guess.layout
    assert '"odd" = "skip"  # expected plain numbers, found pickled objects, which are never loaded\n' in described
    episodes = _episodes(tmp_path / "runs.npz", described)
    assert [episode.length for episode in episodes] == [*LENGTHS]
    assert [episode.metadata["task"] for episode in episodes] == ["a", "b", "c"]
    assert np.array_equal(episodes[1].actions["u"].data, rows["u"][4:11])
    assert np.array_equal(episodes[2].rewards, rows["rew"][11:])


def test_readings_that_are_equally_likely_are_named(tmp_path):
    np.savez(tmp_path / "a.npz", x=_numbers(5, 9, 3), act=_numbers(5, 9, 2))
    guess = guess_layout(tmp_path / "a.npz")
    described = describe_guess(guess)
    with pytest.raises(LayoutError, match=r"5 episodes of at most 9 timesteps, .*; or 9 episodes of at most 5"):
        guess_reading(tmp_path / "a.npz", is_given=True).expect()
    with pytest.raises(LayoutError, match=r"\[?episodes\]?: by: a choice is open"):
        parse_layout(described, "a.toml")
    chosen = described.replace('by = "?"', 'by = "row"\naxis = 1')
    assert len(_episodes(tmp_path / "a.npz", chosen)) == 9


def test_matrices_of_several_sizes_share_the_timesteps_alone(tmp_path):
    np.savez(tmp_path / "a.npz", points=_numbers(50, 21, 3), arms=_numbers(50, 2, 7), act=_numbers(50, 2))
    guess = guess_layout(tmp_path / "a.npz")
    assert guess.is_certain
    (episode,) = _episodes(tmp_path / "a.npz", describe_guess(guess))
    assert {lane.name: [*lane.shape] for lane in episode.observations.values()} == {"points": [21, 3], "arms": [2, 7]}


def test_a_column_of_one_text_begins_no_episodes_and_a_unit_counts_none(tmp_path):
    rows = [f"{0.05 * step},{step % 7},{step % 5},ann" for step in range(40)]
    (tmp_path / "a.csv").write_text("\n".join(["time,pos_x,force_N,operator", *rows]))
    (one,) = _episodes(tmp_path / "a.csv", describe_guess(guess_layout(tmp_path / "a.csv")))
    assert sorted(one.observations["state"].names) == ["force_N", "pos_x"]


def test_what_holds_no_arrays_is_refused(tmp_path):
    (tmp_path / "a.txt").write_text("text")
    with pytest.raises(FormatError, match="expected arrays"):
        guess_layout(tmp_path / "a.txt")
    with pytest.raises(FileNotFoundError):
        guess_layout(tmp_path / "gone.npz")


def test_groups_are_episodes_by_their_names(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for number, length in enumerate(LENGTHS):
            file[f"data/trial_{number}/state"] = _numbers(length + 1, 3)
            file[f"data/trial_{number}/cmd"] = _numbers(length, 2)
        file["data/mean"] = np.zeros(3)
    guess = guess_layout(tmp_path / "a.h5")
    assert guess.layout.episodes.group == "data/trial_*"
    assert [one.path for one in guess.unread] == ["data/mean"]
    assert [one.length for one in _episodes(tmp_path / "a.h5", describe_guess(guess))] == [*LENGTHS]


@pytest.mark.parametrize(("names", "count"), [(("left_1", "left_2"), 2), (("arm_1", "arm_2"), 1)])
def test_groups_of_one_length_may_be_parts_of_one_episode(tmp_path, names, count):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name in names:
            file[f"{name}/q"], file[f"{name}/u"] = _numbers(6, 3), _numbers(6, 2)
    assert len(guess_layout(tmp_path / "a.h5").episodes.readings) == count


def test_attributes_and_single_values_say_task_and_rate(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.attrs["fps"], file.attrs["lr"] = 25.0, 0.5
        for number in range(2):
            file[f"run_{number}/q"], file[f"run_{number}/act"] = _numbers(8, 3), _numbers(7, 2)
            file[f"run_{number}"].attrs["instruction"] = f"open {number}"
    np.savez(tmp_path / "b.npz", q=_numbers(8, 3), dt=0.05, learning_rate=0.1, task="lift")
    found = _episodes(tmp_path / "a.h5", describe_guess(guess_layout(tmp_path / "a.h5")))
    assert [(one.metadata["task"], one.timebase.tick_hz) for one in found] == [("open 0", 25.0), ("open 1", 25.0)]
    (found,) = _episodes(tmp_path / "b.npz", describe_guess(guess_layout(tmp_path / "b.npz")))
    assert (found.metadata["task"], found.timebase.tick_hz) == ("lift", 20.0)


def test_a_folder_of_files_is_guessed_by_one_of_them(tmp_path):
    for number, length in enumerate(LENGTHS):
        np.savez(tmp_path / f"ep{number}.npz", state=_numbers(length, 3), cmd=_numbers(length, 2))
    described = describe_guess(guess_layout(tmp_path))
    assert 'files = "*.npz"' in described
    assert [one.length for one in _episodes(tmp_path, described)] == [*LENGTHS]


def test_arrays_that_only_some_files_of_a_folder_have_are_described(tmp_path):
    for number in range(20):
        rows = {"state": _numbers(6, 3), "cmd": _numbers(6, 2)} | ({"rew": _numbers(6)} if number % 2 else {})
        np.savez(tmp_path / f"ep{number}.npz", **rows)
    (tmp_path / "ep0.npz").write_bytes((tmp_path / "ep0.npz").read_bytes()[:300])
    described = describe_guess(guess_layout(tmp_path))
    assert '"rew" = "reward"' in described
    assert re.search(r"one number per timestep; in \d of 7 files", described)
    (tmp_path / "ep0.npz").unlink()
    assert [one.rewards is None for one in _episodes(tmp_path, described)] == [False, True] * 9 + [False]


def test_columns_that_only_some_tables_have_are_no_channels_of_a_common_lane(tmp_path):
    for number, last in enumerate(("force", "torque")):
        rows = "\n".join(f"{row / 10},{row},{row % 3},{row % 4}" for row in range(9))
        (tmp_path / f"a{number}.csv").write_text(f"time,joint0,joint1,{last}\n{rows}")
    found = _episodes(tmp_path, describe_guess(guess_layout(tmp_path)))
    assert [sorted(one.observations) for one in found] == [["force", "state"], ["state", "torque"]]


def test_a_cut_npz_is_said_to_be_damaged(tmp_path):
    np.savez(tmp_path / "a.npz", q=_numbers(40, 3))
    (tmp_path / "a.npz").write_bytes((tmp_path / "a.npz").read_bytes()[:500])
    with pytest.raises(FormatError, match=r"found a damaged or cut \.npz"):
        guess_layout(tmp_path / "a.npz")


@pytest.mark.parametrize("suffix", [".h5", ".hdf5", ".npz"])
def test_so_is_what_its_name_alone_calls_arrays(tmp_path, suffix):
    (tmp_path / f"a{suffix}").write_bytes(b"not what the name says")
    with pytest.raises(FormatError, match=rf"found a damaged or cut \{suffix} file"):
        guess_layout(tmp_path / f"a{suffix}")


@pytest.mark.parametrize(
    ("values", "unit"),
    [
        (1.7e18 + np.arange(9) * 2e7, "ns"),
        (np.arange(9) * 33.3, "ms"),
        (np.arange(9) * 1e4, "us"),
        (np.arange(9) * 0.01, "s"),
        (np.arange(9) * 0.9, "?"),
    ],
)
def test_units_of_times_follow_from_size_and_spacing(tmp_path, values, unit):
    np.savez(tmp_path / "a.npz", stamp=values, q=_numbers(9, 3))
    guess = guess_layout(tmp_path / "a.npz")
    assert next(one.unit for one in guess.arrays if one.path == "stamp") == unit
    assert guess.is_certain == (unit != "?")


def test_ends_and_names_that_contradict_each_other_stay_open(tmp_path):
    rows = {"q": _numbers(ROWS, 3), "done": ENDS}
    for name, values in (("episode", np.repeat([0, 1], 8)), ("lengths", [4, 9])):
        np.savez(tmp_path / "a.npz", **rows, **{name: values})
        assert not guess_layout(tmp_path / "a.npz").is_certain, name


def test_lists_of_their_own_lengths_are_episodes(tmp_path):
    runs = [{"obs": _numbers(length, 3).tolist(), "act": _numbers(length, 2).tolist()} for length in LENGTHS]
    (tmp_path / "a.json").write_text(json.dumps({"runs": runs}))
    (tmp_path / "b.jsonl").write_text("\n".join(map(json.dumps, runs)))
    (tmp_path / "c.json").write_text(json.dumps({f"run_{number}": run for number, run in enumerate(runs)}))
    for name, prefix in (("a.json", "runs/"), ("b.jsonl", ""), ("c.json", "")):
        found = _episodes(tmp_path / name, describe_guess(guess_layout(tmp_path / name)))
        assert [one.length for one in found] == [*LENGTHS], name
        assert np.array_equal(found[1].actions[f"{prefix}act"].data, runs[1]["act"])


def test_step_types_of_dm_env_begin_episodes(tmp_path):
    types = np.concatenate([[0, *[1] * (length - 2), 2] for length in LENGTHS])
    np.savez(tmp_path / "a.npz", obs=_numbers(ROWS, 3), action=_numbers(ROWS, 2), step_type=types)
    found = _episodes(tmp_path / "a.npz", describe_guess(guess_layout(tmp_path / "a.npz")))
    assert [one.length for one in found] == [*LENGTHS]


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "u8", "f2", "?"])
def test_rows_of_every_dtype_are_guessed(tmp_path, dtype, order):
    bits = np.zeros((ROWS, 3), dtype, order)
    np.savez(tmp_path / "a.npz", obs=_numbers(ROWS, 3), act=_numbers(ROWS, 2), bits=bits)
    (one,) = _episodes(tmp_path / "a.npz", describe_guess(guess_layout(tmp_path / "a.npz")))
    assert np.array_equal(one.observations["bits"].data, bits)


def test_groups_of_timesteps_and_tables_without_names_stay_open(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for number in range(9):
            file[f"{number}/joints"], file[f"{number}/action"] = _numbers(7), _numbers(2)
    np.savetxt(tmp_path / "b.csv", _numbers(9, 3), delimiter=",")
    with pytest.raises(LayoutError, match="they may be timesteps"):
        guess_reading(tmp_path / "a.h5", is_given=True).expect()
    with pytest.raises(LayoutError, match="expected names of columns"):
        guess_reading(tmp_path / "b.csv", is_given=True).expect()


@pytest.mark.filterwarnings("ignore:.*read as texts:wshard.errors.FormatWarning")  # a damaged cell of numbers
def test_damaged_files_raise_typed_errors_only(tmp_path):
    rows = {"obs": _numbers(ROWS, 3), "act": _numbers(ROWS, 2), "done": ENDS}
    np.savez(tmp_path / "a.npz", **rows)
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file.update(rows)
    lines = [f"{row // 5},{row % 5 * 0.1:.1f},{row}" for row in range(ROWS)]
    (tmp_path / "c.csv").write_text("\n".join(["episode,t,u0", *lines]))
    (tmp_path / "d.json").write_text(json.dumps([{"obs": [[1, 2], [3, 4]], "act": [1, 2]}] * 3))
    rng = np.random.default_rng(0)
    for name in ("a.npz", "b.h5", "c.csv", "d.json"):
        path, whole = tmp_path / name, (tmp_path / name).read_bytes()
        for _ in range(25):
            damaged = bytearray(whole)
            damaged[int(rng.integers(len(whole)))] = int(rng.integers(256))
            path.write_bytes(damaged if rng.random() < 0.7 else whole[: int(rng.integers(len(whole)))])
            with suppress(WShardError, OSError):
                guess_layout(path)


def test_a_unit_alone_is_a_clock_and_a_folder_names_the_layout(tmp_path: Path) -> None:
    (tmp_path / "arm").mkdir()
    for name in ("rec_0", "rec_1"):
        (tmp_path / "arm" / f"{name}.csv").write_text("ms,x,y\n" + "".join(f"{k * 10},{k},{-k}\n" for k in range(9)))
    layout = guess_layout(tmp_path / "arm").layout
    assert (layout.name, layout.rule_of("ms").role, layout.rule_of("ms").unit) == ("arm", "time", "ms")


def test_a_column_of_texts_may_have_the_name_of_the_lane_that_the_others_make(tmp_path: Path) -> None:
    rows = [f"{k / 10},{k},{-k},{'idle' if k < 4 else 'move'}" for k in range(9)]
    (tmp_path / "log.csv").write_text("\n".join(["t,x,y,state", *rows]))
    (episode,) = _episodes(tmp_path / "log.csv", describe_guess(guess_layout(tmp_path / "log.csv")))
    assert (episode.observations["state"].data.shape, episode.metadata["state"]) == ((9, 2), ["idle", "move"])


def test_pickled_objects_are_why_a_file_is_not_read_by_a_guess(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", obs=_numbers(9, 2), act=_numbers(9, 1), infos=np.array([{}] * 9))
    assert guess_reading(tmp_path / "a.npz", is_given=True).why.startswith("'infos': ")
