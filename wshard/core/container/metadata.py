"""The JSON section of a container: metadata of the file and of its blocks.

Unknown keys are preserved. Rules by number: FORMAT.md.
"""

from __future__ import annotations

import hashlib
import json
import reprlib
from dataclasses import MISSING, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final, TypeVar

from wshard.core.container.layout import MAX_SECTION_SIZE, MAX_TAGS
from wshard.errors import LimitError, MetadataError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wshard.core.container.layout import Header
    from wshard.core.files.byte_source import Source

SCHEMA_VERSION: Final = "shard-v2.1"
PROFILE_MANIFEST: Final = "manifest.v1"
_ITEMS: Final[dict[str, type]] = {"tags": str, "tag_dictionary": str, "shape": int}


@dataclass(frozen=True)
class EntryMeta:
    """Metadata of one block in the JSON section; content_type and codec are free text here."""

    content_type: str = ""
    tags: list[str] = field(default_factory=list)
    description: str = ""
    extra: dict[str, Any] = field(default_factory=dict)
    codec: str = ""
    codec_version: str = ""
    schema_fingerprint: str = ""
    semantic_type: str = ""
    canonical_hash: str = ""
    base_hash: str = ""
    row_count: int = 0
    shape: list[int] = field(default_factory=list)
    stats: dict[str, Any] = field(default_factory=dict)
    unknown: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SampleProfile:
    """Metadata of a data set in a file of samples."""

    dataset_name: str = ""
    sample_id_type: str = ""
    key_encoding: str = ""
    sample_count: int = 0
    dataset_schema: dict[str, Any] = field(default_factory=dict)
    splits: dict[str, Any] = field(default_factory=dict)
    label_map: dict[str, Any] = field(default_factory=dict)
    feature_stats: dict[str, Any] = field(default_factory=dict)
    unknown: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ManifestFileRef:
    """One file that a manifest refers to; the keys are the first and last one in it."""

    uri: str = ""
    sha256: str = ""
    role: str = ""
    profile: str = ""
    start_key: str = ""
    end_key: str = ""
    entry_count: int = 0
    unknown: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ManifestProfile:
    """The files that make up a data set, and named groups of them."""

    files: list[ManifestFileRef] = field(default_factory=list)
    partitions: dict[str, Any] = field(default_factory=dict)
    unknown: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ShardMetadata:
    """The JSON section. created_at is ISO 8601; bit i of an entry's tags stands for tag_dictionary[i]."""

    schema_version: str = SCHEMA_VERSION
    schema_uri: str = ""
    schema_id: str = ""
    created_at: str = ""
    source_uri: str = ""
    producer: str = ""
    description: str = ""
    tags: list[str] = field(default_factory=list)
    tag_dictionary: list[str] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)
    profile: str = ""
    sample_shard: SampleProfile | None = None
    manifest: ManifestProfile | None = None
    entry_metadata: dict[str, EntryMeta] = field(default_factory=dict)
    unknown: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> bytes:
        """Return compact JSON; equal values give equal bytes. Raises MetadataError for what JSON cannot hold."""
        if len(self.tag_dictionary) > MAX_TAGS or len(set(self.tag_dictionary)) != len(self.tag_dictionary):
            raise MetadataError(f"tag_dictionary: expected at most {MAX_TAGS} words, each once: {self.tag_dictionary}")
        try:
            value = _plain(self)
            data = json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
            check_keys(value)
        except (TypeError, ValueError, RecursionError) as error:
            raise MetadataError(f"metadata: expected JSON values: {error}") from error
        return data

    @staticmethod
    def from_json(data: bytes, where: str = "metadata") -> ShardMetadata:
        """Read a JSON section; raises MetadataError that names the key."""
        try:
            value = json.loads(data.decode())
        except (ValueError, RecursionError) as error:
            raise MetadataError(f"{where}: expected UTF-8 JSON: {error}") from error
        return _read(ShardMetadata, value, where)

    def compute_schema_id(self) -> str:
        """Return 16 hex digits that are equal for equal tag dictionaries, block names and their types."""
        words = list(self.tag_dictionary)
        for name, entry in sorted(self.entry_metadata.items()):
            words += [name, entry.content_type, entry.semantic_type]
        return hashlib.sha256(b"".join(word.encode(errors="surrogatepass") + b"\0" for word in words)).hexdigest()[:16]


