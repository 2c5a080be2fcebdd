"""catalog.collections: saved queries and snapshots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from catalog.curation import collections, selection
from catalog.filters.evaluate import parts_of, read_field
from catalog.filters.fields import field_of
from catalog.filters.saved_queries import queries_naming
from catalog.filters.to_text import where_text
from catalog.filters.where import Where
from catalog.query import pages
from catalog.query.facts import load_facts
from catalog.values import Scalar
from wshard.arguments import several_names, whole_number
from wshard.errors import CollectionError

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
_GROUPED_AT_ONCE = 10_000


class Collections:
    """Saved queries and snapshots; `ref` is a collection's name or a snapshot's hash, a saved query is answered now."""

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
        """Keep what passes a filter now, or these picks, as a snapshot that never changes, under a name.

        See Named.replaced.
        """
        with self._session.write() as connection:
            if not isinstance(source, str | Where):
                listed = selection.as_picks(source)
                collections.check_known(connection, listed)
                stored = collections.store_snapshot(connection, listed, origin={"made": "picks"})
            else:
                where = self._session.resolve(connection, source)
                found = collections.picks_of(connection, where, base=self._session.base)
                stored = collections.store_snapshot(
                    connection, found, origin={"made": "query", "where": where_text(where)}
                )
            return collections.name_snapshot(connection, name, hash_=stored.hash, who=who)

    def combine(self, name: str, operation: Operation, left: str, right: str, *, who: str = "") -> Named:
        """Keep the union, the intersection, or left without right, under a name. See picks.py for what is equal."""
        if operation not in _OPERATIONS:
            raise CollectionError(f"expected an operation among {', '.join(_OPERATIONS)}, found {operation!r}")
        with self._session.write() as connection:
            parents = [collections.snapshot_of(connection, ref, base=self._session.base) for ref in (left, right)]
            found = _OPERATIONS[operation](*(collections.load_picks(connection, parent.hash) for parent in parents))
            origin = {"made": operation, "of": [parent.hash for parent in parents]}
            stored = collections.store_snapshot(connection, found, origin=origin)
            return collections.name_snapshot(connection, name, hash_=stored.hash, who=who)

    def split(
        self, ref: str, fractions: Mapping[str, float], *, by: Sequence[str] = (), seed: int = 0, who: str = ""
    ) -> list[Named]:
        """Split a collection into snapshots named "REF/PART" with about these fractions, without leaks.

        by: fields; episodes that share a value of one of them stay together, and so do those with none, and copies of
        the same data. Without fields only copies stay together. CollectionError for a field, such as a metadata key or
        score, that none of the episodes has.
        """
        shares, seed = selection.checked_fractions(fractions), whole_number(seed, "seed", CollectionError)
        by = several_names(by, "by")
        with self._session.write() as connection:
            parent = collections.snapshot_of(connection, ref, base=self._session.base)
            whole = collections.load_picks(connection, parent.hash)
            groups = self._groups(connection, {pick.uid for pick in whole}, by)
            done = []
            for part, found in selection.split(whole, groups, fractions=shares, seed=seed).items():
                origin = {"made": "split", "of": [parent.hash], "part": part, "by": list(by), "seed": seed}
                stored = collections.store_snapshot(connection, found, origin={**origin, "fractions": shares})
                done.append(collections.name_snapshot(connection, f"{ref}/{part}", hash_=stored.hash, who=who))
            return done

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
            return collections.snapshot_of(connection, ref, base=self._session.base)

    def ancestors(self, ref: str) -> list[Snapshot]:
        """Return the snapshot and all those that it was made from, the nearest first; none for a saved query."""
        with self._session.read() as connection:
            found = collections.load_stored(connection, ref)
            for known in found:  # grows while it is walked
                there = {other.hash for other in found}
                for parent in dict.fromkeys(known.origin.get("of", ())):
                    found += [] if parent in there else collections.load_stored(connection, parent)
            return found

    def naming(self, name: str) -> list[str]:
        """Return the names of the saved queries that name this collection, sorted: without it they fail."""
        with self._session.read() as connection:
            return queries_naming(connection, name)

    def drop(self, name: str) -> Named:
        """Remove a name and return what had it; a snapshot stays, by its hash. See `naming`."""
        with self._session.write() as connection:
            return collections.drop(connection, name)

    def picked(self, ref: str) -> list[tuple[Pick, EpisodeRow | None]]:
        """Return each pick with its episode as it is now, None where that is missing or has changed."""
        with self._session.read() as connection:
            listed = self._picks(connection, ref)
            rows = pages.load_uids(connection, {pick.uid for pick in listed}, base=self._session.base)
        return [
            (pick, row if (row := rows.get(pick.uid)) is not None and row.digest == pick.digest else None)
            for pick in listed
        ]

    def _picks(self, connection: Connection, ref: str) -> tuple[Pick, ...]:
        named = collections.load_named(connection, ref)
        if named and named[0].query is not None:
            where = self._session.resolve(connection, named[0].query)
            return collections.picks_of(connection, where, base=self._session.base)
        return collections.load_picks(connection, collections.load_stored(connection, ref)[0].hash)

    def _groups(
        self, connection: Connection, uids: set[str], by: Sequence[str]
    ) -> dict[str, list[tuple[str, Scalar | None]]]:
        """Return (field, value) of every episode, for each field and value; a missing value is a group too."""
        fields, there = [field_of(name) for name in by], set[str]()
        rows = list(pages.load_uids(connection, uids, base=self._session.base).values()) if fields else []
        groups: dict[str, list[Group]] = {}
        for start in range(0, len(rows), _GROUPED_AT_ONCE):
            batch = rows[start : start + _GROUPED_AT_ONCE]
            facts = load_facts(connection, [row.id for row in batch], parts_of(fields))
            for row in batch:
                found = {field.name: read_field(field, row, facts[row.id]) for field in fields}
                there.update(name for name, values in found.items() if values)
                groups[row.uid] = [(name, value) for name, values in found.items() for value in values or [None]]
        if rows and (missing := {field.name for field in fields if field.free} - there):
            raise CollectionError(f"by: expected fields that some of the episodes have, found {min(missing)!r}")
        return groups
