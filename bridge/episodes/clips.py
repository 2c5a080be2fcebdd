"""Clips of catalogued episodes for training, read from the original files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bridge.episodes.open import OpenLocations
from wshard.data.dataset import explain_no_clips
from wshard.data.derived.spans import SpanDataset
from wshard.data.source_dataset import SourceDataset
from wshard.errors import NoClipsError, StaleEpisodeError
from wshard.formats.base import open_source
from wshard.formats.wshard import SUFFIXES
from wshard.open import local_path, open_location

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wshard.episode.protocol import EpisodeAddress, Fingerprint
    from wshard.formats.source_base import SourceBase


@dataclass(frozen=True)
class ClipPlace:
    """Timesteps [start, stop) of an episode, with digest and fingerprint from the catalog; length: of all of it."""

    address: EpisodeAddress
    start: int
    stop: int
    digest: str = ""
    fingerprint: Fingerprint | None = None
    length: int | None = None


def open_clips(places: Sequence[ClipPlace], weights: Sequence[float] | None, options: dict[str, Any]) -> SpanDataset:
    """Return the clips within these spans; options are those of SourceDataset.

    Raises StaleEpisodeError for an episode that has changed since it was catalogued, DatasetError if columns differ,
    NoClipsError if there are no clips, FileNotFoundError.
    """
    with OpenLocations() as locations:
        for place in {place.address: place for place in places}.values():
            _check_unchanged(place, locations)
    numbers: dict[EpisodeAddress, int] = {}
    sources: dict[tuple[str, str], int] = {}
    opened: list[SourceBase] = []
    episodes: list[tuple[int, str]] = []
    lengths: list[int | None] = []
    for place in places:
        address = place.address
        if address in numbers:
            continue
        location = address.uri, address.read_as
        if location not in sources:
            sources[location] = len(opened)
            opened.append(_open(address))
        numbers[address] = len(episodes)
        episodes.append((sources[location], address.key))
        lengths.append(place.length)
    known_lengths = [length for length in lengths if length is not None]
    data = SourceDataset(
        opened, episodes=episodes, lengths=known_lengths if len(known_lengths) == len(lengths) else None, **options
    )
    clips = SpanDataset(data, [(numbers[place.address], place.start, place.stop) for place in places], weights)
    if problem := explain_no_clips(clips):
        raise NoClipsError(problem)
    return clips


def _open(address: EpisodeAddress) -> SourceBase:
    if not address.key and not address.read_as and address.uri.endswith(SUFFIXES):
        return open_source(local_path(address.uri), "wshard")
    return open_location(address.uri, address.read_as or None)


def _check_unchanged(place: ClipPlace, locations: OpenLocations) -> None:
    if place.fingerprint is not None and locations.fingerprint(place.address) == place.fingerprint:
        return
    with locations.open(place.address) as reader:
        if place.digest and reader.digest() != place.digest:
            raise StaleEpisodeError.at(place.address, place.address.uri)