def section_begins(header: Header, size: int) -> bool:
    """Return True if schema_offset is a valid start of the JSON section of a file of `size` bytes."""
    return bool(header.schema_offset) and header.data_section_offset <= header.schema_offset <= size


def read_section(source: Source, header: Header, where: str) -> ShardMetadata:
    """Read the JSON section, from schema_offset to the end of the file; raises MetadataError, LimitError."""
    start, at = header.schema_offset, f"{where}: JSON section"
    if not section_begins(header, source.size):
        raise MetadataError(f"{at}: expected it inside [{header.data_section_offset}, {source.size}], found {start}")
    if source.size - start > MAX_SECTION_SIZE:
        raise LimitError(f"{at}: expected at most {MAX_SECTION_SIZE} bytes, found {source.size - start}")
    return ShardMetadata.from_json(bytes(source.read(start, source.size)), at)


# ---- JSON <-> values: a field's default tells the type of its key ---------------------------------------------------

T = TypeVar("T", ShardMetadata, EntryMeta, SampleProfile, ManifestProfile, ManifestFileRef)


def _read(profile: type[T], value: object, where: str) -> T:
    if not isinstance(value, dict):
        raise MetadataError(f"{where}: expected an object, found {reprlib.repr(value)}")
    fields_by_name = {
        fields_by_name.name: fields_by_name for fields_by_name in fields(profile) if fields_by_name.name != "unknown"
    }
    arguments: dict[str, Any] = {"unknown": {key: inner for key, inner in value.items() if key not in fields_by_name}}
    for key, declared in fields_by_name.items():
        inner = value.get(key)
        if inner is None:  # some writers write null for an empty list
            continue
        default = declared.default_factory() if declared.default_factory is not MISSING else declared.default
        arguments[key] = _value(key, inner, default, f"{where}: {key}")
    return profile(**arguments)


def _value(key: str, value: Any, default: Any, where: str) -> Any:
    if key == "sample_shard":
        return _read(SampleProfile, value, where)
    if key == "manifest":
        return _read(ManifestProfile, value, where)
    _check_kind(value, type(default), where)
    if key == "files":
        return [_read(ManifestFileRef, row, f"{where}[{number}]") for number, row in enumerate(value)]
    if key == "entry_metadata":
        return {name: _read(EntryMeta, row, f"{where}: {name!r}") for name, row in value.items()}
    item = _ITEMS.get(key)
    if item is not None and not all(type(part) is item for part in value):
        raise MetadataError(f"{where}: expected a list of {item.__name__}, found {reprlib.repr(value)}")
    return value


def _check_kind(value: object, expected: type, where: str) -> None:
    if not isinstance(value, expected) or isinstance(value, bool):
        raise MetadataError(f"{where}: expected {expected.__name__}, found {reprlib.repr(value)}")


def _plain(value: Any) -> Any:
    """Return the JSON of a value: empty keys are omitted, unknown keys of the file come last."""
    if isinstance(value, list):
        return [_plain(row) for row in value]
    if isinstance(value, dict):
        return {key: _plain(row) for key, row in value.items()}
    if not hasattr(value, "unknown"):
        return value
    named = {known.name: getattr(value, known.name) for known in fields(value) if known.name != "unknown"}
    return {key: _plain(inner) for key, inner in named.items() if inner} | dict(value.unknown)


def check_keys(value: object, where: str = "") -> None:
    """Raise ValueError with the location if two keys of one dict are the same in JSON, such as 1 and "1".

    The value must be serialisable by json.
    """
    if isinstance(value, dict):
        spelt: dict[str, object] = {}
        for key, part in value.items():
            name = key if isinstance(key, str) else next(iter(json.loads(json.dumps({key: None}))))
            if name in spelt:
                at = f" of {where}" if where else ""
                raise ValueError(f"the keys {spelt[name]!r} and {key!r}{at} are the same in JSON")
            spelt[name] = key
            check_keys(part, f"{where}.{name}" if where else name)
    elif isinstance(value, list | tuple):
        for number, part in enumerate(value):
            check_keys(part, f"{where}[{number}]")
