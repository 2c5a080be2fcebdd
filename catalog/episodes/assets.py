"""The files of episodes that consist of several."""

from __future__ import annotations

import posixpath
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection, Select, delete, insert, select, update

from catalog.curation.annotations import index_words, join_reviews
from catalog.database.bulk_rows import append
from catalog.database.engine import among_listed, listed, one_of
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
    """Write the files of these episodes, by id, in the place of those that were known."""
    several = {number: record for number, record in episodes if record.assets}
    if not several:
        return
    connection.execute(delete(asset).where(one_of(connection, asset.c.episode_row, several)))
    rows = [
        (number, position, one.role, relative(one.path, _folder(record.path)), one.digest, one.size, one.mtime_ns)
        for number, record in several.items()
        for position, one in enumerate(record.assets)
    ]
    append(connection, asset, _COLUMNS, rows)


def load_parts(connection: Connection, places: Mapping[int, str]) -> dict[int, tuple[Asset, ...]]:
    """Return the files of the episodes that have several; places: path of each by its id."""
    if not places:
        return {}
    statement, parameters = _parts(connection.dialect.name), listed(connection, [*places])
    found: dict[int, list[Asset]] = {}
    for number, _, role, path, *facts in connection.execute(statement, parameters):
        found.setdefault(number, []).append(Asset(role, join(_folder(places[number]), path), *facts))
    return {number: tuple(files) for number, files in found.items()}


@lru_cache(maxsize=2)
def _parts(product: str) -> Select[Any]:
    """Return the cached statement for the files of episodes, which searches by a path use."""
    columns = [asset.c[name] for name in _COLUMNS]
    return select(*columns).where(among_listed(product, asset.c.episode_row)).order_by(*columns[:2])


def load_assets(connection: Connection, rows: Iterable[EpisodeRow]) -> dict[int, tuple[Asset, ...]]:
    """Return the files of these episodes: one for most."""
    episodes = list(rows)
    several = load_parts(connection, {row.id: row.path for row in episodes})
    return {row.id: several.get(row.id) or (_whole(row),) for row in episodes}


def _whole(row: EpisodeRow) -> Asset:
    return Asset(WHOLE, row.path, row.digest, row.size, row.mtime_ns, row.key, row.address.read_as)


def inherit(connection: Connection, heir: int, *, parts: Collection[int]) -> None:
    """Transfer the annotations of episodes to the one that they turned out to be parts of."""
    for table in (note, review):
        connection.execute(update(table).where(one_of(connection, table.c.episode_row, parts)).values(episode_row=heir))
    for table in (tag, lineage):
        _add_distinct(connection, table, heir, parts)
    join_reviews(connection, heir)
    index_words(connection, [heir])


def _add_distinct(connection: Connection, table: Table, heir: int, parts: Collection[int]) -> None:
    said = [column for column in table.c if column.name != "episode_row"]
    theirs, mine = (
        {tuple(row) for row in connection.execute(select(*said).where(one_of(connection, table.c.episode_row, whose)))}
        for whose in (parts, [heir])
    )
    names = [column.name for column in said]
    if fresh := sorted(theirs - mine):
        rows = [{"episode_row": heir, **dict(zip(names, row, strict=True))} for row in fresh]
        connection.execute(insert(table), rows)


def _folder(path: str) -> str:
    return posixpath.dirname(path)
