"""What every Source, Sink and EpisodeReader must do, as test classes: tests subclass them and fill in the fixtures."""

from __future__ import annotations

from wshard.formats.contract.sink import CollectionSinkContract, SinkContract
from wshard.formats.contract.source import EpisodeReaderContract, SourceContract

__all__ = ["CollectionSinkContract", "EpisodeReaderContract", "SinkContract", "SourceContract"]
