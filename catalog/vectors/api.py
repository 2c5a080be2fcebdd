"""catalog.vectors: Spaces and the ledger of their vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog.database.schema import space
from catalog.query import pages
from catalog.vectors import ledger
from catalog.vectors.coverage import load_uncovered, pending_ids
from catalog.vectors.ledger import walk_ledger

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from catalog.filters.where import Where
    from catalog.records import EpisodeRow
    from catalog.session import Session
    from catalog.vectors.records import (
        Among,
        EmbeddingRow,
        LedgerEntry,
        LedgerRevision,
        LedgerState,
        SpaceRow,
        Uncovered,
    )


class VectorLedger:
    """The Spaces of a catalog and the ledger of their vectors."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def spaces(self, state: str | None = None) -> list[SpaceRow]:
        """Return the spaces, or those in that state, by id."""
        with self._session.read() as connection:
            return ledger.load_spaces(connection, *([] if state is None else [space.c.state == state]))

    def live_spaces(self) -> list[SpaceRow]:
        """Return the spaces that are not retired, by id."""
        with self._session.read() as connection:
            return ledger.load_spaces(connection, space.c.state != "retired")

    def add_space(self, fingerprint: str, family: str, definition: str) -> SpaceRow:
        """Return the space to fill: that of the fingerprint (a retired one is built again) or a new one.

        While another space of the family is being built, that one: two ingests fill the same.
        """
        with self._session.write() as connection:
            return ledger.add_space(connection, fingerprint, family=family, definition=definition)

    def activate(self, space_id: int, among: Among, *, ignoring: Collection[int] = ()) -> bool:
        """Make the space the only one of its family and return True, unless episodes of `among` are pending for it.

        ignoring: ids of episodes that cannot be embedded (for example because their files are missing). Raises
        SpaceMismatchError for a retired space.
        """
        with self._session.write() as connection:
            return ledger.activate(connection, space_id, among=among, ignoring=ignoring)

    def retire(self, space_id: int) -> None:
        """Drop the space's vectors in one transaction; a later add_space builds it again."""
        with self._session.write() as connection:
            ledger.retire(connection, space_id)

    def mark_checked(self, space_id: int, seq: int) -> None:
        """Store the clock at which the space was checked; an earlier one than stored changes nothing."""
        with self._session.write() as connection:
            ledger.mark_checked(connection, space_id, seq=seq)

    def pending(self, space_id: int, among: Among) -> list[EpisodeRow]:
        """Return the episodes of `among` without vectors in the space, by id."""
        with self._session.read() as connection:
            ids = pending_ids(connection, space_id, among=among)
            return pages.load_ids(connection, ids)

    def pending_ids(self, space_id: int, among: Among) -> list[int]:
        """Return the ids of the episodes of `among` without vectors in the space, ascending."""
        with self._session.read() as connection:
            return pending_ids(connection, space_id, among=among)

    def embedded(self, space_id: int) -> list[int]:
        """Return the ids of all episodes that have vectors in the space, ascending."""
        with self._session.read() as connection:
            return ledger.embedded_ids(connection, space_id)

    def uncovered(
        self,
        space_ids: Collection[int],
        where: Where,
        *,
        others: Sequence[Collection[int]] = (),
        lanes: Collection[str] = (),
    ) -> list[Uncovered]:
        """Return how many episodes that pass the filter have no vectors in any of these spaces, by layout.

        others: groups of spaces in which they may have vectors instead; the first that has some counts. lanes: names of
        those with moments where they are finite.
        """
        with self._session.read() as connection:
            resolved = self._session.resolve(connection, where)
            return load_uncovered(connection, space_ids, others=others, lanes=lanes, where=resolved)

    def sample(self, space_id: int, about: int) -> list[int]:
        """Return the ids of about this many episodes with vectors in the space, all if there are fewer.

        Equal archives give equal samples, which are spread over the order of embedding.
        """
        with self._session.read() as connection:
            return ledger.sample_ids(connection, space_id, about=about)

    def load(self, space_id: int, ids: Collection[int]) -> dict[int, tuple[int, bytes]]:
        """Return (count, vectors) of those of the episodes that have vectors in the space, by id.

        VectorsDamagedError where vectors are not what was written.
        """
        with self._session.read() as connection:
            return ledger.load_vectors(connection, space_id, ids=ids)

    def write(self, space_id: int, rows: Sequence[EmbeddingRow]) -> list[LedgerEntry]:
        """Write vectors in one durable transaction; return the entries that were written.

        Rows whose episode was removed, or has another digest now, are skipped; of two for one episode the later counts.
        Raises SpaceMismatchError for a retired space.
        """
        with self._session.write(durable=True) as connection:
            return ledger.write_embeddings(connection, space_id, rows=rows)

    def ledger(self, space_id: int, *, since: int = 0) -> Iterator[LedgerEntry]:
        """Yield the entries numbered above `since`, ascending; later ones for the same episode replace earlier ones.

        VectorsDamagedError where vectors are not what was written.
        """
        return walk_ledger(self._session.read, space_id, since=since)

    def revision(self, space_id: int) -> LedgerRevision:
        """Return what differs after every change of the space in the ledger; quicker than its state."""
        with self._session.read() as connection:
            return ledger.ledger_revision(connection, space_id)

    def state(self, space_id: int) -> LedgerState:
        """Return what the ledger holds of the space, without reading vectors."""
        with self._session.read() as connection:
            return ledger.ledger_state(connection, space_id)
