"""The facts about arrays from which a layout is guessed: names, shapes, dtypes, and the values of short ones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.errors import FormatError
from wshard.formats.hdf5.kinds import SIGNATURE
from wshard.formats.hdf5.lane_table import first_image
from wshard.formats.layouts.columns import path_in
from wshard.formats.layouts.guessing.names import TELLING, meaning_of
from wshard.formats.layouts.layout import SUFFIXES
from wshard.formats.look import look_at
from wshard.formats.npz import ZIP_MAGIC

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wshard.core.files.place import Place
    from wshard.core.types import Array
    from wshard.formats.layouts.columns import ArrayFile

_MAX_ROWS: Final = 1 << 23  # of a column whose name says that it tells episodes apart
_MAX_VALUES_OF_ALL: Final = 1 << 26  # of all other arrays
_MAX_VALUES: Final = 1 << 20  # of an array [episodes, steps, ...]
_MAX_TEXTS: Final = 1 << 20
_WHOLE: Final = np.float64(2.0**53)  # not a float, which half precision cannot hold

NUMBERS, FLAGS, TIMES, TEXT, IMAGES, OTHER = "numbers", "flags", "times", "texts", "images", "other"


@dataclass(frozen=True)
class ArrayFacts:
    """What is known of an array.

    kind: NUMBERS, whole or not; FLAGS, if it has 0 and 1 only; TIMES with a dtype of time; TEXT; IMAGES, if they are
    encoded; OTHER, which is not read, and `note` says why. meaning: that of its name. values: of one number per row,
    the first ones if they are many; of arrays of two or three axes those of the first rows.
    """

    path: str
    shape: tuple[int, ...]
    dtype: str
    kind: str
    is_whole: bool
    meaning: str
    values: Array | None = None
    note: str = "neither numbers nor texts"

    @property
    def rows(self) -> int:
        """The size of the first axis, 0 for a single value."""
        return self.shape[0] if self.shape else 0

    @property
    def is_column(self) -> bool:
        """Whether it has one value per row."""
        return len(self.shape) == 1 or (len(self.shape) == 2 and self.shape[1] == 1)

    @property
    def steps(self) -> Array | None:
        """The values with all axes of the array."""
        return None if self.values is None else self.values.reshape(-1, *self.shape[1:])

    @property
    def is_cut(self) -> bool:
        """Whether it may tell episodes apart, but is too long to be read."""
        is_long = self.rows > (_MAX_TEXTS if self.kind == TEXT else _MAX_ROWS)
        return self.meaning in TELLING and self.is_column and is_long

    @property
    def numbers(self) -> Array | None:
        """The whole numbers of a column, all of them; None for another array."""
        is_complete = self.is_column and self.values is not None and len(self.values) == self.rows
        return self.values if is_complete and self.is_whole and self.values is not None and self.rows else None


def container_of(place: Place) -> str:
    """Return which kind of container a file or folder is, by its first bytes, else its suffix; raises FormatError."""
    look = look_at(place)
    if look.is_folder:
        return "npy" if any(name.endswith(".npy") for name in look.names) else ""
    if look.head.startswith(SIGNATURE):
        return "hdf5"
    if look.head.startswith(ZIP_MAGIC) and look.array_names:
        return "npz"
    kinds = [kind for kind in ("table", "json") if look.suffix in SUFFIXES[kind]]
    if kinds:
        return kinds[0]
    return "npy" if look.suffix == ".npy" else ""


def read_facts(container: ArrayFile, group: str = "", paths: Sequence[str] | None = None) -> list[ArrayFacts]:
    """Return the facts about the arrays below a group, in their order; paths: of these only."""
    listed = container.paths(group) if paths is None else paths
    limit = min(_MAX_VALUES, _MAX_VALUES_OF_ALL // max(1, len(listed)))
    return [_facts(container, path_in(group, path), path, limit) for path in listed]


def _facts(container: ArrayFile, path: str, inner: str, limit: int) -> ArrayFacts:
    meaning = meaning_of(inner)
    limit = _MAX_ROWS if meaning in TELLING else limit
    try:
        column: Any = container.column(path)
        shape, dtype = tuple(column.shape or ()), column.dtype
        kind = _kind_of(column, shape, dtype)
        values = _values(column, shape, limit) if kind in (NUMBERS, TIMES) else None
    except FormatError as error:
        return ArrayFacts(inner, (), "", OTHER, is_whole=False, meaning=meaning, note=str(error).rpartition(": ")[2])
    is_whole = kind == NUMBERS and dtype.kind in "biu"
    if values is not None and values.size and dtype.kind not in "mM":
        is_whole = is_whole or bool((np.abs(values) < _WHOLE).all() and (values == np.rint(values)).all())
        is_flag = dtype.kind == "b" or (is_whole and values.min() >= 0 and values.max() <= 1)
        kind = FLAGS if is_flag and kind == NUMBERS and values.ndim < 3 else kind
        values = values.astype(np.int64) if is_whole and kind != TIMES and dtype.kind == "f" else values
    return ArrayFacts(inner, shape, _name_of(dtype, kind), kind, is_whole, meaning, values)


def _kind_of(column: Any, shape: tuple[int, ...], dtype: Any) -> str:
    if dtype.kind in "mM":
        return TIMES
    if dtype.kind in "biuf":
        is_image = len(shape) == 2 and shape[0] and dtype.itemsize == 1 and first_image(column, 0) is not None
        return IMAGES if is_image else NUMBERS
    if shape and shape[0] and len(shape) == 1 and first_image(column, 0) is not None:
        return IMAGES
    is_text = dtype.kind == "S" or (dtype.kind == "O" and (dtype.metadata or {}).get("vlen") in (str, bytes))
    return TEXT if is_text else OTHER


def _values(column: Any, shape: tuple[int, ...], limit: int) -> Array | None:
    """Return the values of a column, and the first rows of an array of more axes that may be a batch."""
    if len(shape) == 1 or (len(shape) == 2 and shape[1] == 1):
        return np.asarray(column[0 : min(shape[0], limit)]).reshape(-1)
    if not shape:
        return np.asarray(column[()]).reshape(1)
    if len(shape) not in (2, 3) or not math.prod(shape) or column.dtype == np.uint8:
        return None
    return np.asarray(column[0 : min(shape[0], max(1, limit // math.prod(shape[1:])))])


def _name_of(dtype: Any, kind: str) -> str:
    return {TEXT: "texts", IMAGES: "encoded images"}.get(kind, str(dtype))


def labels_of(facts: ArrayFacts, container: ArrayFile, group: str = "") -> Array | None:
    """Return what tells rows apart in a column of numbers or texts, None for another array or one that is too long."""
    if facts.kind == TEXT and len(facts.shape) == 1 and facts.rows <= _MAX_TEXTS:
        column = container.column(path_in(group, facts.path))
        return np.unique(np.asarray(column[0 : facts.rows]).astype(str), return_inverse=True)[1].reshape(-1)
    return facts.numbers
