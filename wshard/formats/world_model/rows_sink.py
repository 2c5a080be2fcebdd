"""The base of Sinks of world-model data sets, in which all episodes have the columns of the first."""

from __future__ import annotations

import io
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from wshard.core.array_fields import DType
from wshard.core.episode.lanes import DONE, EXACT_REWARD, REWARD, STEP_TEXTS, TIMESTAMPS, TRUNCATIONS
from wshard.core.episode.step_texts import TASK, text_lanes, texts_of
from wshard.core.media.frames import ImageFrames
from wshard.core.media.images import encode_image
from wshard.core.media.video_copy import copy_video
from wshard.core.media.video_frames import VideoFrames
from wshard.core.media.video_writer import encode_video
from wshard.core.types import Channel, Modality
from wshard.errors import EpisodeError
from wshard.formats.draft_sink import DraftSink, list_context_losses
from wshard.formats.world_model.columns import LENGTHS, OFFSETS, TEXT, StepColumn, block_of, id_of_number, name_columns

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from wshard.core.episode.info import EpisodeInfo
    from wshard.core.files.schemes import PathOrFile
    from wshard.core.types import Episode


class RowsSink(DraftSink):
    """A subclass defines `_append`; its `_begin` sets `_columns` and `count`. frame_encoding: how images are stored.

    notes_lanes_of: which columns, "all" or those of "numbers", note the lane that they are made from. count: the number
    of the next episode. options: values of fps, codec, quality or table_name, where a subclass has them.

    close() publishes all episodes, or none after an error in writing or an exception in the context.
    """

    cannot_hold: ClassVar[tuple[str, ...]] = (
        "ids: episodes are numbered in the order of writing",
        "rates, environments, and metadata other than texts",
        "predictions, uncertainties, residuals and blocks of other programs",
        "bf16, which becomes float32",
        "episodes of other columns, dtypes or shapes than the first one has",
    )
    content = "data set"
    codecs = "columns are stored as they are"
    numbers_episodes = True
    publishes_none = True
    frame_encoding: ClassVar[str] = ""
    reserved: ClassVar[tuple[str, ...]] = (LENGTHS, OFFSETS)
    separator: ClassVar[str] = "."
    other_shape: ClassVar[str] = "shape mismatch"
    notes_lanes_of: ClassVar[str] = ""

    stores_empty_rows: ClassVar[bool] = True
    """Whether a column may have no numbers in a timestep."""

    def __init__(self, location: PathOrFile, **options: Any) -> None:
        self.count = 0
        self._columns: dict[str, StepColumn] | None = None
        self._texts: Sequence[str] = ()  # further texts of the metadata that become columns, besides the task
        self._stated: Mapping[str, Any] = {}
        super().__init__(location, **options)

    @abstractmethod
    def _append(self, columns: Mapping[str, Any], length: int) -> None:
        """Write the rows of an episode: arrays, lists of texts, and frames as _encode_frames returns them."""

    def write_stated(self, ep: Episode, stated: Mapping[str, Any]) -> str:
        """Write one episode whose texts are columns, and what is stated once for it, in formats that store it."""
        self._texts, self._stated = [*ep.metadata], stated
        return self.write(ep)

    def _add(self, ep: Episode, draft: Path) -> str:
        columns = self._rows_of(ep)
        for name in self.reserved:
            if name in columns:
                raise EpisodeError(f"{self._where}: column {name!r}: expected another name: the format reserves it")
        found = {name: self._column_of(name, block, rows) for name, (block, rows) in columns.items()}
        empty = None if self.stores_empty_rows else next((one for one in found.values() if 0 in one.shape), None)
        if empty is not None:
            where, shape = f"{self._where}: column {empty.name!r}", list(empty.shape)
            raise EpisodeError(f"{where}: expected at least one number a timestep, found {shape}")
        known = found if self._columns is None else self._columns
        compare_columns(known, found, f"{self._where}: episode {ep.id!r}", self.other_shape)
        rows = {name: self._encode(columns[name][1]) for name in known}  # raises before anything is written
        self._add_statements(self._stated, f"{self._where}: episode {ep.id!r}")
        self._columns = known
        try:
            self._append(rows, ep.length)
        except BaseException:
            self._state = "failed"
            raise
        self.count += 1
        return str(self.count - 1)

    def _encode(self, rows: Any) -> Any:
        return self._encode_frames(rows) if isinstance(rows, Channel) else rows

    def _encode_frames(self, channel: Channel) -> Any:
        """Return the frames of a lane as they are stored; raises EpisodeError, CodecError."""
        raise NotImplementedError

    def _add_statements(self, stated: Mapping[str, Any], where: str) -> None:
        if stated:
            raise EpisodeError(
                f"{where}: episode data: expected none: this format stores rows only, found {sorted(stated)}"
            )

    def has(self, id_: str) -> bool:
        """Return False: these data sets store no ids, and interrupted writing leaves no episodes."""
        return False

    def next_id(self, ahead: int = 0) -> str:
        """Return the id of the next episode, or of one further ahead."""
        return id_of_number(self.count + ahead)

    # ---- columns -------------------------------------------------------------------------------------------------

    def _rows_of(self, ep: Episode) -> dict[str, tuple[str, Any]]:
        """Return block and rows of each column: arrays, channels of images, lists of texts."""
        lanes: dict[str, Any] = {}
        for block, channel in ep.lanes().items():
            lanes[block] = channel if is_image(channel) and self.frame_encoding else channel.data
        steps = {REWARD: ep.rewards, DONE: ep.terminations, TRUNCATIONS: ep.truncations, TIMESTAMPS: ep.timestamps_ns}
        lanes |= {block: np.asarray(values) for block, values in steps.items() if values is not None}
        columns = {name: (block, lanes[block]) for block, name in name_columns(lanes, self.separator).items()}
        for name, value in ep.metadata.items():
            column = name.replace("/", self.separator)
            if isinstance(value, str) and self._takes_text(name, column, columns):
                columns[column] = ("", [value] * ep.length)
        for name, texts in texts_of(ep).items():
            columns.setdefault(name.replace("/", self.separator), ("", texts))
        return columns

    def _takes_text(self, name: str, column: str, columns: Mapping[str, Any]) -> bool:
        """Say whether a text of the metadata becomes a column: the task, and existing columns."""
        known = self._columns is not None and column in self._columns and self._columns[column].encoding == TEXT
        new = name in self._texts or (self._columns is None and name == TASK)
        return column not in columns and (known or new)

    def _column_of(self, name: str, block: str, rows: Any) -> StepColumn:
        if isinstance(rows, list):
            return StepColumn(name, np.dtype(object), (), TEXT)
        if isinstance(rows, Channel):
            return StepColumn(name, np.dtype(np.uint8), tuple(rows.shape), self.frame_encoding, block)
        return StepColumn(name, rows.dtype, tuple(rows.shape[1:]), "", block)

    def shared_lanes(self, info: EpisodeInfo) -> Collection[str]:
        """Return the lanes that are columns."""
        return name_columns(info.lanes, self.separator)

    def losses(self, info: EpisodeInfo) -> list[str]:
        """Return what the format cannot store of an episode."""
        names = name_columns(info.lanes, self.separator)
        texts = text_lanes(info)
        losses = [
            f"{block}: no column of this format" for block in info.lanes if block not in {*names, *texts, EXACT_REWARD}
        ]
        for block, lane in info.lanes.items():
            image = lane.modality is Modality.RGB or (lane.dtype.value == "u8" and len(lane.shape) == 3)
            fits = image and lane.shape[2:] in ((1,), (3,)) and lane.encoding != self.frame_encoding
            if self.frame_encoding and fits:
                losses.append(f"{block}: stored as {self.frame_encoding}, which changes values a little")
        losses += [f"{block}: bf16 becomes float32" for block in names if info.lanes[block].dtype is DType.BFLOAT16]
        renamed = {block: block_of(name) for block, name in names.items() if block_of(name) != block}
        for block, name in renamed.items():
            frames = bool(self.frame_encoding) and len(info.lanes[block].shape) == 3
            if not self.notes_lanes_of or (frames and self.notes_lanes_of == "numbers"):
                losses.append(f"{block}: becomes {name}")
        losses += list_context_losses(info)
        stored = {block.removeprefix(STEP_TEXTS) for block in texts}
        stored |= {name for name in (TASK, *self._texts) if isinstance(info.metadata.get(name), str)}
        return losses + [
            f"metadata {key!r}: only per-timestep texts are stored" for key in info.metadata if key not in stored
        ]


