"""The lanes of an open episode: what LazyEpisode reads from a Source, or from the reader of another format."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from wshard.core.episode.info import EpisodeInfo

if TYPE_CHECKING:
    from wshard.core.episode.protocol import EpisodeReader
    from wshard.core.media.frames import EncodedFrames
    from wshard.core.types import Array, Episode


class OpenLanes(Protocol):
    """What an open episode reads; see LazySource."""

    def info(self, key: str) -> EpisodeInfo:
        """Describe an episode."""

    def lane(self, key: str, name: str, start: int = 0, stop: int | None = None) -> Array:
        """Return timesteps of a lane."""

    def encoded(self, key: str, name: str) -> EncodedFrames | None:
        """Return the EncodedFrames of a lane, None for one that is stored as numbers."""

    def identify(self, key: str, block: str) -> bytes:
        """Return bytes that differ if the encoded frames of a lane do."""

    def complete(self, key: str, ep: Episode) -> Episode:
        """Return the Episode, which has the lanes, with the other data of the episode."""

    def where_of(self, key: str) -> str:
        """Return the name of an episode in messages."""

    def release(self) -> None:
        """Note that an open episode was closed."""


class ReaderLanes:
    """The OpenLanes of one open episode of any class."""

    def __init__(self, reader: EpisodeReader) -> None:
        self._reader = reader
        self._info = EpisodeInfo.of(reader)

    def info(self, _: str) -> EpisodeInfo:
        """Describe the episode."""
        return self._info

    def lane(self, _: str, name: str, start: int = 0, stop: int | None = None) -> Array:
        """Return timesteps of a lane by its block name."""
        rows: Array = np.array(self._reader.lane_view(name)[start:stop])
        return rows

    def encoded(self, _: str, name: str) -> EncodedFrames | None:
        """Return the EncodedFrames of a lane, None for one that is stored as numbers."""
        return self._reader.encoded(name)

    def identify(self, _key: str, _block: str) -> bytes:
        """Return nothing: the frames are not compared."""
        return b""

    def complete(self, _: str, ep: Episode) -> Episode:
        """Return the Episode with predictions, residuals, and blocks that are no lanes."""
        whole = self._reader.load()
        others = {name: data for name, data in whole.blocks.items() if name not in self._info.lanes}
        return replace(
            ep,
            omens=whole.omens,
            uncerts=whole.uncerts,
            residuals=whole.residuals,
            source_format=whole.source_format,
            chunk_index=whole.chunk_index,
            total_chunks=whole.total_chunks,
            timestep_range=whole.timestep_range,
            blocks=others | ep.blocks,
        )

    def where_of(self, _: str) -> str:
        """Return the name of the episode in messages."""
        return self._reader.where

    def release(self) -> None:
        """Close the episode."""
        self._reader.close()
