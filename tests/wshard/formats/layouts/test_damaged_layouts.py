"""Damaged and hostile files by layouts: errors of this package, memory by what is read, never another table."""

from __future__ import annotations

import io
import json
import re
from contextlib import nullcontext, suppress
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from layout_files import FLAT, STEPS, save_h5, save_layout

from wshard import open_episode
from wshard.core.episode.step_texts import texts_of
from wshard.errors import FormatError, FormatWarning, LayoutError, LimitError, WShardError
from wshard.formats.layouts.guessing.reference import guess_reading
from wshard.formats.layouts.named import table_reference
from wshard.formats.layouts.options import TableOptions
from wshard.formats.layouts.source import LayoutSource
from wshard.formats.open import list_episodes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


# ---- where episodes are ----------------------------------------------------------------------------------------------

MANY = 1_100_000
DECLARED: dict[str, tuple[str, dict[str, Any]]] = {
    "lengths": ('array = "n"', {"n": np.zeros(MANY, np.int8)}),
    "stops": ('array = "n"', {"n": np.full(MANY, 6, np.int8)}),
    "bounds": ('arrays = ["n", "s"]', {"n": np.zeros(MANY, np.int8), "s": np.zeros(MANY, np.int8)}),
    "ends": ('array = "n"', {"n": np.ones(MANY, bool), "u": np.zeros(MANY, np.int8)}),
    "column": ('array = "n"', {"n": np.arange(MANY), "u": np.zeros(MANY, np.int8)}),
    "row": ("", {"u": np.zeros((MANY, 2), np.int8)}),
}


@pytest.mark.parametrize("by", DECLARED)
def test_a_small_file_cannot_declare_any_number_of_episodes(tmp_path: Path, by: str) -> None:
    rule, arrays = DECLARED[by]
    np.savez(tmp_path / "a.npz", **{"u": np.zeros(6)} | arrays)
    how = save_layout(tmp_path, FLAT.replace("lengths", by).replace('array = "n"', rule))
    with pytest.raises(LimitError, match=r"a\.npz.*: expected at most 1048576 episodes in a file, found 1.*: split"):
        list_episodes(tmp_path / "a.npz", how)


def test_a_small_table_cannot_declare_any_number_of_texts(tmp_path: Path) -> None:
    part = pa.table({"run": pa.nulls(10_000_000, pa.string()), "u": pa.nulls(10_000_000, pa.int8())})
    with pa.parquet.ParquetWriter(tmp_path / "a.parquet", part.schema) as file:
        for _ in range(7):
            file.write_table(part, row_group_size=len(part))
    how = table_reference(TableOptions(episode="run"))
    with pytest.raises(LimitError, match=r"a\.parquet: column 'run': expected at most \d+ rows at once, found 7"):
        list_episodes(tmp_path / "a.parquet", how)
    assert (tmp_path / "a.parquet").stat().st_size < 1_000_000


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())], ids=str)
@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_texts_of_any_kind_are_read_with_their_gaps(tmp_path: Path, read: Any, suffix: str, kind: Any) -> None:
    texts = pa.array(["lift", None, "push", "lift"]).cast(kind)
    table = pa.table({"run": ["a"] * 4, "u": np.arange(4.0), "say": texts})
    save = pa.parquet.write_table if suffix == ".parquet" else pa.feather.write_feather
    save(table, tmp_path / f"a{suffix}")
    episode = read(tmp_path / f"a{suffix}", table_reference(TableOptions(episode="run", actions=("u",)))).load()
    assert texts_of(episode)["say"] == ["lift", "", "push", "lift"]


