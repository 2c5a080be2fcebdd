"""Read one timestep of a Raiden episode: an untrusted pickle of arrays.

Opcodes are checked before anything is built. A pickle may use only the three names of pickled arrays, which create
descriptions here; these become arrays afterwards.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.core.files.schemes import place_of
from wshard.errors import FormatError, LimitError, MissingFileError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wshard.core.files.schemes import Location
    from wshard.core.types import Array

MAX_FRAME_SIZE: Final = 1 << 20
"""Maximum bytes of the pickle of one timestep."""

_ACTIONS: Final = ("action", "action_joints")

_OPCODES: Final = frozenset(
    "PROTO FRAME STOP MARK MEMOIZE BINPUT BINGET LONG_BINPUT LONG_BINGET GLOBAL STACK_GLOBAL REDUCE BUILD "  # noqa: SIM905
    "NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 SHORT_BINUNICODE BINUNICODE SHORT_BINBYTES BINBYTES "
    "EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 EMPTY_LIST APPEND APPENDS EMPTY_DICT SETITEM SETITEMS".split()
)
_MAX_MEMO: Final = 1 << 16
_CODES: Final = frozenset(("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1"))
_OBJECTS: Final = ("O8", "O4")
_REFUSALS: Final = (
    *(pickle.UnpicklingError, ValueError, TypeError, IndexError, KeyError, AttributeError, EOFError),
    *(OverflowError, MemoryError, RecursionError, UnicodeDecodeError),
)


def read_frame(location: Location) -> dict[str, Any]:
    """Read the pickle of a timestep: arrays, texts, and mappings of arrays by camera.

    Raises FormatError for any other pickle, LimitError above MAX_FRAME_SIZE, MissingFileError.
    """
    place = place_of(location)
    try:
        data = place.read(0, MAX_FRAME_SIZE + 1)
    except FileNotFoundError:
        raise MissingFileError.at(place, f"{place}: expected the pickle of a timestep, found no file") from None
    return parse_frame(data, str(place))


def parse_frame(data: bytes, where: str) -> dict[str, Any]:
    """Parse the pickle of a timestep; raises as read_frame."""
    if len(data) > MAX_FRAME_SIZE:
        raise LimitError(f"{where}: expected the pickle of a timestep, at most {MAX_FRAME_SIZE} bytes")
    try:
        _check_opcodes(data)
        frame = _ArrayUnpickler(io.BytesIO(data)).load()
        if not isinstance(frame, dict):
            raise pickle.UnpicklingError(f"expected a dict, found {type(frame).__name__}")
        return {_text(key): _value_of(value) for key, value in frame.items()}
    except _REFUSALS as error:
        raise FormatError(f"{where}: expected a pickle of numpy arrays: {error}") from None


@dataclass(frozen=True)
class PickledStep:
    """The arrays of a timestep by block name, and its texts by their keys."""

    lanes: dict[str, Array]
    texts: dict[str, str]

    @staticmethod
    def of(frame: Mapping[str, Any]) -> PickledStep:
        """Return lanes and texts of what read_frame returns."""
        lanes: dict[str, Array] = {}
        for name, value in frame.items():
            if isinstance(value, dict):
                lanes |= {f"signal/{name}/{camera}": array for camera, array in value.items()}
            elif not isinstance(value, str):
                lanes[f"{'action' if name in _ACTIONS else 'signal'}/{name}"] = value
        return PickledStep(lanes, {name: value for name, value in frame.items() if isinstance(value, str)})


def _check_opcodes(data: bytes) -> None:
    """Refuse opcodes that pickled arrays do not need; pickletools refuses sizes beyond the data."""
    for opcode, argument, offset in pickletools.genops(data):
        if opcode.name not in _OPCODES:
            raise pickle.UnpicklingError(f"found the opcode {opcode.name} at byte {offset}")
        if opcode.name == "LONG_BINPUT" and argument is not None and argument > _MAX_MEMO:
            raise pickle.UnpicklingError(f"expected at most {_MAX_MEMO} objects, found number {argument}")


class _PickledType:
    """Replaces numpy.dtype: the code of a dtype, and its byte order."""

    __slots__ = ("code", "order")

    def __init__(self, code: object, *_: object) -> None:
        if code not in _CODES and code not in _OBJECTS:
            raise pickle.UnpicklingError(f"expected the dtype of numbers, found {code!r}")
        self.code, self.order = code, "|"

    def __setstate__(self, state: Any) -> None:
        if state[1] not in ("<", ">", "|", "=") or any(part is not None for part in state[2:5]):
            raise pickle.UnpicklingError("expected a plain dtype, found one with fields")
        self.order = state[1]


class _PickledArray:
    """Replaces numpy.ndarray: shape, dtype, order and bytes of an array, or a list with a text."""

    __slots__ = ("state",)

    def __init__(self, *_: object) -> None:
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def make(self) -> Any:
        """Return the array, or the text of an array of one object."""
        _, shape, type_, fortran, data = self.state
        if not isinstance(type_, _PickledType) or not all(type(axis) is int and axis >= 0 for axis in shape):
            raise pickle.UnpicklingError(f"expected an array, found the shape {shape!r}")
        if type_.code in _OBJECTS:
            if shape != () or not isinstance(data, list) or len(data) != 1:
                raise pickle.UnpicklingError(f"expected one text, found objects {list(shape)}")
            return _text(data[0])
        dtype = np.dtype(f"{type_.order}{type_.code}")
        if not isinstance(data, bytes) or len(data) != math.prod(shape) * dtype.itemsize:
            raise pickle.UnpicklingError(f"expected the bytes of {dtype} {list(shape)}")
        return np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")


_GLOBALS: Final = {
    "numpy._core.multiarray _reconstruct": _PickledArray,
    "numpy.core.multiarray _reconstruct": _PickledArray,  # numpy 1
    "numpy ndarray": _PickledArray,
    "numpy dtype": _PickledType,
}


class _ArrayUnpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> Any:
        replacement = _GLOBALS.get(f"{module_name} {global_name}")
        if replacement is None:
            raise pickle.UnpicklingError(f"found the name {module_name}.{global_name}")
        return replacement


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise pickle.UnpicklingError(f"expected a text, found {type(value).__name__}")
    return value


def _value_of(value: Any) -> Any:
    if isinstance(value, dict):
        return {_text(key): _array_of(item) for key, item in value.items()}
    return value if isinstance(value, str) else _array_of(value)


def _array_of(value: Any) -> Any:
    if not isinstance(value, _PickledArray):
        raise pickle.UnpicklingError(f"expected an array, found {type(value).__name__}")
    return value.make()
