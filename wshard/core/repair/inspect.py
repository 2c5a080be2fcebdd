"""Inspect a file without changing it: its blocks and lanes, and their problems."""

from __future__ import annotations

import contextlib
import json
import warnings
from typing import TYPE_CHECKING, Any, Final

from wshard.core.chunks.manifest import MANIFEST_BLOCK
from wshard.core.chunks.reader import ChunkedEpisodeReader
from wshard.core.container.block import codec_name
from wshard.core.container.layout import (
    ALIGNMENTS,
    CODEC_LZ4,
    CODEC_NONE,
    CODEC_ZSTD,
    ENTRY_CHUNKED,
    FLAG_HAS_CONTENT_TYPES,
    FLAG_HAS_SCHEMA,
    HEADER_SIZE,
    KNOWN_FLAGS,
    ROLE_MANIFEST,
    ROLE_WSHARD,
)
from wshard.core.container.manifest import open_manifest
from wshard.core.container.reader import ShardReader
from wshard.core.episode.file import EpisodeFile
from wshard.core.repair.damaged_index import restore_index
from wshard.core.repair.describe import describe_channels, describe_episode
from wshard.core.repair.repair import examine
from wshard.core.repair.salvage import has_no_checksum
from wshard.errors import FormatError, FormatWarning

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from wshard.core.container.layout import IndexEntry

HEADER: Final = "header"
META: Final = "meta"
PARTS: Final = (HEADER, META)  # locations of problems that concern no single block


# ---- inspect -------------------------------------------------------------------------------------------------------


def inspect_file(path: Path | str) -> dict[str, Any]:
    """Return the contents of a file as plain JSON values; raises FormatError, OSError if it cannot be opened."""
    with contextlib.ExitStack() as stack:
        reader = stack.enter_context(ShardReader(path))
        episode = stack.enter_context(EpisodeFile(path)) if reader.header.role == ROLE_WSHARD else None
        lanes = episode.lanes() if episode else {}
        blocks = []
        for number, entry in enumerate(reader.entries):
            lane = lanes.get(entry.name)
            shape = [episode.length, *lane.shape] if episode and lane else None
            report = _block_report(reader, number, entry) | {"dtype": lane and lane.dtype.value, "shape": shape}
            report |= describe_channels(episode, entry.name, 0, episode.length) if episode and lane else {}
            blocks.append(report | {"codec": lane.encoding} if lane and lane.encoding else report)
        return {
            "path": str(path),
            "file_size": reader.header.total_file_size,
            "role": reader.header.role,
            "digest": reader.digest(),
            "episode": _episode_report(episode) if episode else None,
            "blocks": blocks,
            "section": _section_report(reader),
        }


def _section_report(reader: ShardReader) -> dict[str, Any] | None:
    try:
        metadata = reader.read_metadata()
    except FormatError as error:
        return {"error": str(error)}
    return None if metadata is None else dict(json.loads(metadata.to_json()))


def _block_report(reader: ShardReader, number: int, entry: IndexEntry) -> dict[str, Any]:
    try:
        reader.block(number)
        state = "ok" if entry.checksum or not entry.orig_size else "none"
    except FormatError:
        state = "BAD"
    return {
        "block": entry.name,
        "codec": codec_name(entry, reader.header),
        "size": entry.orig_size,
        "stored": entry.disk_size,
        "crc": state,
    }


def _episode_report(episode: EpisodeFile) -> dict[str, Any]:
    description = episode.description
    return describe_episode(episode) | {
        "chunk_index": description.chunk_index,
        "total_chunks": description.total_chunks,
        "timestep_range": description.timestep_range,
        "not_recorded": sorted(description.synthesized),
    }


def tree(names: Iterable[str]) -> Iterator[tuple[int, str, int | None]]:
    """Yield the lines of a tree of names: depth, label, and the name's number; None for a folder."""
    previous_folders: list[str] = []
    for number, name in sorted(enumerate(names), key=lambda pair: pair[1].split("/")):
        *folders, label = name.split("/")
        for depth, folder in enumerate(folders):
            if previous_folders[: depth + 1] != folders[: depth + 1]:
                yield depth, f"{folder}/", None
        previous_folders = folders
        yield len(folders), label or '""', number


# ---- verify --------------------------------------------------------------------------------------------------------


