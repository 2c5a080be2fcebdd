"""Where the catalog of an archive lies, when nobody says: one rule for Python and the command line.

Knows: the environment variable, the default folder, the database's file name. Does not know: what is in it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from wshard.errors import CatalogNotFoundError

ARCHIVE_VARIABLE: Final = "WSHARD_ARCHIVE"
DEFAULT_ARCHIVE: Final = ".wshard"
DATABASE: Final = "catalog.db"


def archive_folder(archive: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder: the one given, that of the variable WSHARD_ARCHIVE, or ./.wshard.

    Raises CatalogNotFoundError for an empty text, which a variable that is not set may have left.
    """
    if archive is not None and not os.fspath(archive):
        raise CatalogNotFoundError("expected the name of an archive's folder, found an empty text")
    return Path(archive or os.environ.get(ARCHIVE_VARIABLE) or DEFAULT_ARCHIVE)


def database_in(folder: Path) -> Path:
    """Return the database of the archive in this folder; raises CatalogNotFoundError where there is none."""
    database = folder / DATABASE
    if not database.is_file():
        raise CatalogNotFoundError(f"no archive at {folder}: expected {database}; `wshard ingest` makes one")
    return database


def base_folder(database: Path) -> Path:
    """Return the folder that moves with a catalog; roots inside it are stored relative to it.

    That is the archive folder, and for a default archive ".wshard", which belongs to the folder around it, that folder.
    """
    folder = database.parent
    return folder.parent if folder.name == DEFAULT_ARCHIVE else folder
