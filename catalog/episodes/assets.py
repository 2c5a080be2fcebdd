"""The files of episodes that consist of several."""

from __future__ import annotations

import posixpath
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection, Select, delete, insert, select, update

from catalog.curation.annotations import join_reviews, refresh_words
from catalog.database.bulk_rows import insert_rows
from catalog.database.engine import in_parameter, list_parameter, one_of
from catalog.database.roots import join, relative
from catalog.database.schema import asset, lineage, note, review, tag
from catalog.records import Asset

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from sqlalchemy import Table

    from catalog.episode_record import EpisodeRecord
    from catalog.records import EpisodeRow

WHOLE: Final = "episode"
"""The role of a file that is an episode by itself."""

_COLUMNS: Final = ("episode_row", "position", "role", "path", "digest", "size", "mtime_ns")


def write_assets(connection: Connection, episodes: Iterable[tuple[int, EpisodeRecord]]) -> None:
    """Write the files of these episodes, by id, replacing the stored ones."""
    records = {number: record for number, record in episodes if record.assets}
    if not records:
        return
    connection.execute(delete(asset).where(one_of(connection, asset.c.episode_row, records)))
    rows = [
        (number, position, file.role, relative(file.path, _folder(record.path)), file.digest, file.size, file.mtime_ns)
        for number, record in records.items()
        for position, file in enumerate(record.assets)
    ]
    insert_rows(connection, asset, _COLUMNS, rows)


def load_parts(connection: Connection, paths: Mapping[int, str]) -> dict[int, tuple[Asset, ...]]:
    """Return the files of the episodes that have several; paths: {episode id: path}."""
    if not paths:
        return {}
    statement, parameters = _parts(connection.dialect.name), list_parameter(connection, [*paths])
    files_by_episode: dict[int, list[Asset]] = {}
    for number, _, role, path, *facts in connection.execute(statement, parameters):
        files_by_episode.setdefault(number, []).append(Asset(role, join(_folder(paths[number]), path), *facts))
    return {number: tuple(files) for number, files in files_by_episode.items()}


@lru_cache(maxsize=2)
def _parts(product: str) -> Select[Any]:
    """Return the cached statement for the files of episodes, which searches by a path use."""
    columns = [asset.c[name] for name in _COLUMNS]
    return select(*columns).where(in_parameter(product, asset.c.episode_row)).order_by(*columns[:2])


def load_assets(connection: Connection, rows: Iterable[EpisodeRow]) -> dict[int, tuple[Asset, ...]]:
    """Return the files of these episodes: one for most."""
    episodes = list(rows)
    several = load_parts(connection, {row.id: row.path for row in episodes})
    return {row.id: several.get(row.id) or (_whole(row),) for row in episodes}


def _whole(row: EpisodeRow) -> Asset:
    return Asset(WHOLE, row.path, row.digest, row.size, row.mtime_ns, row.key, row.address.read_as)


def transfer_annotations(connection: Connection, target: int, *, parts: Collection[int]) -> None:
    """Transfer the annotations of episodes to the one that they turned out to be parts of."""
    for table in (note, review):
        connection.execute(
            update(table).where(one_of(connection, table.c.episode_row, parts)).values(episode_row=target)
        )
    for table in (tag, lineage):
        _add_distinct(connection, table, target, parts)
    join_reviews(connection, target)
    refresh_words(connection, [target])


def _add_distinct(connection: Connection, table: Table, target: int, parts: Collection[int]) -> None:
    columns = [column for column in table.c if column.name != "episode_row"]
    part_rows, target_rows = (
        {tuple(row) for row in connection.execute(select(*columns).where(one_of(connection, table.c.episode_row, ids)))}
        for ids in (parts, [target])
    )
    names = [column.name for column in columns]
    if new_rows := sorted(part_rows - target_rows):
        rows = [{"episode_row": target, **dict(zip(names, row, strict=True))} for row in new_rows]
        connection.execute(insert(table), rows)


def _folder(path: str) -> str:
    return posixpath.dirname(path)
