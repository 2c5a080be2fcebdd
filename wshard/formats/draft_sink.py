"""The life cycle of Sinks: what they write is in a draft, which is published when they are closed."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from abc import abstractmethod
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from wshard.core.array_fields import DType, widen_bfloat16
from wshard.core.container.codec_plan import CodecPlan
from wshard.core.container.draft import Draft, check_mode
from wshard.core.episode.lanes import EXACT_REWARD, REWARD
from wshard.core.files.local import LocalPlace
from wshard.errors import CodecError, EpisodeError, FormatError, RecordingStateError
from wshard.formats.sink_base import SinkBase

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping

    from wshard.core.container.draft import WriteMode
    from wshard.core.episode.info import EpisodeInfo
    from wshard.core.files.schemes import PathOrFile
    from wshard.core.timebase import TimebaseSpec
    from wshard.core.types import Channel, Episode

_FULL_DISK: Final = re.compile(r"No space left on device|errno = 28\b|os error 28\b")


class DraftSink(SinkBase):
    """Writes into a draft, which close() publishes; it is discarded if nothing was written, or after an exception.

    `_ids` are the ids of the existing episodes: `_begin` sets it. `_add` sets `_state` to "failed" for an error after
    which the draft cannot be published.
    """

    content: ClassVar[str]
    """The name of the location in messages."""

    codecs: ClassVar[str] = ""
    """Why the compression of episode files does not apply; "" if it does."""

    in_folder: ClassVar[bool] = True
    takes_file_objects: ClassVar[bool] = False
    keeps_bfloat16: ClassVar[bool] = False

    publishes_none: ClassVar[bool] = False
    """Whether a new location appears even without episodes."""

    def __init__(self, location: PathOrFile, *, compression: Any = "none", mode: WriteMode = "append") -> None:
        check_mode(mode)
        is_path = isinstance(location, (str, os.PathLike))
        if not is_path and not self.takes_file_objects:
            raise FormatError(f"expected the path of a {self.content}, found a file object")
        if self.codecs and CodecPlan.of(compression).compresses:
            raise CodecError(f"compression: expected none, {self.codecs}, found {compression!r}")
        self._location, self._compression, self._mode = location, compression, mode
        self._where = os.fspath(location) if isinstance(location, (str, os.PathLike)) else str(location)
        self._target = LocalPlace(self._where)
        self._existed = self._has_episodes()
        if mode == "error" and self._existed:
            raise FileExistsError(errno.EEXIST, f"expected no {self.content} there (mode 'error')", self._where)
        self._ids: set[str] = set()
        self._changed, self._state = False, "open"
        self._draft = self._open_draft("append" if mode == "error" and self._target.exists() else mode)
        try:
            self._begin(self._path, continues=self._existed and mode == "append")
        except BaseException:
            self._discard()
            raise

    @abstractmethod
    def _has_episodes(self) -> bool:
        """Return True if the location has episodes of the format."""

    def _open_draft(self, mode: WriteMode) -> Draft | None:
        """Return the draft to write to, None if the location is written to itself."""
        owned = self.owned(Path(self._where)) if self._target.exists() else ()
        return Draft(self._where, mode, folder=self.in_folder, owned=owned)

    @property
    def _path(self) -> Path:
        """Where to write."""
        return Path(self._where) if self._draft is None else self._draft.path

    def _begin(self, draft: Path, *, continues: bool) -> None:
        """Prepare the draft for writing; continues: it contains the existing episodes."""

    @abstractmethod
    def _add(self, ep: Episode, draft: Path) -> str:
        """Write a valid episode with a new id and return its key; an EpisodeError leaves the draft unchanged."""

    def _finish(self, draft: Path) -> None:
        """Write the parts of the format that describe all episodes."""

    def _release(self) -> None:
        """Close files of the draft, before it is published or discarded."""

    def _publish(self) -> None:
        self._finish(self._path)
        self._release()
        if self._draft is not None:
            self._draft.publish()

    def _discard(self) -> None:
        self._release()
        if self._draft is not None:
            self._draft.discard()

    def __exit__(self, *exc: object) -> None:
        if any(exc) and self._state == "open":
            self._state = "failed"
        self.close()

    def has(self, id_: str) -> bool:
        """Return True if an episode of this id exists."""
        return id_ in self._ids

    def write(self, ep: Episode) -> str:
        """Add one episode; returns its key. Raises EpisodeError for an unsuitable one, and for a known id."""
        if self._state != "open":
            raise RecordingStateError(f"{self._where}: expected to write before an error and before close")
        ep.validate()
        ep = ep if self.keeps_bfloat16 else widen_lanes(ep)
        if self.has(ep.id):
            raise EpisodeError(f"{self._where}: expected no episode {ep.id!r} there yet")
        with self._name_disk_errors():
            key = self._add(ep, self._path)
        self._ids.add(ep.id)
        self._changed = True
        return key

    def close(self) -> None:
        """Publish the written episodes, in place of older ones."""
        state, self._state = self._state, "closed"
        if state == "open" and (self._changed or (self.publishes_none and not self._existed)):
            try:
                with self._name_disk_errors():
                    self._publish()
            except BaseException:
                self._discard()
                raise
        elif state != "closed":
            self._discard()

    @contextlib.contextmanager
    def _name_disk_errors(self) -> Iterator[None]:
        """Translate a library's error for a full disk to the system's, with the path."""
        try:
            yield
        except (OSError, RuntimeError, ValueError) as error:
            is_named = isinstance(error, OSError) and error.filename
            if _FULL_DISK.search(str(error)) is not None and not is_named:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._where) from error
            raise


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


def list_shared(info: EpisodeInfo, step_lanes: Container[str]) -> list[str]:
    """Return the lanes with a place in a format that stores those of the first episode of all; see list_losses."""
    return [block for block in info.lanes if block in step_lanes or block.startswith(("signal/", "action/"))]


def advise_on_rate(timebase: TimebaseSpec) -> str:
    """Return what to do about an episode of another rate; a measured rate, such as 49.79, may be stated instead."""
    rate = timebase.tick_hz
    is_measured = not timebase.assumed and rate != round(rate) > 0
    return f"; or, if it is of times, state it in the layout: rate = {rate:.0f}" if is_measured else ""


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
