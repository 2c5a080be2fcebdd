"""Restore damaged and unfinished ShardPack files: every record that can be verified, under a new index."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wshard.core.container.atomic_write import lock_descriptor
from wshard.core.container.layout import name_hash
from wshard.core.files.byte_source import open_source
from wshard.core.files.regular import open_file
from wshard.core.repair.repair import publish_repaired
from wshard.core.repair.report import Damage, RepairReport
from wshard.errors import FormatError, RecordingExistsError, RepairError
from wshard.training.shardpack.index import PackIndex, key_table
from wshard.training.shardpack.layout import (
    COUNT,
    END_MARKER,
    FOOTER_SIZE,
    PARTIAL,
    RECORD_HEADER_SIZE,
    PackFooter,
    RecordHeader,
)
from wshard.training.shardpack.reader import ShardPackReader
from wshard.training.shardpack.record import unpack_record
from wshard.training.shardpack.verify import check_entries, verify_shardpack

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wshard.core.files.byte_source import Source


@dataclass
class _Salvage:
    """Contents of a damaged file: byte spans of intact records by key, and reasons for the other parts by name."""

    spans: dict[str, tuple[int, int]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    has_table: bool = True


def repair_shardpack(
    path: str | os.PathLike[str], output: str | os.PathLike[str] | None = None, *, in_place: bool = False
) -> RepairReport:
    """Copy the intact records into `output`, with a new index; the report lists what is missing.

    Without a readable index, records are found from the start of the file to the first damaged header. output: default
    NAME.repaired.shardpack; for NAME.shardpack.partial the name without .partial. in_place keeps the damaged file as
    FILE.bak. An intact file is not changed, unless it is a .partial. Raises RepairError, RecordingExistsError, OSError.
    """
    source = Path(path)
    target = _default_output(source) if output is None else Path(output)
    backup = source.with_name(f"{source.name}.bak")
    check = verify_shardpack(source)
    if check.ok and not source.name.endswith(PARTIAL):  # a .partial may be complete and only need its name
        with ShardPackReader(source) as pack:
            return RepairReport(str(source), Damage.INTACT, recovered=tuple(pack.keys()))
    with open_file(source) as file:
        if lock_descriptor(file.fileno()) is False:
            raise RecordingExistsError(f"{source}: expected a file that is finished, found it being written")
        data = open_source(source)
        salvage = _salvage(data, source)
        if not salvage.spans:
            reason = next(iter(salvage.failed.values()), "it has no records")
            raise RepairError(f"{source}: nothing can be restored: {reason}")
        blocker = backup if in_place else target
        if blocker.exists():
            raise RecordingExistsError(f"{blocker} exists already: move it away, or name another file")
        output_path = source if in_place else target
        publish_repaired(output_path, backup if in_place else None, partial(_write, data, salvage), _check_repaired)
    report = RepairReport(str(source), Damage.DAMAGED, str(output_path), str(backup) if in_place else None)
    return replace(report, recovered=tuple(salvage.spans), unrecovered=salvage.failed, notes=tuple(salvage.notes))


def _default_output(source: Path) -> Path:
    if source.name.endswith(PARTIAL):
        return source.with_name(source.name.removesuffix(PARTIAL))
    return source.with_name(f"{source.stem}.repaired{source.suffix}")


def _salvage(source: Source, path: Path) -> _Salvage:
    """Find the intact records: by the index if readable, else by scanning from the start."""
    salvage = _Salvage()
    try:
        with ShardPackReader(path) as pack:
            salvage.metadata, salvage.has_table = pack.metadata, pack.index.table is not None
            spans = [(f"record {number}", *pack.span(number)) for number in range(len(pack))]
    except FormatError as error:
        salvage.notes.append(f"the index was rebuilt, as it could not be read: {error}")
        _note_metadata(source, salvage)
        spans = list(_scan(source, salvage))
    for name, start, stop in spans:
        try:
            record = unpack_record(source.read(start, stop), f"{source.where}: {name}")
        except FormatError as error:
            salvage.failed[name] = str(error)
            continue
        if problems := check_entries(record):
            salvage.failed[name] = next(iter(problems.values()))
        elif record.key in salvage.spans:
            salvage.failed[name] = f"{record.where}: another record has this key"
        else:
            salvage.spans[record.key] = (start, stop)
    return salvage


def _note_metadata(source: Source, salvage: _Salvage) -> None:
    """Report that the shard's metadata, if there are any, are not restored."""
    tail = source.read(max(source.size - FOOTER_SIZE, 0), source.size)
    try:
        footer = PackFooter.unpack(tail, source.size, source.where)
    except FormatError:
        return
    if footer.metadata_size:
        salvage.failed["shard metadata"] = f"{source.where}: {footer.metadata_size} bytes in an index that is damaged"


def _scan(source: Source, salvage: _Salvage) -> Iterator[tuple[str, int, int]]:
    """Yield name, start and stop of records from the start of a file to the first invalid header."""
    position, number, offsets = 0, 0, list[int]()
    while position < source.size:
        where = f"{source.where}: record {number}"
        if source.read(position, min(position + len(END_MARKER), source.size)) == END_MARKER:
            if not _is_index(source, position + len(END_MARKER), offsets):
                salvage.failed[f"bytes {position} to {source.size}"] = f"{where}: found neither a record nor the index"
            return
        try:
            stop = position + _record_size(source, position, where)
        except FormatError as error:
            salvage.failed[f"bytes {position} to {source.size}"] = str(error)
            return
        yield f"record {number}", position, stop
        offsets.append(position)
        position, number = stop, number + 1
    if not source.where.endswith(PARTIAL):
        salvage.failed[f"bytes from {position}"] = f"{source.where}: truncated: the rest is unknown"


def _is_index(source: Source, start: int, offsets: list[int]) -> bool:
    """Return True if an index of these records begins at `start`: its count or offsets match (one may be damaged)."""
    expected = COUNT.pack(len(offsets)) + np.array(offsets, "<u8").tobytes()
    data = bytes(source.read(start, min(start + len(expected), source.size)))
    count, stored_offsets = data[: COUNT.size], data[COUNT.size :]
    return expected.startswith(count) or (stored_offsets != b"" and expected[COUNT.size :].startswith(stored_offsets))


def _record_size(source: Source, start: int, where: str) -> int:
    """Return the size of the record at `start`, from its verified header; raises FormatError."""
    remaining = source.size - start
    peeked, _ = RecordHeader.peek(source.read(start, start + min(RECORD_HEADER_SIZE, remaining)), where)
    header = RecordHeader.unpack(source.read(start, start + min(peeked.entries_start, remaining)), where)
    if header.record_size > remaining:
        raise FormatError(f"{where}: truncated: expected {header.record_size} bytes, found {remaining}")
    return header.record_size


def _write(source: Source, salvage: _Salvage, target: Path) -> None:
    position, offsets = 0, []
    with target.open("xb") as file:
        for start, stop in salvage.spans.values():
            offsets.append(position)
            position += file.write(source.read(start, stop))
        table = key_table(map(name_hash, salvage.spans)) if salvage.has_table else None
        file.write(PackIndex(np.array(offsets, np.uint64), table, salvage.metadata).pack(position))
        file.flush()
        os.fsync(file.fileno())


def _check_repaired(temporary: Path, path: Path) -> None:
    """Raise RepairError unless the written file is intact."""
    problems = verify_shardpack(temporary).problems
    if problems:
        raise RepairError(f"{path}: the intact parts do not form a readable file: {next(iter(problems.values()))}")
