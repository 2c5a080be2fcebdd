"""Fields as SQL: the table of each field, and the expression that reads it."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Column, ColumnElement, Connection, Select, case, cast, func, literal_column, null, select

from catalog.database.column_types import TEXT
from catalog.database.roots import load_roots
from catalog.database.schema import (
    asset,
    collection,
    embedding,
    episode,
    finding,
    lane,
    layout,
    lineage,
    note,
    pick,
    review,
    score,
    space,
    tag,
)
from catalog.database.sql_functions import folder_of, json_element, json_value, number_at
from catalog.filters.evaluate import shape_text
from catalog.filters.fields import SPREAD, Field

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


Rows = tuple[Select[Any], ColumnElement[Any]]
"""A statement for the ids of episodes, one row per value of a field, and the column with the value."""


def value_of(connection: Connection, field: Field, *, kind: str = "text") -> ColumnElement[Any]:
    """Return a single-valued field as an expression, NULL if missing; kind is the type to read metadata as."""
    if field.root == "meta":
        return json_value(json_element(episode.c.metadata, field.parts), kind)
    if (by_key := values_by_key(connection, field)) is not None:
        return _case_of(*by_key)
    if field.root == "path":
        return _path(connection)
    if field.root == "folder":
        return _folder(connection)
    if field.root in _SELECTS:
        return _SELECTS[field.root](field).correlate(episode).scalar_subquery()
    return episode.c[field.root]


def rows_of(connection: Connection, field: Field) -> Rows | None:
    """Return the indexed table of a field's values, None if they are in the episode itself."""
    if field.root == "asset_path":
        rows = select(asset.c.episode_row).select_from(asset.join(episode)).correlate(None)
        return rows, folder_of(_path(connection)) + asset.c.path
    return _ROWS[field.root](field) if field.root in _ROWS else None


def values_by_key(connection: Connection, field: Field) -> tuple[ColumnElement[int], dict[int, str]] | None:
    """Return (key column, {key: value}) of a field whose value depends on a root or layout only; None for others."""
    if field.root == "root":
        return episode.c.root_id, _folders(connection)
    if field.root == "lane" and field.parts[1] in ("dtype", "shape"):
        return episode.c.layout_id, _lane_types_by_layout(connection, *field.parts)
    return None


def depends_on_data(field: Field) -> bool:
    """Return True if the SQL of such a field depends on the contents of the database, which may change."""
    return field.root in ("root", "path", "folder", "asset_path") or (
        field.root == "lane" and field.parts[1] in ("dtype", "shape")
    )


def statistic(field: Field) -> ColumnElement[Any]:
    """Return a statistic of a lane as an expression on the table lane."""
    name = field.parts[1]
    if name not in SPREAD:
        return lane.c[name]
    index = 0 if field.channel is None else field.channel + 1
    return number_at(lane.c.spread, len(SPREAD) * index + SPREAD.index(name))


def _lane_types_by_layout(connection: Connection, lane_name: str, property_: str) -> dict[int, str]:
    """Return the dtype or shape of a lane by the id of each layout that has the lane; there are few layouts."""
    return {
        number: dtype if property_ == "dtype" else shape_text(shape)
        for number, definition in connection.execute(select(layout.c.id, layout.c.definition))
        for name, dtype, shape, *_ in json.loads(definition)
        if name == lane_name
    }


def _folders(connection: Connection) -> dict[int, str]:
    """Return the absolute folder of each root id; read each time, as folders change when an archive is moved."""
    folders = load_roots(connection).folders.items()
    return {number: folder for folder, numbers in folders for number in numbers}


def _path(connection: Connection) -> ColumnElement[Any]:
    return _prefix(connection) + episode.c.path


def _folder(connection: Connection) -> ColumnElement[Any]:
    folder = func.rtrim(_prefix(connection) + folder_of(episode.c.path), "/", type_=TEXT)
    return func.coalesce(func.nullif(folder, "", type_=TEXT), "/", type_=TEXT)