def check_file(path: Path | str, *, strict: bool = False) -> tuple[int, dict[str, str]]:
    """Return the number of blocks, and the problems by name of the block (or one of PARTS).

    strict: report also every FormatWarning given while reading, unusual header values, and blocks without a checksum.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        count, problems = _check(path, strict=strict)
    messages = [str(item.message) for item in caught if strict and issubclass(item.category, FormatWarning)]
    if messages and HEADER not in problems:
        problems[HEADER] = "; ".join(dict.fromkeys(messages))
    return count, dict(sorted(problems.items()))


def _check(path: Path | str, *, strict: bool) -> tuple[int, dict[str, str]]:
    try:
        with ShardReader(path) as reader:
            count = len(reader)
            problems = {entry.name: str(error) for entry, error in reader.verify() if error}
            problems = _check_coverage(reader, strict=strict) | problems
            if strict:
                problems = _check_fields(reader) | problems
            if reader.header.role == ROLE_WSHARD:
                problems = _check_lanes(path) | problems
            problems |= _check_section(reader, path) | _check_chunks(reader, path) | _check_index(reader)
    except (FormatError, OSError) as error:
        return 0, {HEADER: str(error)}
    except Exception as error:  # noqa: BLE001  (one file must not end the check of the others)
        return 0, {HEADER: f"{path}: unexpected {type(error).__name__}: {error}"}
    return count, problems


def _check_coverage(reader: ShardReader, *, strict: bool) -> dict[str, str]:
    """Return the blocks without a checksum; not strict: only where others have one."""
    if not strict and not any(entry.checksum for entry in reader.entries):
        return {}
    names = [entry.name for number, entry in enumerate(reader.entries) if has_no_checksum(reader, number)]
    return {name: f"{reader.where}: block {name!r}: no checksum covers it" for name in names}


def _check_fields(reader: ShardReader) -> dict[str, str]:
    problems = _find_unwritten_values(reader)
    return {HEADER: f"{reader.where}: {'; '.join(problems)}"} if problems else {}


def _check_index(reader: ShardReader) -> dict[str, str]:
    """Return the damage to header and index that only hashes and counts reveal."""
    notes, doubts = restore_index(reader)
    problems = [*notes, *doubts.values()]
    return {HEADER: f"{reader.where}: {'; '.join(problems)}"} if problems else {}


def _check_section(reader: ShardReader, path: Path | str) -> dict[str, str]:
    """Return the problems of the JSON section, and of the files that a manifest names."""
    try:
        metadata = reader.read_metadata()
    except FormatError as error:
        return {META: str(error)}
    if metadata is None or metadata.manifest is None or reader.header.role != ROLE_MANIFEST:
        return {}
    checked = open_manifest(path, require_sha256=False).verify()
    return {reference.uri: str(error) for reference, error in checked if error}


def _check_chunks(reader: ShardReader, path: Path | str) -> dict[str, str]:
    """Return the problems of the chunks that a chunked episode's manifest names."""
    if reader.header.role != ROLE_MANIFEST or MANIFEST_BLOCK not in reader:
        return {}
    chunks, problems = ChunkedEpisodeReader(path), {}
    try:
        rows = chunks.load_manifest().rows()
    except FormatError as error:
        return {MANIFEST_BLOCK: str(error)}
    for row in rows:
        try:
            chunks.verify_chunk(row)
        except (FormatError, OSError) as error:
            problems[row.uri] = str(error)
    return problems


def _check_lanes(path: Path | str) -> dict[str, str]:
    problems = {}
    try:
        with EpisodeFile(path) as episode:
            for name, lane in episode.lanes().items():
                try:
                    episode.frames(name) if lane.encoding else episode.lane(name)
                except FormatError as error:
                    problems[name] = str(error)
    except FormatError as error:
        problems[META] = str(error)
    return problems


def is_repairable(path: Path) -> bool:
    """Return True if the file has damage that `wshard repair` can repair or save blocks from."""
    try:
        with warnings.catch_warnings(action="ignore"), ShardReader(path, damaged=True) as reader:
            return examine(reader)[1] is not None
    except (FormatError, OSError):
        return False


def _find_unwritten_values(reader: ShardReader) -> list[str]:
    """Return the unusual values in header and index entries, one sentence each (C-13)."""
    tag_count = 0
    with contextlib.suppress(FormatError):  # reported elsewhere
        metadata = reader.read_metadata()
        tag_count = len(metadata.tag_dictionary) if metadata else 0
    return [
        *_find_in_header(reader),
        *(text for entry in reader.entries for text in _find_in_entry(entry, reader.header.flags, tag_count)),
    ]


def _find_in_header(reader: ShardReader) -> Iterator[str]:
    header = reader.header
    if unknown_flags := header.flags & ~sum(KNOWN_FLAGS):
        yield f"header flags: expected none but known ones, found 0x{unknown_flags:04x}"
    if bool(header.schema_offset) != bool(header.flags & FLAG_HAS_SCHEMA):
        yield f"header flags: expected 0x{FLAG_HAS_SCHEMA:04x} with a JSON section only, found 0x{header.flags:04x}"
    if header.alignment not in ALIGNMENTS:
        yield f"alignment: expected one of {ALIGNMENTS}, found {header.alignment}"
    if header.compression_default not in {CODEC_NONE, CODEC_ZSTD, CODEC_LZ4}:
        yield f"default codec: expected 0, 1 or 2, found {header.compression_default}"
    if header.pack() != reader.read_range(0, HEADER_SIZE):
        yield "reserved bytes: expected zeros, found other values"


def _find_in_entry(entry: IndexEntry, flags: int, tag_count: int) -> Iterator[str]:
    if entry.flags & ENTRY_CHUNKED or (entry.flags and not entry.compressed):
        yield f"block {entry.name!r}: flags: expected a codec beside the compressed bit, found 0x{entry.flags:04x}"
    if entry.content_type and not flags & FLAG_HAS_CONTENT_TYPES:
        yield (
            f"block {entry.name!r}: content type {entry.content_type}: "
            f"expected header flag 0x{FLAG_HAS_CONTENT_TYPES:04x}, found 0x{flags:04x}"
        )
    if entry.tag_bits >> tag_count:
        yield f"block {entry.name!r}: expected tags of {tag_count} words, found the bits 0x{entry.tag_bits:04x}"
