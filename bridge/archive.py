"""Archive: an open catalog and the vector index over it, found by a folder, a server's URL or an index's URL."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from bridge.index.embedded import disk_copy
from bridge.index.registry import EMBEDDED, open_index
from bridge.results import make_ref
from bridge.support.batches import batches
from catalog.database.postgresql import is_server
from catalog.location import place_of
from catalog.maintenance.backup import archive_id_of, restore
from catalog.maintenance.postgres_dump import archive_id_at, restore_dump
from catalog.open import open_place

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from bridge.index.base import VectorIndex
    from bridge.results import EpisodeRef
    from catalog.catalog import Catalog
    from catalog.location import Place

_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")  # two letters at least, so that no drive of Windows is meant


@dataclass(frozen=True)
class Archive:
    """An open archive: the catalog, which is the truth about episodes and vectors, and a vector index over it.

    `len(archive)` counts its episodes, and iterating yields them as EpisodeRefs.
    """

    place: Place
    catalog: Catalog
    index: VectorIndex

    @property
    def folder(self) -> Path:
        """The folder that holds the copies of vectors: the archive's own, or for a server one in the cache."""
        return self.place.index.parent

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __len__(self) -> int:
        """Return the number of episodes."""
        return self.catalog.query.count()

    def __iter__(self) -> Iterator[EpisodeRef]:
        """Yield every episode, by id; each loads itself straight from its file."""
        ids = self.catalog.query.ids()
        for some in batches(ids):
            rows = self.catalog.episodes.rows(some)
            yield from (make_ref(rows[id_], 1.0, (0, rows[id_].length)) for id_ in some if id_ in rows)

    def __bool__(self) -> bool:
        """Say True: an open archive, also without episodes."""
        return True

    def close(self) -> None:
        """Close the index (its connections, or a copy that it is writing) and the catalog."""
        try:
            if isinstance(self.index, AbstractContextManager):
                self.index.__exit__(None, None, None)
        finally:
            self.catalog.close()


def is_url(text: str) -> bool:
    """Say whether the text is the URL of a vector index rather than a folder."""
    return _URL.match(text) is not None and not is_server(text)


def open_archive(
    target: str | os.PathLike[str] | None = None,
    *,
    archive: str | os.PathLike[str] | None = None,
    create: bool = False,
    token: str | None = None,
) -> Archive:
    """Open the archive that `target` names: a folder, a server's database, or the URL of a vector index.

    Such as "my-archive", "postgresql://user@host/database", "http://host:8080".
    With the URL of an index the catalog is that of `archive`, of the variable WSHARD_ARCHIVE, or of the nearest .wshard
    in the working directory or above it. create: make a new, empty archive where there is none; a server's database
    must be there. token: API token or JWT for the index's server; it counts before one in the URL or the environment.
    Raises CatalogNotFoundError, UnknownIndexError and the catalog's errors.
    """
    url = isinstance(target, str) and is_url(target)
    place = place_of(archive if url or target is None else target)
    catalog = open_place(place, create=create)
    try:
        return Archive(place, catalog, open_index(str(target) if url else EMBEDDED, catalog, place.index, token=token))
    except BaseException:
        catalog.close()
        raise


def restore_archive(
    source: str | os.PathLike[str], archive: str | os.PathLike[str], *, force: bool = False
) -> Path | None:
    """Make the catalog of a backup that of an archive, in a folder or on a server, and drop its search index, a copy.

    force: also where there is a catalog. Returns where one that was too damaged to be replaced was put. Raises as
    catalog.maintenance.backup.restore and catalog.maintenance.postgres_dump.restore_dump.
    """
    place, kept = place_of(archive), None
    if force:
        _discard_copies(place)
    if isinstance(place.database, Path):
        kept = restore(Path(source), place.database, force=force)
    else:
        restore_dump(Path(source), place.database, force=force)
    _discard_copies(place)
    return kept


def _discard_copies(place: Place) -> None:
    """Remove what the archive has in its index folder, and nothing else that lies there."""
    archive_id = archive_id_of(place.database) if isinstance(place.database, Path) else archive_id_at(place.database)
    if archive_id is not None:
        disk_copy.discard(place.index, archive_id)