@pytest.mark.parametrize(
    ("by", "arrays", "message"),
    [
        ("lengths", {"n": [4.5, 7, 4.5]}, "'n': expected whole numbers"),
        ("lengths", {"n": [-4, 20]}, "episode 0: expected rows of 0 to 16, found 0 to -4"),
        ("lengths", {"n": [2**62, 2**62, 2**62, 2**62, 16]}, "expected rows of 0 to 16|expected lengths"),
        ("bounds", {"n": [-1, 4], "s": [4, 16]}, "episode 0: expected rows of 0 to 16, found -1 to 4"),
        ("bounds", {"n": [0, 9], "s": [10, 16]}, "expected each row in one episode, found episodes 0, 0 to 10, and 1"),
        ("restarts", {"n": np.array(["a"] * 16)}, "'n': expected numbers"),
        ("column", {"n": np.array(["a", ""] * 8)}, "'n': row 1: expected an episode, found none"),
        ("column", {"n": np.array([1.0, np.nan] * 8)}, "'n': row 1: expected an episode, found nan"),
    ],
)
def test_episodes_that_cannot_be_are_refused(tmp_path: Path, by: str, arrays: dict[str, Any], message: str) -> None:
    np.savez(tmp_path / "a.npz", u=np.arange(16.0), **arrays)
    rule = 'arrays = ["n", "s"]' if "s" in arrays else 'array = "n"'
    how = save_layout(tmp_path, FLAT.replace("lengths", by).replace('array = "n"', rule))
    with pytest.raises(FormatError, match=message):
        list_episodes(tmp_path / "a.npz", how)


LABELS = {
    "texts": (np.array(["b", "a"]), ["b", "a"]),
    "bytes": (np.array([b"b", b"a"]), ["b", "a"]),
    "floats": (np.array([2.0, 1.0]), ["2", "1"]),
    "dates": (np.array(["2021-01-01", "2020-01-01"], "M8[ns]"), ["2021-01-01T00:00:00", "2020-01-01T00:00:00"]),
}


@pytest.mark.parametrize("kind", LABELS)
def test_rows_in_order_of_time_are_sorted_into_their_episodes(tmp_path: Path, opened: Any, kind: str) -> None:
    values, keys = LABELS[kind]
    which = np.random.default_rng(0).integers(2, size=1000)
    np.savez(tmp_path / "a.npz", u=np.arange(1000.0), n=values[which])
    how = save_layout(tmp_path, FLAT.replace("lengths", "column"))
    found = opened(tmp_path / "a.npz", how)
    first = int(which[0])
    assert [address.key for address, _ in list_episodes(tmp_path / "a.npz", how)] == [keys[first], keys[1 - first]]
    for number, episode in zip((first, 1 - first), found, strict=True):
        assert np.array_equal(episode.lane("action/u"), np.flatnonzero(which == number))


def test_files_of_one_name_are_episodes_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    for name in ("a.csv", "b.csv", "a.tsv"):
        (tmp_path / "set" / name).write_text("x\n1\n2\n")
    how = save_layout(tmp_path, 'container = "table"\n[stack]\n"observation/state" = ["*"]\n')
    assert [address.key for address, _ in list_episodes(tmp_path / "set", how)] == ["a.csv", "a.tsv", "b"]


# ---- tables and documents --------------------------------------------------------------------------------------------

TABLE = table_reference(TableOptions())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0.1,2\n0.2,3\n0.3,4\n", "expected names of columns in the first line, found numbers"),
        ("t,x\n" + "0.1,2.5\n" * 20 + "0.2,ERR\n", "column 'x': expected numbers, found 'ERR' in row 20"),
        ("t,x\n" + "".join(f"0.1,{k}.5\n0.2,--\n" for k in range(30)), "column 'x': expected numbers, found '--'"),
        ("t,x\ns,m\n0.1,2\n0.2,3\n", "expected numbers below the names, found 's': delete the line of units"),
        ('x,y\n1,"abc\n2,3\n3,4\n', "expected a second quote for each, found a text that is never closed"),
        ("t,x\n0,1\n".encode("utf-16"), "expected a text table in UTF-8, found UTF-16"),
        ("t\u00b0,x\n0,1\n".encode("latin-1"), "expected a table: 'utf-8' codec"),
        ("x,y\n1,2\n1\n", "expected a table: CSV parse error: Expected 2 columns, got 1"),
        (",".join(f"c{number}" for number in range(5000)) + "\n", "expected at most 4096 columns, found 5000"),
        ("", "expected a table: Empty CSV file"),
    ],
)
def test_text_tables_are_refused_where_another_would_be_read(
    tmp_path: Path, read: Any, text: str | bytes, message: str
) -> None:
    (tmp_path / "a.csv").write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(FormatError, match=rf"a\.csv: {message}"):
        read(tmp_path / "a.csv", TABLE).info  # noqa: B018


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl"])
@pytest.mark.parametrize("row", [None, 30])
def test_whole_numbers_with_a_text_among_them_become_texts_and_a_warning_says_so(
    tmp_path: Path, read: Any, name: str, row: int | None
) -> None:
    cells = ["left", 1, "right", 2] * 9 if row is None else [*range(row), "ERR", 31]
    rows = [{"t": place / 100, "x": cell} for place, cell in enumerate(cells)]
    separator = "\t" if name.endswith("tsv") else ","
    lines = [f"t{separator}x", *(f"{one['t']}{separator}{one['x']}" for one in rows)]
    (tmp_path / name).write_text("\n".join(map(json.dumps, rows) if name.endswith("jsonl") else lines))
    text = f"{name}: .*'x': read as texts, as 'ERR' in row {row}, counted from 0, is no number"
    with nullcontext() if row is None else pytest.warns(FormatWarning, match=text):
        episode = read(tmp_path / name, TABLE)
    assert "aux/text/x" in episode.lanes()


