"""Reads the queries that name an episode: a hit, a file, a catalogued episode's id, or timesteps of one."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from bridge.episodes.open import OpenLocations
from bridge.names import EpisodeNames, NamedEpisode
from bridge.results import EpisodeRef
from bridge.search.query.fit import cut, refuse
from bridge.spaces.source_labels import source_labels
from wshard.core.arguments import whole_number
from wshard.core.chunks.files import is_episode, locate
from wshard.core.episode.protocol import EpisodeAddress
from wshard.core.messages import shown
from wshard.core.types import Episode
from wshard.errors import FormatError, LayoutError, QueryError
from wshard.formats.base import OWN_DATA
from wshard.formats.detect import detect_format

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from bridge.search.query.fit import Query
    from catalog.catalog import Catalog
    from wshard.core.episode.protocol import EpisodeReader

_IMAGE: Final = 2
"""Dimensions of one timestep of an image, at least."""


@dataclass(frozen=True, eq=False)
class Example:
    """The content of a query, and its source: address and uid of the episode, None and "" if unknown.

    start: the first timestep of the query in that episode. labels: see source_labels.
    """

    query: Query
    address: EpisodeAddress | None = None
    uid: str = ""
    start: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Examples:
    """The queries that hits should be like, and those that they should not be like."""

    like: Sequence[Example]
    unlike: Sequence[Example]

    @property
    def all(self) -> list[Example]:
        """Examples, then counter-examples."""
        return [*self.like, *self.unlike]


class ExampleReader:
    """Reads the queries of one search, each file once.

    read_as: returns how an address is read. lanes: returns the lanes of all Spaces; other images are not decoded.
    """

    def __init__(
        self, catalog: Catalog, read_as: Callable[[EpisodeAddress], str], lanes: Callable[[], Collection[str]]
    ) -> None:
        self._names = EpisodeNames(catalog)
        self._read_as = read_as
        self._lanes = lanes
        self._episodes: dict[object, Episode] = {}

    def read(self, query: Query) -> Example:
        """Return the content of a query of any form.

        Raises as EpisodeNames.resolve, QueryError for a span outside of the episode, StaleEpisodeError for a hit or an
        id whose file has changed, FileNotFoundError for one whose file is gone, FormatError.
        """
        if isinstance(query, EpisodeRef):
            start, stop = (None, None) if query.span == (0, 0) else query.span
            return self._read_named(query, start, stop)
        if isinstance(query, (str, os.PathLike)):
            return self._read_text(query)
        if isinstance(query, tuple) and query and isinstance(query[0], (str, os.PathLike)):
            if len(query) != 3:
                raise QueryError(f"(file, start, stop): expected these three, found {shown(query)}")
            return self._read_text(query[0], _check_step(query[1]), _check_step(query[2]))
        labels = source_labels(query.metadata, query.env_id, None) if isinstance(query, Episode) else {}
        return Example(query, labels=labels)

    def _read_text(self, text: str | os.PathLike[str], start: int | None = None, stop: int | None = None) -> Example:
        """Return the episode, the span or the array that a text names."""
        if not os.fspath(text):
            refuse(text)
        named = self._names.resolve(text, start, stop)
        if isinstance(named, NamedEpisode):
            return self._read_named(named.episode, named.start, named.stop)
        return Example(named)

    def _read_named(self, name: EpisodeRef | EpisodeAddress, start: int | None, stop: int | None) -> Example:
        """Return timesteps of an episode; all of it if neither start nor stop is given."""
        address, uid = (None, name.uid) if isinstance(name, EpisodeRef) else (self._make_absolute(name), "")
        if isinstance(name, EpisodeAddress) and address is not None:
            name = replace(name, read_as=address.read_as)  # keeps the path as passed, for messages
        key = (uid, name.digest, name.address) if isinstance(name, EpisodeRef) else ("", "", address)
        if key not in self._episodes:
            self._episodes[key] = self._load(name)
        episode = self._episodes[key]
        place = name.address if isinstance(name, EpisodeRef) else address
        labels = source_labels(episode.metadata, episode.env_id, place)
        if (start, stop) == (None, None):
            return Example(episode, address, uid, labels=labels)
        first, _, _ = slice(start, None).indices(episode.length)
        return Example(cut(episode, start, stop), address, uid, first, labels)

    def _make_absolute(self, address: EpisodeAddress) -> EpisodeAddress:
        """Return the address as in the catalog: the real path, and how it was read at ingest."""
        real = replace(address, uri=locate(address.uri))
        return replace(real, read_as=self._read_as(real))

    def _load(self, name: EpisodeRef | EpisodeAddress) -> Episode:
        if isinstance(name, EpisodeRef):
            with name.open() as file:
                return _read_lanes(file, self._lanes())
        return _load_at(name, self._lanes())


def _read_lanes(file: EpisodeReader, embedded: Collection[str]) -> Episode:
    """Return the episode without images that no Space embeds, as decoding takes longer than all else."""
    lanes = file.lanes()
    channels = {name: name.partition("/")[2] for name in lanes if name.startswith(("signal/", "action/"))}
    # A lane of the channel, or of its prediction: both names contain its id.
    needed = [
        name
        for name, id_ in channels.items()
        if len(lanes[name].shape) < _IMAGE or any(id_ in lane for lane in embedded)
    ]
    return file.load(None if len(needed) == len(channels) else needed)


def _load_at(address: EpisodeAddress, embedded: Collection[str]) -> Episode:
    path = address.uri
    try:
        with OpenLocations() as locations, locations.open(address, hashed=True) as file:
            return _read_lanes(file, embedded)
    except FormatError as error:
        if is_episode(os.path.basename(path)):  # noqa: PTH119  (Path takes an empty text for the current folder)
            raise
        if os.path.isdir(path) and not (address.read_as or detect_format(path)):  # noqa: PTH112  (as above)
            raise QueryError(f"query: expected the path of an episode file, found a folder at {path!r}") from None
        if isinstance(error, LayoutError):  # a guess that is not sure says what is expected, and has its own advice
            raise QueryError(f"query: {error}") from error
        advice = "" if "`" in str(error) or detect_format(path) else f"; {OWN_DATA}"
        raise QueryError(f"query: expected an episode that can be read: {error}{advice}") from error
    except (FileNotFoundError, IsADirectoryError):
        if not os.path.isdir(path):  # noqa: PTH112  (Path takes an empty text for the current folder)
            raise
        raise QueryError(f"query: expected the path of an episode file, found a folder at {path!r}") from None


def _check_step(value: Any) -> int | None:
    return None if value is None else whole_number(value, "(file, start, stop)", QueryError)
