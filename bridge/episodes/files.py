"""The files of an episode: one file, or a manifest and chunks."""

from __future__ import annotations

import os
import posixpath
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from bridge.episodes.open import fingerprint_of, open_at
from catalog.records import Asset
from wshard.core.chunks.files import files_of, locate
from wshard.core.chunks.manifest import MANIFEST_SUFFIX, read_manifest
from wshard.core.container.layout import HEADER_SIZE, unpack_header
from wshard.core.episode.protocol import EpisodeAddress
from wshard.core.files.regular import open_file
from wshard.core.files.schemes import place_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wshard.core.episode.protocol import EpisodeReader, Fingerprint
    from wshard.core.files.place import Place

State: TypeAlias = tuple[int, int]
"""Size and modification time of a file; of an episode or location of several files, the sums."""

_CHUNK_NAME: Final = re.compile(r"(.+)_chunk_\d{4,}\.wshard")


def assets_of(file: EpisodeReader, first: Fingerprint) -> tuple[Asset, ...]:
    """Return the files of an episode that consists of several, none for one in a file; raises as fingerprint_of.

    first: that of the manifest before it was opened. Call this before anything else is read, so that later changes
    are detected by their times.
    """
    parts = [(part.role, _normal(part.place)) for part in file.parts()]
    states = [first, *(fingerprint_of(EpisodeAddress(path)) for _, path in parts[1:])] if parts else []
    return tuple(
        Asset(role, path, digest, state.size, state.mtime_ns)
        for (role, path), digest, state in zip(parts, file.part_digests(), states, strict=True)
    )


def _normal(place: Place) -> str:
    return posixpath.normpath(place.uri) if place.is_local else place.uri


def find_whole_files(manifest: str) -> list[str]:
    """Return the files listed by a manifest that is not an episode: they are whole episodes themselves."""
    return [path for path in map(locate, files_of(manifest)[1:]) if _is_whole(path)]


def _is_whole(path: str) -> bool:
    try:
        with open_at(EpisodeAddress(path)) as file:
            return not file.is_chunk and not path.endswith(MANIFEST_SUFFIX)
    except Exception:  # noqa: BLE001  (reading the manifest reports the error)
        return False


def whole_of(path: str) -> str:
    """Return the manifest of a file that is named like a chunk, if it exists; else the path itself."""
    name = _CHUNK_NAME.fullmatch(path)
    manifest = f"{name[1]}{MANIFEST_SUFFIX}" if name else path
    return manifest if name and os.path.exists(manifest) else path  # noqa: PTH110  (Path.exists can raise)


def is_unfinished(path: str) -> bool:
    """Return True if the episode is incomplete: the manifest says so, or the file is named like a chunk."""
    if not path.endswith(MANIFEST_SUFFIX):
        return _CHUNK_NAME.fullmatch(path) is not None
    try:
        return not read_manifest(path).complete
    except Exception:  # noqa: BLE001  (likewise)
        return False


def state_of(path: str) -> State | None:
    """Return the state of a file, None if it does not exist; that of a manifest includes its existing chunks.

    The state of a folder, which is a location as a whole, includes all files below it.
    """
    if not os.path.exists(path):  # noqa: PTH110  (Path.exists can raise)
        return None
    size = time_ns = 0
    below = (f"{place}/{name}" for place, _, names in os.walk(path) for name in names)
    for name in below if Path(path).is_dir() else files_of(path):
        with suppress(OSError):
            status = os.stat(name)  # noqa: PTH116  (as locate() names files)
            size, time_ns = size + status.st_size, time_ns + status.st_mtime_ns
    return size, time_ns


def is_complete(path: str) -> bool:
    """Return True if the file has the length stated in its header."""
    try:
        with open_file(path) as file:
            unpack_header(file.read(HEADER_SIZE), os.fstat(file.fileno()).st_size, path)
    except Exception:  # noqa: BLE001  (ingest reports the error)
        return False
    return True


def find_empty_folder(paths: Iterable[str]) -> str:
    """Return an empty folder that is one of these missing paths, or the nearest one above it; "" for none.

    In an object store there is none: folders are parts of keys.
    """
    for path in sorted({path for path in paths if place_of(path).is_local}):
        folder = path
        while not os.path.isdir(folder):  # noqa: PTH112  (as locate() names files)
            folder = posixpath.dirname(folder)
        with suppress(OSError):
            if next(Path(folder).iterdir(), None) is None:
                return folder
    return ""


def lists_nothing(folder: str) -> bool:
    """Return True for a folder of an object store in which no object is found: that is no proof that all are deleted.

    Raises PermissionError and ObjectStoreError.
    """
    place = place_of(folder)
    if place.is_local or place.is_file():
        return False
    with suppress(FileNotFoundError):
        return next(place.walk(), None) is None
    return True
