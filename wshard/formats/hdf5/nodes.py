"""Open HDF5 files of any origin, and navigate their groups without leaving the file.

Links to other files, virtual and external data, missing filters and impossible sizes are refused. Errors of the library
are translated here.
"""

from __future__ import annotations

import atexit
import contextlib
import math
import os
import sys
import traceback
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.core.files.file_object import OpenFilePlace
from wshard.core.messages import shown
from wshard.core.plugins import import_library
from wshard.errors import FormatError, LimitError, UnsupportedFormatError, WShardError
from wshard.formats.hdf5.checked_file import LIST_SIZE, CheckedFile, checked_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wshard.core.files.place import Place

_MAX_CHUNK: Final = 1 << 30
_UNCHECKED_SIZE: Final = 1 << 28  # smaller sizes are not compared with the stored size
_MAX_EXPANSION: Final = 1100
_BUILT_IN: Final = frozenset({1, 2, 3, 4, 5, 6, 32000})  # deflate to scale-offset, and h5py's own lzf
_FOREIGN: Final = (OSError, RuntimeError, ValueError, KeyError, TypeError, OverflowError, UnicodeError, IndexError)
_NO_HDF5: Final = "file signature not found"
_UNLOCKED: Final = ("FALSE", "0")
_UNCLOSED: Final = "file is already open for write"
_DEFLATE: Final = 1
_FLETCHER32: Final = 3
_CHECKSUM_SIZE: Final = 4
_ADDRESS_SIZE: Final = 8  # in the files of almost all programs


def import_h5py() -> Any:
    """Return the module h5py; raises MissingExtraError where it is not installed."""
    h5py = sys.modules.get("h5py") or import_library("h5py", "hdf5")  # fast path, as it is called for each dataset
    _close_files_at_exit()
    return h5py


@cache
def _close_files_at_exit() -> None:
    """Close files that the library reads through Python while there is a Python: it would close them later, and crash.

    Handlers run in reverse order, so this one runs before those of h5py.
    """
    atexit.register(_close_files)


def _close_files() -> None:
    h5py = sys.modules["h5py"]
    for file in h5py.h5f.get_obj_ids(types=h5py.h5f.OBJ_FILE):
        if file.valid and file.get_access_plist().get_driver() == h5py.h5fd.fileobj_driver:
            h5py.File(file).close()


@contextlib.contextmanager
def translate_errors(where: str) -> Iterator[None]:
    """Translate errors of the library to FormatError; system errors are passed on, with the name of the file."""
    try:
        yield
    except WShardError:
        raise
    except _FOREIGN as error:
        text = " ".join(str(error).split())
        if isinstance(error, OSError) and error.errno is not None:
            if error.filename is not None:
                raise
            raise OSError(error.errno, error.strerror, where) from error
        if _UNCLOSED in text:
            raise FormatError(
                f"{where}: expected a file that its writer has closed, found one that it has not: close it there, or, "
                "if that program has ended, mark the file as closed by `h5clear -s FILE`"
            ) from error
        if _NO_HDF5 in text:
            raise FormatError(f"{where}: expected an HDF5 file, found another, an empty or a damaged one") from error
        raise FormatError(f"{where}: expected data that can be read: {text}") from error


def open_hdf5(place: Place, where: str = "", **options: Any) -> Any:
    """Return an open h5py.File; raises FormatError, MissingExtraError, OSError, FileNotFoundError.

    BlockingIOError while another program writes to it, unless HDF5_USE_FILE_LOCKING turns locks off, as for HDF5, which
    locks no file that it reads through Python. where: its name in messages, if that is not the place.
    """
    h5py = import_h5py()
    if os.environ.get("HDF5_USE_FILE_LOCKING", "").upper() not in _UNLOCKED:
        place.expect_unlocked()
    with translate_errors(where or str(place)):
        file = place.file if isinstance(place, OpenFilePlace) else CheckedFile(place, where or str(place))
        try:
            return h5py.File(file, "r", **options)
        except _FOREIGN as error:
            traceback.clear_frames(
                error.__traceback__
            )  # with what HDF5 would free through Python, at exit after its end
            raise


