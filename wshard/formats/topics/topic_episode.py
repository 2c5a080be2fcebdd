"""A log of messages as one episode: which lanes its topics give, on one clock, and their values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, overload

import numpy as np

from wshard.core.array_fields import DType
from wshard.core.episode.info import EpisodeInfo
from wshard.core.episode.lanes import STAMPS, STEP_TEXTS, TIMESTAMPS
from wshard.core.episode.meta_reader import Declaration
from wshard.core.media.frames import ImageFrames
from wshard.core.media.image_header import read_image_header
from wshard.core.types import TimebaseSpec
from wshard.errors import FormatError, MissingExtraError, UnsupportedFormatError
from wshard.formats.topics.clock import CAMERA, HOUSEKEEPING, NUMBERS, TEXTS, choose_clock, named_clock
from wshard.formats.topics.decoders import choose_decoder
from wshard.formats.topics.images import encoded_image, holds_encoded_images, holds_raw_images, raw_image
from wshard.formats.topics.topic_columns import ColumnsBuilder, TopicColumns
from wshard.formats.topics.values import flatten_message

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from wshard.core.types import Array
    from wshard.formats.topics.message_log import MessageLog

_ACTION: Final = re.compile("cmd|action|command", re.IGNORECASE)
_HIDDEN: Final = re.compile("(^|/)_")  # topics that the action servers of ROS 2 use among themselves
_OUTSIDE: Final = "many of its messages come before or after those of the clock: --map TOPIC=clock names another"
_TASKS: Final = frozenset({"task", "instruction", "language_instruction"})

_SUCCESS: Final = {"true": True, "1": True, "false": False, "0": False}  # in metadata of MCAP, which are texts


@dataclass
class _Camera:
    """A topic of images. encoding: "" of raw ones."""

    topic: str
    encoding: str
    shape: tuple[int, int, int]
    dtype: np.dtype[Any]


class TopicEpisode:
    """The episode of an open log, which is closed with it. Its numbers are read once, its frames on demand."""

    def __init__(self, log: MessageLog, where: str, clock: str = "") -> None:
        """Look at the topics; clock: the topic or the rate, such as "20Hz", that gives the timesteps, "" to choose."""
        self.where = where
        self._log = log
        self._left_out: dict[str, str] = {}
        self._decoders: dict[str, Callable[[bytes], dict[str, Any]]] = {}
        self._cameras: dict[str, _Camera] = {}
        self._picks: dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}
        self._stamps = {name: stamps for name in sorted(log.topics) if len(stamps := log.stamps(name))}
        kinds = {name: kind for name in self._stamps if (kind := self._look_at(name)) is not None}
        if not kinds:
            reasons = "; ".join(f"{name}: {reason}" for name, reason in self._left_out.items()) or "no messages"
            raise FormatError(f"{where}: expected messages that can be read, found none: {reasons[:1000]}")
        self._clock = named_clock(clock, kinds, self._stamps, where) if clock else choose_clock(kinds, self._stamps)

    def close(self) -> None:
        """Close the log."""
        self._log.close()

    # ---- topics ------------------------------------------------------------------------------------------------------

    def _look_at(self, name: str) -> int | None:
        """Return the columns of a topic by its first message, None with a reason if it cannot be decoded."""
        topic = self._log.topics[name]
        first = self._log.read(name, 0)
        try:
            self._decoders[name] = decode = choose_decoder(topic, first)
            message = decode(first)
            if holds_encoded_images(topic.type):
                header = read_image_header(encoded_image(message))
                self._cameras[name] = _Camera(name, header.encoding, header.shape, header.dtype)
            elif holds_raw_images(topic.type):
                pixels = raw_image(message)
                self._cameras[name] = _Camera(name, "", (*pixels.shape,), pixels.dtype)
            else:
                flat = flatten_message(message)
                is_number = [isinstance(value, (np.ndarray, np.generic, int, float)) for value in flat.values()]
                return NUMBERS if any(is_number) else TEXTS
        except MissingExtraError:
            raise
        except (FormatError, UnsupportedFormatError, UnicodeDecodeError) as error:
            self._left_out[name] = str(error)
            return None
        return CAMERA

    def _pick(self, topic: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the messages of a topic that timesteps show, each once, and which of them each timestep shows."""
        if topic not in self._picks:
            picked = self._clock.pick(topic, self._stamps[topic])
            self._picks[topic] = np.unique(picked, return_inverse=True)
        return self._picks[topic]

    def _decode(self, topic: str, number: int) -> dict[str, Any]:
        try:
            return self._decoders[topic](self._log.read(topic, number))
        except (FormatError, UnsupportedFormatError) as error:
            raise FormatError(f"{self.where}: topic {topic!r}: message {number}: {error}") from error

    @cached_property
    def _columns(self) -> dict[str, TopicColumns]:
        """The columns of topics of numbers and texts, made in the order of recording: each chunk is expanded once."""
        topics = [name for name in self._decoders if name not in self._cameras and name not in self._left_out]
        builders = [ColumnsBuilder() for _ in topics]
        picked = [self._pick(name)[0] for name in topics]
        none = np.zeros(0, np.int64)
        stamps = [self._stamps[name][numbers] for name, numbers in zip(topics, picked, strict=True)]
        order = np.argsort(np.concatenate([none, *stamps]), kind="stable")
        owners = np.repeat(np.arange(len(topics)), [len(numbers) for numbers in picked])[order]
        for owner, number in zip(owners.tolist(), np.concatenate([none, *picked])[order].tolist(), strict=True):
            builders[owner].add(flatten_message(self._decode(topics[owner], number)))
        return {name: builder.finish() for name, builder in zip(topics, builders, strict=True)}

    # ---- lanes -------------------------------------------------------------------------------------------------------

    @cached_property
    def _numbers(self) -> dict[str, tuple[str, Array]]:
        """Topic and rows of every lane of numbers, by block name."""
        found: dict[str, tuple[str, Array]] = {}
        for topic, columns in self._columns.items():
            prefix = f"{_group_of(topic)}/{_name_of(topic)}"
            rows = {f"{prefix}/{path}": array for path, array in columns.numbers.items()}
            rows |= {f"{STEP_TEXTS}{_name_of(topic)}/{path}": numbers for path, (numbers, _) in columns.texts.items()}
            rows |= {f"{STAMPS}{_name_of(topic)}/{path}": array for path, array in columns.times.items()}
            for block, array in rows.items():
                if block not in found:
                    found[block] = (topic, array)
                else:
                    self._left_out[block] = "another topic has a lane of this name"
        for topic in [*self._columns, *self._cameras]:
            if topic != self._clock.topic:
                found.setdefault(f"{STAMPS}{_name_of(topic)}", (topic, self._stamps[topic][self._pick(topic)[0]]))
        return found

    @cached_property
    def _frames(self) -> dict[str, _Camera]:
        return {f"signal/{_name_of(topic)}": camera for topic, camera in self._cameras.items()}

    def _names_of(self, block: str, topic: str, array: Array) -> tuple[str, ...]:
        if topic not in self._columns or array.ndim < 2:
            return ()
        path = block.removeprefix(f"{_group_of(topic)}/{_name_of(topic)}/")
        return self._columns[topic].component_names(path, array.shape[-1])

    def describe(self, id_: str) -> EpisodeInfo:
        """Describe the episode; reads the messages of all topics except cameras."""
        lanes = {
            block: Declaration(
                block, DType.from_numpy(array.dtype), array.shape[1:], names=self._names_of(block, topic, array)
            )
            for block, (topic, array) in self._numbers.items()
        }
        for block, camera in self._frames.items():
            lanes[block] = Declaration(block, DType.from_numpy(camera.dtype), camera.shape, encoding=camera.encoding)
        lanes[TIMESTAMPS] = Declaration(TIMESTAMPS, DType.INT64)
        hz = self._clock.hz
        return EpisodeInfo(
            id=id_,
            length=len(self._clock.stamps),
            lanes=dict(sorted(lanes.items())),
            timebase=TimebaseSpec() if hz is None else TimebaseSpec(tick_hz=hz),
            metadata=self._metadata(),
        )

    def _metadata(self) -> dict[str, Any]:
        found: dict[str, Any] = dict(self._log.notes)
        left_out = {**self._log.left_out, **self._left_out}
        shown = [name for name in [*self._columns, *self._cameras] if name not in HOUSEKEEPING]
        left_out |= {name: _OUTSIDE for name in shown if self._clock.misses(self._stamps[name])}
        for topic, columns in self._columns.items():
            name = _name_of(topic)
            found |= {f"{name}/{path}": value for path, value in columns.constants.items()}
            found |= {f"{name}/{path}": texts for path, (_, texts) in columns.texts.items()}
            left_out |= {f"{name}/{path}": reason for path, reason in columns.left_out.items()}
            if name.rpartition("/")[2] in _TASKS and isinstance(columns.constants.get("data"), str):
                found["task"] = columns.constants["data"]
        for note in self._log.notes.values():
            if isinstance(note, dict) and isinstance(note.get("task"), str):
                found.setdefault("task", note["task"])
            if isinstance(note, dict) and (success := _SUCCESS.get(str(note.get("success")).lower())) is not None:
                found.setdefault("success", success)
        counts = {name: len(stamps) for name, stamps in self._stamps.items()}
        types = {name: {"type": self._log.topics[name].type, "messages": count} for name, count in counts.items()}
        found |= {"clock": self._clock.describe(), "topics": types}
        return found | ({"left_out": left_out} if left_out else {})

    def read(self, block: str, steps: slice) -> Array:
        """Return timesteps of a lane of numbers or of raw frames."""
        if block == TIMESTAMPS:
            return self._clock.stamps[steps].copy()
        if block in self._numbers:
            topic, rows = self._numbers[block]
            found: Array = rows[self._pick(topic)[1][steps]]
            return found
        camera = self._frames[block]
        picked, places = self._pick(camera.topic)
        out = np.empty((steps.stop - steps.start, *camera.shape), camera.dtype)
        for row, number in enumerate(picked[places[steps]].tolist()):
            pixels = raw_image(self._decode(camera.topic, number))
            if (pixels.shape, pixels.dtype) != (camera.shape, camera.dtype):
                raise FormatError(
                    f"{self.where}: topic {camera.topic!r}: message {number}: expected an image of "
                    f"{list(camera.shape)} {camera.dtype}, found {list(pixels.shape)} {pixels.dtype}"
                )
            out[row] = pixels
        return out

    def encoded(self, block: str) -> ImageFrames:
        """Return the frames of a camera as they were encoded."""
        camera = self._frames[block]
        images = _TopicImages(self, camera.topic)
        about: Any = {"frame_shape": camera.shape, "frame_dtype": camera.dtype}
        return ImageFrames(camera.encoding, images, where=f"{self.where}: {block}", **about)

    def image(self, topic: str, step: int) -> bytes:
        """Return the encoded image that a topic shows at a timestep."""
        picked, places = self._pick(topic)
        return encoded_image(self._decode(topic, int(picked[places[step]])))

    @property
    def length(self) -> int:
        """The number of timesteps."""
        return len(self._clock.stamps)


class _TopicImages(Sequence[bytes]):
    """The images of a camera, one a timestep, each read when it is asked for."""

    def __init__(self, episode: TopicEpisode, topic: str) -> None:
        self._episode = episode
        self._topic = topic

    def __len__(self) -> int:
        return self._episode.length

    @overload
    def __getitem__(self, step: int) -> bytes: ...

    @overload
    def __getitem__(self, step: slice) -> list[bytes]: ...

    def __getitem__(self, step: int | slice) -> bytes | list[bytes]:
        if isinstance(step, slice):
            return [self[one] for one in range(*step.indices(len(self)))]
        return self._episode.image(self._topic, step)


def _name_of(topic: str) -> str:
    return topic.strip("/") or "topic"


def _group_of(topic: str) -> str:
    """Return "action" or "signal": what a topic is by its name."""
    return "action" if _ACTION.search(topic) and not _HIDDEN.search(topic) else "signal"
