"""Iterators over more rows than memory should hold."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from contextlib import AbstractContextManager
from math import isnan
from typing import Final, TypeAlias

from sqlalchemy import Connection, bindparam, literal, select, tuple_

from catalog.database.roots import Roots, join, load_roots, relative
from catalog.database.schema import episode, lane
from catalog.filters.fields import SPREAD
from catalog.values import storable
from wshard.core.episode.protocol import EpisodeAddress, read_as

Read: TypeAlias = Callable[[], AbstractContextManager[Connection]]

CHUNK = 1000

_SPREADS: Final = (  # built once, as each Space needs those of all its lanes, several times
    select(episode.c.id, lane.c.count, lane.c.spread)
    .select_from(episode.join(lane))
    .where(
        episode.c.layout_id == bindparam("layout"),
        episode.c.id > bindparam("last"),
        lane.c.name == bindparam("lane"),
        lane.c.spread.is_not(None),
    )
    .order_by(episode.c.id)
    .limit(CHUNK)
)


def walk_spreads(
    read: Read, layout_id: int, *, lane_name: str, blank: bool
) -> Iterator[tuple[int, int, tuple[float, ...]]]:
    """Yield (episode id, timesteps, the spread of each channel) of the lane in one layout, by episode id.

    blank: also of episodes with channels without numbers, the spreads of which are NaN.
    """
    last = 0
    while True:
        with read() as connection:
            rows = connection.execute(_SPREADS, {"layout": layout_id, "last": last, "lane": lane_name}).all()
        yield from (
            (number, count, spread[len(SPREAD) :])  # without the first one, which is of the whole lane
            for number, count, spread in rows
            if blank or not isnan(sum(spread))
        )
        if len(rows) < CHUNK:
            return
        last = rows[-1][0]


def walk_places(read: Read, prefix: str | None, ignoring: Container[int]) -> Iterator[tuple[int, EpisodeAddress]]:
    """Yield (episode id, address) of the episodes at or below the prefix, root by root; None: of all."""
    with read() as connection:
        roots = load_roots(connection)
    for folder, root_id, inside in _below(roots, prefix):
        if _are_all_in(read, root_id, ignoring):
            continue  # as after every ingest that found everything: an address of each would take most of its time
        for number, path, key, reading_options in _walk_root(read, root_id, inside=inside):
            if number not in ignoring:
                yield number, EpisodeAddress(join(folder, path), key, reading_options)


def _are_all_in(read: Read, root_id: int, ids: Container[int]) -> bool:
    statement = select(episode.c.id).where(episode.c.root_id == root_id)
    with read() as connection, connection.execute(statement, execution_options={"yield_per": CHUNK}) as rows:
        return all(number in ids for number in rows.scalars())


def _below(roots: Roots, prefix: str | None) -> Iterator[tuple[str, int, str]]:
    """Yield (root's folder, its id, the part of it that lies below the prefix); "" is all of it."""
    for folder, numbers in roots.folders.items():
        is_inside = prefix is None or relative(folder, prefix) is not None
        inside = "" if is_inside else relative(prefix or "", folder)
        if inside is not None:
            yield from ((folder, number, inside) for number in numbers)


def _walk_root(read: Read, root_id: int, *, inside: str) -> Iterator[tuple[int, str, str, str]]:
    if not storable(inside):
        return
    position = tuple_(episode.c.path, episode.c.key)
    last_position, exclusive = (inside, ""), False
    while True:
        start = tuple_(literal(last_position[0]), literal(last_position[1]))
        columns = (episode.c[name] for name in ("id", "path", "key", "format", "lane_map"))
        statement = select(*columns).where(
            episode.c.root_id == root_id, position > start if exclusive else position >= start
        )
        # "0" follows "/": between them lie the paths of the folder, after paths such as "folder-2".
        if inside:
            statement = statement.where(episode.c.path < inside + "0")
        with read() as connection:
            rows = connection.execute(statement.order_by(episode.c.path, episode.c.key).limit(CHUNK)).all()
        for number, path, key, *format_columns in rows:
            if not inside or path == inside or path.startswith(inside + "/"):
                yield number, path, key, read_as(*format_columns)
        if len(rows) < CHUNK:
            return
        last_position, exclusive = (rows[-1][1], rows[-1][2]), True
