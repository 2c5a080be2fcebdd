"""The seam to other formats: a Source gives episodes, a Sink takes them; one table says which module does it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Final, Protocol, Self, runtime_checkable

from wshard.errors import FormatError, MissingExtraError, UnknownFormatError, UnsupportedFormatError
from wshard.formats.table import FORMATS, UNREAD
from wshard.plugins import announced_plugins, find_plugin, load_plugin

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

    from wshard.container.codec_plan import Compression
    from wshard.container.draft import WriteMode
    from wshard.episode.info import EpisodeInfo
    from wshard.episode.protocol import EpisodeReader, Fingerprint
    from wshard.types import Array, Episode

    Location = str | os.PathLike[str] | IO[bytes]


@runtime_checkable
class Source(Protocol):
    """Episodes at one location: a file, a folder, or a binary file object, as it was when it was opened.

    Use as a context manager. A Source of a path can be pickled: other processes open the location again. A class may
    have a static method `matches(location) -> bool`, which says by a quick look at the content whether a path is such a
    location; by it, locations are detected (see formats/detect.py). It is given a LocationLook, which is a path and
    knows more. Formats that read lanes on demand derive from LazySource.

    A class may also have: `statements(key)`, what a table of episodes states once for an episode, by name;
    `find_missing(key, block)`, which timesteps [T] have no value of a lane; `take_rows(block, keys, steps)`, rows
    [n, steps] of a lane of several episodes at once.
    """

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...

    def keys(self) -> Sequence[str]:
        """Return what names each episode here, in a stable order; "" for the episode of a one-episode file.

        A key stays that of its episode when others are added to the location later.
        """

    def info(self, key: str) -> EpisodeInfo:
        """Describe one episode without decoding a frame; raises EntryNotFoundError, FormatError."""

    def lane(self, key: str, name: str, start: int = 0, stop: int | None = None) -> Array:
        """Return timesteps [start, stop) of a lane by its block name ("signal/state"), reading no more than it must.

        Raises EntryNotFoundError for an unknown key or lane, StepError, FormatError.
        """

    def load(self, key: str) -> Episode:
        """Return one episode; raises EntryNotFoundError for an unknown key, FormatError for damaged data."""

    def open(self, key: str) -> EpisodeReader:
        """Open one episode, which stays open when the Source is closed; raises what load raises.

        A format that is read whole returns a MemoryReader (wshard/episode/memory_reader.py).
        """

    def fingerprint(self, key: str) -> Fingerprint:
        """Return what says "look again" where it differs, without reading data: see Fingerprint.of.

        Raises EntryNotFoundError, FileNotFoundError where the episode is gone.
        """

    def close(self) -> None:
        """Let go of the location; arrays already handed out stay valid."""


@runtime_checkable
class Sink(Protocol):
    """A place to write episodes to: a file for one, a file or a folder for many. Use as a context manager.

    Made as `Sink(location, compression=..., mode=...)`. mode "append" adds to what is there, "overwrite" takes its
    place when the new episodes are complete, "error" refuses a location where episodes are. Leaving the context by an
    exception leaves the location as it was, or with whole episodes. A class of a location of many episodes may have
    `copies_all = True`: adding to what is there copies it, so that long conversions do so less often.
    """

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...

    def write(self, ep: Episode) -> str:
        """Write one episode, whole or not at all; returns its key for a Source of the same location.

        Raises EpisodeError for an episode that the format cannot hold, or that is there already.
        """

    def has(self, id_: str) -> bool:
        """Say whether an episode of this id is there already, so that an interrupted conversion can go on."""

    def losses(self, info: EpisodeInfo) -> Sequence[str]:
        """Return what of an episode the format cannot hold, a sentence a lane: "signal/rgb: float images"."""

    def close(self) -> None:
        """Finish: the written episodes are complete now."""


_SOURCES: Final = {name: entry.source for name, entry in FORMATS.items() if entry.source}
_SINKS: Final = {name: entry.sink for name, entry in FORMATS.items() if entry.sink}

OWN_DATA: Final = "`wshard formats` lists the readable formats, `python -m pydoc wshard.formats` shows how to add one"
"""What to do with data that no format reads."""

SOURCE_GROUP: Final = "wshard.sources"
SINK_GROUP: Final = "wshard.sinks"
"""Entry point groups where other packages announce formats; a name of the table cannot be taken over."""


def open_source(location: Location, name: str) -> Source:
    """Open a location in a format: a name of the table, of an entry point, or "package.module:attribute".

    Raises UnknownFormatError, UnsupportedFormatError, MissingExtraError, and what the format raises;
    FileNotFoundError for a path where nothing is.
    """
    if name in UNREAD:
        raise UnsupportedFormatError(f"{location}: {UNREAD[name]}")
    source: Source = source_class(name)(location)
    return source


def open_sink(location: Location, name: str, *, compression: Compression = "none", mode: WriteMode = "append") -> Sink:
    """Open a location for writing in a format, named as in open_source; mode: see Sink."""
    sink: Sink = sink_class(name)(location, compression=compression, mode=mode)
    return sink


def sink_class(name: str) -> Any:
    """Return the class of a format's Sink; raises as open_sink."""
    return _load(name, _SINKS, SINK_GROUP)


