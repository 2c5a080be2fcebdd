"""The interface of formats: a Source reads episodes, a Sink writes them; both are found by the name of the format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from wshard.core.keywords import check_options
from wshard.core.plugins import announced_plugins, find_plugin, load_plugin
from wshard.errors import FormatError, MissingExtraError, UnknownFormatError, UnsupportedFormatError
from wshard.formats.sink_base import SinkBase
from wshard.formats.source_base import SourceBase, with_base
from wshard.formats.table import FORMATS, LAYOUT, OTHER_ARRAYS, how_to_describe

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping

    from wshard.core.container.codec_plan import Compression
    from wshard.core.container.draft import WriteMode
    from wshard.core.files.schemes import Location


_LAYOUT_SOURCE: Final = "wshard.formats.layouts.source:LayoutSource"
_FIND_LAYOUT: Final = "wshard.formats.layouts.named:find_layout"
_MATCHER_OF: Final = "wshard.formats.layouts.recognise:matcher_of"
_LAYOUT_MATCHERS: Final = "wshard.formats.layouts.recognise:layout_matchers"
_SOURCES: Final = {name: entry.source for name, entry in FORMATS.items() if entry.source}
_SINKS: Final = {name: entry.sink for name, entry in FORMATS.items() if entry.sink}

OWN_DATA: Final = (
    f"`wshard formats` lists the readable formats; {how_to_describe()}; `python -m pydoc wshard.formats` shows how to "
    f"add one"
)
"""What to do with data that no format reads."""

SOURCE_GROUP: Final = "wshard.sources"
SINK_GROUP: Final = "wshard.sinks"
"""Entry point groups where other packages announce formats; a name of the table cannot be taken over."""


def open_source(location: Location, name: str) -> SourceBase:
    """Open a location in a format: a name of the table, of an entry point, "package.module:attribute", or a layout.

    A layout is named "layout:NAME" or "layout:PATH" (formats/layouts).

    Raises UnknownFormatError, UnsupportedFormatError, MissingExtraError, and what the format raises;
    FileNotFoundError for a path where nothing is.

    Examples:
        >>> with open_source("episodes/circle-02.wshard", "wshard") as source:
        ...     [source.load(key).length for key in source.keys()]
        [118]
    """
    if name == OTHER_ARRAYS:
        advice = how_to_describe(location)
        raise UnsupportedFormatError(
            f"{location}: expected a file of a known format or layout, found other arrays: {advice}"
        )
    if name.startswith(LAYOUT):
        source: SourceBase = load_plugin(_LAYOUT_SOURCE, name, unknown=UnknownFormatError)(location, name)
        return source
    return with_base(_load(name, _SOURCES, SOURCE_GROUP)(location))


def open_sink(
    location: Location, name: str, *, compression: Compression = "none", mode: WriteMode = "append", **options: Any
) -> SinkBase:
    """Open a location for writing in a format, named as in open_source; mode: see Sink; options: the format's.

    Examples:
        >>> with open_sink("copies", "wshard") as sink:
        ...     name = sink.write(load_wshard("episodes/circle-02.wshard"))
    """
    cls: Any = sink_class(name)
    check_options(open_sink, options, cls)
    sink: SinkBase = cls(location, compression=compression, mode=mode, **options)
    return sink


def source_class(name: str) -> type[SourceBase]:
    """Return the class of a format's Source; raises as open_source."""
    if name.startswith(LAYOUT):
        load_plugin(_FIND_LAYOUT, name, unknown=UnknownFormatError)(name)
        layouts: type[SourceBase] = load_plugin(_LAYOUT_SOURCE, name, unknown=UnknownFormatError)
        return layouts
    cls: type[SourceBase] = _derive(name, _load(name, _SOURCES, SOURCE_GROUP), SourceBase)
    return cls


def sink_class(name: str) -> type[SinkBase]:
    """Return the class of a format's Sink; raises as open_sink."""
    cls: type[SinkBase] = _derive(name, _load(name, _SINKS, SINK_GROUP), SinkBase)
    return cls


