"""Files that an index or a manifest lists: which names they can have, and whether links may lead elsewhere."""

from __future__ import annotations

import contextlib
import errno
import re
import reprlib
from typing import TYPE_CHECKING, Final

from wshard.errors import ManifestError, MissingFileError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wshard.core.files.place import Place

_MAX_NAME_SIZE: Final = 255  # bytes of one part of a path, on every file system in use
_MAX_PATH_SIZE: Final = 2048


def is_nameable(uri: str) -> bool:
    """Say whether file systems have names like this: Unicode text, parts between "/" of at most 255 bytes."""
    sizes = [len(part.encode(errors="surrogatepass")) for part in uri.split("/")]
    return max(sizes) <= _MAX_NAME_SIZE and sum(sizes) <= _MAX_PATH_SIZE and re.search("[\ud800-\udfff]", uri) is None


def place_of_data(folder: Place, uri: str, where: str) -> Place:
    """Return the place of a data file that an index of its format names; it may be a link to anywhere.

    Hugging Face's cache, DVC and git-annex store files as such links. Raises ManifestError for a name that itself
    leaves the folder, and for one that no file can have.
    """
    parts = uri.split("/")
    if not is_nameable(uri) or "\0" in uri or uri.startswith("/") or ".." in parts:
        raise ManifestError(f"{where}: expected the name of a file in the folder, found {reprlib.repr(uri)}")
    return folder / "/".join(part for part in parts if part not in ("", "."))


def place_inside(folder: Place, uri: str, where: str) -> Place:
    """Return the place of a file that a manifest names.

    Raises ManifestError for links out of the folder, and for a name that no file can have.
    """
    if not is_nameable(uri):
        raise ManifestError(
            f"{where}: uri: expected the name of a file, found {len(uri)} characters: {reprlib.repr(uri)}"
        )
    if folder.leads_out(uri):
        raise ManifestError(f"{where}: uri: {uri!r} is a link that leaves the folder")
    return folder / uri


@contextlib.contextmanager
def name_missing_file(manifest: object, place: object) -> Iterator[None]:
    """Read a file that a manifest lists; raises MissingFileError if it is missing."""
    try:
        yield
    except FileNotFoundError:
        error = MissingFileError.at(place, f"{manifest}: expected the file {place}, found none")
        error.errno = errno.ENOENT
        raise error from None
