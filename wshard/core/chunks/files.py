"""Names of episode files, folders that may have some, and the files that a manifest lists."""

from __future__ import annotations

import os
import posixpath
from array import array
from pathlib import Path
from typing import TYPE_CHECKING, Final

from wshard.core.chunks.manifest import MANIFEST_SUFFIX, read_manifest
from wshard.core.episode.natural_order import order_naturally, sort_naturally
from wshard.core.files.listed import place_inside
from wshard.core.files.local import LocalPlace
from wshard.core.files.schemes import place_of
from wshard.core.made_sequence import MadeSequence

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from wshard.core.files.listing import Listing, ObjectStatus
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
    chunks = chunks_of(files)
    return [path for path in files if path not in chunks] if chunks else list(files)


def chunks_of(files: Iterable[str]) -> set[str]:
    """Return the paths of the chunks that manifests among the files list."""
    manifests = [path for path in files if path.endswith(MANIFEST_SUFFIX)]
    return {locate(chunk) for path in manifests for chunk in files_of(path)[1:]} - {*manifests}


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


def walk(
    folder: str | os.PathLike[str], unreadable: dict[str, OSError]
) -> Iterator[tuple[str, list[str], Sequence[str]]]:
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


class FarFiles(MadeSequence[str]):
    """Names of the files of a folder that is not on a disk, in their natural order, without hidden ones."""

    def __init__(self, listing: Listing) -> None:
        self._listing, self._order = listing, order_naturally(listing)
        if any(name.startswith(".") for name in listing):
            self._order = array("Q", (number for number in self._order if not listing[number].startswith(".")))

    def __len__(self) -> int:
        return len(self._order)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and not name.startswith(".") and self._listing.find(name) is not None

    def make(self, number: int) -> str:
        """Return a name."""
        return self._listing[self._order[number]]

    def status(self, number: int) -> ObjectStatus | None:
        """Return the status of a file as it was listed, None if the place does not tell."""
        return self._listing.status(self._order[number])


def _walk_far(folder: Place, unreadable: dict[str, OSError]) -> Iterator[tuple[str, list[str], Sequence[str]]]:
    """Yield what walk does for a folder that is not on a disk: no links, and what is there is listed once a folder."""
    try:
        listing = folder.listing()
    except OSError as error:
        unreadable[folder.uri] = error
        return
    names = sort_naturally(name for name in listing.folders if not name.startswith("."))
    yield folder.uri, names, FarFiles(listing)
    del listing  # before those of the folders in it
    for name in names:
        yield from _walk_far(folder / name, unreadable)
