"""An open episode in memory, for Sources of formats without lazy reads."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import TYPE_CHECKING

from wshard.core.container.reader import ShardReader
from wshard.core.episode.file import EpisodeFile, save_wshard

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wshard.core.types import Episode


class MemoryReader(EpisodeFile):
    """An Episode in memory, read as if it had been saved as an episode file.

    Lanes, slices, metadata and digest are those of that file, so that an episode is the same in any format. The data
    are copied once. Raises EpisodeError for an episode that cannot be saved.

    Args:
        ep: The episode.
        where: Its name in messages.

    Examples:
        >>> from wshard import Episode
        >>> MemoryReader(Episode("demo", actions={"ctrl": np.zeros((20, 2))}), "demo").length
        20
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
        """Return the timesteps [start, stop) as an Episode, like EpisodeFile.slice."""
        return replace(super().slice(start, stop, channels), source_format=self._format)
