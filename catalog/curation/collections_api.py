"""catalog.collections: saved queries and snapshots."""

from __future__ import annotations

import shlex
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from sqlalchemy import delete

from catalog.curation import collections, selection
from catalog.database.schema import collection
from catalog.filters.evaluate import parts_of, read_field
from catalog.filters.fields import field_of
from catalog.filters.saved_queries import queries_naming
from catalog.filters.to_text import where_text
from catalog.filters.where import Where
from catalog.query import pages
from catalog.query.facts import load_facts
from catalog.values import Scalar
from catalog.vectors.ledger import advance
from wshard.core.arguments import several_names, whole_number
from wshard.core.messages import plural
from wshard.errors import CollectionError, EntryNotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sqlalchemy import Connection

    from catalog.curation.collections import Named, Snapshot
    from catalog.curation.selection import Difference, Pick
    from catalog.records import EpisodeRow
    from catalog.session import Session

Group = tuple[str, Scalar | None]
Operation = Literal["union", "intersection", "without"]
_OPERATIONS: dict[str, Callable[[Sequence[Pick], Sequence[Pick]], tuple[Pick, ...]]] = {
    "union": selection.union,
    "intersection": selection.intersection,
    "without": selection.without,
}
_BATCH_SIZE = 10_000
_NAMED = 3


