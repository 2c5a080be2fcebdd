"""Archives of numpy arrays (.npz), read without trust and written atomically.

Sizes are compared with what the file says and can hold before anything is allocated; pickled objects are never loaded.
"""

from __future__ import annotations

import ast
import contextlib
import errno
import io
import math
import os
import re
import reprlib
import struct
import zipfile
import zlib
from typing import IO, TYPE_CHECKING, Any, Final, Literal, cast

import numpy as np

from wshard.core.container.atomic_write import publish
from wshard.core.files.local import LocalPlace
from wshard.core.files.schemes import place_of
from wshard.errors import ArrayKindError, EpisodeError, FormatError, LimitError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wshard.core.files.schemes import Location, PathOrFile
    from wshard.core.types import Array

ZIP_MAGIC: Final = b"PK\x03\x04"
"""What an .npz file begins with that has an array."""

MAX_MEMBERS: Final = 10_000
MAX_MEMBER_SIZE: Final = 1 << 30
MAX_TOTAL_SIZE: Final = 1 << 32
MAX_HEADER_SIZE: Final = 10_000  # numpy's own limit for headers of unknown origin
_DEFLATE_MAX_EXPANSION: Final = 1032
_ENCRYPTED: Final = 0x1
_SUFFIX: Final = ".npy"
_MAGIC: Final = np.lib.format.MAGIC_PREFIX
_LOCAL_HEADER: Final = struct.Struct("<26xHH")  # the sizes of name and extra fields, which are between it and the data
_LENGTHS: Final = {(1, 0): struct.Struct("<H"), (2, 0): struct.Struct("<I")}  # of the header, by version
_PLAIN_DTYPE: Final = re.compile(r"[<>|=][biufcSUmMV]\d+(\[\w+\])?")
# What zipfile, zlib and numpy raise for damaged input; NotImplementedError: zip features that are not supported here.
_FOREIGN: Final = (
    zipfile.BadZipFile, zlib.error, EOFError, ValueError, struct.error, NotImplementedError, RuntimeError, TypeError
)  # fmt: skip


def read_npz(source: Location, names: tuple[str, ...] | None = None) -> dict[str, Array]:
    """Return the arrays of an .npz file by name, or those of `names` that exist.

    Raises LimitError for sizes above the limits or beyond what the file can hold, FormatError for any other defect,
    FileNotFoundError.
    """
    place = place_of(source)
    where = str(place)
    with place.open() as file, translate_npz_errors(where), zipfile.ZipFile(file) as archive:
        members = check_members(archive, where)
        selected = {name: info for name, info in members.items() if names is None or name in names}
        return {name: _read(archive, info, f"{where}: {name!r}") for name, info in selected.items()}


def array_names(file: IO[bytes]) -> frozenset[str] | None:
    """Return the names of the arrays in an .npz file, without reading one; None for a file that is no zip archive."""
    try:
        with zipfile.ZipFile(file) as archive:
            names = archive.namelist()
    except _FOREIGN:
        return None
    return frozenset(name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX))


def map_npz(location: Location, name: str, mapped: Array | None = None) -> Array:
    """Return one array of an .npz file, memory-mapped if it is uncompressed and local, otherwise read.

    mapped: the bytes of the file, where they are mapped already. Raises what read_npz does.
    """
    place = place_of(location)
    where = str(place)
    if not isinstance(place, LocalPlace):
        return read_npz(place, (name,))[name]
    with place.open() as file, translate_npz_errors(where):
        with zipfile.ZipFile(file) as archive:
            infos = [info for info in archive.infolist() if info.filename == f"{name}{_SUFFIX}"]
            if len(infos) != 1:
                raise FormatError(f"{where}: expected one array {name!r}, found {len(infos)}")
            with archive.open(infos[0]) as member:
                shape, fortran, dtype, header_size = read_npy_header(
                    io.BufferedReader(cast("io.RawIOBase", member)), where
                )
        size = math.prod(shape) * dtype.itemsize
        if size and not infos[0].compress_type and not infos[0].flag_bits & _ENCRYPTED:
            file.seek(infos[0].header_offset)
            data_start = file.tell() + _LOCAL_HEADER.size + sum(_LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size)))
            if infos[0].file_size != header_size + size:
                raise FormatError(f"{where}: {dtype} {list(shape)} needs {size} bytes, found {infos[0].file_size}")
            order: Literal["F", "C"] = "F" if fortran else "C"
            content = np.memmap(file, np.uint8, "r") if mapped is None else mapped
            rows: Array = content[data_start + header_size :][:size].view(dtype).reshape(shape, order=order)
            return rows
    return read_npz(place, (name,))[name]


@contextlib.contextmanager
def translate_npz_errors(where: str) -> Iterator[None]:
    """Translate errors of zipfile, zlib and numpy about damaged files to FormatError."""
    try:
        yield
    except FormatError:
        raise
    except (*_FOREIGN, OSError) as error:
        if isinstance(error, OSError) and error.errno != errno.EINVAL:  # of a place before the file begins
            raise
        raise FormatError(f"{where}: expected numpy arrays: {error}") from error


def npy_bytes(array: Array) -> bytes:
    """Return an array as the contents of an .npy file."""
    file = io.BytesIO()
    np.lib.format.write_array(file, array, allow_pickle=False)
    return file.getvalue()


def parse_npy(data: bytes, where: str) -> Array:
    """Return the array of an .npy file's contents; raises FormatError."""
    with translate_npz_errors(where):
        return _array(io.BytesIO(data), len(data), where)


