"""Names of episode files, folders that may have some, and the files that a manifest lists."""

from __future__ import annotations

import os
import posixpath
from pathlib import Path
from typing import TYPE_CHECKING, Final

from wshard.core.chunks.manifest import MANIFEST_SUFFIX, read_manifest
from wshard.core.episode.natural_order import sort_naturally
from wshard.core.files.listed import place_inside
from wshard.core.files.local import LocalPlace
from wshard.core.files.schemes import place_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wshard.core.files.place import Place

SUFFIX: Final = ".wshard"


def is_episode(name: str) -> bool:
    """Return whether a file of this name in a folder counts as an episode."""
    return name.endswith(SUFFIX) and not name.startswith(".")


def locate(path: str | os.PathLike[str]) -> str:
    """Return the canonical path or URI under which episodes are catalogued: of a local path absolute, links resolved.

    Raises UnknownSchemeError.
    """
    place = place_of(path)
    return Path(os.path.realpath(place)).as_posix() if isinstance(place, LocalPlace) else place.uri


def without_chunks(files: Sequence[str]) -> list[str]:
    """Remove the chunks that manifests among the files list; the manifests stand for them."""
    manifests = [path for path in files if path.endswith(MANIFEST_SUFFIX)]
    chunks = {locate(chunk) for path in manifests for chunk in files_of(path)[1:]} - {*manifests}
    return [path for path in files if path not in chunks] if chunks else list(files)


def files_of(path: str) -> list[str]:
    """Return the path and, if it is a manifest, the paths of the chunks that it lists, whether they exist or not.

    A manifest with links out of its folder is not an episode, and its chunks are ignored.
    """
    folder = posixpath.dirname(path)
    try:
        rows = read_manifest(path).rows() if path.endswith(MANIFEST_SUFFIX) else []
        for row in rows:
            place_inside(place_of(folder), row.uri, path)
    except Exception:  # noqa: BLE001  (reading it as an episode reports the error)
        rows = []
    return [path, *(f"{folder}/{row.uri}" for row in rows)]


def walk(folder: str | os.PathLike[str], unreadable: dict[str, OSError]) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield (real path, names of folders in it, names of files) for the folder and those below, without hidden ones.

    Folders whose names the caller removes are not entered. Links to folders are followed, each folder once.
    unreadable: takes the errors of folders that cannot be listed, by path.
    """

    def note(error: OSError) -> None:
        unreadable[str(error.filename)] = error

    far = place_of(folder)
    if not isinstance(far, LocalPlace):
        yield from _walk_far(far, unreadable)
        return
    seen: set[str] = set()
    for place, names, files in os.walk(folder, onerror=note, followlinks=True):
        real = locate(place)
        if real in seen:
            names.clear()
            continue
        seen.add(real)
        names[:] = sort_naturally(name for name in names if not name.startswith("."))
        yield real, names, sort_naturally(files)


def _walk_far(folder: Place, unreadable: dict[str, OSError]) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield what walk does for a folder that is not on a disk: no links, and what is there is listed once a folder."""
    try:
        entries = [entry for entry in folder.entries() if not entry.name.startswith(".")]
    except OSError as error:
        unreadable[folder.uri] = error
        return
    names = sort_naturally(entry.name for entry in entries if entry.is_dir())
    yield folder.uri, names, sort_naturally(entry.name for entry in entries if not entry.is_dir())
    for name in names:
        yield from _walk_far(folder / name, unreadable)
