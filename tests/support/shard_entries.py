"""Changes entries of a Shard file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wshard import ShardReader, ShardWriter

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def rewrite_entries(path: Path, changed: Mapping[str, bytes | None]) -> None:
    """Write the file anew with these contents of entries; None takes one out."""
    with ShardReader(path) as shard:
        entries = {name: shard.read_entry(name) for name in shard.names()} | dict(changed)
    with ShardWriter(path) as shard:
        for name, data in entries.items():
            if data is not None:
                shard.write_entry(name, data)
