"""The files that an episode consists of: which they are, and whether they are as the catalog saw them."""

from __future__ import annotations

import os
import posixpath
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from catalog.records import Asset
from wshard.chunks.manifest import MANIFEST_SUFFIX, read_manifest
from wshard.container.open_file import within
from wshard.errors import IngestError, SourceNotFoundError
from wshard.open import open_episode

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wshard.episode.protocol import EpisodeReader

_CHUNK_NAME: Final = re.compile(r"(.+)_chunk_\d{4,}\.wshard")


def locate(path: str | os.PathLike[str]) -> str:
    """Return the one spelling of a path under which episodes are catalogued: absolute, POSIX, links resolved."""
    return Path(os.path.realpath(path)).as_posix()


def status_of(path: str) -> os.stat_result:
    """Return the status of a regular file; raises SourceNotFoundError, IngestError for anything else."""
    try:
        status = Path(path).stat()
    except FileNotFoundError:
        raise SourceNotFoundError(f"{path}: no such file") from None
    if not stat.S_ISREG(status.st_mode):  # opening a pipe would wait for ever
        raise IngestError(f"{path}: expected a regular file, found {stat.filemode(status.st_mode)}")
    return status


def assets_of(file: EpisodeReader, status: os.stat_result) -> tuple[Asset, ...]:
    """Return the files of an episode that consists of several, none for one in a file; raises as status_of.

    status: that of the file before it was opened. Ask before anything else is read: what changes from here on then has
    another time than is returned.
    """
    parts = [(part.role, posixpath.normpath(part.path.as_posix())) for part in file.parts()]
    states = [status, *(status_of(path) for _, path in parts[1:])] if parts else []
    return tuple(
        Asset(role, path, digest, state.st_size, state.st_mtime_ns)
        for (role, path), digest, state in zip(parts, file.part_digests(), states, strict=True)
    )


def are_unchanged(files: Iterable[Asset]) -> bool:
    """Say whether all of the files have the size and the time that the catalog saw."""
    try:
        states = [(os.stat(one.path), one) for one in files]  # noqa: PTH116  (a million times)
    except OSError:
        return False  # reading it will tell what is wrong
    return all((state.st_size, state.st_mtime_ns) == (one.size, one.mtime_ns) for state, one in states)


def without_chunks(files: Sequence[str]) -> list[str]:
    """Leave out the chunks that manifests among the files list: these stand for them, and are no chunks themselves."""
    manifests = [path for path in files if path.endswith(MANIFEST_SUFFIX)]
    chunks = {locate(chunk) for path in manifests for chunk in files_of(path)[1:]} - {*manifests}
    return [path for path in files if path not in chunks] if chunks else list(files)


def freed(manifest: str) -> list[str]:
    """Return the files that a manifest, which is no episode, lists in vain: by themselves they are whole episodes."""
    return [path for path in map(locate, files_of(manifest)[1:]) if _is_whole(path)]


def _is_whole(path: str) -> bool:
    try:
        status_of(path)
        with open_episode(path, hashed=False) as file:
            return not file.is_chunk and not path.endswith(MANIFEST_SUFFIX)
    except Exception:  # noqa: BLE001  (whatever it is, the manifest fails for it)
        return False


def files_of(path: str) -> list[str]:
    """Return the path and, where it is a manifest, the paths of the chunks that it lists, there or not.

    A manifest that lists links out of its folder is no episode, and stands for nothing.
    """
    folder = posixpath.dirname(path)
    try:
        rows = read_manifest(path).rows() if path.endswith(MANIFEST_SUFFIX) else []
        for row in rows:
            within(folder, row.uri, path)
    except Exception:  # noqa: BLE001  (reading it as an episode will tell what is wrong)
        rows = []
    return [path, *(f"{folder}/{row.uri}" for row in rows)]


def whole_of(path: str) -> str:
    """Return the manifest beside a file that is named like a chunk, where there is one; else the path itself."""
    name = _CHUNK_NAME.fullmatch(path)
    manifest = f"{name[1]}{MANIFEST_SUFFIX}" if name else path
    return manifest if name and os.path.exists(manifest) else path  # noqa: PTH110  (Path.exists can raise)


def is_unfinished(path: str) -> bool:
    """Say whether more is to come: a manifest that says so, or a file that is named like a chunk."""
    if not path.endswith(MANIFEST_SUFFIX):
        return _CHUNK_NAME.fullmatch(path) is not None
    try:
        return not read_manifest(path).complete
    except Exception:  # noqa: BLE001  (likewise)
        return False
