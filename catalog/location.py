"""Where an archive is, when nobody says, and when somebody does: one rule for Python and the command line.

Knows: the environment variables, the default folder, the database's file name, the folder for copies of what a server
holds. Does not know: what is in it.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import xxhash

from catalog.engine import A_FILE, look
from catalog.postgresql import is_server, shown_url
from wshard.arguments import told
from wshard.errors import CatalogNotFoundError
from wshard.wording import public_url

ARCHIVE_VARIABLE: Final = "WSHARD_ARCHIVE"
CACHE_VARIABLE: Final = "WSHARD_CACHE"
DEFAULT_ARCHIVE: Final = ".wshard"
DATABASE: Final = "catalog.db"
INDEX: Final = "index"

_URL: Final = re.compile(r"\s*[A-Za-z][A-Za-z0-9+.-]*://|\s*postgres(ql)?(\+\w+)?:", re.IGNORECASE)


@dataclass(frozen=True)
class Place:
    """An archive's place: its database (a file, or the URL of a server), and the folder for copies of its vectors.

    name is what people are told: the folder, or the URL without password.
    """

    database: Path | str = field(repr=False)  # a URL has its password
    index: Path
    name: str


def archive_named(archive: str | os.PathLike[str] | None = None) -> Path | str:
    """Return the folder or the server's URL that is meant: the one given, that of WSHARD_ARCHIVE, or ./.wshard.

    Raises CatalogNotFoundError for what is no name, and for an empty text, which a variable that is not set may have
    left.
    """
    if archive is not None and not isinstance(archive, str | os.PathLike):
        raise CatalogNotFoundError(f"expected an archive's folder or a server's URL, found {told(archive)}")
    if archive is not None and not os.fspath(archive):
        raise CatalogNotFoundError("expected the name of an archive's folder, found an empty text")
    given = archive or os.environ.get(ARCHIVE_VARIABLE) or DEFAULT_ARCHIVE
    named = os.fspath(given)
    if not isinstance(named, str) or isinstance(given, Path):
        return Path(os.fsdecode(named))
    if is_server(named):
        return named
    if _URL.match(named):
        raise CatalogNotFoundError(
            f"expected an archive's folder or postgresql://USER@HOST/DATABASE, found {public_url(named)!r}"
        )
    return Path(named)


def database_in(folder: Path) -> Path:
    """Return the database of the archive in this folder; raises CatalogNotFoundError where there is none."""
    database = folder / DATABASE
    if look(folder) == A_FILE:
        raise CatalogNotFoundError(f"no archive at {folder}: expected a folder, found a file")
    if look(database) != A_FILE:
        raise CatalogNotFoundError(f"no archive at {folder}: expected {database}; `wshard ingest` makes one")
    return database


def place_of(archive: str | os.PathLike[str] | None = None) -> Place:
    """Return the place of the archive that is meant.

    The copies of a server's vectors lie in $WSHARD_CACHE, or wshard in $XDG_CACHE_HOME or ~/.cache, under a hash of the
    URL without its password.
    """
    named = archive_named(archive)
    if isinstance(named, Path):
        return Place(named / DATABASE, named / INDEX, str(named))
    told = shown_url(named)
    cache = os.environ.get(CACHE_VARIABLE)
    base = Path(cache) if cache else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wshard"
    return Place(named, base / xxhash.xxh3_64_hexdigest(told.encode()) / INDEX, told)


def base_folder(database: Path) -> Path:
    """Return the folder that moves with a catalog; roots inside it are stored relative to it.

    That is the archive folder, and for a default archive ".wshard", which belongs to the folder around it, that folder.
    Links on the way are followed, as ingest follows them to episodes: by whatever name an archive is opened, what lies
    inside of it does, and under one path. A ".wshard" that is a link itself belongs to the folder around the link.
    """
    folder = database.parent
    if folder.name == DEFAULT_ARCHIVE:
        return Path(os.path.realpath(folder.parent))
    real = Path(os.path.realpath(folder))
    return real.parent if real.name == DEFAULT_ARCHIVE else real
