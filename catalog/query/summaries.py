"""Episodes in numbers: facets, histograms, statistics by group."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Double,
    FromClause,
    Select,
    case,
    cast,
    func,
    literal,
    select,
    type_coerce,
)

from catalog.database.schema import episode, finding, tag
from catalog.database.sql_functions import bin_of, json_element, json_scalar, square
from catalog.filters.fields import Field, field_of
from catalog.filters.sql_fields import REVIEW, rows_of, value_of
from catalog.filters.to_sql import condition
from catalog.query.reviewed import load_reviewed
from catalog.query.summary_records import Facet, Group, Histogram, NumberSummary
from catalog.values import Scalar, comparable_number, storable
from wshard.core.arguments import whole_number
from wshard.errors import FilterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog.filters.where import Where

MAX_BINS = 1000

_SINGLE_COLUMN_TABLES: Final = MappingProxyType({"tag": tag, "flag": finding})
"""The table of a field whose values an episode has at most once each, in an indexed column `name`."""

_MAX_DISTANCE: Final = 1e6
"""Squared distance of the mean from the centre, in variances, up to which sums keep about nine digits of variance."""

_MAX_SUMMABLE: Final = 1e140
"""Values up to this have sums of squares that no database lets overflow a float, in an archive of any size."""


def load_facet(connection: Connection, name: str, *, where: Where, limit: int | None) -> Facet:
    """Return (value, episodes) of a field among the matching ones, the most frequent first; None counts the missing."""
    field = field_of(name)
    limit = None if limit is None else whole_number(limit, "limit", FilterError, least=0)
    if field.root in REVIEW and (reviewed := rows_of(connection, field)) is not None:
        return load_reviewed(connection, reviewed, where)[:limit]
    (column,), source = _keys(connection, [name])
    statement = select(column, func.count()).select_from(source).where(condition(connection, where))
    statement = statement.group_by(column).order_by(func.count().desc(), column.asc().nulls_first()).limit(limit)
    return [(_group_value(field, value), int(count)) for value, count in connection.execute(statement)]


def load_histogram(connection: Connection, name: str, *, where: Where, bins: int) -> Histogram:
    """Return the distribution of a numeric field among the matching episodes, in ranges of equal width."""
    bins = whole_number(bins, "bins", FilterError, least=1)
    if bins > MAX_BINS:
        raise FilterError(f"expected 1 to {MAX_BINS} bins, found {bins}")
    value = _number(connection, name)
    matching = condition(connection, where)
    finite = (value >= -MAX_FLOAT, value <= MAX_FLOAT)
    total = connection.execute(select(func.count()).select_from(episode).where(matching)).scalar_one()
    ends = select(func.min(value), func.max(value)).select_from(episode).where(matching, *finite)
    low, high = connection.execute(ends).one()
    if low is None:
        return Histogram((), (), int(total))
    low, high = float(low), float(high)
    width = high / bins - low / bins
    bin_number = bin_of(value, low, high, bins=bins) if width else literal(0)
    statement = select(bin_number, func.count()).select_from(episode).where(matching, *finite).group_by(bin_number)
    counts = [0] * (bins if width else 1)
    for number, count in connection.execute(statement):
        counts[max(0, min(int(number), len(counts) - 1))] += int(count)
    edges = (*(float(low + number * width) for number in range(len(counts))), float(high))
    return Histogram(edges, tuple(counts), int(total) - sum(counts))


MAX_FLOAT = math.nextafter(math.inf, 0)


def load_groups(connection: Connection, names: Sequence[str], *, by: Sequence[str], where: Where) -> list[Group]:
    """Return a group per combination of values of the fields `by`, the largest first; infinities count as missing."""
    keys, source = _keys(connection, by)
    matching = condition(connection, where)
    values = [_number(connection, name) for name in names]
    selections = [
        _Selection.around(value, mean) for value, mean in zip(values, _means(connection, values, matching), strict=True)
    ]
    fields = [field_of(name) for name in by]

    def groups(statement: Select[Any]) -> list[tuple[tuple[Scalar | None, ...], int, list[_Sums]]]:
        return [
            (
                tuple(_group_value(field, value) for field, value in zip(fields, row[: len(by)], strict=True)),
                int(row[len(by)]),
                [_Sums(*row[column : column + 6]) for column in range(len(by) + 1, len(row), 6)],
            )
            for row in connection.execute(statement)
        ]

    group_sums = groups(_summed(keys, selections).select_from(source).where(matching))
    if by and any(sums.lose_precision for _, _, sums_by_field in group_sums for sums in sums_by_field):
        # This takes several times as long.
        group_sums = groups(_summed(*_centred_by_group(keys, selections, source, matching)))
    return [
        Group(key, episodes, {name: sums.summary() for name, sums in zip(names, sums_by_field, strict=True)})
        for key, episodes, sums_by_field in group_sums
    ]


def load_file_bytes(connection: Connection, *, by: Sequence[str], where: Where) -> dict[tuple[Scalar | None, ...], int]:
    """Return the size of the files per combination of values; episodes with one path and fingerprint share theirs."""
    (keys, source), fields = _keys(connection, by), [field_of(name) for name in by]
    columns = [key.label(f"c{number}") for number, key in enumerate(keys)]
    place = (episode.c[name] for name in ("root_id", "path", "mtime_ns", "size"))
    matching = condition(connection, where)
    *groups, _, _, _, size = select(*columns, *place).select_from(source).where(matching).distinct().subquery().c
    found = connection.execute(select(func.sum(size), *groups).group_by(*groups)).all()
    return {tuple(map(_group_value, fields, values)): int(total or 0) for total, *values in found}


class _Selection(NamedTuple):
    """The columns for the summary of a field: its values, and the values summed relative to a centre.

    group_centre: the centre, as one value per group.
    """

    value: ColumnElement[Any]
    addend: ColumnElement[Any]
    centre: ColumnElement[Any]
    group_centre: ColumnElement[Any]

    @classmethod
    def around(cls, value: ColumnElement[Any], mean: _Mean) -> _Selection:
        """Return the selection of a field with one centre for all groups."""
        centre: ColumnElement[Any] = literal(mean.value, Double())
        if mean.all_summable:
            return cls(value, value, centre, centre)
        return cls(_finite(value), _summable(value), centre, centre)  # twice as long

    @property
    def columns(self) -> tuple[ColumnElement[Any], ...]:
        """The arguments of _Sums, in order."""
        deviation = self.addend - self.centre  # sums of squares around some mean lose no digits
        sums = func.sum(deviation), func.sum(square(deviation))
        return func.count(self.value), func.min(self.value), func.max(self.value), self.group_centre, *sums


def _summed(keys: Sequence[ColumnElement[Any]], selections: Sequence[_Selection]) -> Select[Any]:
    """Return the statement for keys, number of episodes and _Sums of every group, the largest first."""
    statement = select(
        *keys, func.count(), *(column for selection in selections for column in selection.columns)
    ).group_by(*keys)
    return statement.order_by(func.count().desc(), *(key.asc().nulls_first() for key in keys))


def _centred_by_group(
    keys: Sequence[ColumnElement[Any]],
    selections: Sequence[_Selection],
    source: FromClause,
    matching: ColumnElement[bool],
) -> tuple[list[ColumnElement[Any]], list[_Selection]]:
    """Return keys and summaries, with the mean of each group as its centre."""
    columns = [*keys]
    for selection in selections:
        columns += [selection.value, selection.addend, func.avg(cast(selection.addend, Double)).over(partition_by=keys)]
    labelled = [column.label(f"c{number}") for number, column in enumerate(columns)]
    row_columns = [*select(*labelled).select_from(source).where(matching).subquery().c]
    field_columns = (row_columns[index : index + 3] for index in range(len(keys), len(row_columns), 3))
    return row_columns[: len(keys)], [
        _Selection(value, addend, mean, func.min(mean)) for value, addend, mean in field_columns
    ]


@dataclass(frozen=True)
class _Sums:
    """Sums over the values of one group; total and squares are sums of (value - centre) and its square."""

    count: int
    low: float | None
    high: float | None
    centre: float | None
    total: float | None
    squares: float | None

    @property
    def _moments(self) -> tuple[float, float]:
        """Mean and variance of (value - centre)."""
        offset = (self.total or 0.0) / self.count
        return offset, max(0.0, (self.squares or 0.0) / self.count - offset * offset)

    @property
    def lose_precision(self) -> bool:
        """Whether the values are so far from the centre that their variance has lost most digits."""
        if not self.count or self.low == self.high or not _are_summable(self.low, self.high):
            return False
        offset, variance = self._moments
        return offset * offset > _MAX_DISTANCE * variance

    def summary(self) -> NumberSummary:
        """Return the summary of the values."""
        if not self.count or self.low is None or self.high is None:
            return NumberSummary(0, None, None, None, None)
        if self.low == self.high:
            return NumberSummary(int(self.count), float(self.low), 0.0, float(self.low), float(self.high))
        if not _are_summable(self.low, self.high):  # total and squares lack some
            return NumberSummary(int(self.count), None, None, float(self.low), float(self.high))
        offset, variance = self._moments
        mean = float((self.centre or 0.0) + offset)
        return NumberSummary(int(self.count), mean, math.sqrt(variance), float(self.low), float(self.high))


def _keys(connection: Connection, by: Sequence[str]) -> tuple[list[ColumnElement[Any]], FromClause]:
    keys: list[ColumnElement[Any]] = []
    source: FromClause = episode
    for name in by:
        key, rows = _group_key(connection, field_of(name))
        keys.append(key)
        if rows is not None:
            source = source.join(rows, rows.c.episode_row == episode.c.id)
    return keys, source


class _Mean(NamedTuple):
    """The approximate mean of a field's values, and whether all of them are finite and small enough to be summed."""

    value: float
    all_summable: bool


