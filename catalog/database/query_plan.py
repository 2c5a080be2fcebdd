"""Query plans, as the database explains them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlalchemy import Connection, Select


@dataclass(frozen=True)
class QueryPlan:
    """A statement, its parameters, and the lines of its plan."""

    sql: str
    parameters: dict[str, Any]
    plan: tuple[str, ...]


def explain(connection: Connection, statement: Select[Any]) -> QueryPlan:
    """Return the statement as sent, and its plan, without running it."""
    compiled = statement.compile(dialect=connection.dialect, compile_kwargs={"render_postcompile": True})
    if connection.dialect.name == "sqlite":
        values = tuple(compiled.params[name] for name in compiled.positiontup or ())
        rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {compiled}", values)
    else:
        rows = connection.exec_driver_sql(f"EXPLAIN {compiled}", dict(compiled.params))
    return QueryPlan(str(compiled), dict(compiled.params), tuple(str(row[-1]) for row in rows))
