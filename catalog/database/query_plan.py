"""How the database goes about a statement.

SQLite: "SEARCH" uses an index, "SCAN" reads all. PostgreSQL: "Index Cond" says what an index is asked for, "Seq Scan"
reads all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlalchemy import Connection, Select


@dataclass(frozen=True)
class Explained:
    """A statement, its parameters, and the lines of its plan."""

    sql: str
    parameters: dict[str, Any]
    plan: tuple[str, ...]


def explain(connection: Connection, statement: Select[Any]) -> Explained:
    """Return the statement as it is sent, and its plan; nothing is run."""
    compiled = statement.compile(dialect=connection.dialect, compile_kwargs={"render_postcompile": True})
    if connection.dialect.name == "sqlite":
        values = tuple(compiled.params[name] for name in compiled.positiontup or ())
        rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {compiled}", values)
    else:
        rows = connection.exec_driver_sql(f"EXPLAIN {compiled}", dict(compiled.params))
    return Explained(str(compiled), dict(compiled.params), tuple(str(row[-1]) for row in rows))
