"""The files that a zarr store in a folder consists of: metadata of its groups and arrays, and the chunks of these."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

METADATA_FILES: Final = (".zgroup", ".zarray", ".zattrs", ".zmetadata", "zarr.json")
_CHUNK: Final = re.compile(r"(c[./])?\d+([./]\d+)*|c")


def list_node(folder: Path) -> Iterator[str]:
    """Yield the names of the files of a group or array below its folder; those of other folders are left out."""
    metadata = [name for name in METADATA_FILES if (folder / name).is_file()]
    yield from metadata
    if ".zarray" in metadata or ("zarr.json" in metadata and (folder / "c").exists()):
        found = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())
        yield from (name for name in found if _CHUNK.fullmatch(name))
    elif metadata:
        for child in sorted(folder.iterdir()):
            if child.is_dir() and not child.is_symlink():
                yield from (f"{child.name}/{name}" for name in list_node(child))
