"""Remember how a location looked whose episodes are all catalogued as they are."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import xxhash
from sqlalchemy import Connection, delete, insert, select

from catalog.database.engine import one_of
from catalog.database.schema import episode, scan
from catalog.values import storable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from catalog.database.roots import Roots


def save(connection: Connection, path: str, state: str, *, count: int, roots: Roots) -> None:
    """Remember the state of a location, if `count` episodes of it are catalogued."""
    ids = _load_ids(connection, path, roots=roots)
    forget(connection, [path], roots=roots)
    if len(ids) == count and count:
        root_id, inside = roots.stored_path(path)
        connection.execute(insert(scan).values(root_id=root_id, path=inside, state=_with_ids(state, ids)))


def load_unchanged(connection: Connection, path: str, state: str, *, roots: Roots) -> array[int] | None:
    """Return the ids of the episodes of a location, in order; None if it, or what the catalog has of it, differs."""
    stored = {
        connection.scalar(select(scan.c.state).where(scan.c.root_id == root_id, scan.c.path == inside))
        for root_id, inside in (roots.stored_paths(path) if storable(path) else ())
    } - {None}
    if not stored:
        return None
    ids = _load_ids(connection, path, roots=roots)
    return ids if stored == {_with_ids(state, ids)} else None


def forget(connection: Connection, paths: Iterable[str], *, roots: Roots) -> None:
    """Forget the states of these locations, since their episodes are registered anew."""
    inside_by_root: dict[int, list[str]] = {}
    for path in paths:
        for root_id, inside in roots.stored_paths(path):
            inside_by_root.setdefault(root_id, []).append(inside)
    for root_id, inside_paths in inside_by_root.items():
        connection.execute(delete(scan).where(scan.c.root_id == root_id, one_of(connection, scan.c.path, inside_paths)))


def _load_ids(connection: Connection, path: str, *, roots: Roots) -> array[int]:
    ids = array("q")
    for root_id, inside in roots.stored_paths(path):
        rows = select(episode.c.id).where(episode.c.root_id == root_id, episode.c.path == inside)
        ids.extend(connection.execute(rows.order_by(episode.c.key)).scalars())
    return ids


def _with_ids(state: str, ids: array[int]) -> str:
    """Return the state with a hash of the ids: episodes that were removed or moved away are noticed."""
    return f"{state} {xxhash.xxh3_128_hexdigest(ids.tobytes())}"
