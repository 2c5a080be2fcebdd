"""What Sinks of world-model data sets have in common: an episode has the columns of the first, or is refused."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

import numpy as np

from wshard.episode.lanes import DONE, REWARD, TIMESTAMPS, TRUNCATIONS
from wshard.errors import EpisodeError, FormatError, RecordingStateError
from wshard.formats.draft import check_mode
from wshard.formats.world_model.columns import TEXT, StepColumn, name_columns
from wshard.media.frames import ImageFrames
from wshard.media.images import encode_image
from wshard.types import Channel, Modality

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from wshard.episode.info import EpisodeInfo
    from wshard.formats.base import Location
    from wshard.formats.draft import WriteMode
    from wshard.types import Episode


_FULL_DISK: Final = re.compile(r"No space left on device|errno = 28\\b|os error 28\\b")


class RowsSink(ABC):
    """A subclass defines `_open`, `_append`, `_publish` and `_discard`; frame_encoding: how images are stored.

    What was written takes its place in `close`, all of it or nothing; after an error in writing, and where the context
    is left by an exception, nothing of it does.
    """

    frame_encoding: ClassVar[str] = ""
    reserved: ClassVar[tuple[str, ...]] = ("ep_len", "ep_offset")
    separator: ClassVar[str] = "."
    other_shape: ClassVar[str] = "shape mismatch"

    def __init__(self, location: Location, *, compression: Any = "none", mode: WriteMode = "append") -> None:
        check_mode(mode)
        if not isinstance(location, (str, os.PathLike)):
            raise FormatError(f"expected a path: this format is not written to file objects, found {location!r}")
        if compression != "none":
            raise FormatError(f"{os.fspath(location)}: expected compression 'none', found {compression!r}")
        self.path = os.fspath(location)
        self.mode: WriteMode = mode
        self.count = 0
        self._columns: dict[str, StepColumn] | None = None
        self._state = "new"

    @abstractmethod
    def _open(self) -> tuple[dict[str, StepColumn] | None, int]:
        """Begin to write; return the columns of the episodes that stay, None for none, and their number."""

    @abstractmethod
    def _append(self, columns: Mapping[str, Any], length: int) -> None:
        """Write the rows of an episode: arrays, lists of texts, and channels of images."""

    @abstractmethod
    def _publish(self) -> None:
        """Put what was written in its place."""

    @abstractmethod
    def _discard(self) -> None:
        """Remove what was written."""

    def __enter__(self) -> Self:
        self._begin()
        return self

    def __exit__(self, *exc: object) -> None:
        if any(exc) and self._state == "open":
            self._state = "failed"
        self.close()

    def _begin(self) -> None:
        if self._state == "new":
            self._columns, self.count = self._open()
            self._state = "open"
        if self._state != "open":
            raise RecordingStateError(f"{self.path}: expected to write before an error and before close")

    def write(self, ep: Episode) -> str:
        """Write one episode; returns its key. Raises EpisodeError for one that has not the columns of the others."""
        ep.validate()
        self._begin()
        columns = self._rows_of(ep)
        for name in self.reserved:
            if name in columns:
                raise EpisodeError(f"{self.path}: column {name!r}: expected another name: the format has its own of it")
        found = {name: self._column_of(name, block, rows) for name, (block, rows) in columns.items()}
        if self._columns is None:
            self._columns = found
        compare_columns(self._columns, found, f"{self.path}: episode {ep.id!r}", self.other_shape)
        try:
            with self._name_disk_errors():
                self._append({name: columns[name][1] for name in self._columns}, ep.length)
        except BaseException:
            self._state = "failed"
            raise
        self.count += 1
        return str(self.count - 1)

    def has(self, id_: str) -> bool:
        """Return False: these sets hold no ids, and an interrupted writing leaves none of its episodes."""
        return False

    def close(self) -> None:
        """End the writing: what was written is in its place from here on, or gone after an error."""
        state, self._state = self._state, "closed"
        nothing = state == "open" and self.mode == "overwrite" and not self.count and os.path.exists(self.path)  # noqa: PTH110
        if nothing:  # all were refused: what is there stays
            self._discard()
        elif state == "open":
            try:
                with self._name_disk_errors():
                    self._publish()
            except BaseException:
                self._discard()
                raise
        elif state == "failed":
            self._discard()

    @contextlib.contextmanager
    def _name_disk_errors(self) -> Iterator[None]:
        """Raise what a library says of a full disk as the system does, with the path."""
        try:
            yield
        except (OSError, RuntimeError, ValueError) as error:
            full = _FULL_DISK.search(str(error)) is not None
            if full and not getattr(error, "filename", None):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path) from error
            raise

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
            if isinstance(value, str) and self._takes_text(name, columns):
                columns[name] = ("", [value] * ep.length)
            elif is_text_index(name, value, columns):
                columns[name] = ("", [value[number] for number in columns[name][1].tolist()])
        return columns

    def _takes_text(self, name: str, columns: Mapping[str, Any]) -> bool:
        """Say whether a text of the metadata is a column: the task, and what is a column already."""
        known = self._columns is not None and name in self._columns and self._columns[name].encoding == TEXT
        return name not in columns and (known or (self._columns is None and name in ("task", *self.texts)))

    texts: Sequence[str] = ()
    """Texts of the metadata that are columns, beside the task."""

    def _column_of(self, name: str, block: str, rows: Any) -> StepColumn:
        if isinstance(rows, list):
            return StepColumn(name, np.dtype(object), (), TEXT)
        if isinstance(rows, Channel):
            return StepColumn(name, np.dtype(np.uint8), tuple(rows.shape), self.frame_encoding, block)
        return StepColumn(name, rows.dtype, tuple(rows.shape[1:]), "", block)

    def losses(self, info: EpisodeInfo) -> list[str]:
        """Return what of an episode the format cannot hold."""
        names = name_columns(info.lanes, self.separator)
        lost = [f"{block}: no column of this format" for block in info.lanes if block not in names]
        for block, lane in info.lanes.items():
            image = lane.modality is Modality.RGB or (lane.dtype.value == "u8" and len(lane.shape) == 3)
            fits = image and lane.shape[2:] in ((1,), (3,)) and lane.encoding != self.frame_encoding
            if self.frame_encoding and fits:
                lost.append(f"{block}: stored as {self.frame_encoding}, which changes values a little")
        kept = ("task", *self.texts)
        gone = [key for key in info.metadata if key not in kept and not is_text_index(key, info.metadata[key], names)]
        return [*lost, *(f"metadata {key!r}: only per-timestep texts are stored" for key in gone)]


def is_image(channel: Channel) -> bool:
    """Say whether a lane has images [H, W, 1] or [H, W, 3] of uint8, as far as it declares what it has."""
    image = channel.encoded is not None or channel.modality in (None, Modality.RGB)
    return image and channel.dtype.value == "u8" and len(channel.shape) == 3 and channel.shape[2] in (1, 3)


def is_text_index(name: str, value: object, columns: Mapping[str, Any]) -> bool:
    """Say whether metadata list the texts whose numbers a column has."""
    texts = isinstance(value, list) and bool(value) and all(isinstance(text, str) for text in value)
    return texts and (name in columns or f"signal/{name}" in columns)


def compare_columns(
    known: Mapping[str, StepColumn], found: Mapping[str, StepColumn], where: str, other_shape: str
) -> None:
    """Raise EpisodeError where the columns of an episode are not those of the others; other_shape: its name."""
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


def image_bytes(channel: Channel, quality: int) -> Any:
    """Yield the JPEG of each frame: as it is where the lane is encoded so, else encoded."""
    frames = channel.encoded
    for step in range(channel.length):
        if isinstance(frames, ImageFrames) and frames.encoding == "jpeg":
            yield bytes(frames.image(step))
        else:
            yield encode_image(channel.data[step], "jpeg", quality=quality)