def test_decimal_commas_are_numbers_and_empty_columns_are_left_out(tmp_path: Path, read: Any) -> None:
    (tmp_path / "a.csv").write_text("t;x;note\n0,0;-1,5;\n0,1;2,5;\n0,2;3;\n")
    episode = read(tmp_path / "a.csv", TABLE)
    assert episode.lane("signal/state").tolist() == [[0.0, -1.5], [0.1, 2.5], [0.2, 3.0]]
    assert {*episode.metadata["left_out"]} == {"note"}


@pytest.mark.parametrize("write", [pa.parquet.write_table, pa.feather.write_feather])
def test_columns_that_no_lane_can_hold_leave_the_others_readable(tmp_path: Path, read: Any, write: Any) -> None:
    numbers = [Decimal("1.10"), None, Decimal("3.30")]
    odd = {"t": pa.array([1, 2, 3], pa.time64("us")), "l": [["a"], [], ["b"]], "s": [{"a": 1}] * 3, "n": pa.nulls(3)}
    write(pa.table({"x": numbers, **odd}), tmp_path / "a.table")
    path = (tmp_path / "a.table").rename(tmp_path / ("a.parquet" if write is pa.parquet.write_table else "a.arrow"))
    episode = read(path, TABLE)
    assert np.array_equal(episode.lane("signal/x"), [1.1, np.nan, 3.3], equal_nan=True)
    assert {*episode.metadata["left_out"]} == {*odd}


@pytest.mark.parametrize("odd", ["[[1], [2, 3], []]", '["a", 1, []]', f"{2**70}", "[" * 900 + "]" * 900])
def test_odd_members_of_a_document_are_left_out_unless_they_are_named(tmp_path: Path, read: Any, odd: str) -> None:
    (tmp_path / "a.json").write_text(f'{{"u": [[1], [2], [1e400]], "odd": {odd}}}')
    how = save_layout(tmp_path, 'container = "json"\n[arrays]\nu = "action"\n')
    assert read(tmp_path / "a.json", how).lane("action/u").tolist() == [[1], [2], [np.inf]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"u": [[1]], "u": [[2]]}', "expected different names of members, found 'u' twice"),
        ('{"u": ' + "[" * 100_000, "expected JSON: maximum recursion depth"),
        ('{"u": [[1]]', "expected JSON"),
    ],
)
def test_documents_that_say_two_things_or_none_are_refused(tmp_path: Path, read: Any, text: str, message: str) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(FormatError, match=message):
        read(tmp_path / "a.json", save_layout(tmp_path, 'container = "json"\n')).info  # noqa: B018


def _flipped(data: bytes, rng: np.random.Generator) -> bytes:
    found = np.frombuffer(data, np.uint8).copy()
    found[rng.integers(len(found), size=3)] = rng.integers(256, size=3)
    return found.tobytes()


SAVED: dict[str, Callable[[Path], object]] = {
    "a.npz": lambda path: np.savez_compressed(path, u=STEPS),
    "a.h5": lambda path: save_h5(path, u=STEPS),
    "a.parquet": lambda path: pa.parquet.write_table(pa.table({"u": STEPS[:, 0], "s": [*"abcdef"]}), path),
    "a.feather": lambda path: pa.feather.write_feather(pa.table({"u": STEPS[:, 0], "s": [*"abcdef"]}), path),
    "a.json": lambda path: path.write_text(json.dumps({"u": STEPS.tolist()})),
}
KINDS = {".npz": "npz", ".h5": "hdf5", ".json": "json"}