def check_members(archive: zipfile.ZipFile, where: str, *, in_parts: bool = False) -> dict[str, zipfile.ZipInfo]:
    """Return the arrays of an archive by name; in_parts: they are not read as a whole, so they may be larger.

    Raises FormatError for other archives than those of numpy, LimitError for sizes that they cannot have.
    """
    infos = archive.infolist()
    if len(infos) > MAX_MEMBERS:
        raise LimitError(f"{where}: expected at most {MAX_MEMBERS} arrays, found {len(infos)}")
    total, file_size = sum(info.file_size for info in infos), _size(archive)
    if total > MAX_TOTAL_SIZE and not in_parts:
        raise LimitError(f"{where}: {total} decompressed bytes, limit {MAX_TOTAL_SIZE}")
    members: dict[str, zipfile.ZipInfo] = {}
    for info in infos:
        at = f"{where}: {info.filename!r}"
        if not info.filename.endswith(_SUFFIX):
            raise FormatError(f"{at}: expected a member that ends in {_SUFFIX}")
        name = info.filename.removesuffix(_SUFFIX)
        if name in members:
            raise FormatError(f"{at}: is there twice: which one is meant is unknown")
        if info.flag_bits & _ENCRYPTED or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise FormatError(f"{at}: expected a plain or deflated member, found type {info.compress_type}")
        expansion = 1 if info.compress_type == zipfile.ZIP_STORED else _DEFLATE_MAX_EXPANSION
        stored = min(info.compress_size, file_size)
        limit = (stored + 1) * expansion
        if info.file_size > (limit if in_parts else min(MAX_MEMBER_SIZE, limit)):
            raise LimitError(f"{at}: {info.file_size} bytes: out of bounds for {stored} stored ones")
        members[name] = info
    return members


def _size(archive: zipfile.ZipFile) -> int:
    if archive.fp is None:
        return 0
    return archive.fp.seek(0, io.SEEK_END)


def _read(archive: zipfile.ZipFile, info: zipfile.ZipInfo, where: str) -> Array:
    with archive.open(info) as member:
        # A buffered reader fills what it is given, and at the end zipfile compares the member's checksum.
        return _array(io.BufferedReader(cast("io.RawIOBase", member)), info.file_size, where)


def _array(file: io.BufferedReader | io.BytesIO, file_size: int, where: str) -> Array:
    shape, fortran, dtype, header_size = read_npy_header(file, where)
    size = math.prod(shape) * dtype.itemsize
    if size != file_size - header_size:
        raise FormatError(f"{where}: {dtype} {list(shape)} needs {size} bytes, the file has {file_size - header_size}")
    data = bytearray(size)
    count = file.readinto(data)
    rest = file.read()
    if count != size or rest:
        raise FormatError(f"{where}: expected {size} bytes of data, found {count + len(rest)}")
    array: Array = np.ndarray(shape, dtype, data, order="F" if fortran else "C")
    return array


def read_npy_header(
    member: io.BufferedReader | io.BytesIO, where: str
) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Return shape, Fortran order, dtype and size of an npy header, read no further than the limit."""
    prefix = member.read(len(_MAGIC) + 2)
    version = tuple(prefix[len(_MAGIC) :])
    if not prefix.startswith(_MAGIC) or version not in _LENGTHS:
        raise FormatError(f"{where}: expected an npy header of version 1.0 or 2.0, found {prefix!r}")
    width = _LENGTHS[version]
    (length,) = width.unpack(member.read(width.size))
    if length > MAX_HEADER_SIZE:
        raise LimitError(f"{where}: npy header of {length} bytes, limit {MAX_HEADER_SIZE}")
    try:
        fields = ast.literal_eval(member.read(length).decode("latin1"))
        descr, fortran, shape = (fields[name] for name in ("descr", "fortran_order", "shape"))
    except (ValueError, SyntaxError, TypeError, LookupError, MemoryError, RecursionError) as error:
        raise FormatError(f"{where}: npy header: expected descr, fortran_order and shape: {error}") from None
    if not isinstance(shape, tuple) or not all(type(axis) is int and axis >= 0 for axis in shape):
        raise FormatError(f"{where}: npy header: expected a shape of sizes >= 0, found {reprlib.repr(shape)}")
    return shape, bool(fortran), _plain_dtype(descr, where), len(prefix) + width.size + length


def _plain_dtype(descr: object, where: str) -> np.dtype[Any]:
    if descr == "|O":
        raise ArrayKindError(f"{where}: expected plain numbers, found pickled objects, which are never loaded")
    if not isinstance(descr, str) or not _PLAIN_DTYPE.fullmatch(descr) or not np.dtype(descr).itemsize:
        raise ArrayKindError(f"{where}: expected the dtype of a plain array, found {reprlib.repr(descr)}")
    return np.dtype(descr)


def npz_path(path: str) -> str:
    """Return the path of an .npz file to write: the suffix is added if missing."""
    return path if path.endswith(".npz") else f"{path}.npz"


def write_npz(arrays: Mapping[str, Array], target: PathOrFile) -> None:
    """Write arrays as an uncompressed .npz; a path gets the suffix if it lacks it, and is written atomically.

    Equal arrays give equal bytes. Raises EpisodeError for data that an npz cannot hold, OSError for a full disk.
    """
    if isinstance(target, (str, os.PathLike)):
        path = os.fspath(target)
        with publish(npz_path(path)) as file:
            _write(arrays, file)
    else:
        _write(arrays, target)


def _write(arrays: Mapping[str, Array], file: IO[bytes]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            if array.dtype.hasobject or array.dtype.kind == "V":
                raise EpisodeError(f"{name!r}: an .npz file cannot hold {array.dtype}")
            # Members made from a ZipInfo carry its fixed date, so that equal arrays give equal bytes.
            with archive.open(zipfile.ZipInfo(f"{name}{_SUFFIX}"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)
