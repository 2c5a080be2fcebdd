"""Read a location with other names for its lanes: `observation.state=state`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Self
from urllib.parse import quote, unquote

import numpy as np

from wshard.episode.info import EpisodeInfo
from wshard.episode.lanes import DONE, REWARD, TRUNCATIONS
from wshard.errors import EntryNotFoundError, FormatError
from wshard.formats.lazy_episode import LazyEpisode

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wshard.episode.protocol import EpisodeReader, Fingerprint
    from wshard.formats.base import Source
    from wshard.media.frames import EncodedFrames
    from wshard.types import Array, Episode

_STEP_LANES = (REWARD, DONE, TRUNCATIONS)
_PLAIN = "/._-+:@, "
_CLOCK = "clock"


def encode_lane_map(renamed: Iterable[str] | Mapping[str, str]) -> str:
    """Return the text of a lane map: of pairs "OLD=NEW" as people write them, or of a mapping.

    Raises FormatError for an invalid pair, and for two lanes of one name.
    """
    pairs = dict(renamed) if isinstance(renamed, Mapping) else dict(map(_parse_pair, renamed))
    if len({*pairs.values()}) < len(pairs):
        raise FormatError(f"expected different new names of lanes, found {', '.join(pairs.values())}")
    return ";".join(f"{quote(old, _PLAIN)}={quote(new, _PLAIN)}" for old, new in sorted(pairs.items()))


def parse_lane_map(text: str) -> dict[str, str]:
    """Return {old name: new name} of a text that encode_lane_map made."""
    pairs = [part.partition("=") for part in text.split(";") if part]
    return {unquote(old): unquote(new) for old, _, new in pairs}


def _parse_pair(text: str) -> tuple[str, str]:
    old, sign, new = text.partition("=")
    if not (old and sign and new):
        raise FormatError(f"expected OLD=NEW, the names of a lane, found {text!r}")
    return old, new


class MappedSource:
    """A Source whose lanes have other names; those that the map does not name stay as they are.

    Names are block names ("signal/observation.state") or ids ("observation.state"); a new id stays of the old kind, and
    "reward", "done" and "truncated" are the lanes of steps; of recordings, "clock" is what gives the timesteps.

    Raises EntryNotFoundError where an episode lacks a lane that the map names, FormatError where two have one name.
    """

    def __init__(self, source: Source, lane_map: str) -> None:
        self._source = source
        self._renamed = parse_lane_map(lane_map)
        clock = next((old for old, new in self._renamed.items() if new == _CLOCK), None)
        if clock is not None and hasattr(source, _CLOCK):
            setattr(source, _CLOCK, clock)
            del self._renamed[clock]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the Source."""
        self._source.close()

    def keys(self) -> Sequence[str]:
        """Return the keys of the Source."""
        return self._source.keys()

    def fingerprint(self, key: str) -> Fingerprint:
        """Return that of the Source."""
        return self._source.fingerprint(key)

    def info(self, key: str) -> EpisodeInfo:
        """Describe one episode; raises what the Source raises, EntryNotFoundError, FormatError."""
        with self.open(key) as reader:
            return reader.info

    def lane(self, key: str, name: str, start: int = 0, stop: int | None = None) -> Array:
        """Return timesteps of a lane by its new block name; raises what the Source raises."""
        with self.open(key) as reader:
            return reader.read(name, start, reader.length if stop is None else stop)

    def open(self, key: str) -> LazyEpisode:
        """Open one episode; raises what info raises."""
        reader = self._source.open(key)
        try:
            return LazyEpisode(_RenamedLanes(reader, self._renamed), key)
        except BaseException:
            reader.close()
            raise

    def load(self, key: str) -> Episode:
        """Return one episode; raises what open raises."""
        with self.open(key) as reader:
            return reader.load()


class _RenamedLanes:
    """What a LazyEpisode needs of its Source, provided by one open episode with renamed lanes."""

    def __init__(self, reader: EpisodeReader, renamed: Mapping[str, str]) -> None:
        self._reader = reader
        about = reader.info if isinstance(reader, LazyEpisode) else EpisodeInfo.of(reader)
        self._names = _find_names(about, renamed, reader.where)
        lanes = {new: replace(about.lanes[old], block=new) for new, old in self._names.items()}
        sizes = {new: about.stored_sizes[old] for new, old in self._names.items() if old in about.stored_sizes}
        self._info = replace(about, lanes=lanes, stored_sizes=sizes)

    def info(self, _: str) -> EpisodeInfo:
        """Describe the episode."""
        return self._info

    def lane(self, _: str, name: str, start: int = 0, stop: int | None = None) -> Array:
        """Return timesteps of a lane by its new block name."""
        if isinstance(self._reader, LazyEpisode):  # which refuses timesteps that are not there
            return self._reader.read(self._old(name), start, self._info.length if stop is None else stop)
        rows: Array = np.array(self._reader.lane_view(self._old(name))[start:stop])
        return rows

    def encoded(self, _: str, name: str) -> EncodedFrames | None:
        """Return the EncodedFrames of a lane, None for one that is stored as numbers."""
        return self._reader.encoded(self._old(name))

    def identify(self, _: str, block: str) -> bytes:
        """Return what differs where the encoded frames of a lane do."""
        return self._reader.identify(self._old(block)) if isinstance(self._reader, LazyEpisode) else b""

    def blocks(self, _: str) -> dict[str, bytes]:
        """Return the parts of a whole episode besides its lanes."""
        return self._reader.blocks() if isinstance(self._reader, LazyEpisode) else {}

    def where_of(self, _: str) -> str:
        """Return what messages call the episode."""
        return self._reader.where

    def release(self) -> None:
        """Close the episode."""
        self._reader.close()

    def _old(self, name: str) -> str:
        if name not in self._names:
            raise EntryNotFoundError(f"{self._reader.where}: no lane {name!r}; it has {', '.join(self._names)}")
        return self._names[name]


def _find_names(about: EpisodeInfo, renamed: Mapping[str, str], where: str) -> dict[str, str]:
    """Return {new block name: old one} of every lane."""
    new_names = {}
    for old, new in renamed.items():
        block = next((name for name in (old, f"signal/{old}", f"action/{old}") if name in about.lanes), None)
        if block is None:
            known = ", ".join(about.lanes) or "none"
            raise EntryNotFoundError(f"{where}: no lane {old!r} to rename; it has {known}")
        kind = block.partition("/")[0]
        whole = new in _STEP_LANES or new.startswith(("signal/", "action/"))
        new_names[block] = new if whole else f"{kind if '/' in block else 'signal'}/{new}"
    names = {new_names.get(block, block): block for block in about.lanes}
    if len(names) < len(about.lanes):
        raise FormatError(f"{where}: the lane map gives two lanes the same name: {', '.join(names)}")
    return names
