"""An open episode whose data are in memory: for Sources of formats that are read whole."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import TYPE_CHECKING

from wshard.container.reader import ShardReader
from wshard.episode.file import EpisodeFile, save_wshard

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wshard.types import Episode


class MemoryReader(EpisodeFile):
    """An Episode, opened as if it had been saved as an episode file.

    Lanes, slices, metadata and digest are those of that file, so that an episode is the same in any format. The data
    are copied once. where: what messages call it. Raises EpisodeError for an episode that cannot be saved.
    """

    def __init__(self, ep: Episode, where: str) -> None:
        file = io.BytesIO()
        save_wshard(ep, file)
        shard = ShardReader(file.getbuffer())
        shard.where = where
        super().__init__(shard)
        self._format = ep.source_format

    def load(self, channels: Sequence[str] | None = None) -> Episode:
        """Return the Episode with all lanes, or with the named channels (see load_wshard)."""
        return replace(super().load(channels), source_format=self._format)

    def slice(self, start: int, stop: int, channels: Sequence[str] | None = None) -> Episode:
        """Return the timesteps [start, stop) as an Episode, as EpisodeFile.slice does."""
        return replace(super().slice(start, stop, channels), source_format=self._format)