@pytest.mark.parametrize("name", SAVED)
def test_cut_files_raise_errors_of_this_package(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    SAVED[name](path)
    data, how = path.read_bytes(), save_layout(tmp_path, f'container = "{KINDS.get(path.suffix, "table")}"\n')
    for part in range(16):
        path.write_bytes(data[: len(data) * part // 16])
        with pytest.raises(WShardError, match=re.escape(str(path))):
            [open_episode(address) for address, _ in list_episodes(path, how)]


@pytest.mark.parametrize("suffix", ["arrow", "feather", "npz"])
def test_changed_bytes_give_values_or_errors_of_this_package(tmp_path: Path, suffix: str) -> None:
    rng, path = np.random.default_rng(0), tmp_path / f"a.{suffix}"
    if suffix == "npz":
        np.savez_compressed(path, u=STEPS)
    else:
        pa.feather.write_feather(pa.table({"u": STEPS[:, 0], "s": [*"abcdef"]}), path, compression="uncompressed")
    data, how = path.read_bytes(), save_layout(tmp_path, f'container = "{"npz" if suffix == "npz" else "table"}"\n')
    for _ in range(60):
        path.unlink()
        path.write_bytes(_flipped(data, rng))
        with suppress(WShardError), LayoutSource(path, how) as source:
            source.load("")


@pytest.mark.parametrize("descr", ["<f8", "<U0", "|S0"])
@pytest.mark.parametrize("shape", [(2**60,), (2**32, 2**32), (2**70,), (1,) * 70])
def test_headers_that_claim_more_than_there_is_take_no_memory(tmp_path: Path, descr: str, shape: Any) -> None:
    (tmp_path / "set").mkdir()
    np.save(tmp_path / "set" / "u", STEPS)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": descr, "fortran_order": False, "shape": shape})
    (tmp_path / "set" / "q.npy").write_bytes(header.getvalue())
    with suppress(FormatError), LayoutSource(tmp_path / "set", save_layout(tmp_path, 'container = "npy"\n')) as source:
        assert "signal/q" not in source.load("").lanes()


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 5000,
        ".".join("a" * 5000) + " = 1",
        f'container = "npz"\n[arrays]\nu = {{is = "action", missing = [{10**400}]}}',
        "name = '" + "a" * (1 << 20) + "'",
    ],
)
def test_descriptions_of_any_size_and_depth_are_refused_by_name(tmp_path: Path, text: str) -> None:
    with pytest.raises(LayoutError, match=r"own\.toml: expected a description"):
        save_layout(tmp_path, text)


def test_lines_of_other_members_each_are_refused_at_once(tmp_path: Path) -> None:
    lines = (json.dumps({f"member {number}": 1}) for number in range(8000))
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    with pytest.raises(LimitError, match="found 8000 rows of 8000 members: save it as Parquet"):
        open_episode(tmp_path / "a.jsonl", format_name="layout:table?time=t")


def test_an_npz_file_named_as_a_table_is_called_one(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", q=np.zeros((40, 3)), t=np.arange(40) / 50)
    (tmp_path / "a.npz").rename(tmp_path / "a.csv")
    with pytest.raises(LayoutError, match="no name says observation: `wshard layout guess"):
        guess_reading(tmp_path / "a.csv", is_given=True).expect()


def test_an_observation_of_other_timesteps_is_left_out_and_a_constant_is_metadata(tmp_path: Path, read: Any) -> None:
    arrays = {"q": np.zeros((40, 2)), "force": np.zeros((200, 3)), "camera": np.eye(3), "act": np.zeros((40, 1))}
    np.savez(tmp_path / "a.npz", **arrays)
    how = save_layout(tmp_path, 'container = "npz"\n[arrays]\nforce = "observation"\nact = "action"\n')
    episode = read(tmp_path / "a.npz", how)
    assert {*episode.lanes()} == {"signal/q", "action/act"}
    assert episode.metadata["left_out"] == {"force": "float64 [200, 3] for 40 timesteps"}
    assert episode.metadata["camera"] == np.eye(3).tolist()
