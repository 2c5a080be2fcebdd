"""Find the location of an archive: one rule for Python and the command line."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import xxhash

from catalog.database.engine import A_FILE, file_kind
from catalog.database.postgresql import is_server, shown_url
from wshard.core.episode.protocol import ARCHIVE_DATABASE
from wshard.core.files.disk_cache import cache_folder
from wshard.core.messages import public_url, shown
from wshard.errors import CatalogNotFoundError

ARCHIVE_VARIABLE: Final = "WSHARD_ARCHIVE"
DEFAULT_ARCHIVE: Final = ".wshard"
DATABASE: Final = ARCHIVE_DATABASE
INDEX: Final = "index"

_URL: Final = re.compile(r"\s*[A-Za-z][A-Za-z0-9+.-]*://|\s*postgres(ql)?(\+\w+)?:", re.IGNORECASE)


@dataclass(frozen=True)
class ArchivePlace:
    """Location of an archive: its database (a file, or the URL of a server), and the folder for copies of its vectors.

    name is used in messages: the folder, or the URL without password.
    """

    database: Path | str = field(repr=False)  # a URL has its password
    index: Path
    name: str


def archive_named(archive: str | os.PathLike[str] | None = None) -> Path | str:
    """Return the folder or server URL of the archive: the given one, that of WSHARD_ARCHIVE, or the nearest.

    The nearest is the .wshard with a catalog in the working directory or a parent; if there is none, ./.wshard. Above
    the working directory, archives of other accounts are ignored: a Space in one may name code to import. Raises
    CatalogNotFoundError for an invalid name, and for empty text, for example from an unset variable.
    """
    if archive is not None and not isinstance(archive, str | os.PathLike):
        raise CatalogNotFoundError(f"expected an archive's folder or a server's URL, found {shown(archive)}")
    if archive is not None and not os.fspath(archive):
        raise CatalogNotFoundError("expected the name of an archive's folder, found an empty text")
    archive_or_default = archive or os.environ.get(ARCHIVE_VARIABLE) or _nearest()
    name = os.fspath(archive_or_default)
    if not isinstance(name, str) or isinstance(archive_or_default, Path):
        return Path(os.fsdecode(name))
    if is_server(name):
        return name
    if _URL.match(name):
        raise CatalogNotFoundError(
            f"expected an archive's folder or postgresql://USER@HOST/DATABASE, found {public_url(name)!r}"
        )
    return Path(name)


def _nearest() -> Path:
    """Return the default archive: that of the working directory, or of the nearest folder above it that has one."""
    own = Path(DEFAULT_ARCHIVE)
    if os.path.isfile(own / DATABASE):  # noqa: PTH113  (Path's raises where this account may not look)
        return own
    try:
        above = [parent / DEFAULT_ARCHIVE for parent in Path.cwd().parents]
    except FileNotFoundError:  # the working directory was removed
        return own
    return next((folder for folder in above if _is_ours(folder / DATABASE)), own)


def _is_ours(database: Path) -> bool:
    """Say whether this is a file of this account or of the system's."""
    try:
        about = database.stat()
    except OSError:
        return False
    return stat.S_ISREG(about.st_mode) and (not hasattr(os, "getuid") or about.st_uid in (os.getuid(), 0))


def database_in(folder: Path) -> Path:
    """Return the database of the archive in this folder; raises CatalogNotFoundError where there is none."""
    database = folder / DATABASE
    if file_kind(folder) == A_FILE:
        raise CatalogNotFoundError(f"no archive at {folder}: expected a folder, found a file")
    if file_kind(database) != A_FILE:
        default = folder == Path(DEFAULT_ARCHIVE) == _nearest()
        where = f"{database} in {Path.cwd()} or in a folder above it" if default else f"{database}"
        raise CatalogNotFoundError(f"no archive at {folder}: expected {where}; `wshard ingest` makes one")
    return database


def place_of(archive: str | os.PathLike[str] | None = None) -> ArchivePlace:
    """Return the location of the archive.

    The copies of a server's vectors are in the cache folder, under a hash of the URL without its password.
    """
    archive_name = archive_named(archive)
    if isinstance(archive_name, Path):
        return ArchivePlace(archive_name / DATABASE, archive_name / INDEX, str(archive_name))
    url = shown_url(archive_name)
    return ArchivePlace(archive_name, cache_folder() / xxhash.xxh3_64_hexdigest(url.encode()) / INDEX, url)


def base_folder(database: Path) -> Path:
    """Return the folder that moves with a catalog; roots inside it are stored relative to it.

    That is the archive folder; for a default archive ".wshard" it is the parent folder. Links are resolved, as ingest
    resolves them for episodes, so that the result does not depend on the name under which an archive is opened. A
    ".wshard" that is itself a link belongs to the folder of the link.
    """
    folder = database.parent
    if folder.name == DEFAULT_ARCHIVE:
        return Path(os.path.realpath(folder.parent))
    real = Path(os.path.realpath(folder))
    return real.parent if real.name == DEFAULT_ARCHIVE else real
