"""Facets of reviews: the number of episodes by the value of their last review."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import func, select

from catalog.database.schema import episode
from catalog.filters.to_sql import condition
from catalog.filters.where import EVERYTHING
from catalog.query.pages import count_rows

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from catalog.filters.sql_fields import Rows
    from catalog.filters.where import Where
    from catalog.query.summary_records import Facet


def load_reviewed(connection: Connection, reviewed: Rows, where: Where) -> Facet:
    """Return the facet of a field of reviews; counts the existing reviews, since few episodes have any."""
    rows = reviewed[0].add_columns(reviewed[1].label("value")).subquery()
    statement = select(rows.c.value, func.count()).group_by(rows.c.value)
    if where != EVERYTHING:
        joined = rows.join(episode, rows.c.episode_row == episode.c.id)
        statement = statement.select_from(joined).where(condition(connection, where))
    counts: Facet = [(value, int(count)) for value, count in connection.execute(statement)]
    missing = count_rows(connection, where) - sum(count for _, count in counts)
    return sorted(
        [*counts, *[(None, missing)] * bool(missing)],
        key=lambda entry: (-entry[1], entry[0] is not None, str(entry[0])),
    )
