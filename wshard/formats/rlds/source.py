"""RLDS data sets as a Source: each episode is a record of a shard, whose values are read on demand."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final

from wshard.core.array_fields import DType
from wshard.core.episode.encoded_lane import image_frames
from wshard.core.episode.info import EpisodeInfo
from wshard.core.episode.lanes import DONE, REWARD, STEP_TEXTS, TIMESTAMPS, TRUNCATIONS
from wshard.core.episode.meta_reader import Declaration, stated_clock
from wshard.core.episode.step_texts import declare_texts, find_positions, list_texts
from wshard.core.media.image_header import read_image_header
from wshard.core.types import TimebaseSpec
from wshard.errors import CodecError, FormatError, LaneError, MissingFileError, UnsupportedFormatError
from wshard.formats.hdf5.values import parse_object, read_object
from wshard.formats.lazy_source import LazySource
from wshard.formats.look import look_at
from wshard.formats.rlds.array_record_file import ArrayRecordFile
from wshard.formats.rlds.dataset_info import INFO, MAX_JSON, TFRECORD, RecordPlace, read_dataset_info
from wshard.formats.rlds.example import parse_example
from wshard.formats.rlds.features import FEATURES, IMAGE, NUMBER, TEXT, read_features
from wshard.formats.rlds.step_values import (
    expect_items,
    find_values,
    read_numbers,
    step_shape,
    texts_of,
    values_of,
)
from wshard.formats.rlds.tfrecord import TFRecordFile

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wshard.core.files.place import Place
    from wshard.core.files.schemes import Location
    from wshard.core.media.frames import ImageFrames
    from wshard.core.types import Array
    from wshard.formats.look import LocationLook
    from wshard.formats.rlds.dataset_info import RLDSInfo
    from wshard.formats.rlds.example import ExampleFeature
    from wshard.formats.rlds.features import TFDSFeature

IS_FIRST, IS_LAST, IS_TERMINAL = "steps/is_first", "steps/is_last", "steps/is_terminal"
STEP_BLOCKS: Final = {"steps/reward": REWARD, IS_TERMINAL: DONE, "steps/timestamps_ns": TIMESTAMPS}
OWN_FIELD: Final = "wshard"
"""Field of episode_metadata with JSON of metadata, rate and epoch, for which RLDS has no fields."""

_TASKS: Final = ("language_instruction", "natural_language_instruction", "instruction", "task")
_PREFIXES: Final = (("steps/observation/", "signal/"), ("steps/action/", "action/"), ("steps/", "signal/"))
_NAMES: Final = ("episode_id", "env_id")
_MAX_RECORDS: Final = 2


class RLDSSource(LazySource[RecordPlace]):
    """A folder NAME/VERSION with dataset_info.json, features.json and shards. The key of an episode is SPLIT/NUMBER."""

    whole = True
    meaning: ClassVar = (
        ("steps/observation/NAME", "signal/NAME, nested names joined by /; one tensor: signal/observation"),
        ("steps/action", "action/action; a dict: action/NAME"),
        ("steps/reward", "reward, in its dtype"),
        ("steps/is_terminal", "done"),
        ("steps/is_last without is_terminal", "aux/truncations"),
        ("steps/discount and other features of numbers", "signal/discount, signal/NAME"),
        ("images", "encoded lane signal/NAME of JPEG or PNG, as stored"),
        (
            "texts of steps",
            "metadata NAME; if it changes, a list, and aux/text/NAME, which is not embedded: positions in it",
        ),
        ("language_instruction, natural_language_instruction, instruction, task", "metadata task, too"),
        (
            "episode_metadata/NAME and other features of the episode",
            "metadata NAME; episode_id, env_id: id, environment",
        ),
        ("alignment", "action t answers observation t; of the last step RLDS defines the observation alone"),
        ("clock", "not stated; in episode_metadata/wshard where wshard wrote the data set"),
        (
            "ragged features",
            "signal/NAME if all steps have the same size; else omitted, with the reason in metadata left_out",
        ),
        ("is_first", "follows from the place of the step"),
    )

    @staticmethod
    def matches(location: Location | LocationLook) -> bool:
        """Return True for a folder with dataset_info.json and features.json."""
        return look_at(location).names >= {INFO, FEATURES}

    @cached_property
    def _folder(self) -> Place:
        if not self._place.is_dir():
            raise FormatError(f"{self._place}: expected the folder of an RLDS data set")
        return self._place

    @cached_property
    def _dataset(self) -> RLDSInfo:
        return read_dataset_info(self._folder)

    @cached_property
    def _features(self) -> tuple[list[TFDSFeature], list[TFDSFeature]]:
        path = self._folder / FEATURES
        return read_features(read_object(path, MAX_JSON), str(path))

    @cached_property
    def _blocks(self) -> dict[str, TFDSFeature]:
        """The features of steps by lane, observations first; further ones of the same name are steps/NAME."""
        features: dict[str, TFDSFeature] = {}
        for feature in sorted(self._features[0], key=lambda feature: not feature.path.startswith("steps/observation")):
            if feature.path not in {IS_FIRST, IS_LAST}:
                block = block_of(feature)
                features[block if block not in features else _other_block(feature)] = feature
        return features

    def _scan(self) -> Mapping[str, RecordPlace]:
        return self._dataset.locations(self._folder)

    def _files(self, ref: RecordPlace) -> list[Place]:
        return [ref.shard, self._folder / FEATURES]

    # ---- records -----------------------------------------------------------------------------------------------------

    def _shard(self, ref: RecordPlace) -> TFRecordFile | ArrayRecordFile:
        file_class = TFRecordFile if self._dataset.file_format == TFRECORD else ArrayRecordFile
        try:
            return self.open_once(str(ref.shard), lambda: file_class(ref.shard))
        except FileNotFoundError:
            raise MissingFileError(f"{self._folder / INFO}: expected the file {ref.shard}, found none") from None

    def _record(self, ref: RecordPlace) -> dict[str, ExampleFeature]:
        """Return the features of an episode; their values stay in the record."""

        def read() -> dict[str, ExampleFeature]:
            where = f"{ref.shard}: record {ref.record}"
            return parse_example(self._shard(ref).read(ref.record), where)

        return self._remember("records", f"{ref.split}/{ref.number}", read, _MAX_RECORDS)

    def _verified_record(self, ref: RecordPlace) -> dict[str, ExampleFeature]:
        """Return the features of an episode after comparing its record with the checksum, once."""
        verified, key = self._cache("checked"), f"{ref.split}/{ref.number}"
        if key not in verified:
            self._shard(ref).check(ref.record)
            verified.clear()
            verified[key] = True
        return self._record(ref)

    # ---- description -------------------------------------------------------------------------------------------------

    def _describe(self, key: str, ref: RecordPlace) -> EpisodeInfo:
        record = self._record(ref)
        metadata: dict[str, Any] = {"dataset": self._dataset.name} if self._dataset.name else {}
        for feature in self._features[1]:
            metadata |= values_of(feature, record)
        length = self._length(record, ref)
        lanes = self._declare_lanes(record, length, metadata)
        texts = {
            feature.name.rpartition("/")[2]: block.removeprefix(STEP_TEXTS) for block, feature in self._blocks.items()
        }
        task = next((value for name in _TASKS if (value := metadata.get(texts.get(name, name)))), None)
        if isinstance(task, (str, list)):
            metadata.setdefault("task", task)
        if isinstance(metadata.get("success"), (int, float)):
            metadata["success"] = bool(metadata["success"])
        id_, env_id = (metadata.pop(name) if isinstance(metadata.get(name), str) else "" for name in _NAMES)
        clock = self._restore(metadata, ref)
        stored = {block: record[feature.path] for block, feature in self._blocks.items() if feature.path in record}
        return EpisodeInfo(
            id=id_ or f"{ref.split}_{ref.number:06d}",
            length=length,
            lanes=lanes,
            env_id=env_id,
            timebase=clock,
            metadata=metadata,
            stored_sizes={block: len(feature.data) for block, feature in stored.items() if block in lanes},
        )

    def _restore(self, metadata: dict[str, Any], ref: RecordPlace) -> TimebaseSpec:
        """Restore the metadata that wshard wrote, and return the clock."""
        text = metadata.pop(OWN_FIELD, None)
        if not isinstance(text, str):
            return TimebaseSpec()
        note = parse_object(text, f"{ref.shard}: record {ref.record}: episode_metadata/{OWN_FIELD}")
        metadata |= note["metadata"] if isinstance(note.get("metadata"), dict) else {}
        return stated_clock(note.get("tick_hz"), note.get("epoch_ns"))

    def _length(self, record: Mapping[str, ExampleFeature], ref: RecordPlace) -> int:
        """Return the number of steps, determined by flags, else texts and images, else numbers."""
        present = [feature for feature in self._features[0] if feature.path in record]
        flags = [feature for feature in present if feature.path in {IS_FIRST, IS_LAST, IS_TERMINAL}]
        counted_by_item = [feature for feature in present if feature.kind in {TEXT, IMAGE} or feature.encoding]
        sized = [feature for feature in present if feature.kind == NUMBER and None not in feature.shape]
        for feature in [*flags, *counted_by_item, *sized]:
            count = record[feature.path].count()
            size = 1 if feature in counted_by_item else math.prod(size or 0 for size in feature.shape)
            if size and count and count % size == 0:
                return count // size
        raise FormatError(f"{ref.shard}: record {ref.record}: expected steps, found none that can be counted")

    def _declare_lanes(
        self, record: Mapping[str, ExampleFeature], length: int, metadata: dict[str, Any]
    ) -> dict[str, Declaration]:
        lanes: dict[str, Declaration] = {}
        left_out: dict[str, str] = {}
        if IS_LAST in record and IS_TERMINAL in record:
            lanes[TRUNCATIONS] = Declaration(TRUNCATIONS, DType.BOOL)
        for block, feature in self._blocks.items():
            try:
                lane = _declare(block, feature, record, length)
            except (FormatError, UnsupportedFormatError) as error:
                left_out[feature.name] = str(error).rpartition(f"{feature.path}: ")[2]
                continue
            if isinstance(lane, Declaration):
                lanes[block] = lane
                continue
            name = block.removeprefix(STEP_TEXTS)
            metadata[name] = lane
            if isinstance(lane, list):
                lanes[block] = declare_texts(name)
        if left_out:
            metadata["left_out"] = left_out
        return lanes

    # ---- data --------------------------------------------------------------------------------------------------------

    def _read(self, ref: RecordPlace, info: EpisodeInfo, block: str, steps: slice) -> Array:
        record, lane = self._verified_record(ref), info.lanes[block]
        if lane.encoding:
            return self._encoded(ref, info, block).decode(steps.start, steps.stop)
        if block == TRUNCATIONS:
            last, terminal = (self._flags(record, path, info.length)[steps] for path in (IS_LAST, IS_TERMINAL))
            return last & ~terminal
        feature = self._blocks[block]
        values = find_values(feature, record)
        if feature.kind == TEXT:
            texts = texts_of(values, info.length)
            return find_positions(texts[steps], list(dict.fromkeys(texts)), values.where)
        shape = lane.shape or step_shape(feature, record, info.length)
        rows = read_numbers(values, feature, shape, length=info.length, steps=steps).reshape(-1, *lane.shape)
        return rows if rows.dtype == lane.dtype.numpy_dtype else rows.astype(lane.dtype.numpy_dtype)

    def _flags(self, record: Mapping[str, ExampleFeature], path: str, length: int) -> Array:
        values = record[path]
        if values.count() != length:
            raise LaneError(f"{values.where}: expected {length} flags, found {values.count()}")
        flags: Array = values.numbers() != 0
        return flags

    def _encoded(self, ref: RecordPlace, info: EpisodeInfo, block: str) -> ImageFrames:
        images = expect_items(find_values(self._blocks[block], self._verified_record(ref)), info.length)
        where = f"{self.where_of(f'{ref.split}/{ref.number}')}: {block}"
        return image_frames(info.lanes[block], images, where)


def block_of(feature: TFDSFeature) -> str:
    """Return the lane of a feature of steps."""
    if feature.path in STEP_BLOCKS and math.prod(size or 0 for size in feature.shape) == 1:
        return STEP_BLOCKS[feature.path]
    if feature.path == "steps/action":
        return "action/action"
    block = next(new + feature.path.removeprefix(old) for old, new in _PREFIXES if feature.path.startswith(old))
    if feature.kind != TEXT:
        return block
    name = block.removeprefix("signal/")
    is_reserved = name in {"left_out", "dataset", "success", OWN_FIELD, *_NAMES}
    return _other_block(feature) if is_reserved else f"{STEP_TEXTS}{name}"


def _other_block(feature: TFDSFeature) -> str:
    return f"{STEP_TEXTS if feature.kind == TEXT else 'signal/'}{feature.path}"


def _declare(
    block: str, feature: TFDSFeature, record: Mapping[str, ExampleFeature], length: int
) -> Declaration | str | list[str]:
    """Return the lane of a feature, or the metadata of a text feature; raises FormatError for other features."""
    values = find_values(feature, record)
    if feature.kind == TEXT:
        return list_texts(texts_of(values, length))
    if feature.kind == IMAGE:
        try:
            header = read_image_header(expect_items(values, length)[0], values.where)
        except CodecError as error:
            raise FormatError(str(error)) from error
        return Declaration(block, DType.from_numpy(header.dtype), header.shape, encoding=header.encoding)
    if feature.kind != NUMBER:
        raise FormatError(f"{feature.path}: a feature of another kind")
    shape = step_shape(feature, record, length)
    if block in STEP_BLOCKS.values():
        dtype = {DONE: DType.BOOL, TIMESTAMPS: DType.INT64}.get(block, DType.from_numpy(feature.dtype))
        return Declaration(block, dtype)
    return Declaration(block, DType.from_numpy(feature.dtype), shape)