def child(group: Any, name: str, where: str) -> Any:
    """Return the group or dataset of this name, None if there is none; raises FormatError for a link."""
    if "\0" in name or not group.id.links.exists(name.encode()):
        return None
    return open_member(group, name, where)


def link_type(group: Any, name: str) -> int:
    """Return the type of a link of a group, of those of h5py.h5l."""
    found: int = group.id.links.get_info(name.encode()).type
    return found


def open_member(group: Any, name: str, where: str) -> Any:
    """Return the group or dataset of a name that exists; raises FormatError for a link."""
    if not isinstance(name, str):
        raise FormatError(f"{where}: expected a name in UTF-8, found {shown(name)}")
    h5py, encoded = import_h5py(), name.encode()
    if link_type(group, name) != h5py.h5l.TYPE_HARD:
        link = group.get(name, getlink=True)
        target = getattr(link, "filename", "") or getattr(link, "path", "")
        raise FormatError(f"{where}: {name!r}: expected data, found a link to {shown(target)}, which is not followed")
    node_id = h5py.h5o.open(group.id, encoded)  # group[name] asks the file for its mode each time
    if isinstance(node_id, h5py.h5d.DatasetID):
        return h5py.Dataset(node_id, readonly=True)
    return h5py.Group(node_id) if isinstance(node_id, h5py.h5g.GroupID) else group[name]


def find(group: Any, path: str, where: str) -> Any:
    """Return the group or dataset at a path of names, None if there is none; raises as child does."""
    for name in path.split("/"):
        if group is None or not hasattr(group, "keys"):
            return None
        group = child(group, name, where)
    return group


def expect_group(group: Any, path: str, where: str) -> Any:
    """Return the group at a path; raises FormatError if there is none."""
    node = find(group, path, where)
    if not hasattr(node, "keys"):
        raise FormatError(f"{where}: expected a group {path!r}, found {'none' if node is None else 'a dataset'}")
    return node


def expect_dataset(group: Any, path: str, where: str) -> Any:
    """Return the dataset at a path, which is safe to read; raises FormatError, LimitError, UnsupportedFormatError."""
    node = find(group, path, where)
    if not has_data(node):
        other = "a group" if hasattr(node, "keys") else "none" if node is None else "one without data"
        raise FormatError(f"{where}: expected a dataset {path!r}, found {other}")
    check_dataset(node, f"{where}: {path!r}")
    return node


def has_data(node: Any) -> bool:
    """Return True for a dataset; False for one of no values, not even none, as h5py.Empty writes it."""
    return getattr(node, "shape", None) is not None


def check_dataset(dataset: Any, where: str) -> None:
    """Refuse data in other files, with a missing filter, or larger than the file can hold.

    Raises FormatError, LimitError, UnsupportedFormatError.
    """
    with translate_errors(where):
        settings, h5d = dataset.id.get_create_plist(), import_h5py().h5d
        layout = settings.get_layout()
        if layout == h5d.VIRTUAL or settings.get_external_count():
            raise FormatError(f"{where}: expected data, found a reference to those of other files")
        filters = [settings.get_filter(number) for number in range(settings.get_nfilters())]
        _check_filters(filters, where)
        if any(code == _FLETCHER32 for code, *_ in filters):
            _check_chunks(dataset, where)
        chunk = settings.get_chunk() if layout == h5d.CHUNKED else (0,)
        dtype, shape = dataset.dtype, dataset.shape
        chunk_size, size = math.prod(chunk) * dtype.itemsize, math.prod(shape) * dtype.itemsize if shape else 0
        stored = dataset.id.get_storage_size() if size > _UNCHECKED_SIZE else 0
    if chunk_size > _MAX_CHUNK:
        raise LimitError(f"{where}: expected chunks of at most {_MAX_CHUNK} bytes, found {chunk_size}")
    if size > _UNCHECKED_SIZE and size > _MAX_EXPANSION * (stored + 1):
        raise LimitError(f"{where}: {size} bytes: out of bounds for {stored} stored ones")
    file = checked_file(import_h5py().h5f.get_name(dataset.id))
    if file is not None and filters:
        file.largest_chunk = max(file.largest_chunk, chunk_size)
    if file is not None and dtype.kind == "O":
        with translate_errors(where):
            _check_lists(dataset, file, where, chunk=chunk if layout == h5d.CHUNKED else (), filters=filters)


