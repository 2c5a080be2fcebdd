"""Collect the lanes and the metadata of an episode from its datasets."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from wshard.core.array_fields import DType
from wshard.core.episode.info import EpisodeInfo
from wshard.core.episode.lanes import DONE, REWARD, TRUNCATIONS
from wshard.core.episode.meta_reader import Declaration
from wshard.core.episode.step_texts import declare_texts, list_texts
from wshard.core.media.image_header import read_image_header
from wshard.core.types import TimebaseSpec
from wshard.errors import FormatError
from wshard.formats.hdf5.values import MAX_NUMBERS, NOT_JSON, dataset_unit, finite, json_value

if TYPE_CHECKING:
    from collections.abc import Mapping

FINAL: Final = "final_observation"
LEFT_OUT: Final = "left_out"

Kind = Literal["numbers", "flags", "words", "images"]

_MAX_TEXTS: Final = 1024
_STEP_LANES: Final = frozenset({REWARD, DONE, TRUNCATIONS})
_FLAGS: Final = frozenset({DONE, TRUNCATIONS})
_JPEG_MAGIC: Final = b"\xff\xd8\xff"
_PNG_MAGIC: Final = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True)
class DatasetColumn:
    """The dataset with the rows of a lane, which start at row `first`."""

    path: str
    kind: Kind = "numbers"
    first: int = 0


@dataclass(frozen=True)
class ColumnInfo(EpisodeInfo):
    """The description of an episode whose lanes are rows of datasets, with the column of each by its block name."""

    columns: Mapping[str, DatasetColumn] = field(default_factory=dict)


class LaneTable:
    """Collects the lanes of one episode of `length` timesteps, rows [first, first + length) of datasets.

    root: the path of the group that has the datasets.
    """

    def __init__(self, length: int, where: str, *, root: str = "", first: int = 0) -> None:
        if length < 1:
            raise FormatError(f"{where}: expected at least one timestep, found {length}")
        self.length, self.where, self.first, self._root = length, where, first, root
        self.lanes: dict[str, Declaration] = {}
        self.columns: dict[str, DatasetColumn] = {}
        self.metadata: dict[str, Any] = {}
        self.sizes: dict[str, int] = {}
        self._left_out: dict[str, str] = {}
        self._final: dict[str, Any] = {}

    def add(self, block: str, path: str, dataset: Any, *, rows: int | None = None, first: int | None = None) -> bool:
        """Add a dataset as a lane; one without a row per timestep becomes metadata if it is small, else is left out.

        rows: number of rows of the episode, T or T + 1 with the final observation; by default all. first: the row of
        the first timestep, if it differs from that of the episode. Return whether the lane has the name of the block:
        texts are metadata. Raises FormatError if another one has it.
        """
        first_row = self.first if first is None else first
        shape = tuple(dataset.shape or ())
        row_count = shape[0] if shape and rows is None else rows
        if not shape or row_count not in (self.length, self.length + 1) or shape[0] < first_row + self.length:
            self.add_constant(path, dataset)
            return False
        column = DatasetColumn(f"{self._root}/{path}" if self._root else path, first=first_row)
        is_lane = self._add_lane(block, column, dataset)
        if not (is_lane or self._add_texts(block, column, dataset)):
            self.leave_out(path, f"{dataset.dtype} {list(dataset.shape or ())}")
        elif row_count == self.length + 1:
            self.add_final(block.partition("/")[2], dataset, first_row + self.length)
        return is_lane

    def add_final(self, name: str, dataset: Any, row: int) -> None:
        """Add a row of numbers as the final observation of a name; frames are left out."""
        if 0 <= row < dataset.shape[0] and dataset.dtype.kind in "biuf" and _step_size(dataset) <= MAX_NUMBERS:
            self._final[name] = finite(np.asarray(dataset[row]))

    def info(self, id_: str, *, env_id: str = "", timebase: TimebaseSpec | None = None) -> ColumnInfo:
        """Return the description."""
        extra_metadata = {name: value for name, value in ((FINAL, self._final), (LEFT_OUT, self._left_out)) if value}
        return ColumnInfo(
            id=id_,
            length=self.length,
            lanes=self.lanes,
            env_id=env_id,
            timebase=timebase or TimebaseSpec(),
            metadata=self.metadata | extra_metadata,
            columns=self.columns,
            stored_sizes=self.sizes,
        )

    def _add_lane(self, block: str, column: DatasetColumn, dataset: Any) -> bool:
        """Add numbers, flags or images; False for anything else."""
        shape, dtype_ = tuple(dataset.shape[1:]), dataset.dtype
        if block in _STEP_LANES and math.prod(shape) == 1:
            shape = ()
        image = first_image(dataset, column.first)
        if image is not None:
            header = read_image_header(image, f"{self.where}: {column.path!r}")
            dtype = DType.from_numpy(header.dtype)
            self._declare(
                Declaration(block, dtype, header.shape, encoding=header.encoding), replace(column, kind="images")
            )
        elif dtype_.kind not in "biuf" or dtype_.itemsize > 8 or (block in _STEP_LANES and shape):
            return False
        else:
            is_flags = block in _FLAGS
            dtype = DType.BOOL if is_flags else DType.from_numpy(dtype_)
            lane = Declaration(block, dtype, shape, unit="" if is_flags else dataset_unit(dataset))
            self._declare(lane, replace(column, kind="flags" if is_flags else "numbers"))
        return True

    def _declare(self, lane: Declaration, column: DatasetColumn) -> None:
        if lane.block in self.lanes:
            raise FormatError(f"{self.where}: {column.path!r}: expected one lane {lane.block!r}, found two")
        self.lanes[lane.block], self.columns[lane.block] = lane, column

    def _add_texts(self, block: str, column: DatasetColumn, dataset: Any) -> bool:
        """Add texts: a constant one as metadata, several as a list in the metadata with a lane of positions in it."""
        texts = read_texts(dataset, column.first, column.first + self.length)
        listed = list_texts(texts or ())
        is_list = isinstance(listed, list)
        if texts is None or (is_list and len(listed) > _MAX_TEXTS):
            return False
        name = block.partition("/")[2]
        self.metadata[name] = listed
        if is_list:
            self._declare(declare_texts(name), replace(column, kind="words"))
        return True

    def add_constant(self, path: str, dataset: Any) -> None:
        """Add a dataset to the metadata if it is small, else leave it out."""
        value = NOT_JSON
        if dataset.shape is not None and dataset.size <= MAX_NUMBERS:
            value = json_value(dataset[()])
        if value is NOT_JSON:
            self.leave_out(path, f"{dataset.dtype} {list(dataset.shape or ())}")
        else:
            self.metadata[path] = value

    def leave_out(self, path: str, what: str) -> None:
        """List a dataset under `left_out` in the metadata: it is neither a lane nor small enough for metadata."""
        self._left_out[path] = what


def _step_size(dataset: Any) -> int:
    return math.prod(dataset.shape[1:])


def _items_of(dtype: np.dtype[Any]) -> Any:
    """Return the element type of a dtype of objects according to h5py: str, bytes, or the dtype of lists."""
    metadata: Mapping[str, Any] = dtype.metadata or {}
    element = metadata.get("vlen")
    return element if element in (str, bytes, None) else np.dtype(element)


def first_image(dataset: Any, row: int) -> bytes | None:
    """Return the encoded image in a row of a dataset of bytes, None if there is none.

    Rows are lists of bytes of variable length, or padded with zeros.
    """
    dtype = dataset.dtype
    if dtype.kind in "fi" or (dtype.kind == "u" and len(dataset.shape) != 2):
        return None
    if dtype.kind == "S" and len(dataset.shape) == 1:
        image = bytes(dataset[row])
        return image if image.startswith((_JPEG_MAGIC, _PNG_MAGIC)) else None
    if dtype.kind != "O":
        is_padded = dtype == np.uint8 and len(dataset.shape) == 2
        if not is_padded or not bytes(dataset[row, : len(_PNG_MAGIC)]).startswith((_JPEG_MAGIC, _PNG_MAGIC)):
            return None
        return bytes(dataset[row])
    if len(dataset.shape) != 1 or _items_of(dtype) not in (np.uint8, np.int8):
        return None
    image = dataset[row].tobytes()
    return image if image.startswith((_JPEG_MAGIC, _PNG_MAGIC)) else None


def read_texts(dataset: Any, start: int, stop: int) -> list[str] | None:
    """Return the texts in rows of a dataset, None if they are not texts."""
    if dataset.dtype.kind != "S" and _items_of(dataset.dtype) not in (str, bytes):
        return None
    rows = np.asarray(dataset[start:stop])
    if rows.ndim == 2 and rows.shape[1] == 1:
        rows = rows[:, 0]
    if rows.ndim != 1:
        return None
    return [text.decode("utf-8", errors="replace") if isinstance(text, bytes) else str(text) for text in rows.tolist()]
