"""Recording, step by step: import path of the reference package."""

from __future__ import annotations

from wshard.core.container.layout import FLAG_STREAMING
from wshard.core.recording.channel_defs import ChannelDef
from wshard.core.recording.writer import DEFAULT_FLUSH_INTERVAL, WShardStreamWriter

__all__ = ["DEFAULT_FLUSH_INTERVAL", "FLAG_STREAMING", "ChannelDef", "WShardStreamWriter"]