def _check_chunks(dataset: Any, where: str) -> None:
    """Raise FormatError for chunks without room for their checksum, on which the library crashes (HDF5 2.0.0)."""

    def check(chunk: Any) -> None:
        if chunk.size <= _CHECKSUM_SIZE:
            raise FormatError(f"{where}: expected a checksum in each chunk, found one of {chunk.size} bytes")

    dataset.id.chunk_iter(check)


def _check_lists(
    dataset: Any, file: CheckedFile, where: str, *, chunk: tuple[int, ...], filters: Sequence[Any]
) -> None:
    """Raise FormatError for texts and lists of impossible lengths, for which the library would take memory."""
    if import_h5py().h5i.get_file_id(dataset.id).get_create_plist().get_sizes()[0] != _ADDRESS_SIZE:
        return
    if filters:
        chunks: list[Any] = []
        dataset.id.chunk_iter(chunks.append)
        for chunk_info in chunks:
            file.check_chunk_of_lists(chunk_info, partial(_expand, dataset, chunk_info, chunk, filters), where)
    elif chunk:
        dataset.id.chunk_iter(lambda chunk: file.check_lists(chunk.byte_offset, chunk.size, where))
    elif (offset := dataset.id.get_offset()) is not None:
        file.check_lists(offset, dataset.id.get_storage_size(), where)


def check_texts(node: Any, name: bytes, count: int) -> bool:
    """Raise FormatError for texts of impossible lengths in an attribute; False where they cannot be checked."""
    h5py = import_h5py()
    file = checked_file(h5py.h5f.get_name(node.id))
    settings = h5py.h5i.get_file_id(node.id).get_create_plist()
    if file is None or settings.get_sizes()[0] != _ADDRESS_SIZE:
        return True
    where = f"{node.name}: attribute {shown(name.decode(errors='replace'))}"
    return file.check_attribute(settings.get_userblock(), h5py.h5o.get_info(node.id).addr, name, count, where)


def _expand(dataset: Any, stored: Any, chunk: tuple[int, ...], filters: Sequence[Any]) -> bytes:
    """Return a chunk of lists, decompressed by the library as rows of bytes: the lengths and addresses of the lists."""
    h5py = import_h5py()
    mask, data = dataset.id.read_direct_chunk(stored.chunk_offset)
    settings = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    settings.set_chunk(chunk)
    for number, (code, flags, values, _) in enumerate(filters):
        if not mask >> number & 1:  # shuffle is never applied to lists
            settings.set_filter(code, flags, values)
    with h5py.File("lists", "w", driver="core", backing_store=False) as file:
        kind = h5py.h5t.py_create(np.dtype((np.void, LIST_SIZE)))
        copy = h5py.h5d.create(file.id, b"lists", kind, h5py.h5s.create_simple(chunk), settings)
        copy.write_direct_chunk((0,) * len(chunk), data)
        rows = np.empty(chunk, (np.void, LIST_SIZE))
        copy.read(h5py.h5s.ALL, h5py.h5s.ALL, rows)
    return rows.tobytes()


def _check_filters(filters: Sequence[Any], where: str) -> None:
    codes = [code for code, *_ in filters]
    if _DEFLATE in codes and {*codes[codes.index(_DEFLATE) + 1 :]} - {_FLETCHER32}:
        raise UnsupportedFormatError(f"{where}: expected deflate as the last filter but a checksum, found {codes}")
    for code, *_, name in filters:
        if code not in _BUILT_IN and not import_h5py().h5z.filter_avail(code):
            filter_name = name.decode(errors="replace") if isinstance(name, bytes) else str(name)
            raise UnsupportedFormatError(
                f"{where}: compressed by filter {code} ({shown(filter_name)}), which is not installed: the package "
                f"hdf5plugin has the usual ones, once it is imported"
            )
