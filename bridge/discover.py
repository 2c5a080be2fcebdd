"""Which files are episodes: the given files, and every episode file below the given folders.

Knows: file names. Does not know: their contents, the catalog.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bridge.reading import locate
from wshard.errors import SourceNotFoundError
from wshard.manifest import MANIFEST_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Sequence

SUFFIX: Final = ".wshard"


@dataclass(frozen=True)
class Sources:
    """What was asked for: all files in order, and the folders among the arguments."""

    files: tuple[str, ...]
    folders: tuple[str, ...]


def discover(paths: Sequence[str | os.PathLike[str]], *, allow_empty: bool = False) -> Sources:
    """Find the episode files that the paths name; folders are searched recursively, hidden names are skipped.

    A file that is named itself is taken whatever its suffix. Raises SourceNotFoundError for a path that is not there
    and, unless allow_empty, for a folder without episode files.
    """
    files: dict[str, None] = {}
    folders: list[str] = []
    for path in map(Path, paths):
        if path.is_dir():
            found = _below(path)
            if not found and not allow_empty:
                raise SourceNotFoundError(f"no episodes in {path}: expected files that end in {SUFFIX}")
            folders.append(locate(path))
            files |= dict.fromkeys(found)
        elif path.exists():
            files[locate(path)] = None
        else:
            raise SourceNotFoundError(f"no such file or folder: {path}")
    return Sources(tuple(files), tuple(folders))


def _below(folder: Path) -> list[str]:
    found: list[str] = []
    for place, names, files in os.walk(folder):
        names[:] = sorted(name for name in names if not name.startswith("."))
        real = locate(place)
        named = [f"{real}/{name}" for name in sorted(files) if _is_episode(name)]
        found += [locate(path) if os.path.islink(path) else path for path in named]  # noqa: PTH114  (a million times)
    return found


def _is_episode(name: str) -> bool:
    # The list of a chunked episode's files is no episode; the chunks themselves are taken in one by one.
    return name.endswith(SUFFIX) and not name.startswith(".") and not name.endswith(MANIFEST_SUFFIX)
