"""MCAP files and bags of ROS 1 and ROS 2 as Sources: a file or a bag is one episode, its topics on one clock."""

from __future__ import annotations

import contextlib
import re
import sqlite3
from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, Final

import xxhash

from wshard.errors import FormatError
from wshard.formats.lazy_source import LazySource
from wshard.formats.look import look_at
from wshard.formats.topics import mcap_log, rosbag1_log
from wshard.formats.topics.bag_metadata import NAME, STORAGES, BagMetadata, read_bag_metadata
from wshard.formats.topics.message_log import JoinedLog, MessageLog
from wshard.formats.topics.sqlite_log import SIGNATURE, SqliteLog
from wshard.formats.topics.topic_episode import TopicEpisode
from wshard.formats.topics.unpack_file import PACKED, unpack_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wshard.core.episode.info import EpisodeInfo
    from wshard.core.files.place import Place
    from wshard.core.files.schemes import Location
    from wshard.core.media.frames import EncodedFrames
    from wshard.core.types import Array
    from wshard.formats.look import LocationLook

_SPLIT: Final = re.compile(r"_\d+$")
_LOOKED_AT: Final = 4096

MEANING: Final = (
    ("messages of the clock's topic", "the timesteps; metadata clock: its topic"),
    (
        "the clock's topic",
        "the camera with the most messages, else the topic of numbers with the most; --map TOPIC=clock, or 20Hz=clock",
    ),
    ("other topics", "the latest message at the timestep; before the first one, the first one"),
    ("time of recording (log time)", "time/timestamps_ns; of other topics aux/stamps_ns/TOPIC"),
    ("numeric field of a message", "signal/TOPIC/FIELD, nested fields joined by /, in its dtype"),
    (
        "topics with cmd, action or command in their name",
        "action/TOPIC/FIELD; those with a part that begins with _ remain signals",
    ),
    ("times and durations in messages", "aux/stamps_ns/TOPIC/FIELD, nanoseconds"),
    ("CompressedImage", "encoded lane signal/TOPIC of JPEG or PNG"),
    ("Image, RawImage", "signal/TOPIC [H, W, C], colors as red, green, blue"),
    ("constant text", "metadata TOPIC/FIELD; of topics named task or instruction, metadata task"),
    ("text that changes", "aux/text/TOPIC/FIELD: the position in the list metadata TOPIC/FIELD; it is not embedded"),
    ("metadata records of MCAP, custom_data of a bag", "metadata, by their name; a key task in them, metadata task"),
    ("rate", "by the median step of the clock; rewards, ends and success are not stated"),
    ("fields whose size changes, bytes, topics that cannot be decoded", "left out; metadata left_out says why"),
    ("float that some messages lack", "NaN there"),
    ("seq in a header of ROS 1, which counts messages", "left out"),
)


