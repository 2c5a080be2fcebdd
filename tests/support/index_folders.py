"""Where the search copies of an archive lie, for tests that look at them or damage them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from bridge.index.embedded import copy_folders

if TYPE_CHECKING:
    from pathlib import Path

    from embedders import Space


def home_of(archive: Path, space: Space) -> Path:
    """Return the folder of a Space's copies in the archive's own folder of copies."""
    with closing(sqlite3.connect(archive / "catalog.db")) as raw:
        (archive_id,) = raw.execute("SELECT archive_id FROM archive").fetchone()
    return copy_folders.find_folder(archive / "index", archive_id, space.fingerprint)
