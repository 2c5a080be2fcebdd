"""MCAP files as logs of messages: records are read by the mcap library, found by its indexes or by walking the file."""

from __future__ import annotations

import contextlib
import io
import struct
import zlib
from typing import TYPE_CHECKING, Any, Final

from wshard.core.plugins import import_library
from wshard.errors import ChecksumError, FormatError
from wshard.formats.topics.chunked_log import UNFINISHED, ChunkedLog, expand_chunk
from wshard.formats.topics.message_log import Topic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wshard.core.files.place import Place

MAGIC: Final = b"\x89MCAP0\r\n"
EXTRA: Final = "mcap"
_RECORD: Final = struct.Struct("<BQ")
_FOOTER_SIZE: Final = _RECORD.size + 20
_HEADER, _FOOTER, _SCHEMA, _CHANNEL, _MESSAGE, _CHUNK, _MESSAGE_INDEX = range(1, 8)
_METADATA: Final = 0x0C
_DATA_END: Final = 0x0F
_MESSAGE_HEAD: Final = struct.Struct("<HIQQ")  # channel, sequence, log time, publish time
_MAX_SUMMARY_SIZE: Final = 1 << 28
_LATEST: Final = (1 << 63) - 1


class McapLog(ChunkedLog):
    """An open MCAP file."""

    def __init__(self, place: Place) -> None:
        self._records: Any = import_library("mcap.records", EXTRA)
        self._streams: Any = import_library("mcap.data_stream", EXTRA)
        self._schemas: dict[int, Any] = {}
        self._channels: dict[int, Any] = {}
        super().__init__(place)

    def _find_messages(self) -> dict[int, Topic]:
        if self._read_at(0, len(MAGIC)) != MAGIC:
            raise FormatError(f"{self.where}: expected an MCAP file, found other first bytes")
        complete = False
        with contextlib.suppress(Exception):  # many kinds, of a damaged summary
            complete = self._read_summary()
        if not complete:
            for found in (self._places, self._channels, self._schemas, self.notes):
                found.clear()
            self._walk()
        topics: dict[int, Topic] = {}
        for number, channel in self._channels.items():
            schema = self._schemas.get(channel.schema_id)
            about = ("", "", b"") if schema is None else (schema.name, schema.encoding, schema.data)
            topics[number] = Topic(channel.topic, about[0], channel.message_encoding, about[1], about[2])
        return topics

    def _message(self, chunk: int, offset: int) -> tuple[int, int, bytes]:
        body = self._record_in(self._chunk(chunk), offset) if chunk else self._record(offset)[1]
        channel, _, time, _ = _MESSAGE_HEAD.unpack_from(body)
        return channel, time, body[_MESSAGE_HEAD.size :]

    def _unpack(self, offset: int) -> bytes:
        opcode, body = self._record(offset)
        if opcode != _CHUNK:
            raise FormatError(f"{self.where}: byte {offset}: expected a chunk, found record {opcode}")
        chunk, where = self._parse("Chunk", body), f"{self.where}: chunk at byte {offset}"
        data = expand_chunk(chunk.data, chunk.uncompressed_size, chunk.compression, where)
        if chunk.uncompressed_crc and zlib.crc32(data) != chunk.uncompressed_crc:
            raise ChecksumError(f"{where}: expected CRC {chunk.uncompressed_crc:08x}, found {zlib.crc32(data):08x}")
        return data

    # ---- the index ---------------------------------------------------------------------------------------------------

    def _read_summary(self) -> bool:
        """Read channels and indexes from the end of the file; False where it has none that are complete."""
        section = self._summary_section()
        stream = import_library("mcap.stream_reader", EXTRA)
        chunks, counted = [], -1
        for record in stream.StreamReader(io.BytesIO(section), skip_magic=True).records if section else ():
            match type(record).__name__:
                case "Schema":
                    self._schemas[record.id] = record
                case "Channel":
                    self._channels[record.id] = record
                case "ChunkIndex":
                    chunks.append(record)
                case "Statistics":
                    counted = record.message_count
                case "MetadataIndex":
                    self._note(self._record(record.offset)[1])
        for chunk in chunks:
            self._read_index(chunk)
        return self._is_complete(counted)

    def _summary_section(self) -> bytes:
        tail = self._read_at(max(self._size - _FOOTER_SIZE - len(MAGIC), 0), _FOOTER_SIZE + len(MAGIC))
        if len(tail) < _FOOTER_SIZE + len(MAGIC) or not tail.endswith(MAGIC) or tail[0] != _FOOTER:
            return b""
        start = self._parse("Footer", tail[_RECORD.size : _FOOTER_SIZE]).summary_start
        if not 0 < start <= self._size - len(tail) or self._size - start > _MAX_SUMMARY_SIZE:
            return b""
        return self._read_at(start, self._size - start)

    def _is_complete(self, counted: int) -> bool:
        channels, schemas = self._channels, {0, *self._schemas}
        indexed = sum(len(places) // 3 for places in self._places.values())
        known = self._places.keys() <= channels.keys()
        return known and indexed == counted and all(channel.schema_id in schemas for channel in channels.values())

    def _read_index(self, chunk: Any) -> None:
        start = chunk.chunk_start_offset
        for offset in chunk.message_index_offsets.values():
            index = self._parse("MessageIndex", self._record(offset)[1])
            for time, at in index.records:
                self._places[index.channel_id].extend((min(time, _LATEST), start, min(at, _LATEST)))

    def _walk(self) -> None:
        """Find all messages by scanning the file, which may lack its summary."""
        offset = len(MAGIC)
        while offset < self._size:
            if self._size - offset < _RECORD.size:
                break
            opcode, length = _RECORD.unpack(self._read_at(offset, _RECORD.size))
            if offset + _RECORD.size + length > self._size:
                break
            if opcode in {_SCHEMA, _CHANNEL, _MESSAGE, _METADATA}:
                self._add(opcode, self._record(offset)[1], 0, offset)
            elif opcode == _CHUNK:
                for inner, body, at in self._records_in(self._chunk(offset)):
                    self._add(inner, body, offset, at)
            offset += _RECORD.size + length
            if opcode in {_DATA_END, _FOOTER}:
                return
        self.notes[UNFINISHED] = f"the file ends at byte {self._size}, in the middle of a record or before its end"

    def _add(self, opcode: int, body: bytes, chunk: int, offset: int) -> None:
        if opcode == _SCHEMA:
            schema = self._parse("Schema", body)
            self._schemas[schema.id] = schema
        elif opcode == _CHANNEL:
            channel = self._parse("Channel", body)
            self._channels[channel.id] = channel
        elif opcode == _METADATA:
            self._note(body)
        elif opcode == _MESSAGE:
            number, _, time, _ = _MESSAGE_HEAD.unpack_from(body)
            if number not in self._channels:
                raise FormatError(f"{self.where}: byte {chunk or offset}: expected a known channel, found {number}")
            self._places[number].extend((min(time, _LATEST), chunk, offset))

    def _note(self, body: bytes) -> None:
        record = self._parse("Metadata", body)
        self.notes.setdefault(record.name, dict(record.metadata))

    # ---- records -----------------------------------------------------------------------------------------------------

    def _record(self, offset: int) -> tuple[int, bytes]:
        """Return opcode and body of the record there; raises FormatError."""
        if not 0 < offset <= self._size - _RECORD.size:
            raise FormatError(f"{self.where}: expected a record at byte {offset}, found {self._size} bytes")
        opcode, length = _RECORD.unpack(self._read_at(offset, _RECORD.size))
        if offset + _RECORD.size + length > self._size:
            raise FormatError(f"{self.where}: byte {offset}: record of {length} bytes: beyond the end")
        return opcode, self._read_at(offset + _RECORD.size, length)

    def _record_in(self, data: bytes, offset: int) -> bytes:
        for _, body, _ in self._records_in(data, offset):
            return body
        raise FormatError(f"{self.where}: expected a message at byte {offset} of its chunk, found {len(data)} bytes")

    def _records_in(self, data: bytes, offset: int = 0) -> Iterator[tuple[int, bytes, int]]:
        while offset < len(data):
            opcode, length = _RECORD.unpack_from(data, offset)
            start = offset + _RECORD.size
            if not opcode or start + length > len(data):
                raise FormatError(f"{self.where}: expected records up to the end of a chunk, found other bytes")
            yield opcode, data[start : start + length], offset
            offset = start + length

    def _parse(self, kind: str, body: bytes) -> Any:
        return getattr(self._records, kind).read(self._streams.ReadDataStream(io.BytesIO(body)))
