"""The base of Sinks whose folder of many episodes appears, or changes, when they are closed."""

from __future__ import annotations

import errno
import os
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Self

from wshard.container.codec_plan import CodecPlan
from wshard.errors import CodecError, EpisodeError, FormatError
from wshard.formats.draft import Draft, check_mode

if TYPE_CHECKING:
    from pathlib import Path

    from wshard.container.codec_plan import Compression
    from wshard.formats.base import Location
    from wshard.formats.draft import WriteMode
    from wshard.types import Episode


class DraftSink(ABC):
    """A subclass says what is there already, and writes into the folder of a draft.

    content: what the folder is, for messages; codecs: why the compression of episode files is none of it. `_ids` are
    those of the episodes that are there: `_take_up` fills it, and writing adds to it.
    """

    content: ClassVar[str]
    codecs: ClassVar[str]

    def __init__(self, location: Location, *, compression: Compression = "none", mode: WriteMode = "append") -> None:
        check_mode(mode)
        if not isinstance(location, (str, os.PathLike)):
            raise FormatError(f"expected the path of a folder, the {self.content}, found a file object")
        if CodecPlan.of(compression).compresses:
            raise CodecError(f"compression: expected none, {self.codecs}, found {compression!r}")
        self._where = os.fspath(location)
        there = self._is_there()
        if mode == "error" and there:
            raise FileExistsError(errno.EEXIST, f"expected no {self.content} there (mode 'error')", self._where)
        self._draft: Draft | None = Draft(location, "append" if mode == "error" else mode, folder=True)
        self._ids: set[str] = set()
        self._changed = False
        try:
            self._begin(self._draft.path, continues=there and mode == "append")
        except BaseException:
            self._draft.discard()
            raise

    @abstractmethod
    def _is_there(self) -> bool:
        """Say whether the location has episodes of the format."""

    @abstractmethod
    def _begin(self, folder: Path, *, continues: bool) -> None:
        """Begin to write into the folder of the draft; continues: to episodes that are there, whose ids become _ids."""

    @abstractmethod
    def _add(self, ep: Episode, folder: Path) -> str:
        """Write a valid episode of a new id into the folder and return its key; raises EpisodeError, all undone."""

    @abstractmethod
    def _finish(self, folder: Path) -> None:
        """Write what the format says of all episodes."""

    @abstractmethod
    def _is_own(self, name: str) -> bool:
        """Say of a path below the folder whether the format wrote it; see Draft.publish."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None = None, *exc: object) -> None:
        if kind is not None and self._draft is not None:
            self._draft.discard()
            self._draft = None
        self.close()

    def has(self, id_: str) -> bool:
        """Say whether an episode of this id is there."""
        return id_ in self._ids

    def write(self, ep: Episode) -> str:
        """Add one episode; returns its key. Raises EpisodeError for what does not fit the others, and an id twice."""
        if self._draft is None:
            raise EpisodeError(f"{self._where}: expected no more episodes: the Sink is closed")
        ep.validate()
        if self.has(ep.id):
            raise EpisodeError(f"{self._where}: expected no episode {ep.id!r} there yet")
        key = self._add(ep, self._draft.path)
        self._ids.add(ep.id)
        self._changed = True
        return key

    def close(self) -> None:
        """End the writing: what was written appears, or takes the place of what was there."""
        if self._draft is None:
            return
        draft, self._draft = self._draft, None
        try:
            if self._changed:
                self._finish(draft.path)
                draft.publish(self._is_own)
            else:
                draft.discard()
        except BaseException:
            draft.discard()
            raise
