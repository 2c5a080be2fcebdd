"""Recordings in one file with compressed chunks: where the messages of a topic are, and the chunks read last."""

from __future__ import annotations

import bz2
import contextlib
import io
from abc import ABC, abstractmethod
from array import array
from collections import OrderedDict, defaultdict
from typing import TYPE_CHECKING, Any, Final

import lz4.frame
import numpy as np

from wshard.core.container.codec import decompress
from wshard.core.container.layout import ENTRY_ZSTD
from wshard.core.messages import shown
from wshard.errors import CodecError, FormatError, LimitError, WShardError
from wshard.formats.topics.message_log import MAX_MESSAGE_SIZE, group_topics

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from wshard.core.files.place import Place
    from wshard.formats.topics.message_log import Topic

UNFINISHED: Final = "unfinished"
"""The note of a file that ends early."""

_MAX_CHUNKS: Final = 4


class ChunkedLog(ABC):
    """An open file. One that ends in the middle of a record is read as far as it goes; `notes` say so."""

    def __init__(self, place: Place) -> None:
        self.where = str(place)
        self.notes: dict[str, Any] = {}
        self._file = place.open()
        self._size = self._file.seek(0, io.SEEK_END)
        self._chunks: OrderedDict[int, bytes] = OrderedDict()
        self._places: dict[int, array[int]] = defaultdict(lambda: array("q"))
        self._ordered: dict[str, NDArray[np.int64]] = {}
        try:
            with self._translate("index"):
                self.topics, self.left_out, self._numbers = group_topics(self._find_messages())
        except BaseException:
            self._file.close()
            raise

    # ---- what a format says ------------------------------------------------------------------------------------------

    @abstractmethod
    def _find_messages(self) -> Mapping[int, Topic]:
        """Add the place of each message by the number of its channel; return the topics of the channels."""

    @abstractmethod
    def _unpack(self, offset: int) -> bytes:
        """Return the data of the chunk there."""

    @abstractmethod
    def _message(self, chunk: int, offset: int) -> tuple[int, int, bytes]:
        """Return channel, time and data of the message at an offset in a chunk, in the file where `chunk` is 0."""

    # ---- messages ----------------------------------------------------------------------------------------------------

    def stamps(self, topic: str) -> NDArray[np.int64]:
        """Return when each message of a topic was recorded."""
        return self._order(topic)[:, 0]

    def read(self, topic: str, number: int) -> bytes:
        """Return the bytes of a message; raises FormatError for other bytes than its index says."""
        time, chunk, offset = self._order(topic)[number].tolist()
        with self._translate(f"topic {topic!r}: message {number}"):
            channel, found, data = self._message(chunk, offset)
            if found != time or channel not in self._numbers[topic]:
                raise FormatError(f"{self.where}: byte {chunk}: expected a message of {topic!r}, found another")
            return data

    def _order(self, topic: str) -> NDArray[np.int64]:
        if topic not in self._ordered:
            places = [np.array(self._places[number], np.int64).reshape(-1, 3) for number in self._numbers[topic]]
            table = np.concatenate(places)
            self._ordered[topic] = table[np.lexsort((table[:, 2], table[:, 1], table[:, 0]))]
        return self._ordered[topic]

    def _chunk(self, offset: int) -> bytes:
        if offset not in self._chunks:
            self._chunks[offset] = self._unpack(offset)
            if len(self._chunks) > _MAX_CHUNKS:
                self._chunks.popitem(last=False)
        self._chunks.move_to_end(offset)
        return self._chunks[offset]

    # ---- the file ----------------------------------------------------------------------------------------------------

    def _read_at(self, offset: int, size: int) -> bytes:
        if size > MAX_MESSAGE_SIZE:
            raise LimitError(f"{self.where}: byte {offset}: expected at most {MAX_MESSAGE_SIZE} bytes, found {size}")
        self._file.seek(offset)
        return self._file.read(size)

    @contextlib.contextmanager
    def _translate(self, what: str) -> Iterator[None]:
        """Name the file in errors of the libraries."""
        try:
            yield
        except WShardError:
            raise
        except MemoryError:
            raise LimitError(f"{self.where}: {what}: does not fit into memory") from None
        except Exception as error:  # whatever a library meets in damaged bytes
            raise FormatError(f"{self.where}: {what}: cannot be read: {type(error).__name__}: {error}") from error

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def expand_chunk(data: bytes, size: int, method: str, where: str) -> bytes:
    """Return the `size` bytes of a chunk; raises CodecError for other data, LimitError before more are made."""
    if size > MAX_MESSAGE_SIZE:
        raise LimitError(f"{where}: expected at most {MAX_MESSAGE_SIZE} bytes, found {size}")
    try:
        match method:
            case "zstd":
                data = bytes(decompress(data, size, ENTRY_ZSTD, where))
            case "lz4":
                data = lz4.frame.LZ4FrameDecompressor().decompress(data, max_length=size + 1)
            case "bz2":
                data = bz2.BZ2Decompressor().decompress(data, max_length=size + 1)
            case "" | "none":
                pass
            case _:
                raise CodecError(f"{where}: expected compression by zstd, lz4 or bz2, found {shown(method)}")
    except (RuntimeError, OSError, EOFError) as error:
        raise CodecError(f"{where}: expected data in {method}: {error}") from error
    if len(data) != size:
        raise CodecError(f"{where}: expected {size} decompressed bytes, found {len(data)}")
    return data
