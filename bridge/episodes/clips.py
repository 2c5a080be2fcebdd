"""Clips of catalogued episodes for training, read from the original files."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from bridge.episodes.open import OpenLocations
from wshard.core.files.schemes import place_of
from wshard.errors import (
    DatasetError,
    FormatWarning,
    NoClipsError,
    SkippedEpisodeWarning,
    SourceNotFoundError,
    StaleEpisodeError,
    WShardError,
)
from wshard.formats.base import open_source
from wshard.formats.open import open_location
from wshard.formats.wshard import SUFFIXES
from wshard.training.data.dataset import explain_no_clips
from wshard.training.data.derived.spans import SpanDataset
from wshard.training.data.load import explain_rates
from wshard.training.data.source_dataset import SourceDataset

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wshard.core.episode.protocol import EpisodeAddress, Fingerprint
    from wshard.formats.source_base import SourceBase


Missing: TypeAlias = Literal["raise", "skip"]
"""What happens with episodes that are gone or have changed."""


@dataclass(frozen=True)
class ClipPlace:
    """Timesteps [start, stop) of an episode, with what the catalog has of it; length: of all of it.

    layout: the id of its lanes; episodes with the same one have the same lanes.
    """

    address: EpisodeAddress
    start: int
    stop: int
    digest: str = ""
    fingerprint: Fingerprint | None = None
    length: int | None = None
    layout: int | None = None


def _if_all(values: Sequence[int | None]) -> list[int] | None:
    """Return the values, None if one is unknown."""
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else None


def open_clips(
    places: Sequence[ClipPlace], weights: Sequence[float] | None, options: dict[str, Any], *, missing: Missing = "raise"
) -> SpanDataset:
    """Return the clips within these spans; options are those of SourceDataset.

    missing "skip": without those of episodes that have changed or cannot be opened; a SkippedEpisodeWarning says which.
    Raises StaleEpisodeError for an episode that has changed since it was catalogued, DatasetError if columns differ,
    NoClipsError if there are no clips, FileNotFoundError. A FormatWarning says that episodes have several rates.
    """
    if missing not in ("raise", "skip"):
        raise DatasetError(f"missing: expected 'raise' or 'skip', found {missing!r}")
    left_out = _find_changed(places, skip=missing == "skip")
    if left_out:
        is_left = [place.address not in left_out for place in places]
        places = [*compress(places, is_left)]
        weights = None if weights is None else [*compress(weights, is_left)]
    if left_out and not places:
        raise NoClipsError("expected episodes that are there and unchanged, found none")
    numbers: dict[EpisodeAddress, int] = {}
    sources: dict[tuple[str, str], int] = {}
    opened: list[SourceBase] = []
    episodes: list[tuple[int, str]] = []
    lengths: list[int | None] = []
    layouts: list[int | None] = []
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
        layouts.append(place.layout)
    data = SourceDataset(opened, episodes=episodes, lengths=_if_all(lengths), layouts=_if_all(layouts), **options)
    clips = SpanDataset(data, [(numbers[place.address], place.start, place.stop) for place in places], weights)
    if problem := explain_no_clips(clips):
        raise NoClipsError(problem)
    if reason := explain_rates(data):
        warnings.warn(reason, FormatWarning, 3)
    return clips


def _open(address: EpisodeAddress) -> SourceBase:
    if not address.key and not address.read_as and address.uri.endswith(SUFFIXES):
        return open_source(place_of(address.uri), "wshard")
    return open_location(address.uri, address.read_as or None)


def _find_changed(places: Sequence[ClipPlace], *, skip: bool) -> set[EpisodeAddress]:
    """Return the episodes to leave out, and warn of each; raises instead unless they are to be skipped."""
    left_out: set[EpisodeAddress] = set()
    with OpenLocations() as locations:
        for place in {place.address: place for place in places}.values():
            try:
                _check_unchanged(place, locations)
            except (WShardError, OSError) as error:
                if not skip and isinstance(error, (StaleEpisodeError, SourceNotFoundError)):
                    raise type(error)(f"{error}; or leave it out: missing='skip'") from None
                if not skip:
                    raise
                left_out.add(place.address)
                warnings.warn(f"left out of training: {error}", SkippedEpisodeWarning, 4)
    return left_out


def _check_unchanged(place: ClipPlace, locations: OpenLocations) -> None:
    if place.fingerprint is not None and locations.fingerprint(place.address) == place.fingerprint:
        return
    with locations.open(place.address) as reader:
        if place.digest and reader.digest() != place.digest:
            raise StaleEpisodeError.at(place.address, place.address.uri)
