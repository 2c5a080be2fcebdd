"""Short names of episodes: the id, and where several have it, the set that it is from: `pusht/episode_000000`."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Protocol

from sqlalchemy import func, select

from catalog.database.engine import one_of
from catalog.database.roots import absolute, base_of, join
from catalog.database.schema import episode, root
from wshard.core.episode.protocol import EpisodeAddress

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import Connection


class Placed(Protocol):
    """An episode with its id, the name that no other has, and its address."""

    @property
    def episode_id(self) -> str:
        """Its id, by its own data."""

    @property
    def uid(self) -> str:
        """Its name in the catalog."""

    @property
    def address(self) -> EpisodeAddress:
        """Where it is."""


def short_names(connection: Connection, episodes: Sequence[Placed]) -> list[str]:
    """Return a name for each episode that no other of the catalog has, as short as that can be."""
    namesakes = _namesakes(connection, {one.episode_id for one in episodes})
    names = []
    for one in episodes:
        others = namesakes.get(one.episode_id)
        name = others and next((text for text, count in _candidates(one, others) if count == 1), one.uid)
        names.append(name or one.episode_id)
    return names


def split_name(name: str) -> dict[str, tuple[str, ...]]:
    """Return the sets by the ids that a short name may consist of: the ids may have a / of their own."""
    parts = name.split("/")
    return {"/".join(parts[at:]): tuple(parts[:at]) for at in range(1, len(parts))}


def is_of_set(one: Placed, set_: tuple[str, ...]) -> bool:
    """Return whether the end of an episode's place has the names of a set."""
    return _set_of(one.episode_id, one.address)[-len(set_) :] == set_


def _namesakes(connection: Connection, ids: set[str]) -> dict[str, Counter[tuple[str, ...]]]:
    """Return the sets of the episodes of each of these ids that several episodes have, by all ends of their names."""
    has_id = one_of(connection, episode.c.episode_id, ids)
    several = select(episode.c.episode_id).where(has_id).group_by(episode.c.episode_id).having(func.count() > 1)
    repeated = connection.execute(several).scalars().all()
    if not repeated:
        return {}
    columns = (episode.c.episode_id, episode.c.path, episode.c.key, root.c.place, root.c.inside)
    is_repeated = one_of(connection, episode.c.episode_id, repeated)
    rows = select(*columns).select_from(episode.outerjoin(root)).where(is_repeated)
    base, found = base_of(connection), defaultdict[str, Counter[tuple[str, ...]]](Counter)
    for id_, path, key, place, inside in connection.execute(rows):
        address = EpisodeAddress(join(absolute(base, place, inside=inside), path), key)
        found[id_].update(_ends(_set_of(id_, address)))
    return found


def _candidates(one: Placed, others: Counter[tuple[str, ...]]) -> Iterator[tuple[str, int]]:
    """Yield names of an episode, the shortest first, and how many episodes have each."""
    for end in _ends(_set_of(one.episode_id, one.address)):
        yield "/".join([*end, one.episode_id]), others[end]


def _ends(parts: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    return (parts[at:] for at in reversed(range(len(parts))))


def _set_of(id_: str, address: EpisodeAddress) -> tuple[str, ...]:
    """Return the names of the folders and the location of an episode, without a file of one that its id names."""
    parts = tuple(part for part in address.uri.split("/") if part)
    is_own_file = not address.key and bool(parts) and PurePosixPath(parts[-1]).stem == id_
    return parts[:-1] if is_own_file else parts
