"""Read a location with other names for its lanes: `observation.state=state`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote, unquote

from wshard.episode.lanes import DONE, REWARD, TRUNCATIONS
from wshard.errors import EntryNotFoundError, FormatError
from wshard.formats.lazy_episode import LazyEpisode

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wshard.episode.info import EpisodeInfo
    from wshard.episode.protocol import EpisodeReader, Fingerprint
    from wshard.formats.base import Source
    from wshard.types import Array, Episode

_STEP_LANES = (REWARD, DONE, TRUNCATIONS)
_PLAIN = "/._-+:@, "


def encode_lane_map(renamed: Iterable[str] | Mapping[str, str]) -> str:
    """Return the text of a lane map: of pairs "OLD=NEW" as people write them, or of a mapping.

    Raises FormatError for what is no pair, and for two lanes of one name.
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
    "reward", "done" and "truncated" are the lanes of steps. Raises EntryNotFoundError where an episode lacks a lane
    that the map names, FormatError where two lanes get one name.
    """

    def __init__(self, source: Source, lane_map: str) -> None:
        self._source = source
        self._renamed = parse_lane_map(lane_map)

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
        info = self._source.info(key)
        names = self._names(info, key)
        lanes = {new: replace(info.lanes[old], block=new) for new, old in names.items()}
        sizes = {new: info.stored_sizes[old] for new, old in names.items() if old in info.stored_sizes}
        return replace(info, lanes=lanes, stored_sizes=sizes)

    def lane(self, key: str, name: str, start: int = 0, stop: int | None = None) -> Array:
        """Return timesteps of a lane by its new block name; raises what the Source raises."""
        return self._source.lane(key, self._old(key, name), start, stop)

    def encoded(self, key: str, name: str) -> Any:
        """Return the EncodedFrames of a lane, None for one that is stored as numbers."""
        with self._source.open(key) as reader:
            ask = getattr(reader, "encoded", None)
            return None if ask is None else ask(self._old(key, name))

    def identify(self, key: str, block: str) -> bytes:
        """Return what differs where the encoded frames of a lane do."""
        ask = getattr(self._source, "identify", None)
        return b"" if ask is None else bytes(ask(key, self._old(key, block)))

    def where_of(self, key: str) -> str:
        """Return what messages call an episode."""
        with self._source.open(key) as reader:
            return reader.where

    def release(self) -> None:
        """Do nothing: who opened this Source closes it."""

    def open(self, key: str) -> EpisodeReader:
        """Open one episode; raises what info raises."""
        return LazyEpisode(self, key)

    def load(self, key: str) -> Episode:
        """Return one episode; raises what open raises."""
        with self.open(key) as reader:
            return reader.load()

    def _old(self, key: str, name: str) -> str:
        names = self._names(self._source.info(key), key)
        if name not in names:
            raise EntryNotFoundError(f"{self.where_of(key)}: no lane {name!r}; it has {', '.join(names)}")
        return names[name]

    def _names(self, info: EpisodeInfo, key: str) -> dict[str, str]:
        """Return {new block name: old one}."""
        renamed = {}
        for old, new in self._renamed.items():
            block = next((name for name in (old, f"signal/{old}", f"action/{old}") if name in info.lanes), None)
            if block is None:
                known = ", ".join(info.lanes) or "none"
                raise EntryNotFoundError(f"{self.where_of(key)}: no lane {old!r} to rename; it has {known}")
            kind = block.partition("/")[0]
            whole = new in _STEP_LANES or new.startswith(("signal/", "action/"))
            renamed[block] = new if whole else f"{kind if '/' in block else 'signal'}/{new}"
        names = {renamed.get(block, block): block for block in info.lanes}
        if len(names) < len(info.lanes):
            raise FormatError(f"{self.where_of(key)}: the lane map gives two lanes the same name: {', '.join(names)}")
        return names
