"""Rows of a Lance table are the timesteps that its index columns say, or the episode is refused."""

from __future__ import annotations

import lance
import numpy as np
import pytest

from wshard import FormatError
from wshard.data import LanceWriter, load_dataset
from wshard.formats.open import open_location

LENGTHS = (4, 5, 3)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("lance") / "whole.lance"
    with LanceWriter(str(path)) as writer:
        for number, length in enumerate(LENGTHS):
            x = 10 * number + np.arange(length)
            writer.write_episode({"x": x, "action": np.zeros((length, 1))})
    return lance.dataset(str(path)).to_table()


ROWS = {
    "swapped": [0, 1, 2, 3, 5, 4, 6, 7, 8, 9, 10, 11],
    "turned": [0, 1, 2, 3, 5, 6, 7, 8, 4, 9, 10, 11],
    "a row less": [0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11],
    "the first row less": [0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11],
    "doubled": [0, 1, 2, 3, 4, 5, 6, 7, 8, 4, 5, 6, 7, 8, 9, 10, 11],
}


@pytest.mark.parametrize("change", ROWS)
def test_an_episode_whose_rows_are_not_its_steps_is_refused_and_others_are_read(table, tmp_path, change):
    path = tmp_path / "changed.lance"
    lance.write_dataset(table.take(ROWS[change]), str(path), max_rows_per_file=4)
    with open_location(path) as source:
        assert source.load("0").observations["x"].data.ravel().tolist() == [0, 1, 2, 3]
        assert source.load("2").observations["x"].data.ravel().tolist() == [20, 21, 22]
        for ask in (source.info, source.load, source.open):
            with pytest.raises(FormatError, match=r"#1: step_idx: expected \d in row \d+, found \d"):
                ask("1")
    with pytest.raises(FormatError, match="step_idx"):
        load_dataset(path, num_steps=2)[0]


def test_a_row_that_the_library_deleted_is_noticed(table, tmp_path):
    path = str(tmp_path / "deleted.lance")
    lance.write_dataset(table, path).delete("episode_idx = 1 AND step_idx = 2")
    with open_location(path) as source, pytest.raises(FormatError, match="expected 2 in row 6, found 3"):
        source.load("1")


def test_a_table_without_steps_is_read(table, tmp_path):
    lance.write_dataset(table.drop_columns(["step_idx"]), str(tmp_path / "a.lance"))
    with open_location(tmp_path / "a.lance") as source:
        assert [source.info(str(number)).length for number in range(3)] == [*LENGTHS]


def test_steps_that_are_no_whole_numbers_are_refused(table, tmp_path):
    place = table.schema.get_field_index("step_idx")
    steps = table.column("step_idx").cast("float64")
    lance.write_dataset(table.set_column(place, "step_idx", steps), str(tmp_path / "a.lance"))
    with open_location(tmp_path / "a.lance") as source, pytest.raises(FormatError, match="step_idx: expected whole"):
        source.keys()
