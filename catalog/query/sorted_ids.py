"""A cache of the ids of all matching episodes in an order, for searches and for pages far from its start."""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_left
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

from sqlalchemy import select

from catalog.database.schema import episode
from catalog.filters.to_sql import condition
from catalog.filters.where import AllOf, Compare, Not, all_of, any_of
from catalog.query.pages import is_computed, ordering, page_statements
from catalog.query.paging import values_of_kinds

if TYPE_CHECKING:
    from collections.abc import Hashable

    from sqlalchemy import Connection

    from catalog.filters.where import Where
    from catalog.query.pages import PageRequest
    from catalog.session import Instant, Session

_MAX_IDS: Final = 8_000_000
"""Maximum number of cached ids (64 MB); those of the last order are always cached."""
_FAR_ROWS: Final = 10_000
"""Number of skipped rows from which on a page is far; skipping fewer takes a hundredth of a second."""


def is_far(request: PageRequest) -> bool:
    """Return True if sorting all ids is worthwhile for a page: it is far, or each page would sort all rows anyway."""
    return request.after is None and (request.skip >= _FAR_ROWS or is_computed(ordering(request.order)))


class SortedIds:
    """Ids by filter and order, each as of one state of the catalog."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lock = threading.RLock()
        self._cached: dict[Hashable, tuple[Instant, array[int]]] = {}

    def find(self, where: Where, order: str) -> array[int]:
        """Return the ids of the matching episodes; saved queries, too, are as of the catalog's state."""
        instant = self._session.instant()  # before the read
        with self._lock if self._recall(where, order, instant) is None else nullcontext():
            ids = self._recall(where, order, instant)
            if ids is None:  # no other thread has sorted them meanwhile
                ids = self._sort(where, order)
                self._cached.pop((where, order), None)
                self._cached[where, order] = instant, ids
                while len(self._cached) > 1 and sum(len(cached) for _, cached in self._cached.values()) > _MAX_IDS:
                    del self._cached[next(iter(self._cached))]
            return ids

    def _sort(self, where: Where, order: str) -> array[int]:
        """Return the ids, from the catalog; a few that are left out by uid are taken from those without that condition.

        Searches for others than the query's own episode leave out another one each time.
        """
        others, left_out = _split(where)
        if order == "id" and left_out is not None:
            ids = self.find(others, order)[:]
            self._cached[others, order] = self._cached.pop((others, order))  # dropped last, as others will use it
            for id_ in self._sort(left_out, order):
                at = bisect_left(ids, id_)
                if at < len(ids) and ids[at] == id_:
                    del ids[at]
            return ids
        with self._session.matching(where) as (connection, resolved):
            return _sort_ids(connection, resolved, order)

    def _recall(self, where: Where, order: str, instant: Instant) -> array[int] | None:
        cached = self._cached.get((where, order))
        return cached[1] if cached is not None and cached[0] == instant else None


def _split(where: Where) -> tuple[Where, Where | None]:
    """Return the filter without conditions that leave out episodes by uid, and these episodes, None without any."""
    parts = where.parts if isinstance(where, AllOf) else (where,)
    named = [part for part in parts if isinstance(part, Not) and _is_uid(part.part)]
    others = all_of(*(part for part in parts if part not in named))
    return others, any_of(*(one.part for one in named)) if named else None


def _is_uid(part: Where) -> bool:
    return isinstance(part, Compare) and part.field == "uid"


def _sort_ids(connection: Connection, where: Where, order: str) -> array[int]:
    """Return the ids: by a stored column with the statements of pages, along indexes; else in a single sort."""
    field, descending = ordering(order), order.startswith("-")
    ids = array("q")
    if is_computed(field):
        values = [*values_of_kinds(connection, field).values()][:: -1 if descending else 1]
        keys = ((value.desc() if descending else value.asc()).nulls_last() for value in values)
        statement = select(episode.c.id).where(condition(connection, where))
        last = episode.c.id.desc() if descending else episode.c.id.asc()
        ids.extend(connection.execute(statement.order_by(*keys, last)).scalars())
        return ids
    for statement in page_statements(connection, where, order=order):
        ids.extend(connection.execute(statement.with_only_columns(statement.selected_columns[0])).scalars())
    return ids
