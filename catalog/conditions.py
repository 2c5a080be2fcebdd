"""Filters as SQL: conditions on the table episode, and fields as expressions.

Knows: in which table each field lives, and how a condition stays two-valued where it is negated. Does not know: what is
selected. Values are always parameters, never text of a statement. `base` is the catalog's folder, None for a server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Select,
    and_,
    case,
    false,
    func,
    literal,
    literal_column,
    not_,
    or_,
    select,
    true,
    union_all,
)

from catalog.dialect import contains, json_element, json_there, json_value, number_at, words_index
from catalog.engine import one_of
from catalog.fields import SPREAD, Field
from catalog.filters import AllOf, AnyOf, Compare, Not, Where
from catalog.matching import OPERATORS
from catalog.places import join, load_roots
from catalog.schema import (
    asset,
    collection,
    document,
    embedding,
    episode,
    finding,
    lane,
    lineage,
    note,
    pick,
    review,
    score,
    snapshot,
    space,
    tag,
)
from catalog.words import phrase

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy.sql.selectable import ScalarSelect


def condition(connection: Connection, where: Where, *, base: str | None) -> ColumnElement[bool]:
    """Return the filter as a condition on the table episode; NULL counts as false."""
    match where:
        case AllOf(parts):
            spoken = [part for part in parts if isinstance(part, Compare) and part.field == "text"]
            others = [condition(connection, part, base=base) for part in parts if part not in spoken]
            return and_(true(), *([_worded(connection, spoken)] if spoken else []), *others)
        case AnyOf(parts):
            return or_(false(), *(condition(connection, part, base=base) for part in parts))
        case Not(part):
            return not_(func.coalesce(condition(connection, part, base=base), false()))
        case Compare():
            return _comparison(connection, where, base=base)
    raise TypeError(f"expected a filter, found {where!r}")


def value_of(connection: Connection, field: Field, *, kind: str = "text", base: str | None) -> ColumnElement[Any]:
    """Return a field of one value as an expression, NULL where it is missing; kind says what metadata is read as."""
    if field.root == "meta":
        return json_value(json_element(episode.c.metadata, field.parts), kind)
    if field.root == "path":
        return _path(connection, base=base)
    if field.root == "lane":
        wanted = (lane.c.episode_row == episode.c.id, lane.c.name == field.parts[0])
        return _only(select(_statistic(field)).where(*wanted))
    if field.root == "score":
        return _only(select(score.c.value).where(score.c.episode_row == episode.c.id, score.c.name == field.parts[0]))
    if field.root in _REVIEW:
        last = select(case((review.c.state.is_not(None), _REVIEW[field.root]))).where(
            review.c.episode_row == episode.c.id
        )
        return _only(last.order_by(review.c.id.desc()).limit(1))
    return episode.c[field.root]


def _comparison(connection: Connection, clause: Compare, *, base: str | None) -> ColumnElement[bool]:
    field = clause.about
    if field.root == "text":
        return _worded(connection, [clause])
    if field.root == "lane":
        found = _test(connection, clause, _statistic(field))
        there = (lane.c.episode_row == episode.c.id, lane.c.name == field.parts[0], found)
        return select(literal_column("1")).where(*there).correlate(episode).exists()
    if field.root in _ELSEWHERE:
        rows, column = _ELSEWHERE[field.root](field)
        return episode.c.id.in_(rows.where(_test(connection, clause, column)))
    if field.root == "collection":
        return episode.c.id.in_(_picked(connection, clause))
    if field.root == "meta" and clause.op == "exists":
        return json_there(json_element(episode.c.metadata, field.parts))
    return _test(connection, clause, value_of(connection, field, kind=clause.kind, base=base))


def _worded(connection: Connection, clauses: Sequence[Compare]) -> ColumnElement[bool]:
    """Return whether an episode has all these words; asked at once, for the index then looks at the rarest first."""
    phrases = [phrase(clause.value) for clause in clauses]
    source, key, found = words_index(connection.dialect.name, document.c.words, document.c.episode_row, phrases)
    return episode.c.id.in_(select(key).select_from(source).where(found))


def _test(connection: Connection, clause: Compare, column: ColumnElement[Any]) -> ColumnElement[bool]:
    """Return the comparison of an expression with the clause's value."""
    if clause.op == "exists":
        return column.is_not(None)
    if clause.op == "in":
        # Lists are bound as of one type, and an integer beyond 2**53 is no float.
        floats = [value for value in clause.values if isinstance(value, float)]
        others = [value for value in clause.values if not isinstance(value, float)]
        return or_(false(), *(one_of(connection, column, part) for part in (floats, others) if part))
    if clause.op == "contains":
        return contains(column, str(clause.value))
    if clause.op == "startswith":
        return _starts_with(column, str(clause.value))
    values = [literal(value, column.type) for value in clause.values]
    if clause.op == "between":
        return and_(column >= values[0], column <= values[1])
    return cast("ColumnElement[bool]", OPERATORS[clause.op](column, values[0]))


