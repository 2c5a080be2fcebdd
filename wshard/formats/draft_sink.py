"""The base of Sinks of many episodes whose file or folder is created or replaced when they are closed."""

from __future__ import annotations

import errno
import os
from abc import ABC, abstractmethod
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

from wshard.array_fields import DType, widen_bfloat16
from wshard.container.codec_plan import CodecPlan
from wshard.container.draft import Draft, check_mode
from wshard.episode.lanes import EXACT_REWARD, REWARD
from wshard.errors import CodecError, EpisodeError, FormatError

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Mapping

    from wshard.container.codec_plan import Compression
    from wshard.container.draft import WriteMode
    from wshard.episode.info import EpisodeInfo
    from wshard.formats.base import Location
    from wshard.types import Channel, Episode


class DraftSink(ABC):
    """Writes into a draft, which is published by close().

    content: name of the location in messages; codecs: why the compression of episode files does not apply; in_folder:
    whether the location is a folder. `_ids` are the ids of the existing episodes: `_begin` sets it.
    """

    content: ClassVar[str]
    codecs: ClassVar[str]
    in_folder: ClassVar[bool] = True

    def __init__(self, location: Location, *, compression: Compression = "none", mode: WriteMode = "append") -> None:
        check_mode(mode)
        if not isinstance(location, (str, os.PathLike)):
            raise FormatError(f"expected the path of a {self.content}, found a file object")
        if CodecPlan.of(compression).compresses:
            raise CodecError(f"compression: expected none, {self.codecs}, found {compression!r}")
        self._where = os.fspath(location)
        exists = self._has_episodes()
        if mode == "error" and exists:
            raise FileExistsError(errno.EEXIST, f"expected no {self.content} there (mode 'error')", self._where)
        kept_mode: WriteMode = "append" if mode == "error" else mode
        owned = self.owned(Path(location)) if os.path.exists(location) else ()  # noqa: PTH110
        self._draft: Draft | None = Draft(location, kept_mode, folder=self.in_folder, owned=owned)
        self._ids: set[str] = set()
        self._changed = False
        try:
            self._begin(self._draft.path, continues=exists and mode == "append")
        except BaseException:
            self._release()
            self._draft.discard()
            raise

    @abstractmethod
    def _has_episodes(self) -> bool:
        """Return True if the location has episodes of the format."""

    @abstractmethod
    def _begin(self, draft: Path, *, continues: bool) -> None:
        """Prepare the draft for writing; continues: it contains the existing episodes."""

    @abstractmethod
    def _add(self, ep: Episode, draft: Path) -> str:
        """Write a valid episode with a new id and return its key; an EpisodeError leaves the draft unchanged."""

    @abstractmethod
    def _finish(self, draft: Path) -> None:
        """Write the parts of the format that describe all episodes."""

    def _release(self) -> None:  # noqa: B027  (most have none)
        """Close files of the draft, before it is published or discarded."""

    @classmethod
    @abstractmethod
    def owned(cls, location: Path) -> Collection[str]:
        """Return the names of the files of a data set below its folder, [""] for a file of the format; see Draft."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, exc_type: type[BaseException] | None = None, *exc: object) -> None:
        if exc_type is not None:
            self._changed = False
        self.close()

    def has(self, id_: str) -> bool:
        """Return True if an episode of this id exists."""
        return id_ in self._ids

    def write(self, ep: Episode) -> str:
        """Add one episode; returns its key. Raises EpisodeError for an unsuitable one, and for a known id."""
        if self._draft is None:
            raise EpisodeError(f"{self._where}: expected no more episodes: the Sink is closed")
        ep.validate()
        ep = widen_lanes(ep)
        if self.has(ep.id):
            raise EpisodeError(f"{self._where}: expected no episode {ep.id!r} there yet")
        key = self._add(ep, self._draft.path)
        self._ids.add(ep.id)
        self._changed = True
        return key

    def close(self) -> None:
        """Publish the written episodes, in place of older ones."""
        if self._draft is None:
            return
        draft, self._draft = self._draft, None
        try:
            if self._changed:
                self._finish(draft.path)
                self._release()
                draft.publish()
                return
        except BaseException:
            self._release()
            draft.discard()
            raise
        self._release()
        draft.discard()


def widen_lanes(ep: Episode) -> Episode:
    """Return an episode whose observations and actions of bf16 are float32."""
    return replace(ep, observations=_widen(ep.observations), actions=_widen(ep.actions))


def _widen(channels: Mapping[str, Channel]) -> dict[str, Channel]:
    return {
        name: replace(channel, dtype=DType.FLOAT32, data=widen_bfloat16(channel.data))
        if channel.dtype is DType.BFLOAT16
        else channel
        for name, channel in channels.items()
    }


def list_context_losses(info: EpisodeInfo) -> list[str]:
    """Return what a format without rates and environments cannot store."""
    losses = [] if info.timebase.assumed else ["timebase: no place for a rate"]
    return losses + (["env_id: no place for an environment"] if info.env_id else [])


def list_losses(info: EpisodeInfo, step_lanes: Container[str], place: str) -> list[str]:
    """Return the losses of lanes: those without a place in the format, and those of bf16, which becomes float32.

    place: what the format would store a lane in, such as "dataset".

    step_lanes: the lanes with a place besides observations and actions.
    """
    losses = []
    for block, lane in info.lanes.items():
        if block == EXACT_REWARD and REWARD in step_lanes:
            continue
        if block not in step_lanes and not block.startswith(("signal/", "action/")):
            losses.append(f"{block}: no {place} for it")
        elif lane.dtype is DType.BFLOAT16:
            losses.append(f"{block}: bf16 becomes float32")
    return losses
