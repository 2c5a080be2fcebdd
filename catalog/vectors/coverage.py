"""Counts the episodes that pass a filter but have no vectors in the Spaces that a search compares."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import ColumnElement, Connection, func, literal, null, select

from catalog.database.engine import one_of
from catalog.database.schema import embedding, episode, lane
from catalog.filters.to_sql import condition
from catalog.vectors.records import Uncovered

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from catalog.filters.where import Where


def load_uncovered(
    connection: Connection,
    space_ids: Collection[int],
    *,
    others: Sequence[Collection[int]],
    lanes: Collection[str],
    where: Where,
    base: str | None,
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
        .where(~there, condition(connection, where, base=base))
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
