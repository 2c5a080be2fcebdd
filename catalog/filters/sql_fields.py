"""Fields as SQL: in which table each lives, and how it is read from there.

`base` is the catalog's folder, None for a server.
"""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Column, ColumnElement, Connection, Select, case, cast, literal_column, null, select

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
"""The ids of the episodes that have a value, once for each of these, and the column that holds it."""


def value_of(connection: Connection, field: Field, *, kind: str = "text", base: str | None) -> ColumnElement[Any]:
    """Return a single-valued field as an expression, NULL if missing; kind is the type to read metadata as."""
    if field.root == "meta":
        return json_value(json_element(episode.c.metadata, field.parts), kind)
    if (shared := shared_by(connection, field, base=base)) is not None:
        return _chosen(*shared)
    if field.root == "path":
        return _path(connection, base=base)
    if field.root in _ASKED:
        return _ASKED[field.root](field).correlate(episode).scalar_subquery()
    return episode.c[field.root]


def rows_of(connection: Connection, field: Field, *, base: str | None) -> Rows | None:
    """Return the indexed table of a field's values, None if they are in the episode itself."""
    if field.root == "asset_path":
        rows = select(asset.c.episode_row).select_from(asset.join(episode)).correlate(None)
        return rows, folder_of(_path(connection, base=base)) + asset.c.path
    return _ROWS[field.root](field) if field.root in _ROWS else None


def shared_by(
    connection: Connection, field: Field, *, base: str | None
) -> tuple[ColumnElement[int], dict[int, str]] | None:
    """Return, of a field that few values of a key decide, this key and what the field is for each; None of others."""
    if field.root == "root":
        return episode.c.root_id, _folders(connection, base=base)
    if field.root == "lane" and field.parts[1] in ("dtype", "shape"):
        return episode.c.layout_id, _by_layout(connection, *field.parts)
    return None


def is_looked_up(field: Field) -> bool:
    """Return True if the SQL of such a field depends on the contents of the database, which may change."""
    return field.root in ("root", "path", "asset_path") or (
        field.root == "lane" and field.parts[1] in ("dtype", "shape")
    )


def statistic(field: Field) -> ColumnElement[Any]:
    """Return a statistic of a lane as an expression on the table lane."""
    name = field.parts[1]
    if name not in SPREAD:
        return lane.c[name]
    place = 0 if field.channel is None else field.channel + 1
    return number_at(lane.c.spread, len(SPREAD) * place + SPREAD.index(name))


def _by_layout(connection: Connection, wanted: str, about: str) -> dict[int, str]:
    """Return the dtype or the shape of a lane by the id of each layout that has it; there are few layouts."""
    return {
        number: dtype if about == "dtype" else shape_text(shape)
        for number, definition in connection.execute(select(layout.c.id, layout.c.definition))
        for name, dtype, shape in json.loads(definition)
        if name == wanted
    }


def _folders(connection: Connection, *, base: str | None) -> dict[int, str]:
    """Return the absolute folder of each root; there are few, and a moved archive has others tomorrow."""
    folders = load_roots(connection, base=base).folders.items()
    return {number: folder for folder, numbers in folders for number in numbers}


def _path(connection: Connection, *, base: str | None) -> ColumnElement[Any]:
    folders = _folders(connection, base=base).items()
    begins = {number: folder.rstrip("/") + "/" for number, folder in folders}
    return _chosen(episode.c.root_id, begins) + episode.c.path


def _chosen(key: ColumnElement[int], values: Mapping[int, str]) -> ColumnElement[Any]:
    """Return the text under a key, compared by code point like a column; NULL for another key."""
    return cast(case(values, value=key) if values else null(), TEXT)


def _asked_lane(field: Field) -> Select[Any]:
    return select(statistic(field)).where(lane.c.episode_row == episode.c.id, lane.c.name == field.parts[0])


def _asked_score(field: Field) -> Select[Any]:
    return select(score.c.value).where(score.c.episode_row == episode.c.id, score.c.name == field.parts[0])


def _asked_review(field: Field) -> Select[Any]:
    last = select(case((review.c.state.is_not(None), REVIEW[field.root]))).where(review.c.episode_row == episode.c.id)
    return last.order_by(review.c.id.desc()).limit(1)


def _rows(column: Column[Any]) -> Rows:
    return select(column.table.c.episode_row), column


def _noted(column: Column[Any]) -> Rows:
    return select(note.c.episode_row).where(note.c.removed_at.is_(None)), column


def _scored(field: Field) -> Rows:
    return select(score.c.episode_row).where(score.c.name == field.parts[0]), score.c.value


def _descended(field: Field) -> Rows:
    return select(lineage.c.episode_row).where(lineage.c.relation == field.parts[0]), lineage.c.source


def _embedded(column: Column[Any]) -> Rows:
    living = select(embedding.c.episode_row).select_from(embedding.join(space)).where(embedding.c.count.is_not(None))
    return living, column


def _reviewed(field: Field) -> Rows:
    later = review.alias("later")
    last = (
        ~select(literal_column("1"))
        .where(later.c.episode_row == review.c.episode_row, later.c.id > review.c.id)
        .correlate(review)
        .exists()
    )
    return select(review.c.episode_row).where(review.c.state.is_not(None), last), REVIEW[field.root]


def _named(_: Field) -> Rows:
    picks = pick.join(collection, collection.c.snapshot_id == pick.c.snapshot_id)
    return select(pick.c.episode_row).select_from(picks), collection.c.name


REVIEW: Final[Mapping[str, Column[Any]]] = MappingProxyType(
    {"review": review.c.state, "reviewer": review.c.who, "reviewed_at": review.c.at}
)
_ASKED: Final[Mapping[str, Callable[[Field], Select[Any]]]] = MappingProxyType(
    {"lane": _asked_lane, "score": _asked_score, **dict.fromkeys(REVIEW, _asked_review)}
)
_ROWS: Final[Mapping[str, Callable[[Field], Rows]]] = MappingProxyType(
    {
        "tag": lambda _: _rows(tag.c.name),
        "flag": lambda _: _rows(finding.c.name),
        "note": lambda _: _noted(note.c.text),
        "note_by": lambda _: _noted(note.c.who),
        "note_at": lambda _: _noted(note.c.at),
        "collection": _named,
        "score": _scored,
        "lineage": _descended,
        "space": lambda _: _embedded(space.c.fingerprint),
        "space_family": lambda _: _embedded(space.c.family),
        "space_state": lambda _: _embedded(space.c.state),
        "vectors": lambda _: _embedded(embedding.c.count),
        "asset": lambda _: _rows(asset.c.role),
        "asset_digest": lambda _: _rows(asset.c.digest),
        "asset_size": lambda _: _rows(asset.c.size),
        "asset_mtime_ns": lambda _: _rows(asset.c.mtime_ns),
        **dict.fromkeys(REVIEW, _reviewed),
    }
)
