"""What every writer of containers has in common: settings, the forms of write_entry, tags and the JSON section."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from wshard.core.container.codec import Codec, CompressionType
from wshard.core.container.encode_block import PendingBlock
from wshard.core.container.layout import (
    ALIGNMENTS,
    CODEC_LZ4,
    CODEC_NONE,
    CODEC_ZSTD,
    CONTENT_UNKNOWN,
    MAX_NAME_SIZE,
    MAX_TAGS,
)
from wshard.core.container.metadata import ShardMetadata
from wshard.errors import CodecError, FormatError, LimitError, RecordingStateError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wshard.core.container.encode_block import Payload

_CODECS_BY_NUMBER: Final = {
    CODEC_NONE: CompressionType.NONE,
    CODEC_ZSTD: CompressionType.ZSTD,
    CODEC_LZ4: CompressionType.LZ4,
}
_MAX_CONTENT_TYPE: Final = 0xFFFF


class EntryWriter(ABC):
    """Base of the writers: settings, and the variants of write_entry. alignment: 0, 16, 32 or 64 bytes; role: 0-255."""

    def __init__(self, where: str, role: int, alignment: int, compression: str | Codec) -> None:
        self.where = where
        self._role = role
        self._plain = self._default = Codec.parse(compression)
        self._metadata: ShardMetadata | None = None
        self._tag_words: list[str] = []
        self.set_alignment(alignment)

    def set_alignment(self, alignment: int) -> None:
        """Align blocks to 0 (packed), 16, 32 or 64 bytes."""
        if alignment not in ALIGNMENTS:
            raise FormatError(f"alignment: expected one of {ALIGNMENTS}, found {alignment}")
        self._alignment = alignment

    def set_compression(self, compression: int | str | Codec) -> None:
        """Set the codec of write_entry_compressed: 0 or "none", 1 or "zstd", 2 or "lz4", "zstd:19".

        Other blocks stay as the constructor's `compression` says: raw unless it was given, as in the reference package.
        """
        self._default = _codec(compression)

    def set_metadata(self, metadata: ShardMetadata) -> None:
        """Write this JSON section after the blocks; an empty schema_id is filled in."""
        if self._tag_words:
            raise RecordingStateError(f"{self.where}: set_metadata: expected before the first tag is written")
        self._metadata = metadata

    @abstractmethod
    def write_entry(
        self,
        name: str,
        data: Payload,
        *,
        compression: str | Codec | None = None,
        content_type: int = CONTENT_UNKNOWN,
        tags: Sequence[str] = (),
    ) -> None:
        """Add a block."""

    def write_entry_typed(self, name: str, data: Payload, content_type: int) -> None:
        """Add a block with a content type."""
        self.write_entry(name, data, content_type=content_type)

    def write_entry_compressed(self, name: str, data: Payload) -> None:
        """Add a block, compressed by the codec of set_compression or of the constructor."""
        self.write_entry(name, data, compression=self._default)

    def write_entry_with_options(
        self,
        name: str,
        data: Payload,
        compress: bool,  # noqa: FBT001  (the signature of the container's reference package)
        comp_type: int,
    ) -> None:
        """Add a block, compressed by codec 0 (none), 1 (zstd) or 2 (lz4) if compress is true."""
        self.write_entry(name, data, compression=_codec(comp_type if compress else CODEC_NONE))

    @abstractmethod
    def _has_block(self, name: str) -> bool:
        """Say whether there is a block of this name already."""

    def _new_block(
        self, name: str, data: Payload, compression: str | Codec | None, content_type: int, *, frame_size: int = 0
    ) -> PendingBlock:
        """Return the validated entry; FormatError or LimitError for an invalid name or content type."""
        try:
            size = len(name.encode())
        except UnicodeEncodeError as error:
            raise FormatError(f"{self.where}: block name {name!r}: expected Unicode text: {error}") from None
        if size > MAX_NAME_SIZE:
            raise LimitError(f"{self.where}: block name of {size} bytes: expected at most {MAX_NAME_SIZE}")
        if not 0 <= content_type <= _MAX_CONTENT_TYPE:
            raise FormatError(f"{self.where}: block {name!r}: content type: expected 0 to 65535, found {content_type}")
        if self._has_block(name):
            raise FormatError(f"{self.where}: block {name!r} is there already: names must be unique")
        codec = self._plain if compression is None else Codec.parse(compression)
        return PendingBlock.of(name, data, codec, content_type, frame_size=frame_size)

    def _tag_bits(self, name: str, tags: Iterable[str]) -> int:
        """Return the tag bits of a block; words that the tag dictionary lacks are added to it."""
        metadata = self._metadata or ShardMetadata()
        if not self._tag_words:
            self._tag_words = list(metadata.tag_dictionary)
        entry_metadata = metadata.entry_metadata.get(name)
        existing = set(entry_metadata.tags if entry_metadata else ()) & set(self._tag_words)
        added = [tag for tag in dict.fromkeys(tags) if tag not in self._tag_words]
        if len(self._tag_words) + len(added) > MAX_TAGS:
            raise LimitError(f"{self.where}: block {name!r}: expected at most {MAX_TAGS} different tags in a file")
        self._tag_words += added
        return sum(1 << self._tag_words.index(tag) for tag in existing.union(tags))

    def _section(self) -> bytes:
        """Return the JSON section, empty without metadata."""
        if self._metadata is None and not self._tag_words:
            return b""
        metadata = self._metadata or ShardMetadata()
        metadata = replace(metadata, tag_dictionary=self._tag_words or metadata.tag_dictionary)
        if not metadata.schema_id and (metadata.tag_dictionary or metadata.entry_metadata):
            metadata = replace(metadata, schema_id=metadata.compute_schema_id())
        return metadata.to_json()


def _codec(compression: int | str | Codec) -> Codec:
    if not isinstance(compression, int):
        return Codec.parse(compression)
    if compression not in _CODECS_BY_NUMBER:
        raise CodecError(f"compression: expected 0 (none), 1 (zstd) or 2 (lz4), found {compression}")
    return Codec(_CODECS_BY_NUMBER[compression])
