"""What a file of recorded messages gives: its topics, when each message was recorded, and the bytes of a message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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

    def stamps(self, topic: str) -> NDArray[np.int64]:
        """Return when each message of a topic was recorded, in nanoseconds, ascending; reads no message."""
        ...

    def read(self, topic: str, number: int) -> bytes:
        """Return the bytes of a message; raises FormatError."""
        ...

    def close(self) -> None:
        """Close the file."""
        ...


class JoinedLog:
    """The files of a recording that was split, as one."""

    def __init__(self, parts: Sequence[MessageLog], notes: Mapping[str, Any]) -> None:
        self._parts = parts
        self._orders: dict[str, tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]] = {}
        self.notes = notes
        self.topics: dict[str, Topic] = {}
        for part in parts:
            for name, topic in part.topics.items():
                self.topics.setdefault(name, topic)

    def stamps(self, topic: str) -> NDArray[np.int64]:
        """Return when each message of a topic was recorded."""
        return self._order(topic)[0]

    def read(self, topic: str, number: int) -> bytes:
        """Return the bytes of a message."""
        _, parts, numbers = self._order(topic)
        part: MessageLog = self._parts[parts[number]]
        return part.read(topic, int(numbers[number]))

    def _order(self, topic: str) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        if topic not in self._orders:
            found = [part.stamps(topic) if topic in part.topics else np.zeros(0, np.int64) for part in self._parts]
            stamps = np.concatenate([np.zeros(0, np.int64), *found])
            parts = np.repeat(np.arange(len(found)), [len(one) for one in found])
            numbers = np.concatenate([np.zeros(0, np.int64), *(np.arange(len(one)) for one in found)])
            order = np.argsort(stamps, kind="stable")
            self._orders[topic] = (stamps[order], parts[order], numbers[order])
        return self._orders[topic]

    def close(self) -> None:
        """Close the files."""
        for part in self._parts:
            part.close()