def _means(connection: Connection, values: Sequence[ColumnElement[Any]], matching: ColumnElement[bool]) -> list[_Mean]:
    """Return the mean of each field."""
    if not values:
        return []
    aggregates = (part for value in values for part in (func.avg(_summable(value)), func.min(value), func.max(value)))
    row = connection.execute(select(*aggregates).select_from(episode).where(matching)).one()
    return [
        _Mean(float(mean or 0.0), _are_summable(low, high))
        for mean, low, high in zip(row[::3], row[1::3], row[2::3], strict=True)
    ]


def _are_summable(low: float | None, high: float | None) -> bool:
    return max(-(low or 0.0), high or 0.0) <= _MAX_SUMMABLE


def _group_key(connection: Connection, field: Field) -> tuple[ColumnElement[Any], FromClause | None]:
    """Return the expression to group by, and the rows to join for it; None if it is in the table episode."""
    if field.root in _SINGLE_COLUMN_TABLES:
        rows = _SINGLE_COLUMN_TABLES[field.root].alias()
        return rows.c.name, rows
    if field.root == "text":
        raise FilterError(f"expected a field with values to group by, found {field.name!r}")
    if field.many and (rows_and_column := rows_of(connection, field)) is not None:
        selected, column = rows_and_column  # DISTINCT: two notes by one person count once
        values = selected.add_columns(column.label("value")).distinct().subquery()
        return values.c.value, values
    if field.root == "meta":
        return json_scalar(json_element(episode.c.metadata, field.parts)), None
    return value_of(connection, field), None


def _group_value(field: Field, value: Any) -> Scalar | None:
    """Return a group's value: JSON text of metadata is parsed if it is a single value."""
    if field.root == "meta" and value is not None:
        parsed: Scalar = json.loads(value)  # text of one value
        return parsed if storable(parsed) else comparable_number(parsed)
    return bool(value) if field.type is bool and value is not None else value


def _number(connection: Connection, name: str) -> ColumnElement[Any]:
    field = field_of(name)
    if field.many or field.type in (str, bool):
        raise FilterError(f"expected a numeric field, found {field.name!r}")
    number = value_of(connection, field, kind="number")
    return cast(number, Double) if field.root == "meta" else number


def _summable(value: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return the value, NULL for one that is too large to be summed."""
    return case((value.between(-_MAX_SUMMABLE, _MAX_SUMMABLE), value))


def _finite(value: ColumnElement[Any]) -> ColumnElement[Any]:
    return func.nullif(func.nullif(type_coerce(value, value.type), math.inf), -math.inf)
