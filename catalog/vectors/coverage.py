"""Which episodes have no vectors in a space: those still to embed, and how many that pass a filter."""

from __future__ import annotations

import heapq
from itertools import islice
from typing import TYPE_CHECKING, Final

from sqlalchemy import ColumnElement, Connection, bindparam, func, literal, null, select

from catalog.database.engine import one_of
from catalog.database.schema import document, embedding, episode, lane
from catalog.filters.to_sql import condition
from catalog.vectors.records import Among, Uncovered

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from catalog.filters.where import Where


# Digests need not be compared, since the rows of a changed episode are deleted; it would read every episode's row.
_VECTORS: Final = select(literal(1)).where(
    embedding.c.space_id == bindparam("space"),
    embedding.c.episode_row == episode.c.id,
    embedding.c.digest.is_not(None),
)
_PENDING: Final = (
    select(episode.c.id)
    .where(episode.c.layout_id == bindparam("layout"), ~_VECTORS.correlate(episode).exists())
    .order_by(episode.c.id)
)


def load_uncovered(
    connection: Connection,
    space_ids: Collection[int],
    *,
    others: Sequence[Collection[int]],
    lanes: Collection[str],
    where: Where,
) -> list[Uncovered]:
    """Return how many matching episodes have no vectors in any of these spaces, by layout and what they have instead.

    others: groups of further spaces, of which the first that has vectors of an episode counts. lanes: those that have
    moments where their numbers are finite.
    """
    there = select(literal(1)).where(_has_vectors(connection, space_ids)).correlate(episode).exists()
    found = (
        select(
            episode.c.layout_id,
            func.coalesce(*(_latest(connection, ids) for ids in others), null(), null()).label("instead"),
            _is_without_numbers(connection, lanes).label("bare"),
        )
        .where(~there, condition(connection, where))
        .subquery()
    )
    statement = select(*found.c, func.count()).group_by(*found.c).order_by(func.count().desc(), found.c.layout_id)
    return [Uncovered(row[0], row[1], bool(row[2]), row[3]) for row in connection.execute(statement)]


def _latest(connection: Connection, space_ids: Collection[int]) -> ColumnElement[int | None]:
    latest = select(func.max(embedding.c.space_id)).where(_has_vectors(connection, space_ids))
    return latest.correlate(episode).scalar_subquery()


def _is_without_numbers(connection: Connection, lanes: Collection[str]) -> ColumnElement[bool]:
    conditions = (lane.c.episode_row == episode.c.id, lane.c.spread.is_(None), one_of(connection, lane.c.name, lanes))
    return select(literal(1)).where(*conditions).correlate(episode).exists()


def _has_vectors(connection: Connection, space_ids: Collection[int]) -> ColumnElement[bool]:
    row = embedding.c
    return (row.episode_row == episode.c.id) & row.digest.is_not(None) & one_of(connection, row.space_id, space_ids)


def pending_ids(connection: Connection, space_id: int, *, among: Among, limit: int | None = None) -> list[int]:
    """Return the ids of the episodes without vectors in the space, ascending."""
    id_lists = []
    whole = [(layout_id, None) for layout_id in set(among.layout_ids)]
    for layout_id, part in (*whole, *among.parts):  # one by one, so that an index yields the ids of each in order
        statement = _PENDING.where(*_restrictions(connection, among, part)).limit(limit)
        id_lists.append(connection.scalars(statement, {"layout": layout_id, "space": space_id}).all())
    return list(islice(heapq.merge(*id_lists), limit))


def _restrictions(connection: Connection, among: Among, part: tuple[int, ...] | None) -> list[ColumnElement[bool]]:
    """Return the conditions on episodes of one layout; part: the only ids of it, None for all."""
    conditions = [one_of(connection, episode.c.id, ids) for ids in (among.ids, part) if ids is not None]
    if part is None and among.without:
        conditions.append(~one_of(connection, episode.c.id, among.without))
    if among.with_words:
        document_rows = select(literal(1)).where(document.c.episode_row == episode.c.id)
        conditions.append(document_rows.correlate(episode).exists())
    return conditions
