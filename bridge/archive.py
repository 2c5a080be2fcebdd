"""Archive: an open catalog and the vector index over it, found by a folder, a server's URL or an index's URL."""

from __future__ import annotations

import re
import warnings
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from bridge.index.embedded import disk_copy
from bridge.index.registry import EMBEDDED, open_index
from bridge.results import Hits, make_ref
from bridge.support.batches import batches
from catalog.database.postgresql import is_server
from catalog.filters.to_text import where_text
from catalog.filters.where import EVERYTHING
from catalog.location import place_of
from catalog.maintenance.backup import archive_id_of, restore
from catalog.maintenance.postgres_dump import archive_id_at, restore_dump
from catalog.open import open_place
from wshard.errors import (
    EntryNotFoundError,
    NoClipsError,
    QueryError,
    SkippedEpisodeWarning,
    StaleEpisodeError,
)
from wshard.messages import shown

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Sequence

    from bridge.episodes.clips import Missing
    from bridge.index.base import VectorIndex
    from bridge.results import EpisodeRef
    from catalog.catalog import Catalog
    from catalog.filters.where import Where
    from catalog.location import ArchivePlace
    from wshard.data.derived.spans import SpanDataset

_COLLECTION: Final = re.compile(r"\s*collection:([\w./-]+)\s*")
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")  # at least two letters, unlike a drive of Windows


@dataclass(frozen=True, repr=False)
class Archive:
    """An open archive: the catalog, which is the source of truth, and a vector index on top of it.

    `len(archive)` is the number of episodes; iteration yields them as EpisodeRefs.
    """

    place: ArchivePlace
    catalog: Catalog
    index: VectorIndex

    @property
    def folder(self) -> Path:
        """The folder of the vector copies: the archive's own, or one in the cache if the catalog is on a server."""
        return self.place.index.parent

    def __repr__(self) -> str:
        return f"<archive {self.place.name!r}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __len__(self) -> int:
        """Return the number of episodes."""
        return self.catalog.query.count()

    def __iter__(self) -> Iterator[EpisodeRef]:
        """Yield every episode, by id, as a reference that loads it from its file."""
        for batch in batches(self.catalog.query.ids()):
            yield from self._refs(batch)

    def dataset(self, where: Where | str = EVERYTHING, *, missing: Missing = "raise", **options: Any) -> SpanDataset:
        """Return the episodes that match a filter as clips for training: `archive.dataset("env:line*", num_steps=16)`.

        where: a filter. For `collection:NAME` alone, clips come from the spans of its picks, and ClipSampler and
        ClipLoader sample by their weights. missing "skip": episodes that are gone or have changed are left out, with a
        SkippedEpisodeWarning that names each. options: those of wshard.data.SourceDataset. Otherwise raises
        StaleEpisodeError for an episode that has changed, or a pick that is missing, SourceNotFoundError for a file
        that is missing. Raises DatasetError if columns differ, NoClipsError if no episode matches or none is as long
        as a clip.
        """
        collection = _COLLECTION.fullmatch(where) if isinstance(where, str) else None
        picked = self.catalog.collections.picked(collection[1]) if collection else []
        for uid in [pick.uid for pick, row in picked if row is None]:
            problem = f"collection {collection and collection[1]!r}: {self._explain_pick(uid)}"
            if missing != "skip":
                raise StaleEpisodeError(f"{problem}: restore it, or leave it out by missing='skip'")
            warnings.warn(f"left out of training: {problem}", SkippedEpisodeWarning, 2)
        picked = [(pick, row) for pick, row in picked if row is not None]
        refs = [make_ref(row, 1.0, (pick.start, pick.stop)) for pick, row in picked if row is not None]
        weights = [pick.weight for pick, _ in picked] if collection else None
        if collection is None:
            refs = [ref for batch in batches(self.catalog.query.ids(where)) for ref in self._refs(batch)]
        if not refs:
            text = where if isinstance(where, str) else where_text(where)
            raise NoClipsError(f"no episode of the archive matches the filter {text!r}")
        return Hits(refs).dataset(weights=weights, missing=missing, **options)

    def _explain_pick(self, uid: str) -> str:
        try:
            address = self.catalog.episodes.get(uid).address
        except EntryNotFoundError:
            return f"episode {uid} is not in the archive"
        return f"episode {uid} has changed since the collection was saved: {address}"

    def _refs(self, ids: Sequence[int]) -> Iterator[EpisodeRef]:
        rows = self.catalog.episodes.rows(ids)
        return (make_ref(rows[id_], 1.0, (0, rows[id_].length)) for id_ in ids if id_ in rows)

    def __bool__(self) -> bool:
        """Return True, also for an archive without episodes."""
        return True

    def close(self) -> None:
        """Close the index (connections, and a copy that is being written) and the catalog."""
        try:
            if isinstance(self.index, AbstractContextManager):
                self.index.__exit__(None, None, None)
        finally:
            self.catalog.close()


def expect_archive(archive: object) -> None:
    """Raise QueryError for anything but an open archive, such as a path to one."""
    if not isinstance(archive, Archive):
        raise QueryError(f"archive: expected an open Archive (see open_archive), found {shown(archive)}")


def is_url(text: str) -> bool:
    """Return whether the text is the URL of a vector index rather than a folder."""
    return _URL.match(text) is not None and not is_server(text)


def open_archive(
    target: str | os.PathLike[str] | None = None,
    *,
    archive: str | os.PathLike[str] | None = None,
    create: bool = False,
    token: str | None = None,
) -> Archive:
    """Open the archive that `target` names: a folder, a server's database, or the URL of a vector index.

    Examples: "my-archive", "postgresql://user@host/database", "http://host:8080". With the URL of an index, the catalog
    is that of `archive`, else of the variable WSHARD_ARCHIVE, else of the nearest .wshard in the working directory or
    above it. create: create an empty archive if there is none; a server's database must exist. token: API token or JWT
    for the index server; it takes precedence over the URL and the environment. Raises CatalogNotFoundError,
    UnknownIndexError and the catalog's errors.
    """
    url = isinstance(target, str) and is_url(target)
    place = place_of(archive if url or target is None else target)
    catalog = open_place(place, create=create)
    try:
        return Archive(place, catalog, open_index(str(target) if url else EMBEDDED, catalog, place.index, token=token))
    except BaseException:
        catalog.close()
        raise


def archive_of(
    target: str | os.PathLike[str] | Archive, *, archive: str | os.PathLike[str] | None = None, token: str | None = None
) -> tuple[Archive, Callable[[], None]]:
    """Return an open archive and what closes it: nothing for one that is passed open. Raises as open_archive."""
    if isinstance(target, Archive):
        if archive is not None or token is not None:
            raise QueryError("archive, token: expected neither of them with an open Archive")
        return target, lambda: None
    opened = open_archive(target, archive=archive, token=token)
    return opened, opened.close


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
        moved_to = restore(Path(source), place.database, force=force)
    else:
        restore_dump(Path(source), place.database, force=force)
    _discard_copies(place)
    return moved_to


def _discard_copies(place: ArchivePlace) -> None:
    """Remove the archive's own folder in its index folder, and nothing else."""
    archive_id = archive_id_of(place.database) if isinstance(place.database, Path) else archive_id_at(place.database)
    if archive_id is not None:
        disk_copy.discard(place.index, archive_id)