def _starts_with(column: ColumnElement[Any], start: str) -> ColumnElement[bool]:
    """Return a range, which an index can answer: text is ordered by code point."""
    bounds = [column >= literal(start)]
    stem = start.rstrip("\U0010ffff")
    if stem:
        after = ord(stem[-1]) + 1
        after = 0xE000 if after == 0xD800 else after  # surrogates are no text
        bounds.append(column < literal(stem[:-1] + chr(after)))
    return and_(*bounds)


def _statistic(field: Field) -> ColumnElement[Any]:
    name = field.parts[1]
    if name not in SPREAD:
        return lane.c[name]
    place = 0 if field.channel is None else field.channel + 1
    return number_at(lane.c.spread, len(SPREAD) * place + SPREAD.index(name))


def _path(connection: Connection, *, base: str | None) -> ColumnElement[Any]:
    """Return the absolute path; there are few roots, and a moved archive has others tomorrow."""
    folders = {
        number: join(folder, "").rstrip("/") + "/"
        for folder, numbers in load_roots(connection, base=base).folders.items()
        for number in numbers
    }
    return case(folders, value=episode.c.root_id, else_="") + episode.c.path if folders else episode.c.path


def _only(statement: Select[Any]) -> ScalarSelect[Any]:
    return statement.correlate(episode).scalar_subquery()


_Rows = tuple[Select[Any], ColumnElement[Any]]


def _tagged(_: Field) -> _Rows:
    return select(tag.c.episode_row), tag.c.name


def _flagged(_: Field) -> _Rows:
    return select(finding.c.episode_row), finding.c.name


def _noted(_: Field) -> _Rows:
    return select(note.c.episode_row).where(note.c.removed_at.is_(None)), note.c.text


def _scored(field: Field) -> _Rows:
    return select(score.c.episode_row).where(score.c.name == field.parts[0]), score.c.value


def _descended(field: Field) -> _Rows:
    return select(lineage.c.episode_row).where(lineage.c.relation == field.parts[0]), lineage.c.source


def _consisting(_: Field) -> _Rows:
    return select(asset.c.episode_row), asset.c.role


def _embedded(_: Field) -> _Rows:
    living = select(embedding.c.episode_row).select_from(embedding.join(space)).where(embedding.c.count.is_not(None))
    return living, space.c.fingerprint


def _reviewed(field: Field) -> _Rows:
    later = review.alias("later")
    last = (
        ~select(literal_column("1"))
        .where(later.c.episode_row == review.c.episode_row, later.c.id > review.c.id)
        .correlate(review)
        .exists()
    )
    return select(review.c.episode_row).where(review.c.state.is_not(None), last), _REVIEW[field.root]


def _picked(connection: Connection, clause: Compare) -> Select[Any]:
    """Return the episodes in the snapshots with one of these names or hashes."""
    rows = select(pick.c.episode_row)
    if clause.op == "exists":
        return rows
    named = select(collection.c.snapshot_id).where(one_of(connection, collection.c.name, clause.values))
    hashed = select(snapshot.c.id).where(one_of(connection, snapshot.c.hash, clause.values))
    return rows.where(pick.c.snapshot_id.in_(union_all(named, hashed)))


_REVIEW: dict[str, Column[Any]] = {"review": review.c.state, "reviewer": review.c.who, "reviewed_at": review.c.at}
_ELSEWHERE: dict[str, Callable[[Field], _Rows]] = {
    "tag": _tagged,
    "flag": _flagged,
    "note": _noted,
    "score": _scored,
    "lineage": _descended,
    "space": _embedded,
    "asset": _consisting,
    **dict.fromkeys(_REVIEW, _reviewed),
}
