"""The seam to other formats: a Source gives episodes, a Sink takes them; one table says which module does it.

Knows: the names of formats, and how their modules are found on use. Does not know: any format.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from typing import IO, TYPE_CHECKING, Any, Final, Protocol, Self, runtime_checkable

from wshard.errors import FormatError, MissingExtraError, UnsupportedFormatError
from wshard.messages import how_to_install

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from wshard.container.codec_plan import Compression
    from wshard.types import Episode

    Location = str | os.PathLike[str] | IO[bytes]


@runtime_checkable
class Source(Protocol):
    """Episodes at one location: a file, a folder, or a binary file object. Use as a context manager."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...

    def keys(self) -> Sequence[str]:
        """Return what names each episode here, in a stable order; "" for the episode of a one-episode file."""
        ...

    def load(self, key: str) -> Episode:
        """Return one episode; raises EntryNotFoundError for an unknown key, FormatError for damaged data."""
        ...

    def close(self) -> None:
        """Let go of the location; arrays already handed out stay valid."""
        ...


@runtime_checkable
class Sink(Protocol):
    """A place to write episodes to: a file for one, or a folder for many. Use as a context manager."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...

    def write(self, ep: Episode) -> str:
        """Write one episode, whole or not at all; returns its key for a Source of the same location.

        Raises EpisodeError for an episode that the format cannot hold, or that is there already.
        """
        ...

    def close(self) -> None:
        """End the writing."""
        ...


@dataclass(frozen=True)
class FormatEntry:
    """Where a format's classes live, as "module:attribute", and the extra that brings what they need ("" for none)."""

    source: str
    sink: str
    extra: str = ""


FORMATS: Final[Mapping[str, FormatEntry]] = {
    "wshard": FormatEntry("wshard.formats.wshard:WShardSource", "wshard.formats.wshard:WShardSink"),
    "dreamerv3": FormatEntry("wshard.formats.dreamer:DreamerSource", "wshard.formats.dreamer:DreamerSink"),
}
"""Every format that this package reads and writes; its names are the values of types.Format."""

UNSUPPORTED: Final = ("tdmpc2", "minari", "d4rl", "robomimic", "hdf5")
"""Formats that are recognised, but neither read nor written."""

OWN_DATA: Final = "`python -m pydoc wshard.formats` shows how to bring data of any other format"
"""What to do with data that no format reads."""

SOURCE_GROUP: Final = "wshard.sources"
SINK_GROUP: Final = "wshard.sinks"
"""Entry point groups where other packages announce formats; a name of the table cannot be taken over."""


def open_source(location: Location, name: str) -> Source:
    """Open a location in a format: a name of the table, of an entry point, or "package.module:attribute".

    Raises FormatError for an unknown name, UnsupportedFormatError, MissingExtraError, and what the format raises;
    FileNotFoundError for a path where nothing is.
    """
    entry = FORMATS.get(name)
    source: Source = _load(name, entry.source if entry else None, SOURCE_GROUP)(location)
    return source


def open_sink(location: Location, name: str, *, compression: Compression = "none") -> Sink:
    """Open a location for writing in a format, named as in open_source."""
    entry = FORMATS.get(name)
    sink: Sink = _load(name, entry.sink if entry else None, SINK_GROUP)(location, compression=compression)
    return sink


def _load(name: str, target: str | None, group: str) -> Any:
    target = target or _announced(name, group) or (name if ":" in name else None)
    if target is None:
        if name in UNSUPPORTED:
            known = ", ".join(FORMATS)
            raise UnsupportedFormatError(f"format {name!r} is not implemented yet; there are {known}; {OWN_DATA}")
        raise FormatError(f"format: expected one of {', '.join(FORMATS)} or 'package.module:attribute', found {name!r}")
    module, _, attribute = target.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        extra = FORMATS[name].extra if name in FORMATS else ""
        advice = how_to_install(extra) if extra else "install the package that has it"
        raise MissingExtraError(f"format {name!r}: expected to import {target!r}: {error}; {advice}") from error


def _announced(name: str, group: str) -> str | None:
    point = next(iter(entry_points(group=group, name=name)), None)
    return None if point is None else f"{point.module}:{point.attr}"