class TopicsSource(LazySource[str]):
    """A location that is one recording. A subclass says in which files it is, and opens them."""

    meaning: ClassVar = MEANING
    clock = ""
    """A topic, or a rate such as "20Hz", that gives the timesteps; "" for the rule of the table."""

    def choose_clock(self, topic: str) -> bool:
        """Take the timesteps of this topic, or of a rate."""
        self.clock = topic
        return True

    @abstractmethod
    def _open_log(self) -> MessageLog:
        """Open the files."""

    @abstractmethod
    def _name(self) -> str:
        """Return the id of the episode."""

    def _scan(self) -> Mapping[str, str]:
        return {"": ""}

    def _episode(self) -> TopicEpisode:
        return self.open_once("episode", self._open_episode)

    def _open_episode(self) -> TopicEpisode:
        log = self._open_log()
        try:
            return TopicEpisode(log, self.where_of(""), self.clock)
        except BaseException:
            log.close()
            raise

    def _describe(self, key: str, ref: str) -> EpisodeInfo:
        return self._episode().describe(self._name())

    def _read(self, ref: str, info: EpisodeInfo, block: str, steps: slice) -> Array:
        if info.lanes[block].encoding:
            return self._episode().encoded(block).decode(steps.start, steps.stop)
        return self._episode().read(block, steps)

    def _encoded(self, ref: str, info: EpisodeInfo, block: str) -> EncodedFrames:
        return self._episode().encoded(block)

    def _identify(self, ref: str, info: EpisodeInfo, block: str) -> bytes:
        frames, mark = self._episode().encoded(block), xxhash.xxh3_128()
        for step in (0, info.length // 2, info.length - 1):
            mark.update(bytes(frames.image(step)))
        return mark.digest()


class _FileSource(TopicsSource):
    """A file of its own."""

    def _files(self, ref: str) -> Sequence[Place]:
        return [self._place]

    def _name(self) -> str:
        return self._place.stem


class McapSource(_FileSource):
    """An MCAP file."""

    @staticmethod
    def matches(location: Location | LocationLook) -> bool:
        """Say whether a path is a file that begins as an MCAP file does, also if it was cut there."""
        look = look_at(location)
        return look.head.startswith(mcap_log.MAGIC) or look.ends_within(mcap_log.MAGIC, ".mcap")

    def _open_log(self) -> MessageLog:
        return mcap_log.McapLog(self._place)


class Rosbag1Source(_FileSource):
    """A ROS 1 bag."""

    @staticmethod
    def matches(location: Location | LocationLook) -> bool:
        """Say whether a path is a file that begins as a bag of any version does, also if it was cut there."""
        look = look_at(location)
        return look.head.startswith(rosbag1_log.MAGIC) or look.ends_within(rosbag1_log.MAGIC, ".bag")

    def _open_log(self) -> MessageLog:
        return rosbag1_log.Rosbag1Log(self._place)


class Rosbag2Source(TopicsSource):
    """A ROS 2 bag: a folder with metadata.yaml, or one SQLite file of it alone."""

    whole = True

    @staticmethod
    def matches(location: Location | LocationLook) -> bool:
        """Say whether a path is the folder of a bag, or an SQLite file with the tables of one, or cut before them."""
        look = look_at(location)
        if look.is_folder:
            return NAME in look.names and _begins_as_bag(look.place / NAME)
        if look.ends_within(SIGNATURE, ".db3"):
            return True
        return look.suffix == ".db3" and look.head.startswith(SIGNATURE) and _has_tables(look.place)

    def _about(self) -> BagMetadata:
        if self._place.is_dir():
            return read_bag_metadata(self._place)
        return BagMetadata(STORAGES[1], (self._place,))

    def _files(self, ref: str) -> Sequence[Place]:
        about = [self._place / NAME] if self._place.is_dir() else []
        return [*self._about().files, *about]

    def _name(self) -> str:
        return _SPLIT.sub("", self._about().files[0].name.removesuffix(PACKED).rpartition(".")[0])

    def _open_log(self) -> MessageLog:
        about = self._about()
        with contextlib.ExitStack() as opened:
            parts: list[MessageLog] = []
            for stored in about.files:
                # A plain copy is deleted while it is open, so that a killed process leaves none behind.
                with unpack_file(stored) if about.packed else contextlib.nullcontext(stored) as plain:
                    part = mcap_log.McapLog(plain) if about.storage == "mcap" else SqliteLog(plain, about.distribution)
                opened.callback(part.close)
                parts += [part]
            return JoinedLog(parts, about.notes, compressed=about.compressed, opened=opened.pop_all())


def _begins_as_bag(place: Place) -> bool:
    try:
        return b"rosbag2_bagfile_information:" in place.read(0, _LOOKED_AT)
    except (OSError, FormatError):
        return False


def _has_tables(place: Place) -> bool:
    try:
        SqliteLog(place).close()
    except (FormatError, OSError, sqlite3.Error):
        return False
    return True
