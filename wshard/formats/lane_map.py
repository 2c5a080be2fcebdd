"""Read a location with other names for its lanes: `observation.state=state`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from wshard.core.episode.lanes import DONE, EXACT_REWARD, REWARD, TRUNCATIONS
from wshard.errors import EntryNotFoundError, FormatError
from wshard.formats.lazy_episode import LazyEpisode
from wshard.formats.source_base import WrappedSource

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Sequence

    from wshard.core.episode.info import EpisodeInfo
    from wshard.core.media.frames import EncodedFrames
    from wshard.core.types import Array, Episode
    from wshard.formats.open_lanes import OpenLanes
    from wshard.formats.source_base import Source

_STEP_LANES = (REWARD, DONE, TRUNCATIONS)
_UNQUOTED = "/._-+:@, "
_CLOCK = "clock"


def encode_lane_map(renamed: Iterable[str] | Mapping[str, str]) -> str:
    """Return the text form of a lane map, from pairs "OLD=NEW" or a mapping; raises FormatError for an invalid pair."""
    pairs = dict(renamed) if isinstance(renamed, Mapping) else dict(map(_parse_pair, renamed))
    return ";".join(f"{quote(old, _UNQUOTED)}={quote(new, _UNQUOTED)}" for old, new in sorted(pairs.items()))


def parse_lane_map(text: str) -> dict[str, str]:
    """Return {old name: new name} of a text that encode_lane_map made."""
    pairs = [part.partition("=") for part in text.split(";") if part]
    return {unquote(old): unquote(new) for old, _, new in pairs}


def _parse_pair(text: str) -> tuple[str, str]:
    old, sign, new = text.partition("=")
    if not (old and sign and new):
        raise FormatError(f"expected OLD=NEW, the names of a lane, found {text!r}")
    return old, new


class MappedSource(WrappedSource):
    """A Source whose lanes are renamed; lanes that the map does not name keep their names.

    Names are block names ("signal/observation.state") or ids ("observation.state"); a new id keeps the kind of the old
    name. "reward", "done" and "truncated" name the lanes of steps; in recordings, "clock" names the topic that
    determines the timesteps. Several old names may get one new name: each episode has one of them. One that has the
    new name instead stays as it is. without: lanes to leave out, where an episode has them, by their new names.

    Raises EntryNotFoundError where an episode has none of them, FormatError where two lanes have one name.
    """

    def __init__(self, source: Source, lane_map: str, *, without: Iterable[str] = ()) -> None:
        super().__init__(source)
        self._without = tuple(without)
        self._renamed = parse_lane_map(lane_map)
        clock = next((old for old, new in self._renamed.items() if new == _CLOCK), None)
        if clock is not None and self.choose_clock(clock):
            del self._renamed[clock]

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
        return LazyEpisode(self.open_lanes(key), key)

    def open_lanes(self, key: str) -> OpenLanes:
        """Open the lanes of one episode; raises what info raises."""
        lanes = self._base.open_lanes(key)
        try:
            return _RenamedLanes(lanes, key, partial(_map_names, renamed=self._renamed, without=self._without))
        except BaseException:
            lanes.release()
            raise

    def load(self, key: str) -> Episode:
        """Return one episode; raises what open raises."""
        with self.open(key) as reader:
            return reader.load()

    def find_missing(self, key: str, block: str) -> Array | None:
        """Return that of the Source, of a lane by its new block name."""
        return super().find_missing(key, self._original_name(key, block))

    def take_rows(self, block: str, keys: Sequence[str], steps: Array) -> Array | None:
        """Return those of the Source, of a lane by its new block name."""
        return super().take_rows(self._original_name(keys[0], block), keys, steps)

    def _original_name(self, key: str, block: str) -> str:
        info = self._source.info(key)
        return _map_names(info, f"episode {key!r}", self._renamed, self._without).get(block, block)


class _RenamedLanes:
    """The lanes of an open episode with other names, or without some."""

    def __init__(self, lanes: OpenLanes, key: str, map_names: Callable[[EpisodeInfo, str], dict[str, str]]) -> None:
        self._lanes, self._where = lanes, lanes.where_of(key)
        info = lanes.info(key)
        self._names = map_names(info, self._where)
        declared = {new: replace(info.lanes[old], block=new) for new, old in self._names.items()}
        sizes = {new: info.stored_sizes[old] for new, old in self._names.items() if old in info.stored_sizes}
        self._info = replace(info, lanes=declared, stored_sizes=sizes)

    def info(self, _: str) -> EpisodeInfo:
        """Describe the episode."""
        return self._info

    def lane(self, key: str, name: str, start: int = 0, stop: int | None = None) -> Array:
        """Return timesteps of a lane by its new block name."""
        return self._lanes.lane(key, self._original_name(name), start, stop)

    def encoded(self, key: str, name: str) -> EncodedFrames | None:
        """Return the EncodedFrames of a lane by its new block name."""
        return self._lanes.encoded(key, self._original_name(name))

    def identify(self, key: str, block: str) -> bytes:
        """Return bytes that differ if the encoded frames of a lane do."""
        return self._lanes.identify(key, self._original_name(block))

    def complete(self, key: str, ep: Episode) -> Episode:
        """Return the Episode with the other data, which keep their names."""
        return self._lanes.complete(key, ep)

    def where_of(self, _: str) -> str:
        """Return the name of the episode in messages."""
        return self._where

    def release(self) -> None:
        """Close the episode."""
        self._lanes.release()

    def _original_name(self, name: str) -> str:
        if name not in self._names:
            raise EntryNotFoundError(f"{self._where}: no lane {name!r}; it has {', '.join(self._names)}")
        return self._names[name]


def _map_names(info: EpisodeInfo, where: str, renamed: Mapping[str, str], without: Iterable[str]) -> dict[str, str]:
    """Return {new block name: old one} of every lane that is not left out."""
    new_names = {}
    for new in dict.fromkeys(renamed.values()):
        olds = [old for old, name in renamed.items() if name == new]
        blocks = [block for old in olds if (block := find_block(old, info.lanes)) is not None]
        if not blocks and find_block(new, info.lanes) is None:
            available = ", ".join(info.lanes) or "none"
            raise EntryNotFoundError(f"{where}: no lane {' or '.join(map(repr, olds))} to rename; it has {available}")
        is_block = new in _STEP_LANES or new.startswith(("signal/", "action/"))
        for block in blocks:
            kind = block.partition("/")[0]
            new_names[block] = new if is_block else f"{kind if '/' in block else 'signal'}/{new}"
    names = {new_names.get(block, block): block for block in info.lanes}
    if len(names) < len(info.lanes):
        raise FormatError(f"{where}: the lane map gives two lanes the same name: {', '.join(names)}")
    dropped = {find_block(name, names) for name in without}
    dropped |= {EXACT_REWARD} if REWARD in dropped else set()
    return {new: old for new, old in names.items() if new not in dropped}


def leave_out(info: EpisodeInfo, without: Iterable[str]) -> EpisodeInfo:
    """Return the description of an episode without these lanes; names that it does not have are ignored."""
    return replace(info, lanes={block: info.lanes[block] for block in _map_names(info, "", {}, without)})


def find_block(name: str, lanes: Container[str]) -> str | None:
    """Return the block of an episode that a name means, None if it has none."""
    return next((block for block in (name, f"signal/{name}", f"action/{name}") if block in lanes), None)
