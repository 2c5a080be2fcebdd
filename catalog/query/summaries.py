"""Episodes in numbers: facets, histograms, statistics by group.

`base` is the catalog's folder, None for a server.
"""

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
from wshard.arguments import whole_number
from wshard.errors import FilterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog.filters.where import Where

MAX_BINS = 1000

_ONCE: Final = MappingProxyType({"tag": tag, "flag": finding})
"""Where an episode holds each value of a field once, in a column `name` that an index gives in order."""

_FAR: Final = 1e6
"""Squared distance from a centre, in variances, within which sums keep some nine digits of the variance."""

_MOST: Final = 1e140
"""Up to here sums of squares over any archive, and what the products make of them on the way, are floats."""


def load_facet(connection: Connection, name: str, *, where: Where, limit: int | None, base: str | None) -> Facet:
    """Return (value, episodes) of a field among the matching ones, the most frequent first; None counts the missing."""
    field = field_of(name)
    limit = None if limit is None else whole_number(limit, "limit", FilterError, least=0)
    if field.root in REVIEW and (reviewed := rows_of(connection, field, base=base)) is not None:
        return load_reviewed(connection, reviewed, where, base=base)[:limit]
    (column,), source = _keys(connection, [name], base=base)
    statement = select(column, func.count()).select_from(source).where(condition(connection, where, base=base))
    statement = statement.group_by(column).order_by(func.count().desc(), column.asc().nulls_first()).limit(limit)
    return [(_plain(field, value), int(count)) for value, count in connection.execute(statement)]


def load_histogram(connection: Connection, name: str, *, where: Where, bins: int, base: str | None) -> Histogram:
    """Return the distribution of a numeric field among the matching episodes, in ranges of equal width."""
    bins = whole_number(bins, "bins", FilterError, least=1)
    if bins > MAX_BINS:
        raise FilterError(f"expected 1 to {MAX_BINS} bins, found {bins}")
    value = _number(connection, name, base=base)
    wanted = condition(connection, where, base=base)
    finite = (value >= -MAX_FLOAT, value <= MAX_FLOAT)
    total = connection.execute(select(func.count()).select_from(episode).where(wanted)).scalar_one()
    ends = select(func.min(value), func.max(value)).select_from(episode).where(wanted, *finite)
    low, high = connection.execute(ends).one()
    if low is None:
        return Histogram((), (), int(total))
    low, high = float(low), float(high)
    width = high / bins - low / bins
    place = bin_of(value, low, high, bins=bins) if width else literal(0)
    statement = select(place, func.count()).select_from(episode).where(wanted, *finite).group_by(place)
    counts = [0] * (bins if width else 1)
    for number, count in connection.execute(statement):
        counts[max(0, min(int(number), len(counts) - 1))] += int(count)
    edges = (*(float(low + number * width) for number in range(len(counts))), float(high))
    return Histogram(edges, tuple(counts), int(total) - sum(counts))


MAX_FLOAT = math.nextafter(math.inf, 0)


def load_groups(
    connection: Connection, names: Sequence[str], *, by: Sequence[str], where: Where, base: str | None
) -> list[Group]:
    """Return a group per combination of values of the fields `by`, the largest first; infinities count as missing."""
    keys, source = _keys(connection, by, base=base)
    wanted = condition(connection, where, base=base)
    values = [_number(connection, name, base=base) for name in names]
    selections = [
        _Selection.around(value, mean) for value, mean in zip(values, _means(connection, values, wanted), strict=True)
    ]
    fields = [field_of(name) for name in by]

    def groups(statement: Select[Any]) -> list[tuple[tuple[Scalar | None, ...], int, list[_Sums]]]:
        return [
            (
                tuple(_plain(field, value) for field, value in zip(fields, row[: len(by)], strict=True)),
                int(row[len(by)]),
                [_Sums(*row[place : place + 6]) for place in range(len(by) + 1, len(row), 6)],
            )
            for row in connection.execute(statement)
        ]

    found = groups(_summed(keys, selections).select_from(source).where(wanted))
    if by and any(sums.are_vague for _, _, of_group in found for sums in of_group):
        found = groups(_summed(*_centred(keys, selections, source, wanted)))  # takes several times as long
    return [
        Group(key, episodes, {name: sums.summary() for name, sums in zip(names, of_group, strict=True)})
        for key, episodes, of_group in found
    ]


class _Selection(NamedTuple):
    """Summary of a field: its values, and the values summed relative to a centre.

    shown: the centre, as one value of a group.
    """

    value: ColumnElement[Any]
    addend: ColumnElement[Any]
    centre: ColumnElement[Any]
    shown: ColumnElement[Any]

    @classmethod
    def around(cls, value: ColumnElement[Any], mean: _Mean) -> _Selection:
        """Ask for values with one centre for all groups."""
        centre: ColumnElement[Any] = literal(mean.value, Double())
        if mean.of_all:
            return cls(value, value, centre, centre)
        return cls(_finite(value), _summable(value), centre, centre)  # twice as long

    @property
    def columns(self) -> tuple[ColumnElement[Any], ...]:
        """What _Sums take."""
        apart = self.addend - self.centre  # sums of squares around some mean lose no digits
        sums = func.sum(apart), func.sum(square(apart))
        return func.count(self.value), func.min(self.value), func.max(self.value), self.shown, *sums


