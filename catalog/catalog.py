"""The catalog: every episode and everything that has been embedded, in one database.

Iterators read one chunk per transaction: a row that changes meanwhile may come in its new state, or not.
"""

from __future__ import annotations

import heapq
from functools import cached_property, partial
from operator import itemgetter
from typing import TYPE_CHECKING

from catalog.curation import annotations as annotation_rows
from catalog.curation.annotations_api import Curating
from catalog.curation.checks_api import Checking
from catalog.curation.collections_api import Collecting
from catalog.database import roots as places
from catalog.database.engine import absolute_path, file_of, found_file, look, one_of, open_file
from catalog.database.migrations import prepare
from catalog.database.postgresql import open_server
from catalog.database.schema import episode, space
from catalog.episode_record import check_path
from catalog.episodes import assets, reconcile, register
from catalog.filters.where import EVERYTHING, Where
from catalog.location import base_folder
from catalog.maintenance.api import Keeping
from catalog.maintenance.backup import keep_older
from catalog.query import pages
from catalog.query.api import Exploring
from catalog.query.facts import known_parts, load_facts, load_rates
from catalog.query.iterate import walk_ledger, walk_places, walk_spreads
from catalog.records import Known
from catalog.values import storable
from catalog.vectors import ledger
from catalog.vectors.index_copies import Copies
from wshard.arguments import episode_ids, several_names, whole_number
from wshard.errors import EntryNotFoundError, FilterError

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from pathlib import Path

    from catalog.episode_record import EpisodeRecord
    from catalog.records import (
        Among,
        Asset,
        EmbeddingRow,
        EpisodeRow,
        Facts,
        Layout,
        LedgerEntry,
        LedgerState,
        Outcome,
        Registered,
        SpaceRow,
    )


