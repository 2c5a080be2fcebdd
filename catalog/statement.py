"""SQL from people: statements that read, for a limited time.

Knows: what may be asked, and how it is told when it may not. Does not know: the tables (SCHEMA.md does).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy.exc import DBAPIError, ResourceClosedError

from catalog.dialect import reading_only
from wshard.errors import StatementError

if TYPE_CHECKING:
    from sqlalchemy import Connection


@dataclass(frozen=True)
class Answer:
    """The columns and rows of a statement; more says that there were further rows."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    more: bool


def ask(connection: Connection, text: str, *, seconds: float, limit: int) -> Answer:
    """Return the first rows of one statement; StatementError when it is wrong, would write, or takes too long."""
    if limit < 1:
        raise StatementError(f"expected a limit of at least 1, found {limit}")
    with reading_only(connection, seconds):
        try:
            result = connection.exec_driver_sql(text)
            columns = tuple(result.keys())
            rows = [tuple(row) for row in result.fetchmany(limit + 1)]
            result.close()
        except (DBAPIError, ResourceClosedError) as error:
            reason = str(getattr(error, "orig", error))
            told = {
                "interrupted": f"it took longer than {seconds:g} s",
                "not authorized": "it would do something else than read",
            }
            raise StatementError(f"expected one statement that reads: {told.get(reason, reason)}") from error
    return Answer(columns, tuple(rows[:limit]), len(rows) > limit)
