"""A format of one's own, with `_load_slice` and `write_episode` alone, works wherever a built-in one does."""

from __future__ import annotations

from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from wshard.data import (
    FORMATS,
    ConcatDataset,
    Dataset,
    Format,
    GoalDataset,
    HDF5Dataset,
    HDF5Writer,
    LanceDataset,
    LanceWriter,
    column_normalizer,
    convert,
    list_formats,
    load_dataset,
    register_format,
    validate_write_mode,
)
from wshard.errors import DatasetError, EntryNotFoundError

LENGTHS = (7, 9)


class ParquetDataset(Dataset):
    """Rows of a Parquet file; strides and transforms by itself, as the classes of the original do, or leaves it."""

    does_all = True

    def __init__(self, path, **options: object) -> None:
        table = pq.read_table(path)
        self._rows = {name: np.array(table[name].to_pylist()) for name in table.column_names}
        episodes = self._rows.pop("episode")
        lengths = np.bincount(episodes)
        super().__init__(lengths, np.cumsum(lengths) - lengths, **options)

    @property
    def column_names(self) -> list[str]:
        return list(self._rows)

    def _load_slice(self, ep_idx: int, start: int, end: int) -> dict:
        first = int(self.offsets[ep_idx])
        item = {name: torch.from_numpy(rows[first + start : first + end]) for name, rows in self._rows.items()}
        if not self.does_all:
            return item
        item = {name: rows if name == "action" else rows[:: self.frameskip] for name, rows in item.items()}
        return self.transform(item) if self.transform else item


class PlainParquetDataset(ParquetDataset):
    does_all = False


class ParquetWriter:
    def __init__(self, path, *, mode: str = "append") -> None:
        validate_write_mode(mode)
        self.path, self.tables = Path(path), []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        pq.write_table(pa.concat_tables(self.tables), self.path)

    def write_episode(self, ep) -> None:
        columns = {name: [np.asarray(row).tolist() for row in rows] for name, rows in ep.items()}
        count = len(next(iter(columns.values())))
        self.tables.append(pa.table({"episode": [len(self.tables)] * count, **columns}))


@pytest.fixture(params=[ParquetDataset, PlainParquetDataset])
def registered(request):
    @register_format
    class Parquet(Format):
        name = "parquet_of_tests"

        @classmethod
        def detect(cls, path) -> bool:
            return Path(path).suffix == ".parquet"

        @classmethod
        def open_reader(cls, path, **kw: object) -> Dataset:
            return request.param(path, **kw)

        @classmethod
        def open_writer(cls, path, **kw: object) -> ParquetWriter:
            return ParquetWriter(path, **kw)

    yield Parquet
    FORMATS.pop("parquet_of_tests")


@pytest.fixture
def places(tmp_path, registered):
    rng = np.random.default_rng(0)
    with HDF5Writer(tmp_path / "a.h5") as writer:
        for length in LENGTHS:
            writer.write_episode({"action": rng.normal(size=(length, 2)), "state": rng.normal(size=(length, 3))})
    convert(tmp_path / "a.h5", tmp_path / "a.parquet", dest_format=registered.name, progress=False)
    return tmp_path / "a.h5", tmp_path / "a.parquet"


def assert_equal(items, others):
    for item, other in zip(items, others, strict=True):
        assert item.keys() == other.keys()
        assert all(torch.equal(item[name], other[name]) for name in item)


@pytest.mark.parametrize("options", [{}, {"num_steps": 2}, {"num_steps": 2, "frameskip": 2}])
def test_clips_episodes_and_rows_are_those_of_a_builtin_format(places, options):
    def double(item):
        return {name: 2 * rows for name, rows in item.items()}

    builtin, own = (load_dataset(place, **options, transform=double) for place in places)
    assert isinstance(own, ParquetDataset)
    assert "parquet_of_tests" in list_formats()
    assert len(own[0]["action"]) == options.get("num_steps", 1)
    assert_equal(own, builtin)
    assert_equal(own.__getitems__([3, 0, -1]), builtin.__getitems__([3, 0, -1]))
    assert_equal([own.load_episode(1)], [builtin.load_episode(1)])
    chunks = ([0, 1], [0, 2], [4, 6])
    assert_equal(own.load_chunk(*chunks), builtin.load_chunk(*chunks))
    assert np.array_equal(own.get_col_data("state"), builtin.get_col_data("state"))
    assert np.array_equal(own.get_row_data([9, 0])["action"], builtin.get_row_data([9, 0])["action"])
    assert own.get_dim("state") == 3
    assert_equal(ConcatDataset([own, own]), ConcatDataset([builtin, builtin]))
    goals = [GoalDataset(data, goal_keys={"state": "goal"}, seed=0) for data in (own, builtin)]
    assert_equal(*goals)


def test_it_is_normalized_and_converted(places, tmp_path):
    builtin, own = (load_dataset(place) for place in places)
    scalers = [column_normalizer(data, "state", "state").lambd for data in (own, builtin)]
    assert np.array_equal(scalers[0].mean, scalers[1].mean)
    convert(places[1], tmp_path / "back.h5", dest_format="hdf5", progress=False)
    assert_equal(HDF5Dataset(path=tmp_path / "back.h5"), builtin)


def test_a_subclass_of_a_builtin_reader_may_extend_its_slices(places):
    class Extended(HDF5Dataset):
        def _load_slice(self, ep_idx: int, start: int, end: int) -> dict:
            return super()._load_slice(ep_idx, start, end) | {"step": torch.arange(start, end)}

    data = Extended(path=places[0], num_steps=2, frameskip=2)
    assert data[1]["step"].tolist() == [1, 3]
    assert torch.equal(data[1]["state"], HDF5Dataset(path=places[0], num_steps=2, frameskip=2)[1]["state"])


def test_what_is_missing_in_a_class_is_named():
    class Nothing(Dataset):
        pass

    with pytest.raises(NotImplementedError, match="Nothing: expected a property column_names"):
        Nothing([3], [0]).get_col_data("a")
    with pytest.raises(NotImplementedError, match=r"Nothing: expected a method _load_slice\(ep_idx, start, end\)"):
        Nothing([3], [0])[0]


# ---- names that the original gives ---------------------------------------------------------------------------------


def test_columns_with_dots_are_found_by_the_name_that_a_lance_table_stores(tmp_path):
    frames = np.full((4, 16, 16, 3), 7, np.uint8)
    with LanceWriter(tmp_path / "new" / "a.lance") as writer:
        writer.write_episode({"pixels.top": frames, "pixels.wrist": frames + 1, "action": np.zeros((4, 1), np.float32)})
    for name in ("pixels_top", "pixels.top"):
        data = LanceDataset(tmp_path / "new" / "a.lance", keys_to_load=[name, "action"], num_steps=2)
        assert data.column_names == [name, "action"]
        assert int(data[0][name].float().mean()) == 7
        assert data.image_columns == {name}
    everything = LanceDataset(tmp_path / "new" / "a.lance")
    assert everything.image_columns == {"pixels.top", "pixels.wrist"}
    top = LanceDataset(tmp_path / "new" / "a.lance", image_columns=["pixels.top"])
    assert (top.image_columns, top.column_names) == ({"pixels.top"}, ["pixels.top", "action"])
    with pytest.raises(EntryNotFoundError, match="no column 'none'"):
        LanceDataset(tmp_path / "new" / "a.lance", image_columns=["none"])
    with pytest.raises(DatasetError, match="image_columns: expected columns of encoded images, found 'action'"):
        LanceDataset(tmp_path / "new" / "a.lance", image_columns=["action"])