def _prefix(connection: Connection) -> ColumnElement[Any]:
    """Return what stands before the stored path: the folder of the root, with the trailing slash."""
    folders = _folders(connection).items()
    return _case_of(episode.c.root_id, {number: folder.rstrip("/") + "/" for number, folder in folders})


def _case_of(key: ColumnElement[int], values: Mapping[int, str]) -> ColumnElement[Any]:
    """Return the text of a key as a CASE expression, compared by code point like a column; NULL for unknown keys."""
    return cast(case(values, value=key) if values else null(), TEXT)


def _select_lane_statistic(field: Field) -> Select[Any]:
    return select(statistic(field)).where(lane.c.episode_row == episode.c.id, lane.c.name == field.parts[0])


def _select_score(field: Field) -> Select[Any]:
    return select(score.c.value).where(score.c.episode_row == episode.c.id, score.c.name == field.parts[0])


def _select_last_review(field: Field) -> Select[Any]:
    last = select(case((review.c.state.is_not(None), REVIEW[field.root]))).where(review.c.episode_row == episode.c.id)
    return last.order_by(review.c.id.desc()).limit(1)


def _table_rows(column: Column[Any]) -> Rows:
    return select(column.table.c.episode_row), column


def _note_rows(column: Column[Any]) -> Rows:
    return select(note.c.episode_row).where(note.c.removed_at.is_(None)), column


def _score_rows(field: Field) -> Rows:
    return select(score.c.episode_row).where(score.c.name == field.parts[0]), score.c.value


def _lineage_rows(field: Field) -> Rows:
    return select(lineage.c.episode_row).where(lineage.c.relation == field.parts[0]), lineage.c.source


def _embedding_rows(column: Column[Any]) -> Rows:
    rows = select(embedding.c.episode_row).select_from(embedding.join(space)).where(embedding.c.count.is_not(None))
    return rows, column


def _review_rows(field: Field) -> Rows:
    later = review.alias("later")
    last = (
        ~select(literal_column("1"))
        .where(later.c.episode_row == review.c.episode_row, later.c.id > review.c.id)
        .correlate(review)
        .exists()
    )
    return select(review.c.episode_row).where(review.c.state.is_not(None), last), REVIEW[field.root]


def _collection_rows(_: Field) -> Rows:
    picks = pick.join(collection, collection.c.snapshot_id == pick.c.snapshot_id)
    return select(pick.c.episode_row).select_from(picks), collection.c.name


REVIEW: Final[Mapping[str, Column[Any]]] = MappingProxyType(
    {"review": review.c.state, "reviewer": review.c.who, "reviewed_at": review.c.at}
)
_SELECTS: Final[Mapping[str, Callable[[Field], Select[Any]]]] = MappingProxyType(
    {"lane": _select_lane_statistic, "score": _select_score, **dict.fromkeys(REVIEW, _select_last_review)}
)
_ROWS: Final[Mapping[str, Callable[[Field], Rows]]] = MappingProxyType(
    {
        "tag": lambda _: _table_rows(tag.c.name),
        "flag": lambda _: _table_rows(finding.c.name),
        "note": lambda _: _note_rows(note.c.text),
        "note_by": lambda _: _note_rows(note.c.who),
        "note_at": lambda _: _note_rows(note.c.at),
        "collection": _collection_rows,
        "score": _score_rows,
        "lineage": _lineage_rows,
        "space": lambda _: _embedding_rows(space.c.fingerprint),
        "space_family": lambda _: _embedding_rows(space.c.family),
        "space_state": lambda _: _embedding_rows(space.c.state),
        "vectors": lambda _: _embedding_rows(embedding.c.count),
        "asset": lambda _: _table_rows(asset.c.role),
        "asset_digest": lambda _: _table_rows(asset.c.digest),
        "asset_size": lambda _: _table_rows(asset.c.size),
        "asset_mtime_ns": lambda _: _table_rows(asset.c.mtime_ns),
        **dict.fromkeys(REVIEW, _review_rows),
    }
)
