"""The catalog: every episode and everything that has been embedded, in one database.

Knows: which of its parts answers which question, one short transaction each. Does not know: episode files, or what
vectors mean. Iterators read one chunk per transaction: a row that changes meanwhile may come in its new state, or not.
"""

from __future__ import annotations

import heapq
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Self

from sqlalchemy import Connection, delete, insert, select

from catalog import ledger, places, queries, register
from catalog.copies import Copies
from catalog.engine import Database, absolute_path, file_of, found_file, one_of, open_file, open_server
from catalog.filters import EVERYTHING, Where, build_where
from catalog.location import base_folder
from catalog.migrations import prepare
from catalog.records import (
    Among,
    EmbeddingRow,
    EpisodeRecord,
    EpisodeRow,
    Known,
    Layout,
    LedgerEntry,
    Page,
    Registered,
    Scalar,
    SpaceRow,
    storable,
)
from catalog.schema import archive, episode, space, tag
from catalog.walks import walk_ledger, walk_moments, walk_places
from wshard.errors import EntryNotFoundError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from pathlib import Path
    from types import TracebackType


class Catalog:
    """An open catalog; close it, or use it as a context manager.

    Any number of threads and processes may use one catalog. A forked process must open its own. Every method raises
    CatalogBusyError, CatalogWriteError or CatalogError when the database cannot do its part.
    """

    def __init__(self, database: Database, *, base: str | None) -> None:
        self._database = database
        self._base = base
        self.copies = Copies(self._read, self._write)
        with self._read() as connection:
            self.archive_id = str(connection.execute(select(archive.c.archive_id)).scalar_one())

    @staticmethod
    def open(location: str | Path, *, create: bool = False) -> Catalog:
        """Open the catalog in a SQLite file or at a database URL, made before when it is missing and create is True.

        Raises CatalogNotFoundError, CatalogVersionError for one of newer software, CatalogError for something else.
        """
        path = file_of(location)
        if path is not None and create and not path.exists():
            found_file(path, partial(prepare, create=True))
        database = open_server(str(location)) if path is None else open_file(path)
        try:
            prepare(database, create=create)
            return Catalog(database, base=base_folder(path).as_posix() if path is not None else None)
        except BaseException:
            database.close()
            raise

    def close(self) -> None:
        """Close the database; the catalog cannot be used any more."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def add_root(self, path: str) -> int:
        """Return the id of the root at this folder, made when missing; paths below are stored relative to it."""
        with self._write() as connection:
            roots = places.load_roots(connection, base=self._base)
            return places.add_root(connection, absolute_path(path).as_posix(), roots=roots)

    def register(self, records: Sequence[EpisodeRecord]) -> list[Registered]:
        """Write the records in one transaction and return what became of each, in their order.

        At a known (path, key) an equal digest refreshes size and mtime only; another one replaces the episode and
        buries its vectors. A record with moved_from takes over that episode (uid, tags, vectors) when it still has the
        same digest, is not found at its old place by another record, and the new place is free; else it is new or
        changed.
        """
        with self._write() as connection:
            return register.register(connection, records, base=self._base)

    def remove(self, ids: Sequence[int]) -> int:
        """Forget the episodes, leaving tombstones in the ledger, and return how many there were."""
        with self._write() as connection:
            return register.remove(connection, ids)

    def withdraw(self, ids: Sequence[int]) -> None:
        """Bury the vectors of these episodes and keep the rest: their files no longer hold what was embedded."""
        with self._write() as connection:
            ledger.bury(connection, ids)

    def tag(self, ids: Sequence[int], name: str) -> int:
        """Tag the episodes and return how many did not have the tag; FilterError for a name that no filter can hold."""
        build_where(tag=name)
        with self._write() as connection:
            living = set(
                connection.execute(select(episode.c.id).where(one_of(connection, episode.c.id, ids))).scalars()
            )
            tagged = set(connection.execute(select(tag.c.episode_row).where(tag.c.name == name)).scalars())
            rows = [{"name": name, "episode_row": number} for number in sorted(living - tagged)]
            if rows:
                connection.execute(insert(tag), rows)
                ledger.advance(connection)
            return len(rows)

    def untag(self, ids: Sequence[int], name: str) -> int:
        """Take the tag off the episodes and return how many had it."""
        build_where(tag=name)
        with self._write() as connection:
            wanted = one_of(connection, tag.c.episode_row, ids)
            count = connection.execute(delete(tag).where(tag.c.name == name, wanted)).rowcount
            if count:
                ledger.advance(connection)
            return count

    def known(self, paths: Sequence[str]) -> dict[str, tuple[Known, ...]]:
        """Return what is catalogued at these absolute paths, by key; unknown paths are left out."""
        with self._read() as connection:
            roots = places.load_roots(connection, base=self._base)
            found = register.load_known(connection, paths, roots=roots)
        return {path: tuple(known for known, _ in entries) for path, entries in found.items()}

    def by_digest(self, digests: Sequence[str]) -> list[EpisodeRow]:
        """Return the episodes with one of these digests, by id."""
        with self._read() as connection:
            return queries.load_rows(connection, one_of(connection, episode.c.digest, digests), base=self._base)

    def places(self, prefix: str | None = None) -> Iterator[tuple[int, str]]:
        """Yield (id, absolute path) of every episode, or of those in the file or folder at the absolute path prefix."""
        return walk_places(self._read, prefix, base=self._base)

    def select(
        self, where: Where = EVERYTHING, *, order: str = "episode_id", after: str | None = None, limit: int = 50
    ) -> Page:
        """Return the first rows, or those after the cursor of an earlier page in the same order.

        order is one of ORDERS, reversed by a leading "-"; ties go by id, missing values come last. FilterError for an
        unknown order, a foreign cursor or a limit below 1.
        """
        with self._read() as connection:
            return queries.load_page(connection, where, order=order, after=after, limit=limit, base=self._base)

    def count(self, where: Where = EVERYTHING) -> int:
        """Return how many episodes match."""
        with self._read() as connection:
            return queries.count_rows(connection, where)

    def facets(self, fields: Sequence[str], where: Where = EVERYTHING) -> dict[str, list[tuple[Scalar | None, int]]]:
        """Return (value, episodes) per field among the matching episodes, the most frequent first; None = missing."""
        with self._read() as connection:
            return {field: queries.load_facet(connection, field, where=where) for field in fields}

    def ids(self, where: Where = EVERYTHING) -> list[int]:
        """Return the ids of all matching episodes, ascending."""
        with self._read() as connection:
            return queries.load_matching_ids(connection, where)

    def get(self, ref: int | str) -> EpisodeRow:
        """Return the episode of that id or uid; EntryNotFoundError when there is none."""
        with self._read() as connection:
            column = episode.c.uid if isinstance(ref, str) else episode.c.id
            found = queries.load_rows(connection, column == ref, base=self._base) if storable(ref) else []
        if not found:
            raise EntryNotFoundError(f"expected the {column.name} of a catalogued episode, found {ref!r}")
        return found[0]

    def rows(self, ids: Iterable[int]) -> dict[int, EpisodeRow]:
        """Return the episodes of these ids; unknown ids are left out."""
        with self._read() as connection:
            return {row.id: row for row in queries.load_ids(connection, list(ids), base=self._base)}

    def layouts(self, where: Where = EVERYTHING) -> list[Layout]:
        """Return the layouts that at least one of the matching episodes has, by id, with the number of these."""
        with self._read() as connection:
            return queries.load_layouts(connection, where)

    def moments(self, layout_ids: Sequence[int], lane: str) -> Iterator[tuple[int, bytes]]:
        """Yield (timesteps, moments) of the lane in every episode of these layouts that has them, by episode id."""
        walks = [walk_moments(self._read, number, lane_name=lane) for number in sorted(set(layout_ids))]
        return ((count, moments) for _, count, moments in heapq.merge(*walks, key=lambda found: found[0]))

    def spaces(self, state: str | None = None) -> list[SpaceRow]:
        """Return the spaces, or those in that state, by id."""
        with self._read() as connection:
            return ledger.load_spaces(connection, *([] if state is None else [space.c.state == state]))

    def add_space(self, fingerprint: str, family: str, definition: str) -> SpaceRow:
        """Return the space to fill: that of the fingerprint (a retired one is built again) or a new one.

        While another space of the family is being built, that one: two ingests fill the same.
        """
        with self._write() as connection:
            return ledger.add_space(connection, fingerprint, family=family, definition=definition)

    def activate(self, space_id: int, among: Among, *, ignoring: Collection[int] = ()) -> bool:
        """Make the space its family's only one and return True, unless episodes of `among` are pending for it.

        ignoring: ids of episodes that cannot be embedded (their files are gone, say) and are not waited for. Raises
        SpaceMismatchError for a retired space.
        """
        with self._write() as connection:
            return ledger.activate(connection, space_id, among=among, ignoring=ignoring)

    def mark_checked(self, space_id: int, seq: int) -> None:
        """Remember the clock at which the space was checked; an earlier one than known changes nothing."""
        with self._write() as connection:
            ledger.mark_checked(connection, space_id, seq=seq)

    def clock(self) -> int:
        """Return the last issued number; it grows with every change of episodes, tags, ledger or the active spaces."""
        with self._read() as connection:
            return ledger.read_clock(connection)

    def pending(self, space_id: int, among: Among, *, after: int = 0, limit: int = 256) -> list[EpisodeRow]:
        """Return up to limit episodes of `among` with an id above `after` and no vectors in the space, by id."""
        with self._read() as connection:
            found = ledger.pending_ids(connection, space_id, among=among, after=after, limit=limit)
            return queries.load_ids(connection, found, base=self._base)

    def pending_count(self, space_id: int, among: Among) -> int:
        """Return how many episodes of `among` have no vectors in the space."""
        with self._read() as connection:
            return ledger.pending_count(connection, space_id, among=among)

    def embedded(self, space_id: int) -> list[int]:
        """Return the ids of all episodes that have vectors in the space, ascending."""
        with self._read() as connection:
            return ledger.embedded_ids(connection, space_id)

    def write_embeddings(self, space_id: int, rows: Sequence[EmbeddingRow]) -> list[LedgerEntry]:
        """Write vectors in one transaction that is on disk when this returns; return the entries that were written.

        Rows whose episode is gone, or has another digest by now, are left out; of two for one episode the later counts.
        Raises SpaceMismatchError for a retired space.
        """
        with self._write(durable=True) as connection:
            return ledger.write_embeddings(connection, space_id, rows=rows)

    def ledger(self, space_id: int, *, since: int = 0) -> Iterator[LedgerEntry]:
        """Yield the entries numbered above `since`, ascending; later ones for the same episode replace earlier ones."""
        return walk_ledger(self._read, space_id, since=since)

    def ledger_state(self, space_id: int) -> tuple[int, int, int]:
        """Return (episodes with vectors, vectors, last number) of the space."""
        with self._read() as connection:
            return ledger.ledger_state(connection, space_id)

    def _read(self) -> AbstractContextManager[Connection]:
        return self._database.transaction("read")

    @contextmanager
    def _write(self, *, durable: bool = False) -> Iterator[Connection]:
        with self._database.transaction("durable" if durable else "write") as connection:
            ledger.lock(connection)
            yield connection
