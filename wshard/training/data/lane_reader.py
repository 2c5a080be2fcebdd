"""Rows of many episodes at many locations: files stay open, and other processes open their own."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.core.array_fields import DType
from wshard.core.episode.encoded_lane import EncodedLane, StoredImages
from wshard.core.media.frames import ImageFrames
from wshard.core.media.video_frames import VideoFrames
from wshard.core.media.video_pool import POOL
from wshard.errors import DatasetError, StaleEpisodeError
from wshard.formats.source_base import with_base
from wshard.training.data.lane_columns import describe_lane

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from wshard.core.episode.info import EpisodeInfo
    from wshard.core.episode.lane_view import LazyLane
    from wshard.core.episode.meta_reader import Declaration
    from wshard.core.episode.protocol import EpisodeReader, Fingerprint
    from wshard.core.media.frames import EncodedFrames
    from wshard.core.types import Array, TimebaseSpec
    from wshard.formats.source_base import Source, SourceBase

_VIDEO_MEMORY: Final = 1 << 28
_FRAME_COST: Final = 96
_MAX_VIDEOS: Final = 256
_MAX_OPEN: Final = 4096


def _max_open_files() -> int:
    """Return how many episode files may be open: half of the file descriptors that this process may have."""
    try:
        import resource  # noqa: PLC0415  (not on Windows)
    except ImportError:
        return 256
    return min(_MAX_OPEN, max(resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2, 16))


class EpisodeList:
    """Episodes of several Sources; episode i has the key keys[i] in the Source sources[source_indices[i]]."""

    def __init__(self, sources: Sequence[Source], source_indices: NDArray[np.int64], keys: Sequence[str]) -> None:
        self.sources = [with_base(source) for source in sources]
        self.source_indices = source_indices
        self.keys = list(keys)
        self.lengths: NDArray[np.int64] | None = None
        """Timesteps of each episode, which their files must still have when they are read."""
        self.renamed: dict[tuple[int, str], str] = {}
        self.rates: set[float] = set()
        """Timesteps per second that episodes state, of those that were opened to look at their lanes."""
        self._open: OrderedDict[int, EpisodeReader] = OrderedDict()
        self._lanes: dict[int, dict[str, Any]] = {}
        self._own_lanes: dict[tuple[Any, ...], tuple[int, Mapping[str, Declaration]]] = {}
        self._process = os.getpid()
        self._max_open = _max_open_files()

    def __getstate__(self) -> dict[str, Any]:
        state = {"sources": self.sources, "places": self.source_indices, "keys": self.keys}
        return state | {"lengths": self.lengths, "renamed": self.renamed}

    def __setstate__(self, state: dict[str, Any]) -> None:
        EpisodeList.__init__(self, state["sources"], state["places"], state["keys"])
        self.lengths, self.renamed = state["lengths"], state["renamed"]

    def __len__(self) -> int:
        return len(self.keys)

    def first_of_each(self) -> list[int]:
        """Return the first episode at each location."""
        firsts: list[int] = np.unique(self.source_indices, return_index=True)[1].tolist()
        return firsts

    def read_lengths(self) -> list[int]:
        """Return the timesteps of each episode; files that are opened for them are asked for their lanes, too."""
        lengths = []
        for episode, key in enumerate(self.keys):
            source = self.sources[self.source_indices[episode]]
            if source.own_lanes:
                with source.open(key) as reader:
                    lengths.append(reader.length)
                    self._note_lanes(episode, self._lanes_of(reader))
            else:
                lengths.append(source.length_of(key))
        return lengths

    def own_lanes(self, layouts: Sequence[int] | None = None) -> Iterable[tuple[int, Mapping[str, Declaration]]]:
        """Return the lanes that episodes declare by themselves, each kind once, with an episode that has them.

        layouts: a number for each episode, equal for those of equal lanes, of which one is opened at each location.
        """
        if not self._own_lanes:  # the lengths were known
            own = np.array([source.own_lanes for source in self.sources], bool)[self.source_indices]
            kinds = np.arange(len(self)) if layouts is None else np.asarray(layouts)
            alike = np.stack([self.source_indices, kinds], axis=1)
            found = np.unique(alike, axis=0, return_index=True)[1] if len(self) else np.zeros(0, np.int64)
            for episode in np.setdiff1d(found[own[found]], self.first_of_each()).tolist():
                self._note_lanes(episode, self.lanes(episode))
        return self._own_lanes.values()

    def _note_lanes(self, episode: int, lanes: Mapping[str, Declaration]) -> None:
        kind = tuple((name, lane.dtype, lane.shape) for name, lane in lanes.items())
        self._own_lanes.setdefault((int(self.source_indices[episode]), kind), (episode, lanes))

    def where(self, episode: int) -> str:
        """Return the name of an episode in messages."""
        with self.sources[self.source_indices[episode]].open(self.keys[episode]) as reader:
            name: str = reader.where
        return name

    def info(self, episode: int) -> EpisodeInfo:
        """Describe an episode."""
        info: EpisodeInfo = self.sources[self.source_indices[episode]].info(self.keys[episode])
        self._note_rate(info.timebase)
        return info

    def fingerprint(self, episode: int) -> Fingerprint:
        """Return what differs when the files of an episode may have changed."""
        fingerprint: Fingerprint = self.sources[self.source_indices[episode]].fingerprint(self.keys[episode])
        return fingerprint

    def statements(self, episode: int) -> Mapping[str, Any] | None:
        """Return the values of an episode in a table of episodes; None if the location has no such table."""
        source: SourceBase = self.sources[self.source_indices[episode]]
        return source.statements(self.keys[episode])

    def rename(self, episode: int, block: str, name_there: str) -> None:
        """Note that a lane has another block name at the location of an episode."""
        if block != name_there:
            self.renamed[int(self.source_indices[episode]), block] = name_there

    def lanes(self, episode: int) -> dict[str, Declaration]:
        """Return the lanes of an episode by their block names."""
        with self.sources[self.source_indices[episode]].open(self.keys[episode]) as reader:
            return self._lanes_of(reader)

    def _lanes_of(self, reader: EpisodeReader) -> dict[str, Declaration]:
        self._note_rate(reader.timebase)
        return reader.lanes()

    def _note_rate(self, timebase: TimebaseSpec) -> None:
        if not timebase.assumed:
            self.rates.add(timebase.tick_hz)

    def encoded(self, episode: int, block: str) -> EncodedFrames | None:
        """Return the frames of a lane as they are encoded, None for one that is stored as numbers."""
        return self._reader(episode).encoded(self.name_there(episode, block))

    def take(self, block: str, lane: Declaration, episodes: NDArray[np.int64], steps: NDArray[np.int64]) -> Array:
        """Return rows [clips, n, *row] of a lane: timesteps `steps` [clips, n] of an episode each.

        Narrower floats become as wide as those of `lane`. Raises DatasetError for an episode whose lane is of another
        dtype or shape.
        """
        out: Array = np.empty((*steps.shape, *lane.shape), lane.dtype.numpy_dtype)
        for index in np.unique(self.source_indices[episodes]).tolist() if len(self.sources) > 1 else [0]:
            source = self.sources[index]
            positions = np.flatnonzero(self.source_indices[episodes] == index) if len(self.sources) > 1 else slice(None)
            keys = [self.keys[episode] for episode in episodes[positions].tolist()] if steps.size else []
            rows = source.take_rows(self.renamed.get((index, block), block), keys, steps[positions]) if keys else None
            if rows is not None:
                out[positions] = rows
            else:
                numbers = np.arange(len(episodes))[positions]
                self._copy(block, lane, numbers, (episodes, steps), out)
        return out

    def _copy(
        self, block: str, lane: Declaration, numbers: NDArray[np.int64], rows: tuple[Any, Any], out: Array
    ) -> None:
        episodes, steps = rows
        strides = np.diff(steps, axis=1)
        stride = int(strides.flat[0]) if strides.size else 1
        regular = stride > 0 and bool((strides == stride).all())
        lanes = self._lanes if self._process == os.getpid() else {}
        clips = zip(numbers.tolist(), episodes[numbers].tolist(), steps[numbers, :1].ravel().tolist(), strict=True)
        length, empty = (steps.shape[1] - 1) * stride + 1, dict[str, Any]()
        for number, episode, start in clips if steps.size else ():
            rows_of = lanes.get(episode, empty).get(block)
            if rows_of is None:
                rows_of = self._open_lane(episode, block, lane)
            if regular and isinstance(rows_of, FrameRows):
                rows_of.read_into(out[number], start, stride)
            elif regular:
                out[number] = rows_of[start : start + length : stride]
            else:
                first, last = int(steps[number].min()), int(steps[number].max())
                out[number] = rows_of[first : last + 1][steps[number] - first]

    def _open_lane(self, episode: int, block: str, lane: Declaration) -> Any:
        reader, name = self._reader(episode), self.name_there(episode, block)
        if not reader.has(name):
            raise DatasetError(
                f"{reader.where}: expected a lane {name!r} as in the first episode, found none: choose columns that "
                "all have by keys_to_load, or leave such clips out by on_error='skip' of ClipLoader"
            )
        view = reader.lane_view(name)
        fits = view.dtype == lane.dtype.numpy_dtype or lane.dtype.joined(DType.from_numpy(view.dtype)) is lane.dtype
        if not fits or view.shape[1:] != lane.shape:
            raise DatasetError(
                f"{reader.where}: {name!r}: expected {describe_lane(lane)}, or narrower floats, as in the first "
                f"episode, found {view.dtype} {list(view.shape[1:])}"
            )
        frames = reader.encoded(name)
        mapped = view.mapped() if frames is None else frame_rows(view, frames)
        rows = view if mapped is None else mapped
        self._lanes.setdefault(episode, {})[block] = rows
        return rows

    def name_there(self, episode: int, block: str) -> str:
        """Return the block name of a lane at the location of an episode."""
        return self.renamed.get((int(self.source_indices[episode]), block), block)

    def _reader(self, episode: int) -> EpisodeReader:
        if self._process != os.getpid():  # files that a parent process opened must not be used here
            self._open, self._lanes, self._process = OrderedDict(), {}, os.getpid()
        if episode not in self._open:
            if len(self._open) >= self._max_open:
                self._close_episode(next(iter(self._open)))
            self._open[episode] = self._open_episode(episode)
        return self._open[episode]

    def _open_episode(self, episode: int) -> EpisodeReader:
        reader: EpisodeReader = self.sources[self.source_indices[episode]].open(self.keys[episode])
        if self.lengths is not None and reader.length != self.lengths[episode]:
            where, length = reader.where, reader.length
            reader.close()
            raise StaleEpisodeError(
                f"{where}: expected {self.lengths[episode]} timesteps as when the data set was made, found {length}: "
                "make the data set anew"
            )
        return reader

    def _close_episode(self, episode: int) -> None:
        self._lanes.pop(episode, None)
        self._open.pop(episode).close()

    def close(self) -> None:
        """Close all open files."""
        for episode in list(self._open):
            self._close_episode(episode)
        for source in self.sources:
            source.close()


class FrameRows:
    """Encoded frames that are decoded into arrays; `frames` stay open with their file."""

    def __init__(self, frames: EncodedFrames) -> None:
        self._frames = frames

    def read_into(self, out: Array, start: int, stride: int) -> None:
        """Decode len(out) frames, `stride` apart, from `start` on."""
        if stride == 1:
            self._frames.decode_into(out, start)
            return
        for number in range(len(out)):
            self._frames.decode_into(out[number : number + 1], start + number * stride)

    def __getitem__(self, steps: slice) -> Array:
        return self._frames.decode(steps.start, steps.stop)


def frame_rows(view: LazyLane, frames: EncodedFrames) -> FrameRows:
    """Return the frames of a lane as rows.

    Images in an episode file are views of it, without verifying a checksum. Videos stay open, as many as memory allows.
    """
    if isinstance(frames, VideoFrames):
        height, width, _ = frames.shape
        POOL.allow(min(_MAX_VIDEOS, _VIDEO_MEMORY // (height * width * _FRAME_COST)))
    elif isinstance(view, EncodedLane) and isinstance(frames, ImageFrames) and isinstance(frames.images, StoredImages):
        frames = replace(frames, images=_MappedImages(view, frames.images))
    return FrameRows(frames)


class _MappedImages(Sequence[Any]):
    """The images of a block, as views of its file."""

    def __init__(self, view: EncodedLane, images: StoredImages) -> None:
        self._data = view.stored_bytes()
        count = len(images)
        _ = images[0:count]  # checks their offsets
        self._offsets: list[int] = np.frombuffer(self._data[: 8 * (count + 1)], "<u8").tolist()

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, step: Any) -> Any:
        return self._data[self._offsets[step] : self._offsets[step + 1]]
