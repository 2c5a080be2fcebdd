"""Folders of .memmap files with a meta.json, as TensorDict writes them, and replay buffers of TorchRL around one."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.core.files.local import LocalPlace
from wshard.core.messages import shown
from wshard.errors import FormatError, LimitError
from wshard.formats.layouts.columns import Flat

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wshard.core.files.place import Place
    from wshard.formats.layouts.columns import RowArray

META: Final = "meta.json"
STORAGE: Final = "storage"

_MAX_JSON: Final = 1 << 24
_MAX_DEPTH: Final = 16
_MAX_ARRAYS: Final = 4096
_TORCH: Final = "torch."
_ROWS: Final = f"{STORAGE}/storage_metadata.json"
_WRITER: Final = "writer/metadata.json"


class MemmapArrays(Flat):
    """The arrays of a folder; local ones are mapped.

    The attributes of a replay buffer are `len`, its number of rows, and `last`, its newest row.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        self._is_buffer = not (place / META).is_file()
        self._found = dict(_list_arrays(place / STORAGE if self._is_buffer else place, "", 0))
        if len(self._found) > _MAX_ARRAYS:
            raise LimitError(f"{place}: expected at most {_MAX_ARRAYS} arrays, found {len(self._found)}")
        self.column = cache(self._open)  # type: ignore[method-assign]

    def paths(self, group: str = "") -> list[str]:
        """Return the paths of the arrays."""
        return [path for path in self._found if path] if not group else []

    def column(self, path: str) -> RowArray:
        """Return an array; raises FormatError."""
        return self._open(path)

    def attributes(self, group: str = "") -> Mapping[str, Any]:
        """Return the state of a replay buffer."""
        if not self._is_buffer or group:
            return {}
        length, cursor = _read(self._place / _ROWS).get("len"), _read(self._place / _WRITER).get("cursor")
        if type(length) is not int or type(cursor) is not int or length < 1:
            raise FormatError(f"{self._place}: expected rows and a cursor, found {shown(length)}, {shown(cursor)}")
        return {"len": length, "last": (cursor - 1) % length}

    def _open(self, path: str) -> RowArray:
        if path not in self._found:
            raise FormatError(f"{self._place}: expected an array {path!r}, found {', '.join(self._found) or 'none'}")
        file, shape, dtype = self._found[path]
        size = math.prod(shape) * dtype.itemsize
        if file.status().size < size:
            raise FormatError(f"{file}: {dtype} {list(shape)} needs {size} bytes, found {file.status().size}")
        if isinstance(file, LocalPlace) and size:
            return np.memmap(file.local_path(), dtype, "r", 0, shape)
        return np.frombuffer(file.read(0, size), dtype).reshape(shape)


def _list_arrays(folder: Place, prefix: str, depth: int) -> Iterator[tuple[str, tuple[Place, tuple[int, ...], Any]]]:
    if depth > _MAX_DEPTH:
        raise LimitError(f"{folder}: expected folders in folders at most {_MAX_DEPTH} deep, found more")
    for name, facts in _read(folder / META).items():
        if not isinstance(facts, dict) or "/" in name or name.startswith("."):
            continue
        if "type" in facts:
            yield from _list_arrays(folder / name, f"{prefix}{name}/", depth + 1)
        elif not facts.get("is_nested") and (dtype := _dtype_of(facts.get("dtype"))) is not None:
            shape = facts.get("shape")
            if not isinstance(shape, list) or not all(type(axis) is int and axis >= 0 for axis in shape):
                raise FormatError(f"{folder / META}: {name!r}: expected a shape, found {shown(shape)}")
            yield f"{prefix}{name}", (folder / f"{name}.memmap", tuple(shape), dtype)


def _dtype_of(text: Any) -> np.dtype[Any] | None:
    """Return the dtype of "torch.float32", None for one that numpy lacks."""
    if not isinstance(text, str) or not text.startswith(_TORCH):
        return None
    try:
        dtype = np.dtype(text.removeprefix(_TORCH))
    except TypeError:
        return None
    return dtype if dtype.kind in "biuf" else None


def _read(place: Place) -> dict[str, Any]:
    found = place.read_json(_MAX_JSON)
    if not isinstance(found, dict):
        raise FormatError(f"{place}: expected an object, found {shown(found)}")
    return found
