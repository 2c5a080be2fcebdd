"""Describe the contents of a ShardPack as plain JSON values, and recognise such files."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from wshard.core.files.regular import open_file
from wshard.errors import FormatError
from wshard.training.shardpack.layout import MAGIC, PARTIAL, RECORD_HEADER_SIZE, RECORD_MAGIC, RECORD_SIZE, SUFFIX
from wshard.training.shardpack.reader import ShardPackReader

if TYPE_CHECKING:
    from pathlib import Path

    from wshard.training.shardpack.record import ShardPackRecord


def is_shardpack(path: Path) -> bool:
    """Return True for a ShardPack, also a damaged one: by name, the magic at the end or that of the first record."""
    if path.name.removesuffix(PARTIAL).endswith(SUFFIX):
        return True
    with contextlib.suppress(OSError, FormatError), open_file(path) as file:
        head = file.read(RECORD_HEADER_SIZE)
        file.seek(-min(len(MAGIC), file.seek(0, 2)), 2)
        return file.read() == MAGIC or head[RECORD_SIZE.size :].startswith(RECORD_MAGIC)
    return False


def inspect_shardpack(path: Path, *, limit: int | None = None) -> dict[str, Any]:
    """Return the contents of a file: its metadata, and the entries of its first records, or a record's error.

    limit: maximum number of records. Raises FormatError, OSError for a file that cannot be opened.
    """
    with ShardPackReader(path) as pack:
        count = len(pack) if limit is None else min(limit, len(pack))
        return {
            "path": str(path),
            "file_size": pack.footer.file_size,
            "records": len(pack),
            "key_table": pack.index.table is not None,
            "metadata": dict(pack.metadata),
            "items": [_describe(pack, number) for number in range(count)],
        }


def _describe(pack: ShardPackReader, number: int) -> dict[str, Any]:
    try:
        record = pack.record(number)
    except FormatError as error:
        return {"record": number, "key": None, "metadata": None, "entries": [], "error": str(error)}
    encoding = record.metadata.encoding.name.lower() if record.metadata.data else None
    return {"record": number, "key": record.key, "metadata": encoding, "entries": _entries(record), "error": None}


def _entries(record: ShardPackRecord) -> list[dict[str, Any]]:
    rows = []
    for entry in record:
        try:
            entry.read()
            state = "ok"
        except FormatError:
            state = "BAD"
        row = {"name": entry.name, "content_type": entry.mime_type, "codec": entry.codec.name.lower()}
        rows.append(row | {"size": entry.size, "stored": len(entry.stored), "crc": state})
    return rows
