"""Texts of timesteps are those of their own timesteps: cached, joined, split, converted."""

from __future__ import annotations

import pytest

from wshard.data import ConcatDataset, HDF5Writer, convert, load_dataset, split_episodes

TEXTS = [["a", "b", "c"], ["d", "e", "f", "g"]]


@pytest.fixture
def place(tmp_path):
    with HDF5Writer(tmp_path / "texts.h5") as writer:
        for texts in TEXTS:
            writer.write_episode({"text": texts, "task": "reach", "x": [[0.0]] * len(texts)})
    return tmp_path / "texts.h5"


@pytest.mark.parametrize("cached", [None, "text", ["text", "task", "x"]])
def test_a_clip_has_the_text_of_its_first_timestep(place, cached):
    data = load_dataset(place, keys_to_cache=cached, num_steps=2)
    assert [item["text"] for item in data] == ["a", "b", "d", "e", "f"]
    assert [item["text"] for item in data.__getitems__([4, 0, 3])] == ["f", "a", "e"]
    assert data.get_row_data([6, 0, 3])["text"] == ["g", "a", "d"]
    assert data.get_col_data("text") == [*"abcdefg"]
    assert data.column_rows("text", 1, 1, 3) == ["e", "f"]
    assert data.column_rows("text", 1, 2, 2) == []
    assert {item["task"] for item in data} == {"reach"}


def test_derived_sets_convert_the_text_of_every_timestep(place, tmp_path):
    data = load_dataset(place)
    parts = split_episodes(data, {"all": 1.0})
    for number, source in enumerate((data, ConcatDataset([data, data]), parts["all"])):
        convert(source, tmp_path / f"{number}.h5", dest_format="hdf5", progress=False)
        written = load_dataset(tmp_path / f"{number}.h5").get_col_data("text")
        assert written == source.get_col_data("text") == [*"abcdefg"] * (2 if number == 1 else 1)
