"""What a Source is: its required methods, the other members with their defaults, and the base of wrappers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, runtime_checkable

from wshard.formats.open_lanes import ReaderLanes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wshard.core.episode.info import EpisodeInfo
    from wshard.core.episode.protocol import EpisodeReader, Fingerprint
    from wshard.core.types import Array, Episode
    from wshard.formats.open_lanes import OpenLanes


@runtime_checkable
class Source(Protocol):
    """Episodes at one location: a file, a folder, or a binary file object, as it was when it was opened.

    Use as a context manager. A Source of a path can be pickled: other processes open the location again. A class may
    have a static method `matches(location) -> bool`, which decides by a quick look at the content whether a path is in
    this format; detection uses it (see formats/detect.py). Its argument is a LocationLook, a path with cached facts.
    Formats that read lanes on demand derive from LazySource. What else callers ask of a Source is declared by
    SourceBase, from which a Source should derive: it gets the defaults otherwise.
    """

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...

    def keys(self) -> Sequence[str]:
        """Return the keys of the episodes, in a stable order; "" for the episode of a one-episode file.

        An episode keeps its key when others are added to the location later.
        """

    def info(self, key: str) -> EpisodeInfo:
        """Describe one episode without decoding a frame; raises EntryNotFoundError, FormatError."""

    def lane(self, key: str, name: str, start: int = 0, stop: int | None = None) -> Array:
        """Return timesteps [start, stop) of a lane by its block name ("signal/state"), reading only what is needed.

        Raises EntryNotFoundError for an unknown key or lane, StepError, FormatError.
        """

    def load(self, key: str) -> Episode:
        """Return one episode; raises EntryNotFoundError for an unknown key, FormatError for damaged data."""

    def open(self, key: str) -> EpisodeReader:
        """Open one episode, which stays open when the Source is closed; raises what load raises.

        A format that is read whole returns a MemoryReader (wshard/core/episode/memory_reader.py).
        """

    def fingerprint(self, key: str) -> Fingerprint:
        """Return a fingerprint that differs when the episode may have changed, without reading data: Fingerprint.of.

        Raises EntryNotFoundError, FileNotFoundError for an episode that no longer exists.
        """

    def close(self) -> None:
        """Release the location; arrays returned earlier stay valid."""


class SourceBase(Source):
    """What formats may differ in. Each member has the default of a format that is read whole from files.

    A subclass adds `keys`, `info`, `lane`, `load`, `open`, `fingerprint`, which the protocol Source describes. What
    callers need to know of a Source is declared here: a new member needs a default, and a line in WrappedSource.
    """

    meaning: ClassVar[tuple[tuple[str, str], ...]] = ()
    """Pairs (field of the format, lane or member of the Episode) for documentation."""

    whole: ClassVar[bool] = False
    """Whether everything below a folder of the format belongs to it; else subfolders are examined, too."""

    fork_safe: bool = True
    """Whether forked processes can read from it: whether its libraries support forking."""

    texts_are_columns: bool = False
    """Whether texts of the metadata are columns of the data set, which are loaded by default."""

    own_lanes: bool = False
    """Whether each episode declares its lanes by itself, so that their dtypes may differ."""

    stays_open: bool = False
    """Whether an open Source is worth keeping while `is_current`: its episodes are read lane by lane."""

    @staticmethod
    def matches(_location: Any) -> bool:
        """Say whether a location is in this format, by a quick look at its content."""
        return False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Do nothing: no file is open."""

    def is_current(self, _key: str) -> bool:
        """Return True if the files of an episode, and those that list all, are known to be as when they were read."""
        return False

    def length_of(self, key: str) -> int:
        """Return the number of timesteps of an episode."""
        with self.open(key) as reader:
            return reader.length

    def missing_files(self, _key: str) -> list[str]:
        """Return the paths of the files that the location lists for an episode and lacks, such as videos."""
        return []

    def companions(self, _key: str) -> Sequence[str]:
        """Return the paths of other files of an episode in folders that are no location; "*" for what differs."""
        return ()

    def statements(self, _key: str) -> Mapping[str, Any] | None:
        """Return the values that a table states once per episode, by name; None if there is no such table."""
        return None

    def find_missing(self, _key: str, _block: str) -> Array | None:
        """Return a mask [T] of the timesteps at which a lane has no value; None if none lack one."""
        return None

    def take_rows(self, _block: str, _keys: Sequence[str], _steps: Array) -> Array | None:
        """Return timesteps `steps` [n, m] of a lane, a row per episode, read at once; None: read them lane by lane."""
        return None

    def open_lanes(self, key: str) -> OpenLanes:
        """Open the lanes of one episode, to be released; raises what open raises."""
        reader = self.open(key)
        try:
            return ReaderLanes(reader)
        except BaseException:
            reader.close()
            raise

    def choose_clock(self, _topic: str) -> bool:
        """Take the timesteps of this topic or rate; False for a format without a choice of clocks."""
        return False


class PlainSource(SourceBase):
    """A Source of a class that does not derive from SourceBase, with the defaults of its members."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def close(self) -> None:
        """Close the Source."""
        self._source.close()

    def keys(self) -> Sequence[str]:
        """Return the keys of the Source."""
        return self._source.keys()

    def fingerprint(self, key: str) -> Fingerprint:
        """Return that of the Source."""
        return self._source.fingerprint(key)

    def info(self, key: str) -> EpisodeInfo:
        """Describe one episode; raises what the Source raises."""
        return self._source.info(key)

    def lane(self, key: str, name: str, start: int = 0, stop: int | None = None) -> Array:
        """Return timesteps of a lane; raises what the Source raises."""
        return self._source.lane(key, name, start, stop)

    def open(self, key: str) -> EpisodeReader:
        """Open one episode; raises what the Source raises."""
        return self._source.open(key)

    def load(self, key: str) -> Episode:
        """Return one episode; raises what the Source raises."""
        return self._source.load(key)


class WrappedSource(PlainSource):
    """A Source around another, which answers for it; a subclass overrides what it changes."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self._base = base = with_base(source)
        self.fork_safe, self.stays_open = base.fork_safe, base.stays_open
        self.own_lanes, self.texts_are_columns = base.own_lanes, base.texts_are_columns

    def is_current(self, key: str) -> bool:
        """Return what the Source does."""
        return self._base.is_current(key)

    def length_of(self, key: str) -> int:
        """Return that of the Source."""
        return self._base.length_of(key)

    def missing_files(self, key: str) -> list[str]:
        """Return those of the Source."""
        return self._base.missing_files(key)

    def companions(self, key: str) -> Sequence[str]:
        """Return those of the Source."""
        return self._base.companions(key)

    def statements(self, key: str) -> Mapping[str, Any] | None:
        """Return those of the Source."""
        return self._base.statements(key)

    def find_missing(self, key: str, block: str) -> Array | None:
        """Return that of the Source."""
        return self._base.find_missing(key, block)

    def take_rows(self, block: str, keys: Sequence[str], steps: Array) -> Array | None:
        """Return those of the Source."""
        return self._base.take_rows(block, keys, steps)

    def open_lanes(self, key: str) -> OpenLanes:
        """Open those of the Source."""
        return self._base.open_lanes(key)

    def choose_clock(self, topic: str) -> bool:
        """Choose that of the Source."""
        return self._base.choose_clock(topic)


def with_base(source: Source) -> SourceBase:
    """Return the Source with all members of SourceBase; those that its class does not derive have the defaults."""
    return source if isinstance(source, SourceBase) else PlainSource(source)
