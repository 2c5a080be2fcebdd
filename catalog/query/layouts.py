"""The sets of lanes that episodes have, with the number of episodes of each."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sqlalchemy import func, select

from catalog.database.schema import episode, layout
from catalog.filters.to_sql import condition
from catalog.records import LaneDefinition, Layout

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from catalog.filters.where import Where


def load_layouts(connection: Connection, where: Where) -> list[Layout]:
    """Return the layouts that at least one of the matching episodes has, by id, with the number of these."""
    counted = select(episode.c.layout_id, func.count().label("episodes")).where(condition(connection, where))
    counts = counted.group_by(episode.c.layout_id).subquery()  # of the index alone, before definitions are read
    of_layout = layout.join(counts, counts.c.layout_id == layout.c.id)
    statement = select(layout.c.id, layout.c.definition, counts.c.episodes).select_from(of_layout)
    rows = connection.execute(statement.order_by(layout.c.id)).all()
    return [Layout(number, _lanes(text), count) for number, text, count in rows]


def _lanes(definition: str) -> tuple[LaneDefinition, ...]:
    return tuple(
        LaneDefinition(name, dtype, tuple(shape), *map(tuple, names))
        for name, dtype, shape, *names in json.loads(definition)
    )
