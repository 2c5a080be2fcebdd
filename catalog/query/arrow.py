"""Episodes as one table of typed columns, for pyarrow, pandas, DuckDB and whatever else reads Arrow."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection, select

from catalog.database.schema import score
from catalog.filters.evaluate import NO_FACTS
from catalog.filters.fields import Field
from catalog.query.columns import PLAIN, Column, columns_of, parts_needed
from catalog.query.facts import load_facts
from catalog.query.pages import PageRequest, load_page
from catalog.values import INTEGER_LIMIT
from wshard.arguments import several_names
from wshard.errors import FilterError, MissingExtraError
from wshard.messages import how_to_install

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from catalog.filters.where import Where
    from catalog.records import EpisodeRow, Facts

_AT_ONCE: Final = 5000


def plain_columns(connection: Connection) -> list[str]:
    """Return the names of the default columns."""
    used = connection.execute(select(score.c.name).distinct().order_by(score.c.name)).scalars()
    return [*PLAIN, *(Field("score", (name,)).name for name in used)]


def load_table(connection: Connection, where: Where, names: Sequence[str] | None, *, base: str | None) -> pa.Table:
    """Return the matching episodes, by id, as an Arrow table; MissingExtraError without pyarrow, FilterError."""
    try:
        import pyarrow as pa  # noqa: PLC0415  (only tables need it)
    except ImportError as error:
        raise MissingExtraError(f"tables need pyarrow: {how_to_install('parquet')}") from error
    given = plain_columns(connection) if names is None else several_names(names, "columns")
    columns = columns_of(list(dict.fromkeys(given)))  # a table has each name once
    if not columns:  # Arrow knows no number of rows without one
        raise FilterError("columns: expected one name or more, found none")
    kinds = {column.name: _kind(pa, column) for column in columns}
    parts = parts_needed(columns)
    # Arrow's own memory is a tenth of Python's, so each page is turned into it at once, where its type is known.
    values: dict[str, list[Any]] = {column.name: [] for column in columns}
    after: str | None = None
    while True:
        page = load_page(connection, where, PageRequest("id", after, _AT_ONCE), base=base)
        facts = load_facts(connection, [row.id for row in page.rows], parts) if parts else {}
        for column in columns:
            found = [_cell(column, row, facts.get(row.id, NO_FACTS)) for row in page.rows]
            kind = kinds[column.name]
            values[column.name] += found if kind is None else [pa.array(found, kind)]
        if (after := page.next) is None:
            return pa.table({name: _column(pa, kinds[name], found) for name, found in values.items()})


def _cell(column: Column, row: EpisodeRow, facts: Facts) -> Any:
    found = column.value(row, facts)
    if not column.timed or found is None:
        return found
    return list(map(datetime.fromisoformat, found)) if column.listed else datetime.fromisoformat(found)


def _kind(pa: Any, column: Column) -> Any:
    """Return the Arrow type of a column, None if metadata may have any type."""
    if column.type is None:
        return None
    kinds = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    kind = pa.timestamp("s", tz="UTC") if column.timed else kinds[column.type]
    return pa.list_(kind) if column.listed else kind


def _column(pa: Any, kind: Any, values: list[Any]) -> Any:
    """Return chunks of one type as a column; metadata as what all of it is (flags, integers, numbers, text) or JSON."""
    if kind is not None:
        return pa.chunked_array(values, kind)
    found = {type(value) for value in values if value is not None}
    if found == {int} and all(value is None or abs(value) <= INTEGER_LIMIT for value in values):
        return pa.array(values, pa.int64())
    if found <= {int, float}:
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    if found in ({str}, {bool}):
        return pa.array(values, pa.string() if found == {str} else pa.bool_())
    return pa.array([None if value is None else json.dumps(value) for value in values], pa.string())