def is_image(channel: Channel) -> bool:
    """Say whether a lane has uint8 images [H, W, 1] or [H, W, 3], unless it declares another modality."""
    image = channel.encoded is not None or channel.modality in (None, Modality.RGB)
    return image and channel.dtype.value == "u8" and len(channel.shape) == 3 and channel.shape[2] in (1, 3)


def compare_columns(
    known: Mapping[str, StepColumn], found: Mapping[str, StepColumn], where: str, other_shape: str
) -> None:
    """Raise EpisodeError for columns that differ from those of other episodes; other_shape: name of that error."""
    missing, unexpected = sorted(known.keys() - found.keys()), sorted(found.keys() - known.keys())
    if missing or unexpected:
        raise EpisodeError(
            f"{where}: append failed: schema mismatch: Missing columns: {missing}; unexpected columns: {unexpected}"
        )
    for name, column in known.items():
        other = found[name]
        facts = [(one.encoding, one.shape, _dtype_of(one)) for one in (column, other)]
        kinds = ("image-vs-tabular type mismatch", other_shape, "dtype mismatch")
        for kind, existing, incoming in zip(kinds, *facts, strict=True):
            if existing != incoming:
                raise EpisodeError(f"{where}: column {name!r}: {kind}: existing={existing}, incoming={incoming}")


def _dtype_of(column: StepColumn) -> str:
    return "text" if column.encoding == TEXT else str(column.dtype.newbyteorder("="))


def image_bytes(channel: Channel, quality: int) -> Iterator[bytes]:
    """Yield the JPEG of each frame, unchanged if the lane is already encoded so."""
    frames = channel.encoded
    for step in range(channel.length):
        if isinstance(frames, ImageFrames) and frames.encoding == "jpeg":
            yield bytes(frames.image(step))
        else:
            yield encode_image(channel.data[step], "jpeg", quality=quality)


def encode_mp4(channel: Channel, fps: float, codec: str) -> bytes:
    """Return the frames of a lane as an MP4: a video that starts with its first frame unchanged, others encoded."""
    if isinstance(channel.encoded, VideoFrames):
        data, first = copy_video(channel.encoded)
        if first == 0:
            return data
    file = io.BytesIO()
    encode_video(channel.data, file, fps=fps, codec=codec)
    return file.getvalue()
