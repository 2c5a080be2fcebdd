"""Where the catalog of an archive lies, when nobody says: one rule for Python and the command line.

Knows: the environment variable, the default folder, the database's file name. Does not know: what is in it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

ARCHIVE_VARIABLE: Final = "WSHARD_ARCHIVE"
DEFAULT_ARCHIVE: Final = ".wshard"
DATABASE: Final = "catalog.db"


def archive_folder(archive: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder: the one given, that of the variable WSHARD_ARCHIVE, or ./.wshard."""
    return Path(archive or os.environ.get(ARCHIVE_VARIABLE) or DEFAULT_ARCHIVE)


def base_folder(database: Path) -> Path:
    """Return the folder that moves with a catalog; roots inside it are stored relative to it.

    That is the archive folder, and for a default archive ".wshard", which belongs to the folder around it, that folder.
    """
    folder = database.parent
    return folder.parent if folder.name == DEFAULT_ARCHIVE else folder
