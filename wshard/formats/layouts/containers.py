"""Open what holds arrays, whatever its format, as one kind of object: arrays by path, groups, attributes."""

from __future__ import annotations

import io
import math
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.core.episode.natural_order import sort_naturally
from wshard.core.files.local import LocalPlace
from wshard.core.media.video_pool import POOL
from wshard.errors import FormatError, LimitError
from wshard.formats.d4rl.npz_rows import NpzRows
from wshard.formats.hdf5.nodes import expect_dataset, expect_group, find, open_hdf5, translate_errors
from wshard.formats.hdf5.values import dataset_unit, read_attributes
from wshard.formats.hdf5.walk import walk_datasets
from wshard.formats.layouts.columns import Flat, as_column, path_in
from wshard.formats.layouts.groups import NumberedArrays, RowGroups
from wshard.formats.layouts.layout import NUMBER, SUFFIXES
from wshard.formats.layouts.memmap import MemmapArrays
from wshard.formats.layouts.text_files import JsonArrays
from wshard.formats.npz import parse_npy, read_npy_header, translate_npz_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from wshard.core.files.place import Place
    from wshard.formats.layouts.columns import ArrayFile, RowArray
    from wshard.formats.layouts.layout import EpisodeLayout

_MAX_FILES: Final = 4096
_MAX_HEADER: Final = 1 << 16
_MAX_GROUPS: Final = 1 << 20
_MAX_STATED: Final = 64  # groups whose attributes stay in memory


class _Dataset:
    """A dataset whose shape and dtype were read from the file once; h5py reads them each time."""

    __slots__ = ("_rows", "dtype", "shape", "size")

    def __init__(self, dataset: Any) -> None:
        self._rows, self.shape, self.dtype, self.size = dataset, dataset.shape, dataset.dtype, dataset.size

    def __getitem__(self, rows: Any) -> Any:
        return self._rows[rows]

    def unit(self) -> str:
        """Return the unit in its attributes."""
        return dataset_unit(self._rows)


class Hdf5Arrays:
    """An HDF5 file."""

    def __init__(self, place: Place) -> None:
        self._where, self._file = str(place), open_hdf5(place)
        self._node: tuple[str, Any] = "", self._file
        self._found: dict[str, dict[str, _Dataset]] = {}
        self._stated: dict[str, dict[str, Any]] = {}

    def close(self) -> None:
        """Close the file."""
        self._found, self._node = {}, ("", None)
        self._file.close()

    def _group(self, path: str) -> Any:
        """Return a group; the last one is kept, as its datasets and its attributes are asked for."""
        if path != self._node[0]:
            self._node = path, expect_group(self._file, path, self._where) if path else self._file
        return self._node[1]

    def paths(self, group: str = "") -> list[str]:
        """Return the paths of the datasets below a group."""
        return [*self._datasets(group)]

    def names(self) -> list[str]:
        """Return the names of all that is in no group."""
        return [*self._file]

    def single(self, name: str) -> _Dataset:
        """Return a dataset without a look at others."""
        with translate_errors(self._where):
            return _Dataset(expect_dataset(self._file, name, self._where))

    def column(self, path: str) -> _Dataset:
        """Return a dataset."""
        for group, datasets in self._found.items():
            inner = path.removeprefix(f"{group}/") if group else path
            if inner in datasets:
                return datasets[inner]
        group, _, name = path.rpartition("/")
        datasets = self._datasets(group)
        if name not in datasets:
            raise FormatError(f"{self._where}: expected a dataset {path!r}, found none")
        return datasets[name]

    def unit(self, path: str) -> str:
        """Return the unit in the attributes of a dataset."""
        with translate_errors(self._where):
            return self.column(path).unit()

    def _datasets(self, group: str) -> dict[str, _Dataset]:
        if group not in self._found:
            with translate_errors(self._where):
                found = walk_datasets(self._group(group), self._where)
                datasets = {path: _Dataset(dataset) for path, dataset in found}
            if len(self._found) > 1:
                self._found.pop(next(iter(self._found)))
            self._found[group] = datasets
        return self._found[group]

    def groups(self, pattern: str) -> list[str]:
        """Return the groups that fit the pattern."""
        found = [("", self._file)]
        with translate_errors(self._where):
            for part in pattern.split("/"):
                found = [
                    (path_in(path, name), node)
                    for path, parent in found
                    for name in sort_naturally(name for name in parent if fnmatchcase(name, part))
                    if hasattr(node := find(parent, name, self._where), "keys")
                ]
                if len(found) > _MAX_GROUPS:
                    raise LimitError(f"{self._where}: expected at most {_MAX_GROUPS} groups, found more")
        return [path for path, _ in found]

    def attributes(self, group: str = "") -> dict[str, Any]:
        """Return the attributes of a group."""
        if group not in self._stated:
            with translate_errors(self._where):
                stated = read_attributes(self._group(group))
            if len(self._stated) > _MAX_STATED:
                self._stated.clear()
            self._stated[group] = stated
        return self._stated[group]


