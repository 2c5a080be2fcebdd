"""The files that a zarr store in a folder consists of: metadata of its groups and arrays, and the chunks of these."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wshard.files.place import Place

METADATA_FILES: Final = (".zgroup", ".zarray", ".zattrs", ".zmetadata", "zarr.json")
_CHUNK: Final = re.compile(r"(c[./])?\d+([./]\d+)*|c")


def list_node(folder: Place) -> Iterator[str]:
    """Yield the names of the files of a group or array below its folder; those of other folders are left out."""
    metadata = [name for name in METADATA_FILES if (folder / name).is_file()]
    yield from metadata
    if ".zarray" in metadata or ("zarr.json" in metadata and (folder / "c").exists()):
        found = (file.relative_to(folder) for file in folder.walk())
        yield from (name for name in found if _CHUNK.fullmatch(name))
    elif metadata:
        for child in sorted(entry.name for entry in folder.entries() if entry.is_dir() and not entry.is_symlink()):
            yield from (f"{child}/{name}" for name in list_node(folder / child))
