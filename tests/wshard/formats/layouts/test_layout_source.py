"""Episodes that a layout describes, in every container and by every rule, equal to what was written."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

from wshard import Channel, Episode, open_episode
from wshard.errors import FormatError, LayoutError
from wshard.formats.contract import SourceContract
from wshard.formats.layouts.named import layout_reference
from wshard.formats.layouts.source import LayoutSource
from wshard.formats.open import list_episodes

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

LENGTHS = (4, 7, 5)
ARRAYS = '[arrays]\nq = "observation/state"\nu = "action/ctrl"\nr = "reward"\n'


def _rows(length: int, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {"q": rng.normal(size=(length, 3)), "u": rng.normal(size=(length, 2)), "r": rng.normal(size=length)}


def _episode(id_: str, rows: Mapping[str, Any], **metadata: Any) -> Episode:
    length = len(rows["r"])
    return Episode(
        id_,
        "",
        length,
        metadata=metadata,
        observations={"state": Channel.of("state", rows["q"])},
        actions={"ctrl": Channel.of("ctrl", rows["u"])},
        rewards=rows["r"].astype(np.float64),
    )


def _all() -> list[dict[str, Any]]:
    return [_rows(length, seed) for seed, length in enumerate(LENGTHS)]


def _joined(name: str) -> Any:
    return np.concatenate([rows[name] for rows in _all()])


def _described(folder: Path, text: str) -> str:
    (folder / "own.toml").write_text(f"layout = 1\n{text}{ARRAYS}")
    return layout_reference(folder / "own.toml")


class TestGroups(SourceContract):
    """One group per episode, in a group; the names are in natural order."""

    def make(self, tmp_path: Path) -> tuple[LayoutSource, Mapping[str, Episode]]:
        with h5py.File(tmp_path / "a.h5", "w") as file:
            for number, rows in zip((2, 10, 1), _all(), strict=True):
                for name, values in rows.items():
                    file[f"runs/ep{number}/{name}"] = values
        how = _described(tmp_path, 'container = "hdf5"\nroot = "runs"\n[episodes]\nby = "group"\ngroup = "ep*"\n')
        episodes = {number: _episode(f"ep{number}", rows) for number, rows in zip((2, 10, 1), _all(), strict=True)}
        return LayoutSource(tmp_path / "a.h5", how), {f"ep{number}": episodes[number] for number in (1, 2, 10)}


FLAT = {
    "starts": ('array = "where"', lambda: np.isin(np.arange(16), (0, 4, 11))),
    "ends": ('array = "where"', lambda: np.isin(np.arange(16), (3, 10, 15))[:, None]),
    "stops": ('array = "where"', lambda: np.array([4, 11])),  # as np.split takes them
    "lengths": ('array = "where"', lambda: np.array(LENGTHS)),
    "column": ('array = "where"', lambda: np.repeat([0.0, 1.0, 2.0], LENGTHS)),
}


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("by", FLAT)
def test_rows_of_all_episodes_are_cut_by_every_rule(tmp_path: Path, by: str, save: Any) -> None:
    rule, where = FLAT[by]
    save(tmp_path / "a.npz", where=where(), **{name: _joined(name) for name in "qur"})
    how = _described(tmp_path, f'container = "npz"\n[episodes]\nby = "{by}"\n{rule}\n')
    found = [address for address, _ in list_episodes(tmp_path / "a.npz", how)]
    assert [address.key for address in found] == ["0", "1", "2"]
    for address, rows in zip(found, _all(), strict=True):
        with open_episode(address) as episode:
            assert episode.length == len(rows["r"])
            assert np.array_equal(episode.lane("signal/state"), rows["q"])
            assert np.array_equal(episode.lane("action/ctrl")[1:3], rows["u"][1:3])
            assert np.array_equal(episode.lane("reward"), rows["r"])


class TestNpyFolder(SourceContract):
    """A folder of .npy files with the rows of all episodes, between starts and stops."""

    def make(self, tmp_path: Path) -> tuple[LayoutSource, Mapping[str, Episode]]:
        (tmp_path / "set").mkdir()
        stops = np.cumsum(LENGTHS)
        arrays = {name: _joined(name) for name in "qur"} | {"begin": stops - LENGTHS, "stop": stops}
        for name, values in arrays.items():
            np.save(tmp_path / "set" / name, values)
        how = _described(tmp_path, 'container = "npy"\n[episodes]\nby = "bounds"\narrays = ["begin", "stop"]\n')
        (tmp_path / "own.toml").write_text((tmp_path / "own.toml").read_text() + 'begin = "skip"\nstop = "skip"\n')
        episodes = {str(number): _episode(f"episode_{number}", rows) for number, rows in enumerate(_all())}
        return LayoutSource(tmp_path / "set", how), episodes


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("mask", [0, 1])
def test_padded_batches_end_where_lengths_or_a_mask_say(tmp_path: Path, axis: int, mask: int) -> None:
    longest = max(LENGTHS)
    batch = {name: np.zeros((3, longest, *_joined(name).shape[1:])) for name in "qur"}
    for number, rows in enumerate(_all()):
        for name, values in rows.items():
            batch[name][number, : len(values)] = values
    ends: Any = np.arange(longest) < np.array(LENGTHS)[:, None] if mask else np.array(LENGTHS)
    arrays = {name: np.swapaxes(values, 0, axis) for name, values in batch.items()}
    won = np.array([True, False, True])
    np.savez(tmp_path / "a.npz", **arrays, n=ends.T if mask and axis else ends, won=won)
    how = _described(tmp_path, f'container = "npz"\n[episodes]\nby = "row"\naxis = {axis}\narray = "n"\n')
    (tmp_path / "own.toml").write_text((tmp_path / "own.toml").read_text() + 'won = "success"\nn = "skip"\n')
    for (address, _), rows, success in zip(list_episodes(tmp_path / "a.npz", how), _all(), won, strict=True):
        with open_episode(address) as episode:
            assert episode.metadata["success"] == success
            assert np.array_equal(episode.lane("signal/state"), rows["q"])
            assert np.array_equal(episode.lane("action/ctrl"), rows["u"])


TABLES = {
    "csv": pa.csv.write_csv,
    "parquet": lambda table, path: pa.parquet.write_table(table, path, row_group_size=5),
    "feather": pa.feather.write_feather,
    "jsonl": lambda table, path: path.write_text("\n".join(map(json.dumps, table.to_pylist()))),
    "json": lambda table, path: path.write_text(json.dumps(table.to_pydict())),
}


@pytest.mark.parametrize("suffix", TABLES)
def test_tables_are_cut_by_a_column_and_columns_make_lanes(tmp_path: Path, suffix: str) -> None:
    joined = {name: _joined(name) for name in "qur"}
    columns = {f"q{axis}": joined["q"][:, axis] for axis in range(3)} | {
        f"u{axis}": joined["u"][:, axis] for axis in (0, 1)
    }
    order = np.argsort(np.arange(16) % 2, kind="stable")  # rows of episodes apart from each other, each in order
    labels = np.repeat(["a", "b", "c"], LENGTHS)
    table = pa.table(
        {name: values[order] for name, values in columns.items()}
        | {"run": labels[order].tolist(), "r": joined["r"][order], "t": np.tile(np.arange(16.0), 1)[order] * 20}
    )
    TABLES[suffix](table, tmp_path / f"a.{suffix}")
    container = "json" if "json" in suffix else "table"
    (tmp_path / "own.toml").write_text(
        f'layout = 1\ncontainer = "{container}"\n[episodes]\nby = "column"\narray = "run"\n[stack]\n'
        '"observation/state" = ["q*"]\n"action/ctrl" = ["u0", "u1"]\n'
        '[arrays]\nr = "reward"\nrun = "skip"\nt = {is = "time", unit = "ms"}\n'
    )
    found = list_episodes(tmp_path / f"a.{suffix}", layout_reference(tmp_path / "own.toml"))
    assert [address.key for address, _ in found] == ["a", "b", "c"]
    for (address, _), name in zip(found, "abc", strict=True):
        rows = order[labels[order] == name]
        with open_episode(address) as episode:
            assert np.array_equal(episode.lane("signal/state"), joined["q"][rows])
            assert np.array_equal(episode.lane("action/ctrl"), joined["u"][rows])
            assert np.array_equal(episode.lane("time/timestamps_ns"), rows * 20_000_000)


def test_one_observation_more_is_the_final_one(tmp_path: Path) -> None:
    rows = _rows(6, 0)
    np.savez(tmp_path / "a.npz", q=rows["q"], u=rows["u"][:5], r=rows["r"][:5])
    with LayoutSource(tmp_path / "a.npz", _described(tmp_path, 'container = "npz"\n')) as source:
        episode = source.load("")
    assert episode.length == 5
    assert np.array_equal(episode.observations["state"].data, rows["q"][:5])
    assert episode.metadata["final_observation"] == {"state": rows["q"][5].tolist()}


def test_actions_that_led_to_an_observation_are_moved_to_the_one_before(tmp_path: Path) -> None:
    rows = _rows(6, 0)
    np.savez(tmp_path / "a.npz", **rows)
    with LayoutSource(tmp_path / "a.npz", _described(tmp_path, 'container = "npz"\nactions = "previous"\n')) as source:
        episode = source.load("")
    assert episode.length == 5
    assert np.array_equal(episode.observations["state"].data, rows["q"][:5])
    assert np.array_equal(episode.actions["ctrl"].data, rows["u"][1:])
    assert np.array_equal(episode.rewards, rows["r"][1:])


def test_a_file_that_was_cut_otherwise_is_listed_anew(tmp_path: Path) -> None:
    how = _described(tmp_path, 'container = "npz"\n[episodes]\nby = "lengths"\narray = "n"\n')
    rows = {name: _joined(name) for name in "qur"}
    for lengths in (LENGTHS, LENGTHS[::-1], (*LENGTHS[:2], 3, 2)):
        np.savez(tmp_path / "rows.npz", n=lengths, **rows)
        for _ in range(2):  # the second time, it is unchanged
            with LayoutSource(tmp_path / "rows.npz", how) as source:
                assert tuple(source.info(key).length for key in source.keys()) == lengths  # noqa: SIM118


def test_numbers_that_stand_for_no_value_are_missing(tmp_path: Path) -> None:
    rows = _rows(6, 0)
    rows["q"][2, 1] = -999
    np.savez(tmp_path / "a.npz", **rows)
    (tmp_path / "own.toml").write_text(
        'layout = 1\ncontainer = "npz"\n[arrays]\nu = "action"\nq = {is = "observation", missing = [-999]}\n'
    )
    with LayoutSource(tmp_path / "a.npz", layout_reference(tmp_path / "own.toml")) as source:
        assert np.isnan(source.lane("", "signal/q")[2, 1])


@pytest.mark.parametrize("names", ['["x", "y", "z"]', '"@joints"', '"labels"'])
def test_channels_have_the_names_that_the_layout_or_the_data_state(tmp_path: Path, names: str) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.attrs["joints"], file["labels"] = ["x", "y", "z"], ["x", "y", "z"]
        for name, values in _rows(6, 0).items():
            file[name] = values
    (tmp_path / "own.toml").write_text(
        'layout = 1\ncontainer = "hdf5"\n[arrays]\nu = "action"\nlabels = "skip"\n'
        f'q = {{is = "observation", unit = "rad", names = {names}}}\n'
    )
    with LayoutSource(tmp_path / "a.h5", layout_reference(tmp_path / "own.toml")) as source:
        lane = source.info("").lanes["signal/q"]
    assert (lane.names, lane.unit) == (("x", "y", "z"), "rad")


def test_pickled_objects_are_never_loaded(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **_rows(6, 0), infos=np.array([{"a": 1}] * 6, object))
    with LayoutSource(tmp_path / "a.npz", _described(tmp_path, 'container = "npz"\n')) as source:
        assert source.load("").metadata["left_out"] == {"infos": "pickled objects, which are never loaded"}


def test_a_changed_description_changes_the_fingerprint(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **_rows(6, 0))
    how = _described(tmp_path, 'container = "npz"\n')
    before = [*list_episodes(tmp_path / "a.npz", how)]
    (tmp_path / "own.toml").write_text((tmp_path / "own.toml").read_text() + "# another\n")
    assert [*list_episodes(tmp_path / "a.npz", how)] != before


WRONG = {
    "container = 1": "container: expected a text",
    'container = "zip"': "expected one of hdf5, npz",
    'container = "npz"\nbye = 1': "unknown key 'bye'",
    'container = "npz"\n[episodes]\nby = "starts"': "expected the key array",
    'container = "npz"\n[arrays]\nq = "picture"': "expected one of observation, action",
    'container = "npz"\n[arrays]\nq = "reward/x"': "reward has no name",
    'container = "npz"\n[stack]\nq = ["a"]': "expected one of observation",
    'container = "npz"\nrate = -1': "expected timesteps per second",
    'container = "npz"\n[arrays]\nt = {is = "time", unit = "hours"}': "unit: expected one of s, ms",
    "container = [": "expected a description in TOML",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_description_is_refused_where_it_is_wrong(tmp_path: Path, text: str) -> None:
    (tmp_path / "own.toml").write_text(f"layout = 1\n{text}\n")
    with pytest.raises(LayoutError, match=r"own\.toml: .*" + WRONG[text]):
        layout_reference(tmp_path / "own.toml")


def test_arrays_that_do_not_fit_are_refused_by_name(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **_rows(6, 0), where=np.array([2, 3]))
    how = _described(tmp_path, 'container = "npz"\n[episodes]\nby = "lengths"\narray = "where"\n')
    with pytest.raises(FormatError, match=r"a\.npz: 'where': expected lengths of 6 rows, found 5"):
        list_episodes(tmp_path / "a.npz", how)
    how = _described(tmp_path, 'container = "npz"\n[episodes]\nby = "lengths"\narray = "lengths"\n')
    with pytest.raises(LayoutError, match="expected an array 'lengths', found q, u, r, where"):
        list_episodes(tmp_path / "a.npz", how)


@pytest.mark.parametrize(("hz", "jitter", "expected"), [(50, 1e-3, 50.0), (30, 1e-3, 30.0), (29.97, 1e-6, 29.97)])
def test_episodes_with_scattered_times_have_one_rate(tmp_path, hz, jitter, expected):
    rng, layout = np.random.default_rng(0), tmp_path / "own.toml"
    layout.write_text(
        'layout = 1\ncontainer = "table"\n[arrays]\nq = "observation/state"\nt = {is = "time", unit = "s"}\n'
    )
    for number in range(5):
        times = 100 + np.arange(80) / hz + rng.normal(0, jitter, 80)
        times[40:] += number  # a gap
        pa.csv.write_csv(pa.table({"q": rng.normal(size=80), "t": times}), tmp_path / f"{number}.csv")
        with open_episode(tmp_path / f"{number}.csv", format_name=layout_reference(layout)) as episode:
            rate = episode.timebase.tick_hz
            assert rate == (expected if expected == round(expected) else pytest.approx(expected, rel=1e-4))
