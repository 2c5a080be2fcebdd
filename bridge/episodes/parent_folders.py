"""Replaces a folder that is no location itself, but has locations of other formats below it, by these."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from bridge.episodes.discover import discover
from wshard.core.episode.protocol import EpisodeAddress, EpisodeSpan, parse_read_as
from wshard.core.files.schemes import local_path
from wshard.errors import SourceNotFoundError
from wshard.formats.detect import detect_format

if TYPE_CHECKING:
    from collections.abc import Sequence


def expand_parents(places: Sequence[str], how: str = "") -> list[str | EpisodeAddress]:
    """Return the places, and instead of a parent folder of data sets the episodes that an ingest of it would find.

    how: the reading options of all places; nothing is replaced if they name a format. Locations that cannot be read
    are returned too, so that opening them raises their error.
    """
    expanded: list[str | EpisodeAddress] = []
    for place in places:
        expanded += [place] if parse_read_as(how)[0] else _below(place, how) or [place]
    return expanded


def _below(place: str, how: str) -> list[EpisodeAddress]:
    """Return the addresses below a parent folder of data sets; none for any other place."""
    address = EpisodeSpan.parse(os.fspath(place)).address
    folder = Path(local_path(address.uri))
    if address.key or not folder.is_dir() or detect_format(folder):
        return []
    try:
        found = discover([EpisodeAddress(address.uri, read_as=how)])
    except SourceNotFoundError:
        return []
    failed = [EpisodeAddress(failure.path, failure.key, how) for failure in found.unreadable]
    addresses = [*(episode.address for episode in found.episodes), *failed]
    return addresses if any(parse_read_as(one.read_as)[0] for one in addresses) else []
