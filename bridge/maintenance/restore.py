"""Restores the catalog of an archive from a backup; what is derived from it is dropped, and made anew."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bridge.index.registry import discard_copies
from catalog.location import place_of
from catalog.maintenance import backup, postgres_dump

if TYPE_CHECKING:
    import os

    from catalog.location import ArchivePlace


def restore_archive(
    source: str | os.PathLike[str], archive: str | os.PathLike[str], *, force: bool = False
) -> Path | None:
    """Restore the catalog of an archive (in a folder or on a server) from a backup, and drop its search index.

    force: replace an existing catalog. Returns the path to which a catalog was moved that was too damaged to be
    replaced. Raises like catalog.maintenance.backup.restore and catalog.maintenance.postgres_dump.restore_dump.
    """
    place, moved_to = place_of(archive), None
    if force:
        _discard_copies(place)
    if isinstance(place.database, Path):
        moved_to = backup.restore(Path(source), place.database, force=force)
    else:
        postgres_dump.restore_dump(Path(source), place.database, force=force)
    _discard_copies(place)
    return moved_to


def _discard_copies(place: ArchivePlace) -> None:
    """Remove the archive's own folder in its index folder, and nothing else."""
    at = place.database
    archive_id = backup.archive_id_of(at) if isinstance(at, Path) else postgres_dump.archive_id_at(at)
    if archive_id is not None:
        discard_copies(place.index, archive_id)
