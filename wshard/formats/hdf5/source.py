"""The base of Sources of HDF5 files: a format defines which datasets are lanes."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast

import numpy as np

from wshard.core.episode.encoded_lane import image_frames
from wshard.core.episode.lanes import STEP_TEXTS
from wshard.core.episode.step_texts import find_positions
from wshard.errors import FormatError
from wshard.formats.hdf5.kinds import hdf5_kind
from wshard.formats.hdf5.lane_table import ColumnInfo, read_texts
from wshard.formats.hdf5.nodes import expect_dataset, open_hdf5, translate_errors
from wshard.formats.lazy_source import LazySource

if TYPE_CHECKING:
    from collections.abc import Callable

    from wshard.core.episode.info import EpisodeInfo
    from wshard.core.files.place import Place
    from wshard.core.files.schemes import Location
    from wshard.core.media.frames import ImageFrames
    from wshard.core.types import Array
    from wshard.formats.hdf5.lane_table import DatasetColumn
    from wshard.formats.look import LocationLook

_Ref = TypeVar("_Ref")


class DatasetImages(Sequence[bytes]):
    """The encoded images of a lane, read on demand and without the zeros that pad a row."""

    def __init__(self, length: int, read: Callable[[int], Any]) -> None:
        self._length = length
        self._read = read

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, step: Any) -> Any:
        """Return the image of one timestep."""
        return np.asarray(self._read(step)).tobytes().rstrip(b"\0")


class Hdf5Source(LazySource[_Ref], Generic[_Ref]):
    """A Source of an HDF5 file, opened once; a subclass lists and describes its episodes."""

    own_lanes = True

    kind: ClassVar[str] = ""
    """The name of the format, as hdf5_kind returns it."""

    @classmethod
    def matches(cls, location: Location | LocationLook) -> bool:
        """Return True for an HDF5 file in this format."""
        return hdf5_kind(location) == cls.kind

    @abstractmethod
    def _columns(self, key: str, ref: _Ref, file: Any) -> ColumnInfo:
        """Describe an episode in an open file; errors of the library are translated."""

    def _file_of(self, ref: _Ref) -> Place:
        """Return the file of an episode."""
        return self._place

    def _files(self, ref: _Ref) -> list[Place]:
        return [self._file_of(ref)]

    def _open(self, place: Place) -> Any:
        """Return the open h5py.File at a place."""
        return self.open_once(place.uri, lambda: open_hdf5(place))

    def _describe(self, key: str, ref: _Ref) -> EpisodeInfo:
        with translate_errors(self.where_of(key)):
            return self._columns(key, ref, self._open(self._file_of(ref)))

    def _dataset(self, ref: _Ref, column: DatasetColumn) -> Any:
        """Return the rows of a lane: an object with shape and dtype that is indexed like an array."""
        return expect_dataset(self._open(self._file_of(ref)), column.path, self.where_of(""))

    def _read(self, ref: _Ref, info: EpisodeInfo, block: str, steps: slice) -> Array:
        lane, column = info.lanes[block], cast("ColumnInfo", info).columns[block]
        if column.kind == "images":
            decoded: Array = self._encoded(ref, info, block).decode(steps.start, steps.stop)
            return decoded
        first, last = column.first + steps.start, column.first + steps.stop
        where = f"{self.where_of('')}: {column.path!r}"
        with translate_errors(where):
            dataset = self._dataset(ref, column)
            rows = _positions(dataset, first, last, info, block) if column.kind == "words" else dataset[first:last]
        array = np.asarray(rows != 0 if column.kind == "flags" else rows, dtype=lane.dtype.numpy_dtype)
        if array.size != (last - first) * math.prod(lane.shape):
            raise FormatError(f"{where}: expected {last - first} rows of {list(lane.shape)}, found {list(array.shape)}")
        copy = None if array.flags.owndata else True  # rows of a mapped file would hold it open
        return np.array(array.reshape(last - first, *lane.shape), order="C", copy=copy)

    def _encoded(self, ref: _Ref, info: EpisodeInfo, block: str) -> ImageFrames:
        lane, column = info.lanes[block], cast("ColumnInfo", info).columns[block]
        where = f"{self.where_of('')}: {column.path!r}"

        def read(step: int) -> Any:
            with translate_errors(where):
                return self._dataset(ref, column)[column.first + step]

        return image_frames(lane, DatasetImages(info.length, read), where)

    def _identify(self, ref: _Ref, info: EpisodeInfo, block: str) -> bytes:
        images = self._encoded(ref, info, block)
        return b"".join(bytes(images.image(step)) for step in {0, info.length // 2, info.length - 1})


def _positions(dataset: Any, first: int, last: int, info: EpisodeInfo, block: str) -> Array:
    listed = info.metadata[block.removeprefix(STEP_TEXTS)]
    return find_positions(read_texts(dataset, first, last) or (), listed, block)
