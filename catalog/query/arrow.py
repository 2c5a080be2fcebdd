"""Episodes as an Arrow table of typed columns, for pyarrow, pandas, DuckDB and other readers of Arrow."""

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
from catalog.query.short_names import short_names
from catalog.values import INTEGER_LIMIT
from wshard.core.arguments import several_names
from wshard.core.messages import how_to_install
from wshard.errors import FilterError, MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from catalog.filters.where import Where
    from catalog.records import EpisodeRow, Facts

_BATCH_SIZE: Final = 5000


def plain_columns(connection: Connection) -> list[str]:
    """Return the names of the default columns."""
    used = connection.execute(select(score.c.name).distinct().order_by(score.c.name)).scalars()
    return [*PLAIN, *(Field("score", (name,)).name for name in used)]


def load_table(connection: Connection, where: Where, names: Sequence[str] | None) -> pa.Table:
    """Return the matching episodes, by id, as an Arrow table; MissingExtraError without pyarrow, FilterError."""
    try:
        import pyarrow as pa  # noqa: PLC0415  (only tables need it)
    except ImportError as error:
        raise MissingExtraError(f"tables need pyarrow: {how_to_install('parquet')}") from error
    requested = plain_columns(connection) if names is None else several_names(names, "columns")
    columns = columns_of(list(dict.fromkeys(requested)))  # a table has each name once
    if not columns:  # without columns, an Arrow table has no number of rows
        raise FilterError("columns: expected one name or more, found none")
    types = {column.name: _arrow_type(pa, column) for column in columns}
    parts = parts_needed(columns)
    # Arrow takes a tenth of the memory of Python objects, so pages of columns with a known type are converted at once.
    values: dict[str, list[Any]] = {column.name: [] for column in columns}
    after: str | None = None
    while True:
        page = load_page(connection, where, PageRequest("id", after, _BATCH_SIZE))
        facts = load_facts(connection, [row.id for row in page.rows], parts) if parts else {}
        for column in columns:
            if column.name == "name":
                cells: list[Any] = short_names(connection, page.rows)
            else:
                cells = [_cell(column, row, facts.get(row.id, NO_FACTS)) for row in page.rows]
            arrow_type = types[column.name]
            values[column.name] += cells if arrow_type is None else [pa.array(cells, arrow_type)]
        if (after := page.next) is None:
            return pa.table({name: _make_column(pa, types[name], cells) for name, cells in values.items()})


def _cell(column: Column, row: EpisodeRow, facts: Facts) -> Any:
    value = column.value(row, facts)
    if not column.timed or value is None:
        return value
    return list(map(datetime.fromisoformat, value)) if column.listed else datetime.fromisoformat(value)


def _arrow_type(pa: Any, column: Column) -> Any:
    """Return the Arrow type of a column, None if metadata may have any type."""
    if column.type is None:
        return None
    types = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    arrow_type = pa.timestamp("s", tz="UTC") if column.timed else types[column.type]
    return pa.list_(arrow_type) if column.listed else arrow_type


def _make_column(pa: Any, arrow_type: Any, values: list[Any]) -> Any:
    """Join chunks of a known type to a column; metadata of one type (bool, int, float, text) keep it, else are JSON."""
    if arrow_type is not None:
        return pa.chunked_array(values, arrow_type)
    types = {type(value) for value in values if value is not None}
    if types == {int} and all(value is None or abs(value) <= INTEGER_LIMIT for value in values):
        return pa.array(values, pa.int64())
    if types <= {int, float}:
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    if types in ({str}, {bool}):
        return pa.array(values, pa.string() if types == {str} else pa.bool_())
    return pa.array([None if value is None else json.dumps(value) for value in values], pa.string())
