"""A cache of open videos, a few per process, so that reading neighbouring frames continues decoding."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from wshard.core.media.open_video import OpenVideo, video_place
from wshard.errors import MissingFileError

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from wshard.core.media.open_video import VideoSource

MAX_OPEN: Final = 8


class VideoPool:
    """The most recently read videos. Each is used by one reader at a time; a second reader opens the file again."""

    def __init__(self, max_open: int = MAX_OPEN) -> None:
        self._max_open = max_open
        self._idle: OrderedDict[Hashable, OpenVideo] = OrderedDict()
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def use(self, source: VideoSource, where: str) -> Iterator[OpenVideo]:
        """Yield the open video; after an error it is closed."""
        key = _key_of(source, where)
        with self._lock:
            video = self._idle.pop(key, None)
        if video is None:
            video = OpenVideo(source, where)
        video.where = where
        try:
            yield video
        except BaseException:
            video.close()
            raise
        self._put_back(key, video)

    def _put_back(self, key: Hashable, video: OpenVideo) -> None:
        with self._lock:
            surplus = [self._idle.pop(key)] if key in self._idle else []
            self._idle[key] = video
            while len(self._idle) > self._max_open:
                surplus.append(self._idle.popitem(last=False)[1])
        for old in surplus:
            old.close()

    def allow(self, max_open: int) -> None:
        """Raise the limit to at least `max_open` idle videos, for random reads from many."""
        self._max_open = max(self._max_open, max_open)

    def close(self) -> None:
        """Close all videos that are not in use."""
        with self._lock:
            idle, self._idle = self._idle, OrderedDict()
        for video in idle.values():
            video.close()

    def forget(self) -> None:
        """Drop the videos copied by a fork, whose file positions the parent still uses."""
        self._idle, self._lock = OrderedDict(), threading.Lock()


def _key_of(source: VideoSource, where: str) -> Hashable:
    if isinstance(source, bytes) or callable(source):
        return id(source)  # unique, as the open video keeps a reference to it
    place = video_place(source)
    try:
        return place, place.status()
    except FileNotFoundError:
        suffix = "" if where == str(place) else f" {place}"
        raise MissingFileError.at(place, f"{where}: expected the video{suffix}, found no file") from None


POOL: Final = VideoPool()
atexit.register(POOL.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=POOL.forget)
