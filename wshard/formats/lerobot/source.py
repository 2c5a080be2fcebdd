"""LeRobot data sets as a Source: episodes are read in place, numbers from Parquet and frames from MP4."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
import xxhash

from wshard.core.episode.info import EpisodeInfo
from wshard.core.episode.lanes import DONE, STEP_TEXTS, TRUNCATIONS
from wshard.core.episode.protocol import Fingerprint
from wshard.core.episode.step_texts import TASK, declare_texts, find_positions, list_texts
from wshard.core.media.frames import ImageFrames
from wshard.core.media.video_frames import VideoFrames
from wshard.core.types import TimebaseSpec
from wshard.errors import FormatError, MissingFileError, WShardError
from wshard.formats.lazy_source import LazySource
from wshard.formats.lerobot.check_rows import check_rows, check_tasks
from wshard.formats.lerobot.dataset_info import BOOKKEEPING, INFO
from wshard.formats.lerobot.dataset_meta import DatasetMeta, native_id, read_dataset
from wshard.formats.lerobot.episode_table import EpisodeEntry
from wshard.formats.lerobot.features import (
    IMAGE,
    LANGUAGE,
    SUCCESS,
    TEXT,
    VIDEO,
    block_of,
    declare_frames,
    declare_numbers,
)
from wshard.formats.lerobot.parquet_columns import MAX_FOOTERS, ParquetColumns
from wshard.formats.lerobot.read_meta import EPISODES_V2, EPISODES_V3
from wshard.formats.look import look_at

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wshard.core.episode.meta_reader import Declaration
    from wshard.core.files.place import Place
    from wshard.core.files.schemes import Location
    from wshard.core.media.frames import EncodedFrames
    from wshard.core.types import Array
    from wshard.formats.lerobot.dataset_info import DatasetInfo, Feature
    from wshard.formats.look import LocationLook

_TASKS: Final = f"{STEP_TEXTS}{TASK}"
_MAX_FINGERPRINTS: Final = 64
_HASHED_BITS: Final = 20  # last bits of a file's time in ns that are replaced by a hash: about a millisecond


class LeRobotSource(LazySource[EpisodeEntry]):
    """A folder with meta/info.json of codebase v2.0, v2.1 or v3.0. The key of an episode is its number."""

    whole = True
    most_open = MAX_FOOTERS
    meaning: ClassVar = (
        ("observation.NAME", "signal/observation.NAME"),
        ("action, action.NAME", "action/action, action/action.NAME; action t was taken at observation t"),
        ("next.reward", "reward, in the dtype of the column"),
        ("next.done", "done"),
        ("next.truncated", "aux/truncations"),
        ("next.success", "signal/next.success; metadata success: whether it is ever true"),
        ("other features of numbers", "signal/NAME"),
        (
            "features of text",
            "metadata NAME; if it changes, a list, and aux/text/NAME, which is not embedded: positions in it",
        ),
        ("image features", "encoded lane signal/NAME of PNG, decoded [H, W, C]"),
        ("video features", "encoded lane signal/NAME, a span of an MP4, decoded [H, W, C]; depth as 12-bit codes"),
        (
            "task_index, tasks",
            "metadata task; if it changes, a list, and aux/text/task, which is not embedded: positions",
        ),
        ("fps", "rate of the timebase; frame t is the one at from_timestamp + t / fps"),
        ("robot_type", "env_id"),
        ("names of a feature", "names of the channels of its lane; units are not stated"),
        ("timestamp, frame_index, episode_index, index", "derived from rate and position, which they must agree with"),
        ("language features of 0.6", "left out"),
    )

    @staticmethod
    def matches(location: Location | LocationLook) -> bool:
        """Return True for a folder with meta/info.json that has a codebase_version, or is damaged."""
        look = look_at(location)
        info = look.read_json(INFO) if "meta" in look.names else None
        if info is None and "data" in look.names and look.exists(INFO):
            return look.exists(EPISODES_V3) or look.exists(EPISODES_V2)  # opening it reports the error
        return isinstance(info, dict) and "codebase_version" in info and "features" in info

    @cached_property
    def _meta(self) -> DatasetMeta:
        if not self._place.is_dir():
            raise FormatError(f"{self._place}: expected the folder of a LeRobot data set")
        return read_dataset(self._place)

    @property
    def _folder(self) -> Place:
        return self._meta.folder

    @property
    def _dataset(self) -> DatasetInfo:
        return self._meta.info

    @cached_property
    def _dataset_hash(self) -> int:
        description = (self._dataset.fps, self._dataset.robot_type, list(self._dataset.features.values()))
        return xxhash.xxh3_64_intdigest(repr(description).encode(errors="surrogatepass"))

    def _scan(self) -> Mapping[str, EpisodeEntry]:
        return self._meta.episodes

    def _files(self, ref: EpisodeEntry) -> list[Place]:
        return [self._folder / ref.data, *(self._folder / span.path for span in ref.videos.values())]

    def fingerprint(self, key: str) -> Fingerprint:
        """Return the episode's share of its file's size, and the time, its last bits a hash of its description.

        So an episode that is added to the data set changes only the fingerprints of episodes in the same files.
        """
        ref = self._find(key)
        data = self._state(ref.data)
        if data is None:
            raise MissingFileError(f"{self.where_of(key)}: expected the file {ref.data}, found none")
        videos = [self._state(span.path) for span in ref.videos.values()]
        description = repr((ref, videos, self._meta.origin(ref.number, ref.length), self._dataset_hash))
        mixed = xxhash.xxh3_64_intdigest(description.encode(errors="surrogatepass")) & ((1 << _HASHED_BITS) - 1)
        return Fingerprint(round(data.size * ref.share), data.mtime_ns >> _HASHED_BITS << _HASHED_BITS | mixed)

    # ---- descriptions, without reading data --------------------------------------------------------------------------

    def _describe(self, key: str, ref: EpisodeEntry) -> EpisodeInfo:
        dataset, file = self._dataset, self._open(ref)
        origin = self._meta.origin(ref.number, ref.length)
        metadata: dict[str, Any] = dict(origin.get("metadata") or {})
        lanes: dict[str, Declaration] = {}
        if len(ref.tasks) == 1:
            metadata["task"] = ref.tasks[0]
        elif tasks := self._task_list(ref):
            metadata["task"] = tasks
            lanes[_TASKS] = declare_texts(TASK)
        for feature, lane in self._declared(ref.data):
            self._add_feature(ref, feature, lane, (lanes, metadata))
        if SUCCESS in dataset.features and ref.length:
            metadata["success"] = bool(file.bounds(SUCCESS, ref.start, ref.start + ref.length)[1])
        return EpisodeInfo(
            id=origin.get("id") or native_id(ref.number),
            length=ref.length,
            lanes=lanes,
            env_id=origin.get("env_id", dataset.robot_type),
            timebase=TimebaseSpec(tick_hz=dataset.fps),
            metadata=metadata,
            stored_sizes=self._frame_sizes(ref),
        )

    def _add_feature(
        self,
        ref: EpisodeEntry,
        feature: Feature,
        lane: Declaration,
        target: tuple[dict[str, Declaration], dict[str, Any]],
    ) -> None:
        lanes, metadata = target
        if feature.dtype == TEXT:
            name = lane.block.removeprefix(STEP_TEXTS)
            metadata[name] = list_texts(self._texts(ref, feature.name))
            if not isinstance(metadata[name], list):
                return
        if lane.block in lanes:
            raise FormatError(f"{self._folder / INFO}: expected one feature for lane {lane.block!r}, found two")
        lanes[lane.block] = lane

    def _declared(self, data: str) -> list[tuple[Feature, Declaration]]:
        """Return the features of the file `data` with their lanes."""

        def declare() -> list[tuple[Feature, Declaration]]:
            features = self._dataset.features.values()
            features_to_read = [
                feature for feature in features if feature.name not in BOOKKEEPING and feature.dtype != LANGUAGE
            ]
            return [(feature, self._declare(data, feature)) for feature in features_to_read]

        return self._remember("lanes", data, declare, limit=1)

    def _declare(self, data: str, feature: Feature) -> Declaration:
        """Return the lane of a feature; the dtype of numbers is that of their column in the file `data`."""
        if feature.dtype == TEXT:
            return declare_texts(block_of(feature).removeprefix(STEP_TEXTS))
        if feature.dtype in {IMAGE, VIDEO}:
            return declare_frames(feature)
        file = self.open_once(data, lambda: ParquetColumns(self._folder / data))
        return declare_numbers(feature, file.dtype(feature.name))

    def _task_list(self, ref: EpisodeEntry) -> list[str]:
        """Return the tasks of an episode that lists several or none; of none, those between its lowest and highest."""
        if ref.tasks or "task_index" not in self._dataset.features or not ref.length:
            return list(dict.fromkeys(ref.tasks))
        low, high = self._open(ref).bounds("task_index", ref.start, ref.start + ref.length)
        check_tasks((low, high), self._meta.tasks, self.where_of(str(ref.number)))
        return [self._meta.tasks[number] for number in range(int(low), int(high) + 1) if number in self._meta.tasks]

    def _frame_sizes(self, ref: EpisodeEntry) -> dict[str, int]:
        sizes = {}
        for feature, lane in self._declared(ref.data):
            if feature.dtype == IMAGE and ref.length:
                sizes[lane.block] = self._open(ref).stored_size(feature.name, ref.start, ref.start + ref.length)
            elif feature.dtype == VIDEO and feature.name in ref.videos:
                span = ref.videos[feature.name]
                state = None if span.shared else self._state(span.path)
                sizes |= {} if state is None else {lane.block: state.size}
        return sizes

    def is_current(self, key: str) -> bool:
        """Return True if the meta folder and the episode's files with returned fingerprints are unchanged."""
        try:
            if read_dataset(self._folder) is not self._meta:
                return False
            ref, states = self._find(key), self._cache("states")
            paths = {ref.data, *(span.path for span in ref.videos.values())} & states.keys()
            return all(self._fingerprint_of(path) == states[path] for path in paths)
        except (OSError, WShardError):
            return False

    def _state(self, path: str) -> Fingerprint | None:
        """Return the fingerprint that a file had at the first call, None if it does not exist."""
        fingerprints = self._cache("states")
        if path not in fingerprints:
            fingerprints[path] = self._fingerprint_of(path)
            if len(fingerprints) > _MAX_FINGERPRINTS:
                fingerprints.popitem(last=False)
        fingerprint: Fingerprint | None = fingerprints[path]
        return fingerprint

    def _fingerprint_of(self, path: str) -> Fingerprint | None:
        try:
            return Fingerprint.of(self._folder / path)
        except FileNotFoundError:
            return None

    # ---- data --------------------------------------------------------------------------------------------------------

    def _open(self, ref: EpisodeEntry) -> ParquetColumns:
        """Return the open file of an episode; raises FormatError unless its rows are the timesteps."""
        current = self._cache("current")
        file: ParquetColumns | None = current.get("file")
        if file is None or file.closed or current["entry"] is not ref:
            file = self.open_once(ref.data, lambda: ParquetColumns(self._folder / ref.data))
            check_rows(file, ref, self._meta)
            current |= {"file": file, "entry": ref}
        return file

    def _read(self, ref: EpisodeEntry, info: EpisodeInfo, block: str, steps: slice) -> Array:
        lane, start, stop = info.lanes[block], ref.start + steps.start, ref.start + steps.stop
        if lane.encoding:
            return self._encoded(ref, info, block).decode(steps.start, steps.stop)
        file = self._open(ref)
        if block.startswith(STEP_TEXTS):
            if block == _TASKS:
                numbers = file.numbers("task_index", (), start, stop).tolist()
                check_tasks(numbers, self._meta.tasks, self.where_of(str(ref.number)))
                texts = [self._meta.tasks.get(number, "") for number in numbers]
            else:
                texts = self._texts(ref, self._blocks[block].name)[steps]
            return find_positions(texts, info.metadata[block.removeprefix(STEP_TEXTS)], f"{self._folder}: {block}")
        feature = self._blocks[block]
        values = file.numbers(feature.name, feature.shape, start, stop).reshape(-1, *lane.shape)
        return values.astype(np.bool_, copy=False) if block in {DONE, TRUNCATIONS} else values

    def _texts(self, ref: EpisodeEntry, name: str) -> list[str]:
        rows = self._open(ref).texts(name, ref.start, ref.start + ref.length) if ref.length else []
        return [row or "" for row in rows]

    @cached_property
    def _blocks(self) -> dict[str, Feature]:
        features = self._dataset.features.values()
        return {block_of(feature): feature for feature in features if feature.name not in BOOKKEEPING}

    def _encoded(self, ref: EpisodeEntry, info: EpisodeInfo, block: str) -> EncodedFrames:
        feature, lane = self._blocks[block], info.lanes[block]
        shape, where = (lane.shape[0], lane.shape[1], lane.shape[2]), f"{self.where_of(str(ref.number))}: {block}"
        options: dict[str, Any] = {"frame_shape": shape, "frame_dtype": lane.dtype.numpy_dtype, "count": ref.length}
        if feature.dtype == IMAGE:
            images: Any = self._open(ref).images(feature.name, ref.start, ref.start + ref.length)
            return ImageFrames("png", images, where=where, **options)
        if feature.name not in ref.videos:
            raise FormatError(f"{where}: expected its file and first second in meta/episodes, found none")
        span = ref.videos[feature.name]
        path = self._folder / span.path
        return VideoFrames(path, fps=self._dataset.fps, from_timestamp=span.start, where=str(path), **options)
