"""The ids of all matching episodes in an order, remembered for pages that begin far from its start."""

from __future__ import annotations

import threading
from array import array
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

from sqlalchemy import select

from catalog.database.schema import episode
from catalog.filters.to_sql import condition
from catalog.query.pages import is_computed, ordering, page_statements
from catalog.query.paging import values_of_kinds

if TYPE_CHECKING:
    from collections.abc import Hashable

    from sqlalchemy import Connection

    from catalog.filters.where import Where
    from catalog.query.pages import PageRequest
    from catalog.session import Instant

_MOST: Final = 8_000_000
"""So many ids are remembered, in 64 MB; those of the last order always."""
_FAR: Final = 10_000
"""Rows from which on a page is far: to skip fewer takes a hundredth of a second."""


def is_far(part: PageRequest) -> bool:
    """Say whether all ids are worth sorting for a page: it is far, or the order is sorted for each page anyway."""
    return part.after is None and (part.skip >= _FAR or is_computed(ordering(part.order)))


class SortedIds:
    """Ids by filter and order, each as of one state of the catalog."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[Hashable, tuple[Instant, array[int]]] = {}

    def find(self, connection: Connection, where: Where, order: str, *, now: Instant, base: str | None) -> array[int]:
        """Return the ids of what matches. now: an instant before the read."""
        with self._lock if self._recall(where, order, now) is None else nullcontext():
            ids = self._recall(where, order, now)
            if ids is None:  # and nobody has sorted them meanwhile
                ids = _sort_ids(connection, where, order, base=base)
                self._known.pop((where, order), None)
                self._known[where, order] = now, ids
                while len(self._known) > 1 and sum(len(some) for _, some in self._known.values()) > _MOST:
                    del self._known[next(iter(self._known))]
            return ids

    def _recall(self, where: Where, order: str, now: Instant) -> array[int] | None:
        known = self._known.get((where, order))
        return known[1] if known is not None and known[0] == now else None


def _sort_ids(connection: Connection, where: Where, order: str, *, base: str | None) -> array[int]:
    """Return the ids by column in as many steps as pages take, each along an index; by others in a single sort."""
    field, descending = ordering(order), order.startswith("-")
    ids = array("q")
    if is_computed(field):
        values = [*values_of_kinds(connection, field, base=base).values()][:: -1 if descending else 1]
        keys = ((value.desc() if descending else value.asc()).nulls_last() for value in values)
        statement = select(episode.c.id).where(condition(connection, where, base=base))
        last = episode.c.id.desc() if descending else episode.c.id.asc()
        ids.extend(connection.execute(statement.order_by(*keys, last)).scalars())
        return ids
    for statement in page_statements(connection, where, order=order, base=base):
        ids.extend(connection.execute(statement.with_only_columns(statement.selected_columns[0])).scalars())
    return ids
