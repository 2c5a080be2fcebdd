"""What a file of recorded messages gives: its topics, when each message was recorded, and the bytes of a message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import zstandard

from wshard.core.container.codec import decompress
from wshard.core.container.layout import ENTRY_ZSTD
from wshard.errors import CodecError, LimitError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import ExitStack

    from numpy.typing import NDArray

MAX_MESSAGE_SIZE: Final = 1 << 28
"""Bytes of one message: 256 MiB."""


@dataclass(frozen=True)
class Topic:
    """A topic and how its messages are encoded.

    encoding: "json", "protobuf", "ros1" or "cdr", and what others there are. schema_encoding, schema: the definition of
    `type`, b"" where the file has none. distribution: the ROS 2 distribution that recorded it, "" where none is stated.
    """

    name: str
    type: str
    encoding: str
    schema_encoding: str = ""
    schema: bytes = b""
    distribution: str = ""


class MessageLog(Protocol):
    """An open recording; messages of a topic are in the order in which they were recorded."""

    @property
    def topics(self) -> Mapping[str, Topic]:
        """The topics by name."""
        ...

    @property
    def notes(self) -> Mapping[str, Any]:
        """What else the file says, as JSON values."""
        ...

    @property
    def left_out(self) -> Mapping[str, str]:
        """Topics that are not read, and why: those of a name with messages of two types."""
        ...

    def stamps(self, topic: str) -> NDArray[np.int64]:
        """Return when each message of a topic was recorded, in nanoseconds, ascending; reads no message."""
        ...

    def read(self, topic: str, number: int) -> bytes:
        """Return the bytes of a message; raises FormatError."""
        ...

    def close(self) -> None:
        """Close the file."""
        ...


def add_topic(topics: dict[str, Topic], left_out: dict[str, str], topic: Topic) -> bool:
    """Add a topic; False for one of a known name with messages of another type, which is noted in left_out."""
    known = topics.setdefault(topic.name, topic)
    same_type = (known.type, known.encoding) == (topic.type, topic.encoding)
    if same_type and not (known.schema and topic.schema and known.schema != topic.schema):
        return True
    found = f"{topic.type or 'no type'} in {topic.encoding}"
    expected = "another definition of it" if same_type else f"{known.type or 'no type'} in {known.encoding}"
    left_out[f"{topic.name.strip('/')} ({found})"] = f"a second type of messages; those of {expected} are read"
    return False


def group_topics(numbered: Mapping[int, Topic]) -> tuple[dict[str, Topic], dict[str, str], dict[str, list[int]]]:
    """Return topics by name, those that are left out, and the numbers of each topic's channels, in their order."""
    topics: dict[str, Topic] = {}
    left_out: dict[str, str] = {}
    numbers: dict[str, list[int]] = {}
    for number, topic in sorted(numbered.items()):
        if add_topic(topics, left_out, topic):
            numbers.setdefault(topic.name, []).append(number)
    return topics, left_out, numbers


class JoinedLog:
    """The files of a recording that was split, as one. compressed: each message is a frame of zstd.

    opened: what is closed with it.
    """

    def __init__(
        self, parts: Sequence[MessageLog], notes: Mapping[str, Any], *, compressed: bool, opened: ExitStack
    ) -> None:
        self._parts, self._compressed, self._opened = parts, compressed, opened
        self._orders: dict[str, tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]] = {}
        self.notes = notes
        self.topics: dict[str, Topic] = {}
        self.left_out = {topic: reason for part in parts for topic, reason in part.left_out.items()}
        self._topics_of = [
            {topic.name for topic in part.topics.values() if add_topic(self.topics, self.left_out, topic)}
            for part in parts
        ]

    def stamps(self, topic: str) -> NDArray[np.int64]:
        """Return when each message of a topic was recorded."""
        return self._order(topic)[0]

    def read(self, topic: str, number: int) -> bytes:
        """Return the bytes of a message."""
        _, parts, numbers = self._order(topic)
        part: MessageLog = self._parts[parts[number]]
        data = part.read(topic, int(numbers[number]))
        return _decompress(data, f"topic {topic!r}: message {number}") if self._compressed else data

    def _order(self, topic: str) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        if topic not in self._orders:
            parts_and_topics = zip(self._parts, self._topics_of, strict=True)
            found = [
                part.stamps(topic) if topic in names else np.zeros(0, np.int64) for part, names in parts_and_topics
            ]
            stamps = np.concatenate([np.zeros(0, np.int64), *found])
            parts = np.repeat(np.arange(len(found)), [len(one) for one in found])
            numbers = np.concatenate([np.zeros(0, np.int64), *(np.arange(len(one)) for one in found)])
            order = np.argsort(stamps, kind="stable")
            self._orders[topic] = (stamps[order], parts[order], numbers[order])
        return self._orders[topic]

    def close(self) -> None:
        """Close the files."""
        self._opened.close()


def _decompress(data: bytes, where: str) -> bytes:
    """Return a message of a bag with compressed messages."""
    try:
        size = zstandard.frame_content_size(data)
    except zstandard.ZstdError as error:
        raise CodecError(f"{where}: expected a frame of zstd: {error}") from error
    if not 0 <= size <= MAX_MESSAGE_SIZE:
        raise LimitError(f"{where}: expected a frame that states at most {MAX_MESSAGE_SIZE} bytes, found {size}")
    return bytes(decompress(data, size, ENTRY_ZSTD, where))
