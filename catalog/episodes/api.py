"""catalog.episodes: register, look up and remove episodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sqlalchemy import func, literal, select

from catalog.database import roots as places
from catalog.database.engine import absolute_path, one_of
from catalog.database.schema import episode, root
from catalog.episode_record import check_path
from catalog.episodes import assets, reconcile, register, scans
from catalog.query import pages
from catalog.query.iterate import walk_places
from catalog.query.short_names import is_of_set, short_names, split_name
from catalog.records import Known
from catalog.values import storable
from catalog.vectors import ledger
from wshard.core.arguments import episode_ids, whole_number
from wshard.core.episode.protocol import Fingerprint, parse_read_as, read_as
from wshard.errors import EntryNotFoundError, FilterError, QueryError

if TYPE_CHECKING:
    from array import array
    from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence

    from catalog.episode_record import EpisodeRecord
    from catalog.records import (
        Asset,
        EpisodeRow,
        Registered,
    )
    from catalog.session import Session
    from wshard.core.episode.protocol import EpisodeAddress

_LISTED: Final = 10  # episodes of one id, in an error


class Episodes:
    """The episodes of a catalog: register, look up, remove."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def add_root(self, path: str) -> int:
        """Return the id of the root at this folder, creating it if missing; paths below are stored relative to it.

        IngestError for a folder whose name the catalog cannot store.
        """
        folder = absolute_path(path).as_posix()
        check_path(folder)
        with self._session.write() as connection:
            roots = places.load_roots(connection)
            return places.add_root(connection, folder, roots=roots)

    def roots(self) -> list[str]:
        """Return the absolute folders that episodes are stored relative to, without nested ones."""
        with self._session.read() as connection:
            is_used = select(literal(1)).where(episode.c.root_id == root.c.id).correlate(root).exists()
            stored = connection.execute(select(root.c.place, root.c.inside).where(is_used)).all()
            base = places.base_of(connection)
        folders = sorted({places.absolute(base, place, inside=inside) for place, inside in stored})
        return [folder for folder in folders if not any(outer in folders for outer in places.ancestors(folder))]

    def register(self, records: Sequence[EpisodeRecord]) -> list[Registered]:
        """Write the records in one transaction and return the result of each, in order.

        At a known (path, key) an equal digest updates size and mtime only; another one replaces the episode and deletes
        its vectors. A record with moved_from takes over that episode (uid, tags, vectors) if the digest is the same, no
        other record is at its old path, and the new path is free; else it is new or changed. A record that displaces
        the episode catalogued at its path, under another digest, moves it to a path that no file has: it is missing
        until a record takes it over. Episodes at the paths of a record's assets are removed, and their annotations
        transferred to it.
        """
        with self._session.write() as connection:
            return register.register(connection, records)

    def remove(self, ids: Sequence[int]) -> int:
        """Remove the episodes, leaving tombstones in the ledger, and return their number."""
        with self._session.write() as connection:
            return register.remove(connection, episode_ids(ids))

    def supersede(self, successors: Mapping[int, int | None]) -> None:
        """Remove episodes that are read otherwise now, and transfer their annotations to their successors, by id.

        Those without a successor are kept, without vectors, at a path that no file has: they are missing.
        """
        with self._session.write() as connection:
            register.supersede(connection, successors)

    def withdraw(self, ids: Sequence[int]) -> None:
        """Delete the vectors of these episodes and keep the rest: their files have changed."""
        with self._session.write() as connection:
            ledger.delete_vectors(connection, episode_ids(ids))

    def known(self, paths: Sequence[str], keys: Collection[str] | None = None) -> dict[str, tuple[Known, ...]]:
        """Return the catalogued episodes at these absolute paths, by key; unknown paths are ignored.

        keys: only these keys, of locations that may have many others.
        """
        with self._session.read() as connection:
            roots = places.load_roots(connection)
            stored_episodes = reconcile.load_stored_episodes(connection, paths, roots=roots, keys=keys)
            files = assets.load_parts(connection, {stored.id: path for (path, _), stored in stored_episodes.items()})
        known: dict[str, list[Known]] = {}
        for (path, key), stored in sorted(stored_episodes.items()):
            reading_options = read_as(stored.format, stored.lane_map)
            entry = Known(
                stored.id, key, stored.digest, stored.size, stored.mtime_ns, files.get(stored.id, ()), reading_options
            )
            known.setdefault(path, []).append(entry)
        return {path: tuple(entries) for path, entries in known.items()}

    def read_as(self, paths: Sequence[str]) -> dict[str, str]:
        """Return the reading options of the catalogued locations at these absolute paths; EpisodeAddress.read_as."""
        with self._session.read() as connection:
            return reconcile.load_read_as(connection, paths)

    def readings(self, prefix: str) -> list[str]:
        """Return the reading options of the episodes whose format begins with the prefix."""
        columns = (episode.c.format, episode.c.lane_map)
        statement = select(*columns).where(episode.c.format.startswith(prefix, autoescape=True)).distinct()
        with self._session.read() as connection:
            return sorted(read_as(*row) for row in connection.execute(statement))

    def mapped_readings(self) -> list[str]:
        """Return the reading options of the episodes whose lanes have other names than in their files."""
        statement = select(episode.c.format, episode.c.lane_map).where(episode.c.lane_map != "").distinct()
        with self._session.read() as connection:
            return sorted(read_as(*row) for row in connection.execute(statement))

    def highest_fingerprint(self, reading: str) -> Fingerprint:
        """Return the largest size, and the newest time, of the episodes with these reading options; 0 of none."""
        format_name, lane_map = parse_read_as(reading)
        statement = select(func.max(episode.c.size), func.max(episode.c.mtime_ns))
        is_read_so = (episode.c.format == format_name, episode.c.lane_map == lane_map)
        with self._session.read() as connection:
            size, mtime_ns = connection.execute(statement.where(*is_read_so)).one()
        return Fingerprint(size or 0, mtime_ns or 0)

    def known_fingerprints(self, reading: str, candidates: Collection[Fingerprint]) -> set[Fingerprint]:
        """Return those of the candidates that an episode with these reading options has."""
        format_name, lane_map = parse_read_as(reading)
        columns = (episode.c.size, episode.c.mtime_ns)
        with self._session.read() as connection:
            is_candidate = one_of(connection, episode.c.mtime_ns, sorted({one.mtime_ns for one in candidates}))
            is_read_so = (episode.c.format == format_name, episode.c.lane_map == lane_map)
            rows = connection.execute(select(*columns).where(*is_read_so, is_candidate).distinct())
            return {Fingerprint(*row) for row in rows} & {*candidates}

    def save_scan(self, path: str, state: str, *, count: int) -> None:
        """Remember a state of the location at this absolute path, if it has `count` catalogued episodes.

        Registering an episode of it forgets the state.
        """
        with self._session.write() as connection:
            scans.save(connection, path, state, count=count, roots=places.load_roots(connection))

    def unchanged_since(self, path: str, state: str) -> array[int] | None:
        """Return the ids of the episodes of a location that had this state, None if it or they differ from then."""
        with self._session.read() as connection:
            return scans.load_unchanged(connection, path, state, roots=places.load_roots(connection))

    def by_digest(self, digests: Sequence[str]) -> list[EpisodeRow]:
        """Return the episodes with one of these digests, by id."""
        with self._session.read() as connection:
            return pages.load_rows(connection, one_of(connection, episode.c.digest, digests))

    def places(
        self, prefix: str | None = None, *, ignoring: Container[int] = frozenset()
    ) -> Iterator[tuple[int, EpisodeAddress]]:
        """Yield (id, address) of every episode, or of those in the file or folder at the absolute path prefix.

        ignoring: ids of episodes to omit.
        """
        return walk_places(self._session.read, prefix, ignoring)

    def get(self, ref: int | str) -> EpisodeRow:
        """Return the episode of that id or uid; EntryNotFoundError when there is none."""
        column = episode.c.uid if isinstance(ref, str) else episode.c.id
        ref = ref if isinstance(ref, str) else whole_number(ref, "id of an episode", FilterError)
        with self._session.read() as connection:
            rows = pages.load_rows(connection, column == ref) if storable(ref) else []
        if not rows:
            raise EntryNotFoundError(f"expected the {column.name} of a catalogued episode, found {ref!r}")
        return rows[0]

    def named(self, name: str) -> EpisodeRow | None:
        """Return the episode of that uid, episode_id or short name, None without one; QueryError for one of several."""
        if not storable(name):
            return None
        with self._session.read() as connection:
            rows = pages.load_rows(connection, episode.c.uid == name)
            if not rows:
                found = select(episode.c.id).where(episode.c.episode_id == name).order_by(episode.c.id).limit(_LISTED)
                rows = pages.load_ids(connection, connection.scalars(found).all())
            if not rows and "/" in name:
                sets = split_name(name)
                found_rows = pages.load_rows(connection, one_of(connection, episode.c.episode_id, sets))
                rows = [row for row in found_rows if is_of_set(row, sets[row.episode_id])][:_LISTED]
            names = short_names(connection, rows) if len(rows) > 1 else []
        if names:
            listed = "\n".join(f"  {text}  {row.uid}  {row.address}" for text, row in zip(names, rows, strict=True))
            raise QueryError(f"several episodes have the id {name!r}; give a name, uid or file:\n{listed}")
        return rows[0] if rows else None

    def rows(self, ids: Iterable[int]) -> dict[int, EpisodeRow]:
        """Return the episodes with these ids; unknown ids are ignored."""
        with self._session.read() as connection:
            return {row.id: row for row in pages.load_ids(connection, episode_ids(ids))}

    def assets(self, ids: Iterable[int]) -> dict[int, tuple[Asset, ...]]:
        """Return the files of these episodes: mostly one; manifest and chunks of chunked ones; no unknown ids."""
        with self._session.read() as connection:
            return assets.load_assets(connection, pages.load_ids(connection, episode_ids(ids)))
