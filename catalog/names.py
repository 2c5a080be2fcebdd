"""Finds the catalogued episode that a text names: by its address, uid or episode_id."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from catalog.filters.parse import parse_where
from catalog.filters.where import EVERYTHING, Compare
from catalog.values import storable
from wshard.core.chunks.files import locate
from wshard.core.episode.protocol import EpisodeAddress
from wshard.core.files.schemes import place_of
from wshard.errors import EntryNotFoundError, FilterError, QueryError, UnknownSchemeError

if TYPE_CHECKING:
    from catalog.catalog import Catalog
    from catalog.records import EpisodeRow, Known

_BEGINNING: Final = 3  # letters
_LOOKED_THROUGH: Final = 1000  # episodes


def find_episode(catalog: Catalog, name: str) -> EpisodeRow:
    """Return the episode with this address, uid or episode_id; EntryNotFoundError for none, QueryError for several."""
    if not storable(name):
        raise EntryNotFoundError(f"{name!r} is not in this archive: its names and paths are text in UTF-8")
    address = EpisodeAddress.parse(name)
    in_file = _find_in_file(catalog, address)
    for entry in in_file:
        if entry.key == address.key:
            return catalog.episodes.get(entry.id)
    if in_file and not address.key:
        keys = ", ".join(f"{address.uri}#{entry.key}" for entry in in_file[:10])
        raise QueryError(f"expected one episode, found a location of {len(in_file)}: name one of them: {keys}")
    if (row := catalog.episodes.named(name)) is not None:
        return row
    if in_file:
        raise EntryNotFoundError(
            f"{address.uri}: this archive has {len(in_file)} of its episodes, but no {address.key!r}"
        )
    if place_of(name).exists() or (address.key and place_of(address.uri).exists()):
        raise EntryNotFoundError(f"{name!r} exists but is not in this archive: add it with `wshard ingest`")
    hint = "`wshard ls` lists them; run `wshard ingest FOLDER` after moving files"
    if close := _find_close(catalog, name):
        hint = f"did you mean {close!r}? `wshard ls` lists them"
    if _is_filter(name):
        hint = "filters are given as --where, as in `wshard ls --where ...`"
    raise EntryNotFoundError(f"{name!r} is neither a file nor an episode of this archive: {hint}")


def _find_close(catalog: Catalog, name: str) -> str:
    """Return the episode_id that is most like a mistyped one, "" for none: of the first ones, and of a like beginning.

    Names with a folder or a key are paths, of which a similar one is another file.
    """
    if "/" in name or "#" in name or not name:
        return ""
    beginning = Compare("episode_id", "startswith", name[:_BEGINNING])
    pages = [catalog.query.select(where, limit=_LOOKED_THROUGH) for where in (EVERYTHING, beginning)]
    return next(iter(get_close_matches(name, {row.episode_id for page in pages for row in page.rows}, n=1)), "")


def _find_in_file(catalog: Catalog, address: EpisodeAddress) -> list[Known]:
    """Return the catalogued episodes of the address's location."""
    try:
        place = locate(address.uri)
    except UnknownSchemeError:
        return []
    return [entry for entries in catalog.episodes.known([place]).values() for entry in entries]


def _is_filter(text: str) -> bool:
    """Return True if a text that names no episode was probably meant as a filter."""
    try:
        parse_where(text)
    except FilterError:
        return False
    return ":" in text  # else it is a word for the full text
