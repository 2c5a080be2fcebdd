"""The catalog: all episodes and all embeddings, in one database.

Iterators read one chunk per transaction: a row that changes meanwhile may or may not be in its new state.
"""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING, Self

from catalog.database.engine import file_kind, file_of
from catalog.database.migrations import begin, prepare, table_statements
from catalog.database.postgresql import open_server
from catalog.database.sqlite import access, create_file, open_file
from catalog.episodes.api import Episodes
from catalog.location import base_folder
from catalog.query.api import Queries
from catalog.session import Instant, Session
from catalog.vectors.api import VectorLedger
from catalog.vectors.index_copies import IndexCopies
from wshard.core.messages import shown
from wshard.errors import CatalogError, CatalogWriteError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from catalog.curation.annotations_api import Annotations
    from catalog.curation.checks_api import CheckResults
    from catalog.curation.collections_api import Collections
    from catalog.maintenance.api import Maintenance


class Catalog:
    """An open catalog, from Catalog.open(path of catalog.db or URL); close it, or use it as a context manager.

    Any number of threads and processes may use one catalog. A forked process must open its own. Every method raises
    CatalogBusyError, CatalogWriteError or CatalogError if the database fails.

    Its methods are grouped in: episodes, query, vectors, annotations, checks, collections, index_copies and
    maintenance.

    Args:
        session: The open database; `Catalog.open` makes it.
        share: See `Catalog.open`.

    Examples:
        >>> with Catalog.open("catalog.db", create=True) as catalog:
        ...     catalog.query.count("env:reach-v3 reward:0.8..")
        0
    """

    def __init__(self, session: Session, *, share: tuple[int, int] | None = None) -> None:
        if not isinstance(session, Session):
            raise CatalogError(f"catalogs are opened by Catalog.open(PATH): expected a session, found {shown(session)}")
        self._session = session
        self.episodes = Episodes(session)
        self.query = Queries(session)
        self.vectors = VectorLedger(session, share)
        self.index_copies = IndexCopies(session)

    @staticmethod
    def open(location: str | Path, *, create: bool = False, share: tuple[int, int] | None = None) -> Catalog:
        """Open the catalog in a SQLite file or at a database URL; create it if it is missing and `create` is True.

        share: (number, of): read the vectors of every of-th episode only, for a shard of an index. An older version is
        upgraded; of a SQLite file a copy is saved first, as catalog.db.version-N. Raises CatalogNotFoundError,
        CatalogVersionError for one of newer software or of a development version, CatalogWriteError for an older one
        that is read-only, CatalogError if it is not a catalog.
        """
        path = file_of(location)
        if path is not None and create and file_kind(path) == "nothing":
            create_file(path, begin, tables=table_statements("sqlite"))
        database = open_server(str(location)) if path is None else open_file(path)
        try:
            prepare(database, create=create, copy=partial(_copy_version, path) if path is not None else None)
            return Catalog(Session(database, base=_base(path)), share=share)
        except BaseException:
            database.close()
            raise

    def copy_to(self, location: str | Path) -> dict[str, int]:
        """Copy the current state to an empty place, a file or a database URL, and return the rows by table.

        The copy is another archive: its id is its own, everything else is the same. Others may write meanwhile; it
        appears whole or not at all. Raises CatalogExistsError for a place that is not empty, CatalogWriteError,
        CatalogError.
        """
        from catalog.maintenance.copy import copy_catalog

        return copy_catalog(self._session, location, base=_base(file_of(location)))

    def __repr__(self) -> str:
        return f"<Catalog at {self._session.database.name!r}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close_idle(self) -> None:
        """Give back the memory of connections that nothing uses; the next query opens one, in a millisecond."""
        self._session.database.close_idle()

    def close(self) -> None:
        """Close the database; the catalog cannot be used afterwards."""
        self._session.close()

    @cached_property
    def annotations(self) -> Annotations:
        """Tags, notes, reviews, scores and lineage."""
        from catalog.curation.annotations_api import Annotations

        return Annotations(self._session)

    @cached_property
    def checks(self) -> CheckResults:
        """Results of quality checks."""
        from catalog.curation.checks_api import CheckResults

        return CheckResults(self._session)

    @cached_property
    def collections(self) -> Collections:
        """Saved queries and snapshots."""
        from catalog.curation.collections_api import Collections

        return Collections(self._session)

    @cached_property
    def maintenance(self) -> Maintenance:
        """Integrity checks and backups."""
        from catalog.maintenance.api import Maintenance

        return Maintenance(self._session)

    @property
    def archive_id(self) -> str:
        """The id of the archive; it never changes."""
        return self._session.archive_id

    @property
    def location(self) -> str:
        """Where it can be opened again: its file, or the URL of its server without password."""
        return self._session.database.name

    @property
    def edition(self) -> str:
        """The edition of the archive, as of the last instant(): every restore starts a new one."""
        return self._session.edition

    def instant(self) -> Instant:
        """Return a token of the current state: if two tokens are equal, nothing has changed between them."""
        return self._session.instant()

    def pin_instant(self) -> AbstractContextManager[None]:
        """Within it, instant() is the state at its start, for this thread: for an answer of many parts."""
        return self._session.pin_instant()

    def clock(self) -> int:
        """Return the last issued number; it grows with every change of episodes, tags, ledger or active spaces."""
        return self._session.read_instant().clock


def _base(path: Path | None) -> str | None:
    """Return the folder that inner roots are relative to, None for a server."""
    return None if path is None else base_folder(path).as_posix()


def _copy_version(path: Path, version: int) -> None:
    if access(path) != "mode=rw":
        raise CatalogWriteError(f"cannot use the catalog at {path}: it is read-only here")
    from catalog.maintenance.backup import back_up

    back_up(path, path.with_name(f"{path.name}.version-{version}"))