class Catalog(Exploring, Curating, Checking, Collecting, Keeping):
    """An open catalog; close it, or use it as a context manager.

    Any number of threads and processes may use one catalog. A forked process must open its own. Every method raises
    CatalogBusyError, CatalogWriteError or CatalogError when the database cannot do its part.
    """

    @staticmethod
    def open(location: str | Path, *, create: bool = False) -> Catalog:
        """Open the catalog in a SQLite file or at a database URL, made before when it is missing and create is True.

        One of older software is upgraded; a file is first copied to catalog.db.version-VERSION-CLOCK beside it. Raises
        CatalogNotFoundError, CatalogVersionError for one of newer software, CatalogWriteError where an older one cannot
        be written, CatalogError for something else.
        """
        path = file_of(location)
        if path is not None and create and look(path) == "nothing":
            found_file(path, partial(prepare, create=True))
        database = open_server(str(location)) if path is None else open_file(path)
        try:
            prepare(database, create=create, keep=None if path is None else partial(keep_older, path))
            return Catalog(database, base=base_folder(path).as_posix() if path is not None else None)
        except BaseException:
            database.close()
            raise

    @cached_property
    def copies(self) -> Copies:
        """What indexes outside of the archive hold."""
        return Copies(self._read, self._write)

    def add_root(self, path: str) -> int:
        """Return the id of the root at this folder, made when missing; paths below are stored relative to it.

        IngestError for a folder whose name the catalog cannot hold.
        """
        folder = absolute_path(path).as_posix()
        check_path(folder)
        with self._write() as connection:
            roots = places.load_roots(connection, base=self._base)
            return places.add_root(connection, folder, roots=roots)

    def register(self, records: Sequence[EpisodeRecord]) -> list[Registered]:
        """Write the records in one transaction and return what became of each, in their order.

        At a known (path, key) an equal digest refreshes size and mtime only; another one replaces the episode and
        buries its vectors. A record with moved_from takes over that episode (uid, tags, vectors) when it still has the
        same digest, is not found at its old place by another record, and the new place is free; else it is new or
        changed. A record that displaces the episode which is catalogued at its place, under another digest, sets it
        aside, to a path that no file has: it is missing until a record takes it over. Episodes at the paths of a
        record's assets are forgotten: it has them. What people said of them is said of it from then on.
        """
        with self._write() as connection:
            return register.register(connection, records, base=self._base)

    def load(self, batches: Iterable[Sequence[EpisodeRecord]]) -> Counter[Outcome]:
        """Register batches of records, all in one transaction, and return how many had which outcome.

        Several times as fast where it writes more than a tenth of what is there, and most of all the first time. Others
        can read, but not write, until it is done. Into an empty catalog that nobody else is using, readers wait too:
        batches must not ask the catalog then.
        """
        (empty,) = self._database.peek("SELECT NOT EXISTS (SELECT 1 FROM episode)")
        with self._database.transaction("alone" if empty else "write") as connection:
            return register.load(connection, batches, base=self._base)

    def remove(self, ids: Sequence[int]) -> int:
        """Forget the episodes, leaving tombstones in the ledger, and return how many there were."""
        with self._write() as connection:
            return register.remove(connection, episode_ids(ids))

    def withdraw(self, ids: Sequence[int]) -> None:
        """Bury the vectors of these episodes and keep the rest: their files no longer hold what was embedded."""
        with self._write() as connection:
            ledger.bury(connection, episode_ids(ids))

    def known(self, paths: Sequence[str]) -> dict[str, tuple[Known, ...]]:
        """Return what is catalogued at these absolute paths, by key; unknown paths are left out."""
        with self._read() as connection:
            roots = places.load_roots(connection, base=self._base)
            found = reconcile.load_occupants(connection, paths, roots=roots)
            parts = assets.load_parts(connection, {occupant.id: path for (path, _), occupant in found.items()})
        known: dict[str, list[Known]] = {}
        for (path, key), (number, _, digest, size, mtime_ns) in sorted(found.items()):
            known.setdefault(path, []).append(Known(number, key, digest, size, mtime_ns, parts.get(number, ())))
        return {path: tuple(entries) for path, entries in known.items()}

    def by_digest(self, digests: Sequence[str]) -> list[EpisodeRow]:
        """Return the episodes with one of these digests, by id."""
        with self._read() as connection:
            return pages.load_rows(connection, one_of(connection, episode.c.digest, digests), base=self._base)

    def places(self, prefix: str | None = None) -> Iterator[tuple[int, str]]:
        """Yield (id, absolute path) of every episode, or of those in the file or folder at the absolute path prefix."""
        return walk_places(self._read, prefix, base=self._base)

    def get(self, ref: int | str) -> EpisodeRow:
        """Return the episode of that id or uid; EntryNotFoundError when there is none."""
        column = episode.c.uid if isinstance(ref, str) else episode.c.id
        ref = ref if isinstance(ref, str) else whole_number(ref, "id of an episode", FilterError)
        with self._read() as connection:
            found = pages.load_rows(connection, column == ref, base=self._base) if storable(ref) else []
        if not found:
            raise EntryNotFoundError(f"expected the {column.name} of a catalogued episode, found {ref!r}")
        return found[0]

    def rows(self, ids: Iterable[int]) -> dict[int, EpisodeRow]:
        """Return the episodes of these ids; unknown ids are left out."""
        with self._read() as connection:
            return {row.id: row for row in pages.load_ids(connection, episode_ids(ids), base=self._base)}

    def assets(self, ids: Iterable[int]) -> dict[int, tuple[Asset, ...]]:
        """Return the files of these episodes: one of most, manifest and chunks of chunked ones; no unknown ids."""
        with self._read() as connection:
            return assets.load_assets(connection, pages.load_ids(connection, episode_ids(ids), base=self._base))

    def facts(self, ids: Iterable[int], *, parts: Collection[str] | None = None) -> dict[int, Facts]:
        """Return what is known of these episodes beyond their rows.

        parts: names of the fields of Facts that are wanted, {"scores", "notes"}; the others stay empty. None: all.
        """
        wanted = None if parts is None else known_parts(several_names(parts, "parts"))
        with self._read() as connection:
            return load_facts(connection, annotation_rows.living(connection, episode_ids(ids)), wanted)

    def layouts(self, where: Where | str | None = EVERYTHING) -> list[Layout]:
        """Return the layouts that at least one of the matching episodes has, by id, with the number of these."""
        with self._read() as connection:
            return pages.load_layouts(connection, self._resolved(connection, where), base=self._base)

    def spreads(self, layout_ids: Sequence[int], lane: str) -> Iterator[tuple[int, tuple[float, ...]]]:
        """Yield (timesteps, spreads) of the lane in every episode of these layouts that has them, by episode id.

        spreads: least, greatest, mean and standard deviation of the first channel, then of the next.
        """
        walks = [walk_spreads(self._read, number, lane_name=lane) for number in sorted(set(layout_ids))]
        return ((count, spreads) for _, count, spreads in heapq.merge(*walks, key=itemgetter(0)))

    def rates(self, layout_ids: Sequence[int], lane: str) -> set[float | None]:
        """Return the rates at which episodes of these layouts have the lane; None among them where nobody knows."""
        with self._read() as connection:
            return load_rates(connection, layout_ids, lane)

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

    def retire(self, space_id: int) -> None:
        """Drop the space's vectors in one transaction; a later add_space builds it again."""
        with self._write() as connection:
            ledger.retire(connection, space_id)

    def mark_checked(self, space_id: int, seq: int) -> None:
        """Remember the clock at which the space was checked; an earlier one than known changes nothing."""
        with self._write() as connection:
            ledger.mark_checked(connection, space_id, seq=seq)

    def clock(self) -> int:
        """Return the last issued number; it grows with every change of episodes, tags, ledger or the active spaces."""
        return self.instant().clock

    def pending(self, space_id: int, among: Among) -> list[EpisodeRow]:
        """Return the episodes of `among` without vectors in the space, by id."""
        with self._read() as connection:
            found = ledger.pending_ids(connection, space_id, among=among)
            return pages.load_ids(connection, found, base=self._base)

    def pending_ids(self, space_id: int, among: Among) -> list[int]:
        """Return the ids of the episodes of `among` without vectors in the space, ascending."""
        with self._read() as connection:
            return ledger.pending_ids(connection, space_id, among=among)

    def embedded(self, space_id: int) -> list[int]:
        """Return the ids of all episodes that have vectors in the space, ascending."""
        with self._read() as connection:
            return ledger.embedded_ids(connection, space_id)

    def sample(self, space_id: int, about: int) -> list[int]:
        """Return the ids of about so many of the episodes with vectors in the space, all if there are no more.

        Equal archives give equal samples, which are spread over the order of embedding.
        """
        with self._read() as connection:
            return ledger.sample_ids(connection, space_id, about=about)

    def vectors(self, space_id: int, ids: Collection[int]) -> dict[int, tuple[int, bytes]]:
        """Return (count, vectors) of those of the episodes that have vectors in the space, by id.

        VectorsDamagedError where vectors are not what was written.
        """
        with self._read() as connection:
            return ledger.load_vectors(connection, space_id, ids=ids)

    def write_embeddings(self, space_id: int, rows: Sequence[EmbeddingRow]) -> list[LedgerEntry]:
        """Write vectors in one transaction that is on disk when this returns; return the entries that were written.

        Rows whose episode is gone, or has another digest by now, are left out; of two for one episode the later counts.
        Raises SpaceMismatchError for a retired space.
        """
        with self._write(durable=True) as connection:
            return ledger.write_embeddings(connection, space_id, rows=rows)

    def ledger(self, space_id: int, *, since: int = 0) -> Iterator[LedgerEntry]:
        """Yield the entries numbered above `since`, ascending; later ones for the same episode replace earlier ones.

        VectorsDamagedError where vectors are not what was written.
        """
        return walk_ledger(self._read, space_id, since=since)

    def ledger_state(self, space_id: int) -> LedgerState:
        """Return what the ledger holds of the space, without reading vectors."""
        with self._read() as connection:
            return ledger.ledger_state(connection, space_id)