def describe_format(name: str) -> dict[str, Any]:
    """Return what a format of the table is: format, about, needs (an extra), read, written, meaning, cannot_hold.

    meaning: pairs (field of the format, what it becomes); cannot_hold: what its Sink says of itself.
    """
    entry = FORMATS.get(name)
    if entry is None:
        raise UnknownFormatError(f"format: expected one of {', '.join(FORMATS)}, found {name!r}")
    access = {"read": bool(entry.source), "written": bool(entry.sink)}
    found = {"format": name, "about": entry.about, "needs": entry.extra, **access}
    try:
        source = source_class(name) if entry.source else None
        sink = sink_class(name) if entry.sink else None
    except MissingExtraError:
        source = sink = None
    meaning, limits = getattr(source, "meaning", ()), getattr(sink, "cannot_hold", ())
    return found | {"meaning": [list(pair) for pair in meaning], "cannot_hold": list(limits)}


def source_class(name: str) -> Any:
    """Return the class of a format's Source; raises as open_source."""
    return _load(name, _SOURCES, SOURCE_GROUP)


@dataclass(frozen=True)
class FormatMatcher:
    """How a format tells its locations: matches(path), whether it is of this package, and what is below a folder.

    whole: all that is below a folder of the format belongs to it; else only the files in it, and folders are looked at.
    """

    name: str
    matches: Callable[[str | os.PathLike[str]], bool]
    own: bool
    whole: bool


def load_matchers() -> tuple[FormatMatcher, ...]:
    """Return the formats that can say of a path whether it is theirs: of the table first, then of entry points.

    Those whose modules cannot be imported are left out: a package that is not complete says nothing about others.
    """
    found = []
    for name, target in (_SOURCES | announced_plugins(SOURCE_GROUP) | _SOURCES).items():
        try:
            source = load_plugin(target, f"format {name!r}", unknown=FormatError)
        except (MissingExtraError, FormatError):
            continue
        if hasattr(source, "matches"):
            found.append(FormatMatcher(name, source.matches, name in _SOURCES, getattr(source, "whole", False)))
    return tuple(found)


def _load(name: str, table: Mapping[str, str], group: str) -> Any:
    target = find_plugin(name, table, group) or (name if ":" in name else None)
    if target is None:
        known = ", ".join(dict.fromkeys((*FORMATS, *announced_plugins(group))))
        if name in FORMATS:
            can, cannot = ("read", "written") if FORMATS[name].source else ("written", "read")
            raise UnsupportedFormatError(f"format {name!r} is {can}, but not {cannot}")
        raise UnknownFormatError(f"format: expected one of {known} or 'package.module:attribute', found {name!r}")
    extra = FORMATS[name].extra if name in FORMATS else ""
    return load_plugin(target, f"format {name!r}", unknown=UnknownFormatError, extra=extra)
