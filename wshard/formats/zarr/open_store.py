"""An open zarr store: its arrays, whose rows are read by the zarr library."""

from __future__ import annotations

import math
import warnings
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.core.files.local import LocalPlace
from wshard.core.plugins import import_library
from wshard.errors import FormatError, FormatWarning, LimitError, MissingExtraError
from wshard.formats.zarr.array_layout import ArrayLayout, read_layout
from wshard.formats.zarr.expansion import bytes_to_check, check_expansion, compressor_of
from wshard.formats.zarr.store_files import METADATA_NAMES, StoreBuffers, ZarrFiles, ZarrFolder, ZarrZip

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wshard.core.files.place import Place
    from wshard.core.types import Array

_MAX_ARRAYS: Final = 4096
_MAX_DEPTH: Final = 8
_MAX_CHECKED: Final = 1 << 16
_CACHED_BYTES: Final = 1 << 22  # of the chunks of an array

OWN_ATTRIBUTE: Final = "wshard"
"""Attribute of the root for data without a field in a replay buffer, and its key stating that no chunk is missing."""
EVERY_CHUNK: Final = "every_chunk"


class OpenStore:
    """A store in a folder or .zip; lists its arrays without the zarr library."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.files: ZarrFiles = ZarrZip(place) if place.is_file() else ZarrFolder(place)
        self._store: Any = None
        self._layouts: dict[str, ArrayLayout] = {}
        self._arrays: dict[str, Any] = {}
        self._cached_rows: dict[
            str, tuple[int, Array]
        ] = {}  # (first row, rows) of the chunks that were read last, by array
        self._reported: set[str] = set()
        self._checked: dict[str, tuple[int, int]] = {}  # chunks that do not expand too far, by path

    @cached_property
    def _group(self) -> Any:
        library = import_library("zarr", "zarr")
        if not isinstance(self.place, LocalPlace):
            self._store = library.storage.MemoryStore(StoreBuffers(self.files), read_only=True)
            return library.open_group(self._store, mode="r", use_consolidated=False)
        if isinstance(self.files, ZarrZip):
            self._store = library.storage.ZipStore(self.place.uri, mode="r")
            return library.open_group(self._store, mode="r", use_consolidated=False)
        return library.open_group(self.place.uri, mode="r", use_consolidated=False)

    def close(self) -> None:
        """Close its files."""
        self.files.close()
        if self._store is not None:
            self._store.close()

    def layout(self, name: str) -> ArrayLayout:
        """Return dtype, shape and chunks of an array; raises FormatError for anything but an array of numbers."""
        if name not in self._layouts:
            documents = (self.files.read_json(f"{name}/{file}") for file in METADATA_NAMES)
            metadata = next((document for document in documents if document is not None), None)
            self._layouts[name] = read_layout(metadata, f"{self.place}: {name}")
        return self._layouts[name]

    def array(self, name: str) -> Any:
        """Return an array of the zarr library; raises FormatError, MissingExtraError for a codec.

        The library reads what was checked: metadata of each array, never the copies in consolidated metadata.
        """
        if name not in self._arrays:
            array, layout = self._open_array(name), self.layout(name)
            found = array.dtype.newbyteorder("="), array.shape, array.shards or array.chunks
            if found != (layout.dtype.newbyteorder("="), layout.shape, layout.chunks):
                raise FormatError(
                    f"{self.place}: {name}: expected {layout.dtype} {list(layout.shape)} in chunks of "
                    f"{list(layout.chunks)}, as its metadata says, found {found[0]} {list(found[1])}, "
                    f"{list(found[2])}: it has metadata of two versions, or changed while it was read"
                )
            self._arrays[name] = array
        return self._arrays[name]

    def _open_array(self, name: str) -> Any:
        layout, where = self.layout(name), f"{self.place}: {name}"
        try:
            return self._group[name]
        except MissingExtraError:
            raise
        except Exception as error:  # the library raises many errors for damaged metadata
            if type(error).__name__ != "UnknownCodecError":
                raise FormatError(f"{where}: cannot be read: {type(error).__name__}: {error}") from error
            if _register_codecs(layout.codecs):
                return self._group[name]
            raise MissingExtraError(
                f"{where}: expected the codecs {', '.join(layout.codecs)}, found one that is not installed: {error}; "
                "those of UMI, such as imagecodecs_jpegxl, come with the package imagecodecs"
            ) from error

    def rows(self, name: str, start: int, stop: int) -> Array:
        """Return rows of an array of numbers, a new array; raises FormatError, MissingExtraError for a codec.

        Small chunks stay in memory until others are read: most hold the rows of several episodes.
        """
        self._check_chunks(name, start, stop)
        layout = self.layout(name)
        first = start - start % layout.chunks[0]
        last = min(stop + -stop % layout.chunks[0], layout.shape[0])
        size = (last - first) * math.prod(layout.shape[1:]) * layout.dtype.itemsize
        if size > _CACHED_BYTES or not start < stop <= last:
            return self._read_rows(name, start, stop)
        cached = self._cached_rows.get(name)
        if cached is None or not cached[0] <= start <= stop <= cached[0] + len(cached[1]):
            cached = self._cached_rows[name] = first, self._read_rows(name, first, last)
        rows: Array = cached[1][start - cached[0] : stop - cached[0]].copy()
        return rows

    def _read_rows(self, name: str, start: int, stop: int) -> Array:
        array, where = self.array(name), f"{self.place}: {name}"
        self._check_expansion(name, start, stop)
        try:
            rows = np.asarray(array[start:stop])
        except MemoryError:
            raise LimitError(f"{where}: rows {start} to {stop} do not fit into memory") from None
        except Exception as error:  # codecs raise many errors for damaged bytes
            raise FormatError(f"{where}: cannot be read: {type(error).__name__}: {error}") from error
        if len(rows) != stop - start:
            raise FormatError(f"{where}: expected rows {start} to {stop}, found {len(rows)}")
        return rows.astype(rows.dtype.newbyteorder("="), copy=False)

    def _check_chunks(self, name: str, start: int, stop: int) -> None:
        """Check that the chunks of rows have files, since the library returns the fill value for missing ones.

        Writers may omit chunks that contain only the fill value: a FormatWarning, once per array with more than one
        number per row; a FormatError if the buffer states that every chunk has a file.
        """
        if stop <= start or name in self._reported:
            return
        layout = self.layout(name)
        chunk = next(
            (
                chunk_name
                for chunk_name in layout.chunk_names(start, stop)
                if self.files.state(f"{name}/{chunk_name}") is None
            ),
            None,
        )
        if chunk is None:
            return
        text = f"{self.place}: {name}: rows {start} to {stop - 1}: expected the file of chunk {chunk}, found none"
        if as_object(self.attributes.get(OWN_ATTRIBUTE)).get(EVERY_CHUNK):
            raise FormatError(text)
        if math.prod(layout.shape[1:]) == 1:
            return  # such as rewards and flags, which are often all 0
        self._reported.add(name)
        warnings.warn(
            f"{text}: its numbers are taken to be the fill value, as in a chunk that was left out because it is empty",
            FormatWarning,
            stacklevel=2,
        )

    def _check_expansion(self, name: str, start: int, stop: int) -> None:
        """Check the chunks of rows that were not checked yet: the library allocates what a chunk expands to."""
        layout = self.layout(name)
        codec = compressor_of(layout, f"{self.place}: {name}")
        for chunk in layout.all_chunk_names(start, stop) if codec else ():
            path = f"{name}/{chunk}"
            state = self.files.state(path)
            if state is not None and self._checked.get(path) != state:
                data = self.files.read(path, bytes_to_check(codec, layout, state[0]))
                check_expansion(data, codec, layout, f"{self.place}: {path}", size=state[0])
                if len(self._checked) >= _MAX_CHECKED:
                    self._checked.clear()
                self._checked[path] = state

    def walk(self, group: str, *, depth: int = _MAX_DEPTH) -> Iterator[str]:
        """Yield the paths of the arrays in a group; raises LimitError for too many."""
        names = self.files.groups(group)
        if len(names) > _MAX_ARRAYS:
            raise LimitError(f"{self.place}: {group}: expected at most {_MAX_ARRAYS} arrays, found {len(names)}")
        for name in names:
            path = f"{group}/{name}"
            v2_metadata, v3_metadata = (
                self.files.read_json(f"{path}/{metadata_name}") for metadata_name in METADATA_NAMES
            )
            if v2_metadata is not None or as_object(v3_metadata).get("node_type") == "array":
                self.files.read_json(
                    f"{path}/.zattrs"
                )  # the library reads it, too: raise its error now, instead of omitting the array
                yield path
            elif depth and (v3_metadata is not None or self.files.read_json(f"{path}/.zgroup") is not None):
                yield from self.walk(path, depth=depth - 1)

    @cached_property
    def attributes(self) -> dict[str, Any]:
        """The attributes of the root."""
        v2_attributes = self.files.read_json(".zattrs")
        return as_object(v2_attributes) or as_object(as_object(self.files.read_json("zarr.json")).get("attributes"))


def as_object(value: Any) -> dict[str, Any]:
    """Return a JSON object, an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def _register_codecs(codecs: tuple[str, ...]) -> bool:
    """Register the codecs of imagecodecs; False if none of them is needed, or it is not installed."""
    if not any(name.startswith("imagecodecs_") for name in codecs):
        return False
    try:
        library: Any = import_module("imagecodecs.numcodecs")
    except ImportError:
        return False
    library.register_codecs(verbose=False)
    return True
