"""Episodes as one table of typed columns, for pyarrow, pandas, DuckDB and whatever else reads Arrow.

Knows: which columns there are, and their Arrow types. Does not know: filters, the tables of the database.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection, select

from catalog.facts import load_facts
from catalog.fields import Field, field_of
from catalog.matching import NO_FACTS, read_field
from catalog.queries import load_page
from catalog.records import EpisodeRow
from catalog.schema import score
from wshard.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from catalog.filters import Where
    from catalog.records import Facts

PLAIN: Final = (
    *("id", "uid", "path", "key", "episode_id", "env_id", "length", "total_reward", "success", "review", "tags"),
    *("digest", "size", "ingested_at", "metadata"),
)
"""Columns of a table where nobody chooses, followed by score.NAME for every score in use."""

_AT_ONCE: Final = 5000
_OWN: Final = ("tags", "metadata")  # columns that are no field of the filters: all tags, and the metadata as JSON text
_TIMES: Final = ("ingested_at", "reviewed_at")
_IN_THE_ROW: Final = frozenset(EpisodeRow.__dataclass_fields__) | {"tag", "meta"}


def load_table(connection: Connection, where: Where, columns: Sequence[str] | None, *, base: str | None) -> pa.Table:
    """Return the matching episodes, by id, as an Arrow table; MissingExtraError without pyarrow, FilterError."""
    try:
        import pyarrow as pa  # noqa: PLC0415  (only tables need it)
    except ImportError as error:
        raise MissingExtraError("tables need pyarrow: pip install 'wshard[parquet]'") from error
    if columns is None:
        used = connection.execute(select(score.c.name).distinct().order_by(score.c.name)).scalars()
        columns = [*PLAIN, *(Field("score", (name,)).name for name in used)]
    fields = {name: None if name in _OWN else field_of(name) for name in columns}
    with_facts = any(field is not None and field.root not in _IN_THE_ROW for field in fields.values())
    kinds = {name: _kind(pa, name, field) for name, field in fields.items()}
    # Arrow's own memory is a tenth of Python's, so each page is turned into it at once, where its type is known.
    values: dict[str, list[Any]] = {name: [] for name in fields}
    after: str | None = None
    while True:
        page = load_page(connection, where, order="id", after=after, limit=_AT_ONCE, base=base)
        facts = load_facts(connection, [row.id for row in page.rows]) if with_facts else {}
        for name, field in fields.items():
            found = [_cell(name, field, row, facts.get(row.id, NO_FACTS)) for row in page.rows]
            values[name] += found if kinds[name] is None else [pa.array(found, kinds[name])]
        if (after := page.next) is None:
            return pa.table({name: _column(pa, kinds[name], found) for name, found in values.items()})


def _cell(name: str, field: Field | None, row: EpisodeRow, facts: Facts) -> Any:
    if field is None:
        return json.dumps(row.metadata) if name == "metadata" else list(row.tags)
    found = read_field(field, row, facts)
    if field.many or field.root == "text":
        return list(found)
    if not found:
        return None
    return datetime.fromisoformat(found[0]) if field.root in _TIMES else found[0]


def _kind(pa: Any, name: str, field: Field | None) -> Any:
    """Return the Arrow type of a column, None where metadata may be of any."""
    if name == "metadata":
        return pa.string()
    if field is None or field.many or field.root == "text":
        return pa.list_(pa.string())
    if field.root in _TIMES:
        return pa.timestamp("s", tz="UTC")
    kinds = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    return None if field.type is None else kinds[field.type]


def _column(pa: Any, kind: Any, values: list[Any]) -> Any:
    """Return chunks of one type as a column; metadata as what all of it is: flags, numbers, text; else as JSON text."""
    if kind is not None:
        return pa.chunked_array(values, kind)
    found = {type(value) for value in values if value is not None}
    if found <= {int, float}:
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    if found in ({str}, {bool}):
        return pa.array(values, pa.string() if found == {str} else pa.bool_())
    return pa.array([None if value is None else json.dumps(value) for value in values], pa.string())