class NpzArrays(Flat):
    """An .npz file."""

    def __init__(self, place: Place) -> None:
        self._rows = NpzRows(place, any_order=True)
        self.close = self._rows.close  # type: ignore[method-assign]

    def paths(self, group: str = "") -> list[str]:
        """Return the names of the arrays."""
        return _below(self._rows.members, group)

    def column(self, path: str) -> RowArray:
        """Return an array."""
        return as_column(self._rows.column(path))


class NpyArrays(Flat):
    """A folder of .npy files, by their paths without suffix; they are mapped, if they are local."""

    def __init__(self, place: Place) -> None:
        self._files: dict[str, Place] = {}
        for file in [place] if not place.is_dir() else place.walk():
            if file.suffix.lower() == ".npy":
                name = file.relative_to(place) if file != place else file.name
                self._files[name[: -len(".npy")]] = file
            if len(self._files) > _MAX_FILES:
                raise LimitError(f"{place}: expected at most {_MAX_FILES} .npy files, found more")
        self._files = {name: self._files[name] for name in sort_naturally(self._files)}
        self.column = cache(self._open)  # type: ignore[method-assign]

    def paths(self, group: str = "") -> list[str]:
        """Return the paths of the files, without suffix."""
        return _below(self._files, group)

    def column(self, path: str) -> RowArray:
        """Return an array."""
        return self._open(path)

    def _open(self, path: str) -> RowArray:
        file = self._files.get(path)
        if file is None:
            raise FormatError(f"expected a file {path}.npy, found {', '.join(self._files) or 'none'}")
        shape, fortran, dtype, start = read_npy_header(io.BytesIO(file.read(0, _MAX_HEADER)), str(file))
        needed = math.prod(shape) * dtype.itemsize + start
        if file.status().size != needed:
            raise FormatError(f"{file}: {dtype} {list(shape)} needs {needed} bytes, found {file.status().size}")
        if not isinstance(file, LocalPlace) or needed == start or not shape:
            return as_column(parse_npy(file.read(0, needed), str(file)))
        order: Any = "F" if fortran else "C"
        with translate_npz_errors(str(file)):
            return as_column(np.memmap(file.local_path(), dtype, "r", start, shape, order))


class VideoTimes(Flat):
    """An .mp4 file as the array "time" of its frames, in seconds; the attribute fps is their rate."""

    def __init__(self, place: Place) -> None:
        with POOL.use(place, str(place)) as video:
            self._times, rate = video.times, video.stream.average_rate
        self._attributes = {"fps": float(rate)} if rate else {}

    def paths(self, group: str = "") -> list[str]:
        """Return the name of the only array."""
        return [] if group else ["time"]

    def column(self, path: str) -> RowArray:
        """Return the times; raises FormatError."""
        if path != "time":
            raise FormatError(f"expected an array 'time', which videos have, found {path!r}")
        return as_column(self._times)

    def attributes(self, _group: str = "") -> Mapping[str, Any]:
        """Return the rate."""
        return self._attributes


def _below(names: Mapping[str, Any], group: str) -> list[str]:
    return [name.removeprefix(f"{group}/") for name in names if not group or name.startswith(f"{group}/")]


def open_arrays(layout: EpisodeLayout, place: Place) -> ArrayFile:
    """Open what a layout describes; raises as open_container."""
    if layout.container == "json" and layout.batches:
        return JsonArrays(place, batches=True)
    file: Any = open_container(layout.container, place)
    if layout.episodes.by == NUMBER:
        return NumberedArrays(file)
    return RowGroups(file) if layout.has_lists else file


def open_container(kind: str, place: Place) -> ArrayFile:
    """Open a container of a kind (layout.CONTAINERS); raises FormatError, MissingExtraError, OSError."""
    if kind == "json" or (kind == "table" and place.suffix.lower() in SUFFIXES["json"]):
        return JsonArrays(place)
    if kind == "table":
        from wshard.formats.layouts.tables import open_table  # noqa: PLC0415  (its libraries are optional)

        return open_table(place)
    return _OPENERS[kind](place)


_OPENERS: Final[Mapping[str, Callable[[Place], ArrayFile]]] = {
    "hdf5": Hdf5Arrays,
    "npz": NpzArrays,
    "npy": NpyArrays,
    "memmap": MemmapArrays,
    "video": VideoTimes,
}
