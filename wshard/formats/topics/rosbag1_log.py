"""ROS 1 bags of version 2.0 as logs of messages: found by the indexes behind chunks, or by reading the chunks."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from wshard.core.messages import shown
from wshard.errors import FormatError, UnsupportedFormatError
from wshard.formats.topics.chunked_log import UNFINISHED, ChunkedLog, expand_chunk
from wshard.formats.topics.message_log import Topic
from wshard.formats.topics.values import SECOND

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from wshard.core.files.place import Place

MAGIC: Final = b"#ROSBAG V"
_VERSION: Final = MAGIC + b"2.0\n"
_MESSAGE, _BAG, _INDEX, _CHUNK, _CHUNK_INFO, _CONNECTION = range(2, 8)
_U32: Final = struct.Struct("<I")
_U64: Final = struct.Struct("<Q")
_TIME: Final = struct.Struct("<II")
_INDEX_ROW: Final = np.dtype([("seconds", "<u4"), ("nanoseconds", "<u4"), ("offset", "<u4")])
_COUNT: Final = np.dtype([("number", "<u4"), ("count", "<u4")])
_INDEX_VERSION: Final = 1
_MAX_FIELDS: Final = 256  # of a header, which has less than ten
_DEFINED: Final = frozenset({"type", "md5sum", "message_definition"})
_LOOKED_AT: Final = 512  # as much as most headers of records have


class _Record(NamedTuple):
    """A record; its data are from `start` to `end`."""

    op: int
    fields: Mapping[str, bytes]
    start: int
    end: int

    def number(self, name: str) -> int:
        (value,) = (_U32 if len(self.fields[name]) == _U32.size else _U64).unpack(self.fields[name])
        return int(value)

    @property
    def time(self) -> int:
        seconds, nanoseconds = _TIME.unpack(self.fields["time"])
        return int(seconds) * SECOND + int(nanoseconds)


class Rosbag1Log(ChunkedLog):
    """An open bag."""

    def __init__(self, place: Place) -> None:
        self._connections: dict[int, Topic] = {}
        self._definitions: dict[tuple[str, bytes], bytes] = {}
        super().__init__(place)

    def _find_messages(self) -> Mapping[int, Topic]:
        start, index_start = self._read_start()
        indexes: dict[int, dict[int, NDArray[Any]]] = {}
        stated: dict[int, dict[int, int]] = {}
        end = self._walk(start, indexes, stated)
        if end < index_start < self._size:
            raise FormatError(f"{self.where}: byte {end}: expected a record, found other bytes")
        if end < self._size or not 0 < index_start < self._size:
            self.notes[UNFINISHED] = f"the file ends at byte {self._size}, in the middle of a record or before its end"
        for chunk, index in indexes.items():
            counts = {number: len(rows) for number, rows in index.items()}
            known = counts.keys() <= self._connections.keys()
            if counts and known and stated.get(chunk, counts) == counts:
                self._add_index(chunk, index)
            else:
                self._scan(chunk)
        if unknown := self._places.keys() - self._connections.keys():
            found = ", ".join(map(str, sorted(unknown)[:9]))
            raise FormatError(f"{self.where}: expected messages of known connections, found some of {found}")
        return self._connections

    def _read_start(self) -> tuple[int, int]:
        """Return where the first record is behind the one of the bag, and where the index is, 0 if there is none."""
        version = self._read_at(0, len(_VERSION))
        if not version.startswith(MAGIC):
            raise FormatError(f"{self.where}: expected a ROS 1 bag, found other first bytes")
        if version != _VERSION:
            raise UnsupportedFormatError(
                f"{self.where}: expected a bag of version 2.0, found {version!r}: `rosbag filter OLD.bag NEW.bag True` "
                "of ROS 1 writes one"
            )
        bag = self._record(len(_VERSION))
        if bag is None or bag.op != _BAG:
            raise FormatError(f"{self.where}: byte {len(_VERSION)}: expected the record of a bag, found other bytes")
        if encryptor := bag.fields.get("encryptor"):
            raise UnsupportedFormatError(
                f"{self.where}: expected a bag that is not encrypted, found encryptor {shown(encryptor.decode())}: "
                "`rosbag decrypt` of ROS 1 writes one"
            )
        return bag.end, bag.number("index_pos")

    def _walk(self, offset: int, indexes: dict[int, dict[int, NDArray[Any]]], stated: dict[int, dict[int, int]]) -> int:
        """Visit all records but those in chunks, of which the indexes and the numbers of messages are added.

        Returns where the whole records end. Of the chunk that a killed recorder was writing, the size is stated as 0,
        and if it is not compressed, its records are visited.
        """
        chunk = 0
        while (record := self._record(offset)) is not None:
            if record.op == _CHUNK:
                chunk, indexes[offset] = offset, {}
            elif record.op == _INDEX and chunk and record.number("ver") == _INDEX_VERSION:
                indexes[chunk][record.number("conn")] = np.frombuffer(self._data(record), _INDEX_ROW)
            elif record.op == _CHUNK_INFO:
                counts = np.frombuffer(self._data(record), _COUNT).tolist()
                stated[record.number("chunk_pos")] = dict(counts)
            elif record.op in {_CONNECTION, _MESSAGE}:
                self._add(record, self._data(record) if record.op == _CONNECTION else b"", 0, offset)
            offset = record.end
        return offset

    def _scan(self, chunk: int) -> None:
        """Find the messages of a chunk by reading it."""
        data, offset = self._chunk(chunk), 0
        while offset < len(data):
            record = _read_record(data, offset)
            if record is None or record.end > len(data):
                raise FormatError(f"{self.where}: chunk at byte {chunk}: expected records up to its end")
            self._add(record, data[record.start : record.end], chunk, offset)
            offset = record.end

    def _add(self, record: _Record, data: bytes, chunk: int, offset: int) -> None:
        number = record.number("conn") if record.op in {_CONNECTION, _MESSAGE} else 0
        if record.op == _CONNECTION:
            fields = _read_fields(data)
            if not fields.keys() >= _DEFINED:
                raise FormatError(
                    f"{self.where}: byte {chunk or offset}: expected a connection with {', '.join(sorted(_DEFINED))}"
                )
            name, kind = record.fields["topic"].decode(), fields["type"].decode()
            # The same type may have been defined with other comments by another program.
            text = self._definitions.setdefault((kind, fields["md5sum"]), fields["message_definition"])
            self._connections.setdefault(number, Topic(name, kind, "ros1", "ros1msg", text))
        elif record.op == _MESSAGE:
            self._places[number].extend((record.time, chunk, offset))

    def _add_index(self, chunk: int, index: Mapping[int, NDArray[Any]]) -> None:
        for number, rows in index.items():
            places = np.full((len(rows), 3), chunk, np.int64)
            places[:, 0] = rows["seconds"].astype(np.int64) * SECOND + rows["nanoseconds"]
            places[:, 2] = rows["offset"]
            self._places[number].frombytes(places.tobytes())

    # ---- records -----------------------------------------------------------------------------------------------------

    def _message(self, chunk: int, offset: int) -> tuple[int, int, bytes]:
        data = self._chunk(chunk) if chunk else b""
        record = _read_record(data, offset) if chunk else self._record(offset)
        while record is not None and chunk and record.op == _CONNECTION:  # in front of its first message
            record = _read_record(data, record.end)
        if record is None or record.op != _MESSAGE:
            raise FormatError(f"{self.where}: byte {chunk or offset}: expected a message at byte {offset} of its chunk")
        return record.number("conn"), record.time, data[record.start : record.end] if chunk else self._data(record)

    def _unpack(self, offset: int) -> bytes:
        record = self._record(offset)
        if record is None or record.op != _CHUNK:
            raise FormatError(f"{self.where}: byte {offset}: expected a chunk, found other bytes")
        method, where = record.fields["compression"].decode(), f"{self.where}: chunk at byte {offset}"
        return expand_chunk(self._data(record), record.number("size"), method, where)

    def _data(self, record: _Record) -> bytes:
        return self._read_at(record.start, record.end - record.start)

    def _record(self, offset: int) -> _Record | None:
        """Return the record there, None where there is no whole one."""
        head = self._read_at(offset, _LOOKED_AT)
        if len(head) < _U32.size:
            return None
        size = _U32.unpack_from(head)[0] + 2 * _U32.size
        if len(head) < size <= self._size - offset:
            head = self._read_at(offset, size)
        record = _read_record(head, 0)
        if record is None or offset + record.end > self._size:
            return None
        return record._replace(start=offset + record.start, end=offset + record.end)


def _read_record(data: bytes, offset: int) -> _Record | None:
    """Return the record there, of which the data may be missing; None where there is none."""
    try:
        start = offset + _U32.size + _U32.unpack_from(data, offset)[0]
        fields = _read_fields(data[offset + _U32.size : start])
        (size,) = _U32.unpack_from(data, start)
        return _Record(fields["op"][0], fields, start + _U32.size, start + _U32.size + size)
    except (struct.error, LookupError):
        return None


def _read_fields(data: bytes) -> dict[str, bytes]:
    """Return the fields of a header, each the size of NAME=VALUE and that; none of other bytes."""
    fields: dict[str, bytes] = {}
    offset = 0
    while offset < len(data):
        start = offset + _U32.size
        offset = start + _U32.unpack_from(data, offset)[0]
        name, equals, value = data[start:offset].partition(b"=")
        if not equals or offset > len(data) or len(fields) >= _MAX_FIELDS:
            return {}
        fields[name.decode(errors="replace")] = value
    return fields
