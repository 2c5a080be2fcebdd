"""Queries that name an episode: a hit, a file, or timesteps of a file."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from bridge.episodes.discover import SUFFIX, is_episode
from bridge.episodes.files import locate
from bridge.episodes.open import OpenLocations, exists, known_episodes
from bridge.results import EpisodeRef
from bridge.search.query.prepare import cut
from catalog.filters.where import Compare, all_of
from wshard.arguments import whole_number
from wshard.episode.protocol import EpisodeAddress, EpisodeSpan
from wshard.errors import HeaderError, QueryError
from wshard.formats.base import OWN_DATA
from wshard.messages import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from bridge.search.query.prepare import Query
    from catalog.catalog import Catalog
    from catalog.filters.where import Where
    from wshard.episode.protocol import EpisodeReader
    from wshard.types import Episode

_IMAGE: Final = 2
"""Dimensions of one timestep of an image, at least."""


@dataclass(frozen=True, eq=False)
class Example:
    """What a query holds, and where from: the address of its episode, None where unknown, and its uid, "" likewise.

    start: the timestep of that episode with which it begins.
    """

    query: Query
    address: EpisodeAddress | None = None
    uid: str = ""
    start: int = 0


def read_example(query: Query, embedded: Callable[[], Collection[str]]) -> Example:
    """Return what a query of any form holds; those that name an episode are read from its file.

    embedded: gives the lanes that any Space is of; images that are not among them are not decoded.
    Raises QueryError for a path without a file and a span that is not in the episode, StaleEpisodeError for a hit whose
    file has changed since, FileNotFoundError for one whose file is gone, FormatError.
    """
    if isinstance(query, EpisodeRef):
        with query.open() as file:
            episode = _read(file, embedded())
        start, stop = query.span
        return Example(episode if query.span == (0, 0) else cut(episode, start, stop), uid=query.uid, start=start)
    if isinstance(query, (str, os.PathLike)):
        return _read_span(EpisodeSpan.parse(os.fspath(query)), embedded())
    if isinstance(query, tuple) and query and isinstance(query[0], (str, os.PathLike)):
        if len(query) != 3:
            raise QueryError(f"(file, start, stop): expected these three, found {shown(query)}")
        path, start, stop = query
        address = EpisodeAddress.parse(os.fspath(path))
        episode = _load(address, embedded())
        first, _, _ = slice(_step(start), None).indices(episode.length)
        return Example(cut(episode, _step(start), _step(stop)), _absolute(address), start=first)
    return Example(query)


def without_their_episodes(examples: Iterable[Example], catalog: Catalog) -> Where:
    """Return the filter that leaves out the episodes that examples name, as far as the archive holds them.

    Raises QueryError for an example that names none.
    """
    uids: set[str] = set()
    for example in examples:
        if not (example.uid or example.address):
            raise QueryError(
                "exclude_self: expected queries that name an episode (a hit, a file, or (file, start, stop)), "
                f"found {type(example.query).__name__}"
            )
        uids |= _uids(example, catalog)
    return all_of(~Compare("uid", "in", tuple(sorted(uids)))) if uids else all_of()


def its_episodes(example: Example, catalog: Catalog, where: Where) -> list[int]:
    """Return the ids of the episodes that the example names, as far as they pass the filter."""
    uids = _uids(example, catalog)
    return catalog.query.ids(where & all_of(Compare("uid", "in", tuple(sorted(uids))))) if uids else []


def _uids(example: Example, catalog: Catalog) -> set[str]:
    found = known_episodes(catalog, [example.address] if example.address else [])
    rows = catalog.episodes.rows([known.id for _, known in found if known is not None]).values()
    return {row.uid for row in rows} | ({example.uid} if example.uid else set())


def _read(file: EpisodeReader, embedded: Collection[str]) -> Episode:
    """Return the episode without images that no Space is of: to decode them takes longer than all else."""
    lanes = file.lanes()
    channels = {name: name.partition("/")[2] for name in lanes if name.startswith(("signal/", "action/"))}
    # Of a channel or of what is predicted of it: the name of either holds its id.
    needed = [
        name
        for name, id_ in channels.items()
        if len(lanes[name].shape) < _IMAGE or any(id_ in lane for lane in embedded)
    ]
    return file.load(None if len(needed) == len(channels) else needed)


def _absolute(address: EpisodeAddress) -> EpisodeAddress:
    return replace(address, uri=locate(address.uri))


def _read_span(span: EpisodeSpan, embedded: Collection[str]) -> Example:
    episode, where = _load(span.address, embedded), _absolute(span.address)
    if (span.start, span.stop) == (0, None):
        return Example(episode, where)
    return Example(cut(episode, span.start, span.stop), where, start=span.start)


def _load(address: EpisodeAddress, embedded: Collection[str]) -> Episode:
    path = address.uri
    try:
        with OpenLocations() as locations, locations.open(address, hashed=True) as file:
            return _read(file, embedded)
    except HeaderError as error:
        if is_episode(os.path.basename(path)):  # noqa: PTH119  (Path takes an empty text for the current folder)
            raise
        raise QueryError(f"query: expected an episode file, {SUFFIX}: {error}; {OWN_DATA}") from error
    except (FileNotFoundError, IsADirectoryError):
        folder = os.path.isdir(path)  # noqa: PTH112  (Path takes an empty text for the current folder)
        if not folder and exists(EpisodeAddress(path)):  # a chunk is not
            raise
        found = "a folder" if folder else "none"
        raise QueryError(
            f"query: expected the path of an episode file, found {found} at {os.fspath(path)!r}; if an archive's file "
            "was moved, ingest the place where it is now"
        ) from None


def _step(value: Any) -> int | None:
    return None if value is None else whole_number(value, "(file, start, stop)", QueryError)