class Collections:
    """Saved queries and snapshots; `ref`: the name of a collection (a query is evaluated now) or a snapshot's hash."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def all(self) -> list[Named]:
        """Return all named collections, by name."""
        with self._session.read() as connection:
            return collections.load_named(connection)

    def save_query(self, name: str, where: Where | str, *, who: str = "") -> Named:
        """Save a filter under a name; the collection is evaluated on each use.

        See Named.replaced.
        """
        with self._session.write() as connection:
            return collections.name_query(connection, name, where=where, who=who)

    def save_snapshot(self, name: str, source: Where | str | Sequence[Pick], *, who: str = "") -> Named:
        """Save the episodes that match a filter now, or these picks, as an immutable snapshot with a name.

        See Named.replaced.
        """
        with self._session.write() as connection:
            if not isinstance(source, str | Where):
                picks = selection.as_picks(source)
                collections.check_current(connection, picks)
                stored = collections.store_snapshot(connection, picks, origin={"made": "picks"})
            else:
                where = self._session.resolve(connection, source)
                matching = collections.picks_of(connection, where)
                stored = collections.store_snapshot(
                    connection, matching, origin={"made": "query", "where": where_text(where)}
                )
            return collections.name_snapshot(connection, name, hash_=stored.hash, who=who)

    def combine(self, name: str, operation: Operation, left: str, right: str, *, who: str = "") -> Named:
        """Save the union, the intersection, or left without right, under a name; selection.py defines equal picks."""
        if operation not in _OPERATIONS:
            raise CollectionError(f"expected an operation among {', '.join(_OPERATIONS)}, found {operation!r}")
        with self._session.write() as connection:
            parents = [collections.snapshot_of(connection, ref) for ref in (left, right)]
            picks = _OPERATIONS[operation](*(collections.load_picks(connection, parent.hash) for parent in parents))
            origin = {"made": operation, "of": [parent.hash for parent in parents]}
            stored = collections.store_snapshot(connection, picks, origin=origin)
            return collections.name_snapshot(connection, name, hash_=stored.hash, who=who)

    def split(
        self, ref: str, fractions: Mapping[str, float], *, by: Sequence[str] = (), seed: int = 0, who: str = ""
    ) -> list[Named]:
        """Split a collection into snapshots named "REF/PART" with about these fractions, which share no data.

        by: fields; episodes that share a value of one of them stay together, and so do those with none, and copies of
        the same data. Without fields only copies stay together. CollectionError for a field, such as a metadata key or
        score, that none of the episodes has.
        """
        checked_fractions, seed = selection.checked_fractions(fractions), whole_number(seed, "seed", CollectionError)
        by = several_names(by, "by")
        with self._session.write() as connection:
            parent = collections.snapshot_of(connection, ref)
            picks = collections.load_picks(connection, parent.hash)
            groups = self._groups(connection, {pick.uid for pick in picks}, by)
            saved = []
            for part, part_picks in selection.split(picks, groups, fractions=checked_fractions, seed=seed).items():
                origin = {"made": "split", "of": [parent.hash], "part": part, "by": list(by), "seed": seed}
                stored = collections.store_snapshot(
                    connection, part_picks, origin={**origin, "fractions": checked_fractions}
                )
                saved.append(collections.name_snapshot(connection, f"{ref}/{part}", hash_=stored.hash, who=who))
            return saved

    def picks(self, ref: str) -> tuple[Pick, ...]:
        """Return the picks of a collection; EntryNotFoundError when there is none."""
        with self._session.read() as connection:
            return self._picks(connection, ref)

    def compare(self, before: str, after: str) -> Difference:
        """Return the differences between the picks of two collections."""
        with self._session.read() as connection:
            return selection.difference(self._picks(connection, before), self._picks(connection, after))

    def snapshot(self, ref: str) -> Snapshot:
        """Return the description of a snapshot; a saved query is evaluated, and its result saved."""
        with self._session.write() as connection:
            return collections.snapshot_of(connection, ref)

    def ancestors(self, ref: str) -> list[Snapshot]:
        """Return the snapshot and all snapshots that it was made from, nearest first; [] for a saved query."""
        with self._session.read() as connection:
            snapshots = collections.load_stored(connection, ref)
            for snapshot_ in snapshots:  # grows during the loop
                hashes = {other.hash for other in snapshots}
                for parent in dict.fromkeys(snapshot_.origin.get("of", ())):
                    snapshots += [] if parent in hashes else collections.load_stored(connection, parent)
            return snapshots

    def naming(self, name: str) -> list[str]:
        """Return the names of the saved queries that refer to this collection, sorted: without it they fail."""
        with self._session.read() as connection:
            return queries_naming(connection, name)

    def drop(self, name: str) -> Named:
        """Remove a name and return its collection; a snapshot stays available by its hash. See `naming`."""
        with self._session.write() as connection:
            named = collections.load_named(connection, name)
            if not named:
                raise EntryNotFoundError(
                    f"expected a collection's name, found {name!r} (`wshard collection ls` lists them)"
                )
            connection.execute(delete(collection).where(collection.c.name == name))
            advance(connection)
            return named[0]

    def picked(self, ref: str) -> list[tuple[Pick, EpisodeRow | None]]:
        """Return each pick with its episode as it is now, None where that is missing or has changed."""
        with self._session.read() as connection:
            picks = self._picks(connection, ref)
            rows = pages.load_uids(connection, {pick.uid for pick in picks})
        return [
            (pick, row if (row := rows.get(pick.uid)) is not None and row.digest == pick.digest else None)
            for pick in picks
        ]

    def gone(self) -> dict[str, int]:
        """Return how many picks of each named snapshot are of episodes that are missing or have changed, if any are."""
        with self._session.read() as connection:
            return collections.count_gone(connection)

    def explain_gone(self, ref: str) -> str:
        """Return which picks of a collection are of episodes that are not as they were, why, and what helps.

        "" if none is. An episode whose file is older than the snapshot, and whose data are others, is read otherwise.
        """
        picked = self.picked(ref)
        gone = [pick.uid for pick, row in picked if row is None]
        if not gone:
            return ""
        with self._session.read() as connection:
            rows = pages.load_uids(connection, {*gone})
            stored = collections.load_stored(connection, ref)
        named: dict[str, list[str]] = {}
        for uid in dict.fromkeys(gone):
            row = rows.get(uid)
            named.setdefault(_why_gone(row, stored[0].made_at), []).append(uid if row is None else row.episode_id)
        reasons = "; ".join(
            f"{len(names)} {why} ({', '.join(names[:_NAMED])}{', ...' * (len(names) > _NAMED)})"
            for why, names in named.items()
        )
        where = next((shlex.quote(one.origin["where"]) for one in stored if "where" in one.origin), "FILTER")
        return (
            f"collection {ref!r}: {len(gone)} of its {plural(len(picked), 'pick')} are of episodes that are not as "
            f"they were: {reasons}; it pins data as they were read then: "
            f"`wshard collection save {shlex.quote(ref)} --where {where}` saves it anew"
        )

    def _picks(self, connection: Connection, ref: str) -> tuple[Pick, ...]:
        named = collections.load_named(connection, ref)
        if named and named[0].query is not None:
            where = self._session.resolve(connection, named[0].query)
            return collections.picks_of(connection, where)
        return collections.load_picks(connection, collections.load_stored(connection, ref)[0].hash)

    def _groups(
        self, connection: Connection, uids: set[str], by: Sequence[str]
    ) -> dict[str, list[tuple[str, Scalar | None]]]:
        """Return (field, value) of every episode, for each field and value; a missing value is a group too."""
        fields, fields_with_values = [field_of(name) for name in by], set[str]()
        rows = list(pages.load_uids(connection, uids).values()) if fields else []
        groups: dict[str, list[Group]] = {}
        for start in range(0, len(rows), _BATCH_SIZE):
            batch = rows[start : start + _BATCH_SIZE]
            facts = load_facts(connection, [row.id for row in batch], parts_of(fields))
            for row in batch:
                values_by_field = {field.name: read_field(field, row, facts[row.id]) for field in fields}
                fields_with_values.update(name for name, values in values_by_field.items() if values)
                groups[row.uid] = [
                    (name, value) for name, values in values_by_field.items() for value in values or [None]
                ]
        if rows and (missing := {field.name for field in fields if field.free} - fields_with_values):
            raise CollectionError(f"by: expected fields that some of the episodes have, found {min(missing)!r}")
        return groups


def _why_gone(row: EpisodeRow | None, made_at: str) -> str:
    """Return why an episode, None where it is missing, has other data than a snapshot of that time.

    The time of an episode's files is also that of a layout's description.
    """
    if row is None:
        return "removed"
    if row.mtime_ns / 1e9 < datetime.fromisoformat(made_at).timestamp():
        return "changed before the snapshot, or read otherwise than then, by --map or --layout"
    return "changed, by their files or layout" if row.format.startswith("layout:") else "changed"