def _derive(name: str, cls: Any, base: Any) -> Any:
    """Return a class with all members of its base: those that one of another package lacks have the defaults."""
    try:
        return cls if issubclass(cls, base) else type(cls.__name__, (cls, base), {})
    except TypeError as error:
        raise UnknownFormatError(f"format {name!r}: expected a class, found {cls!r}: {error}") from error


def describe_format(name: str) -> dict[str, Any]:
    """Return facts about a format of the table: format, about, needs (an extra), read, written, meaning, cannot_hold.

    meaning: pairs (field of the format, what it becomes); cannot_hold: what its Sink cannot write.
    """
    entry = FORMATS.get(name)
    if entry is None:
        raise UnknownFormatError(f"format: expected one of {', '.join(FORMATS)}, found {name!r}")
    access = {"read": bool(entry.source), "written": bool(entry.sink)}
    facts = {"format": name, "about": entry.about, "needs": entry.extra, **access}
    try:
        source = source_class(name) if entry.source else None
        sink = sink_class(name) if entry.sink else None
    except MissingExtraError:
        source = sink = None
    meaning, cannot_hold = source.meaning if source else (), sink.cannot_hold if sink else ()
    return facts | {"meaning": [list(pair) for pair in meaning], "cannot_hold": list(cannot_hold)}


@dataclass(frozen=True)
class FormatMatcher:
    """How a format recognises its locations: `matches(path)`. own: the format is part of this package.

    whole: everything below a folder of the format belongs to it; else only its files do, and subfolders are examined.
    """

    name: str
    matches: Callable[[str | os.PathLike[str]], bool]
    own: bool
    whole: bool


Matchers: TypeAlias = tuple[FormatMatcher, ...]


def load_matchers() -> Matchers:
    """Return the matchers of formats that have one: those of the table first, then those of entry points.

    Formats whose modules cannot be imported are skipped: a broken plugin must not prevent detection.
    """
    matchers = []
    for name in _SOURCES | announced_plugins(SOURCE_GROUP):
        try:
            matcher = find_matcher(name)
        except (MissingExtraError, FormatError):
            continue
        if matcher.matches is not SourceBase.matches:
            matchers.append(matcher)
    layouts = load_plugin(_LAYOUT_MATCHERS, "layouts", unknown=FormatError)()
    return *(one for one in matchers if one.own), *layouts, *(one for one in matchers if not one.own)


def find_matcher(name: str) -> FormatMatcher:
    """Return the matcher of one format or layout, without importing others. Raises as open_source."""
    if name.startswith(LAYOUT):
        matcher: FormatMatcher = load_plugin(_MATCHER_OF, name, unknown=UnknownFormatError)(name)
        return matcher
    source = source_class(name)
    return FormatMatcher(name, source.matches, name in _SOURCES, source.whole)


def select_matchers(name: str) -> Matchers:
    """Return the matchers of a format, of all for ""; of a layout, that of its description. Raises LayoutError."""
    chosen = tuple(matcher for matcher in load_matchers() if name in ("", matcher.name))
    return chosen if chosen or not name.startswith(LAYOUT) else (find_matcher(name),)


def _load(name: str, table: Mapping[str, str], group: str) -> Any:
    target = find_plugin(name, table, group) or (name if ":" in name else None)
    if target is None:
        available = ", ".join(dict.fromkeys((*FORMATS, *announced_plugins(group))))
        if name in FORMATS:
            can, cannot = ("read", "written") if FORMATS[name].source else ("written", "read")
            raise UnsupportedFormatError(f"format {name!r} is {can}, but not {cannot}")
        advice = ": `wshard shardify` writes WebDataset shards" if name == "webdataset" else ""
        raise UnknownFormatError(
            f"format: expected one of {available} or 'package.module:attribute', found {name!r}{advice}"
        )
    extra = FORMATS[name].extra if name in FORMATS else ""
    return load_plugin(target, f"format {name!r}", unknown=UnknownFormatError, extra=extra)
