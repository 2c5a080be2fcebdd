"""How the messages of a topic are decoded: JSON, protobuf, ROS 1 and ROS 2."""

from __future__ import annotations

import contextlib
import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.core.messages import shown
from wshard.core.plugins import import_library
from wshard.errors import FormatError, UnsupportedFormatError
from wshard.formats.topics.ros_message import RosMessages
from wshard.formats.topics.values import Stamp

if TYPE_CHECKING:
    from collections.abc import Callable

    from wshard.formats.topics.message_log import Topic

_OLDER: Final = "ros2_humble"  # the last distribution whose bags lack definitions
_ROS2_ENCODINGS: Final = frozenset({"ros2msg", ""})
_STAMP_PARTS: Final = (frozenset({"sec", "nsec"}), frozenset({"sec", "nanosec"}), frozenset({"secs", "nsecs"}))
_PROTOBUF_STAMPS: Final = frozenset({"google.protobuf.Timestamp", "google.protobuf.Duration"})
_PROTOBUF_DTYPES: Final = ("", "i4", "i8", "u4", "u8", "f8", "f4", "?", "i4")  # by CPPTYPE_*; the last: an enum
_TEXT_TYPE, _STRUCT_TYPE = 9, 10
_BYTES_TYPE: Final = 12
_MAX_DEPTH: Final = 32


def choose_decoder(topic: Topic, first: bytes) -> Callable[[bytes], dict[str, Any]]:
    """Return the decoder for the messages of a topic, of which `first` is one.

    Raises UnsupportedFormatError where nothing does, FormatError for a definition that does not fit the message.
    """
    if topic.encoding == "json":
        return _decode_json
    if topic.encoding == "protobuf" and topic.schema_encoding == "protobuf":
        return _protobuf_decoder(topic)
    if topic.encoding == "ros1" and topic.schema_encoding == "ros1msg":
        return RosMessages(topic.type, topic.schema.decode(errors="replace"), ros1=True).decode
    if topic.encoding == "cdr" and topic.schema_encoding in _ROS2_ENCODINGS:
        return _cdr_decoder(topic, first)
    raise UnsupportedFormatError(
        f"expected messages in JSON, protobuf, ros1 or cdr, found {shown(topic.encoding)} defined in "
        f"{shown(topic.schema_encoding)}"
    )


def _cdr_decoder(topic: Topic, first: bytes) -> Callable[[bytes], dict[str, Any]]:
    """Return a decoder by the definition in the file, or by that of ROS 2 where that is missing or does not fit."""
    problem: FormatError | None = None
    if topic.schema:
        try:
            messages = RosMessages(topic.type, topic.schema.decode(errors="replace"), ros1=False)
            messages.decode(first)
        except FormatError as error:
            problem = error
        else:
            return messages.decode
    text = _define_standard_type(topic.type, topic.distribution)
    if text is None:
        raise problem or UnsupportedFormatError(f"expected the definition of {topic.type!r} in the file, found none")
    messages = RosMessages(topic.type, text, ros1=False)
    messages.decode(first)
    return messages.decode


def _decode_json(data: bytes) -> dict[str, Any]:
    try:
        message = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"expected JSON: {error}") from error
    plain = _plain(message)
    return plain if isinstance(plain, dict) else {"data": plain}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        if value.keys() in _STAMP_PARTS and all(type(part) is int for part in value.values()):
            first, second = value.values() if next(iter(value)).startswith("sec") else reversed(value.values())
            return Stamp.of_seconds(first, second)
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        array = _array(value) if value and not isinstance(value[0], (str, dict)) else None
        return [_plain(item) for item in value] if array is None else array
    if isinstance(value, bool | str) or value is None:
        return value
    return np.float64(value) if isinstance(value, float) else _integer(value)


def _array(values: list[Any]) -> np.ndarray[Any, Any] | None:
    """Return a list of numbers, NaN for null; None for one of other values or of lists of several sizes."""
    with contextlib.suppress(ValueError, TypeError):
        array = np.array(values)
        array = array.astype(np.float64) if array.dtype == object else array
        return array if array.dtype.kind in "biuf" else None
    return None


def _integer(value: int) -> Any:
    return np.int64(value) if -(1 << 63) <= value < 1 << 63 else np.float64(value)


def _protobuf_decoder(topic: Topic) -> Callable[[bytes], dict[str, Any]]:
    support = import_library("mcap_protobuf.decoder", "mcap")
    schema = import_library("mcap.records", "mcap").Schema(1, topic.schema, "protobuf", topic.type)
    try:
        parse = support.DecoderFactory().decoder_for("protobuf", schema)
    except Exception as error:  # of descriptors that contradict themselves, many kinds
        raise FormatError(f"definition of {topic.type!r}: {type(error).__name__}: {error}") from error

    def decode(data: bytes) -> dict[str, Any]:
        try:
            return _plain_protobuf(parse(data), 0)
        except Exception as error:
            raise FormatError(f"expected a message of type {topic.type}: {error}") from error

    return decode


def _plain_protobuf(message: Any, depth: int) -> dict[str, Any]:
    """Return the fields of a message but those that were not set."""
    if depth > _MAX_DEPTH:
        return {}
    return {
        field.name: _plain_field(field, getattr(message, field.name), depth)
        for field in message.DESCRIPTOR.fields
        if not field.has_presence or message.HasField(field.name)
    }


def _plain_field(field: Any, value: Any, depth: int) -> Any:
    """Return the value of a field: of a map, values by key; of a list of bytes, all of them in one."""
    if field.is_repeated and hasattr(value, "items"):
        kind = field.message_type.fields_by_name["value"]
        return {str(key): _plain_field(kind, item, depth) for key, item in value.items()}
    if field.cpp_type == _STRUCT_TYPE:
        items = [_struct(item, depth) for item in (value if field.is_repeated else [value])]
        return items if field.is_repeated else items[0]
    if field.cpp_type != _TEXT_TYPE:
        numbers = np.array(value, _PROTOBUF_DTYPES[field.cpp_type])
        return numbers if field.is_repeated else numbers[()]
    if not field.is_repeated:
        return value
    return b"".join(value) if field.type == _BYTES_TYPE else list(value)


def _struct(message: Any, depth: int) -> Any:
    if message.DESCRIPTOR.full_name in _PROTOBUF_STAMPS:
        return Stamp.of_seconds(message.seconds, message.nanos)
    return _plain_protobuf(message, depth + 1)


def _define_standard_type(name: str, distribution: str) -> str | None:
    """Return the definition of a type with all that it refers to, None for a type that ROS 2 does not bring.

    distribution: such as "jazzy"; one that is not known, or "", counts as "humble". Raises MissingExtraError.
    """
    try:
        text, _ = _open_store(f"ros2_{distribution}").generate_msgdef(name, ros_version=2)
    except Exception:  # noqa: BLE001  (of the library's own kind, for names that it does not know)
        return None
    return str(text)


@lru_cache(maxsize=4)
def _open_store(name: str) -> Any:
    library = import_library("rosbags.typesys", "mcap")
    known = {store.value: store for store in library.Stores}
    return library.get_typestore(known.get(name, known[_OLDER]))
