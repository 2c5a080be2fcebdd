"""Arrow arrays become numpy arrays with the same values, without the imports that pyarrow's own functions bring."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wshard import FormatError
from wshard.formats.lerobot.arrow_arrays import to_array

LISTS = [pa.list_(pa.float64(), 3), pa.list_(pa.float64()), pa.large_list(pa.float64())]
PARTS = [(0, 20), (3, 5), (9, 11), (19, 1), (20, 0), (0, 0)]


@pytest.mark.parametrize(("start", "count"), PARTS)
@pytest.mark.parametrize("kind", LISTS, ids=str)
def test_parts_of_lists_and_of_lists_in_lists(kind, start, count):
    numbers = np.random.default_rng(0).normal(size=(20, 3))
    part = slice(start, start + count)
    assert np.array_equal(to_array(pa.array(numbers.tolist(), kind)[part], (3,), "w"), numbers[part])
    pairs = np.stack([numbers, -numbers], axis=1)
    for outer in (pa.list_(kind), pa.list_(kind, 2)):
        assert np.array_equal(to_array(pa.array(pairs.tolist(), outer)[part], (2, 3), "w"), pairs[part])
    flags = pairs > 0
    assert np.array_equal(
        to_array(pa.array(flags.tolist(), pa.list_(pa.list_(pa.bool_()), 2))[part], (2, 3), "w"), flags[part]
    )


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 200])
def test_flags_from_any_bit_on(count):
    flags = np.random.default_rng(count).random(count) < 0.5
    column = pa.array(flags.tolist(), pa.bool_())
    for start in range(min(count, 10)):
        assert np.array_equal(to_array(column[start:], (), "w"), flags[start:])
    both = pa.chunked_array([column[1:], column])
    assert np.array_equal(to_array(both, (), "w"), np.concatenate([flags[1:], flags]))


def test_rows_of_other_lengths_and_nothing_instead_of_numbers_are_refused():
    for column in ([[1.0, 2.0], [3.0]], [[1.0, 2.0, 3.0]], [[1.0, 2.0], None], [[1.0, None]]):
        with pytest.raises(FormatError, match="expected"):
            to_array(pa.array(column, pa.list_(pa.float64())), (2,), "w")
    with pytest.raises(FormatError, match="a list of 3"):
        to_array(pa.array([[1.0, 2.0, 3.0]], LISTS[0]), (2,), "w")


def test_neither_pandas_nor_all_functions_of_arrow_are_imported(tmp_path):
    columns = {"state": pa.array([[1.0, 2.0]] * 4, pa.list_(pa.float32(), 2)), "done": pa.array([False, True] * 2)}
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet", row_group_size=2)
    script = """
import sys
from wshard.formats.lerobot.parquet_columns import ParquetColumns
file = ParquetColumns(sys.argv[1])
assert file.numbers("state", (2,), 1, 3).tolist() == [[1, 2], [1, 2]]
assert file.numbers("done", (), 0, 4).tolist() == [False, True] * 2
print({"pandas", "pyarrow.compute"} & {*sys.modules})
"""
    command = [sys.executable, "-c", script, tmp_path / "rows.parquet"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