def _summed(keys: Sequence[ColumnElement[Any]], selections: Sequence[_Selection]) -> Select[Any]:
    """Return the question for keys, episodes and _Sums of every group, the largest first."""
    statement = select(*keys, func.count(), *(column for one in selections for column in one.columns)).group_by(*keys)
    return statement.order_by(func.count().desc(), *(key.asc().nulls_first() for key in keys))


def _centred(
    keys: Sequence[ColumnElement[Any]],
    selections: Sequence[_Selection],
    source: FromClause,
    wanted: ColumnElement[bool],
) -> tuple[list[ColumnElement[Any]], list[_Selection]]:
    """Return keys and summaries, with the mean of each group as its centre."""
    columns = [*keys]
    for one in selections:
        columns += [one.value, one.addend, func.avg(cast(one.addend, Double)).over(partition_by=keys)]
    named = [column.label(f"c{number}") for number, column in enumerate(columns)]
    of_rows = [*select(*named).select_from(source).where(wanted).subquery().c]
    of_fields = (of_rows[place : place + 3] for place in range(len(keys), len(of_rows), 3))
    return of_rows[: len(keys)], [_Selection(value, addend, mean, func.min(mean)) for value, addend, mean in of_fields]


@dataclass(frozen=True)
class _Sums:
    """Values of one group summed up: total and squares are of what they are apart from the centre."""

    count: int
    low: float | None
    high: float | None
    centre: float | None
    total: float | None
    squares: float | None

    @property
    def _moments(self) -> tuple[float, float]:
        """Mean and variance of what the values are apart from the centre."""
        offset = (self.total or 0.0) / self.count
        return offset, max(0.0, (self.squares or 0.0) / self.count - offset * offset)

    @property
    def are_vague(self) -> bool:
        """Whether the values are so far from the centre that little is left of their spread."""
        if not self.count or self.low == self.high or not _are_summable(self.low, self.high):
            return False
        offset, variance = self._moments
        return offset * offset > _FAR * variance

    def summary(self) -> NumberSummary:
        """Return what the values are like."""
        if not self.count or self.low is None or self.high is None:
            return NumberSummary(0, None, None, None, None)
        if self.low == self.high:
            return NumberSummary(int(self.count), float(self.low), 0.0, float(self.low), float(self.high))
        if not _are_summable(self.low, self.high):  # total and squares lack some
            return NumberSummary(int(self.count), None, None, float(self.low), float(self.high))
        offset, variance = self._moments
        mean = float((self.centre or 0.0) + offset)
        return NumberSummary(int(self.count), mean, math.sqrt(variance), float(self.low), float(self.high))


def _keys(
    connection: Connection, by: Sequence[str], *, base: str | None
) -> tuple[list[ColumnElement[Any]], FromClause]:
    keys: list[ColumnElement[Any]] = []
    source: FromClause = episode
    for name in by:
        key, rows = _grouped(connection, field_of(name), base=base)
        keys.append(key)
        if rows is not None:
            source = source.join(rows, rows.c.episode_row == episode.c.id)
    return keys, source


class _Mean(NamedTuple):
    """The mean of a field's values, or about that, and whether all of them are finite and can be summed up."""

    value: float
    of_all: bool


def _means(connection: Connection, values: Sequence[ColumnElement[Any]], wanted: ColumnElement[bool]) -> list[_Mean]:
    """Return the mean of each field."""
    if not values:
        return []
    selections = (shown for value in values for shown in (func.avg(_summable(value)), func.min(value), func.max(value)))
    found = connection.execute(select(*selections).select_from(episode).where(wanted)).one()
    return [
        _Mean(float(mean or 0.0), _are_summable(low, high))
        for mean, low, high in zip(found[::3], found[1::3], found[2::3], strict=True)
    ]


def _are_summable(low: float | None, high: float | None) -> bool:
    return max(-(low or 0.0), high or 0.0) <= _MOST


def _grouped(connection: Connection, field: Field, *, base: str | None) -> tuple[ColumnElement[Any], FromClause | None]:
    """Return the values of a field, and the rows to join that hold them unless an episode itself does."""
    if field.root in _ONCE:
        rows = _ONCE[field.root].alias()
        return rows.c.name, rows
    if field.root == "text":
        raise FilterError(f"expected a field with values to group by, found {field.name!r}")
    if field.many and (many := rows_of(connection, field, base=base)) is not None:
        found, column = many  # two notes by one person count once
        values = found.add_columns(column.label("value")).distinct().subquery()
        return values.c.value, values
    if field.root == "meta":
        return json_scalar(json_element(episode.c.metadata, field.parts)), None
    return value_of(connection, field, base=base), None


def _plain(field: Field, value: Any) -> Scalar | None:
    """Return a group's value: JSON text of metadata is parsed if it is a single value."""
    if field.root == "meta" and value is not None:
        found: Scalar = json.loads(value)  # text of one value
        return found if storable(found) else comparable_number(found)
    return bool(value) if field.type is bool and value is not None else value


def _number(connection: Connection, name: str, *, base: str | None) -> ColumnElement[Any]:
    field = field_of(name)
    if field.many or field.type in (str, bool):
        raise FilterError(f"expected a numeric field, found {field.name!r}")
    found = value_of(connection, field, kind="number", base=base)
    return cast(found, Double) if field.root == "meta" else found


def _summable(value: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return the value, NULL for one that takes no part in sums."""
    return case((value.between(-_MOST, _MOST), value))


def _finite(value: ColumnElement[Any]) -> ColumnElement[Any]:
    return func.nullif(func.nullif(type_coerce(value, value.type), math.inf), -math.inf)
