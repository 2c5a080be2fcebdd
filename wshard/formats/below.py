"""Find the episode files and the locations of all formats below a folder."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, NamedTuple

from wshard.core.chunks.files import SUFFIX, FarFiles, is_episode, walk
from wshard.core.episode.protocol import ARCHIVE_DATABASE, OWN_FORMAT
from wshard.errors import AmbiguousFormatError
from wshard.formats.base import select_matchers
from wshard.formats.detect import match_format

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from wshard.core.files.listing import ObjectStatus
    from wshard.formats.base import FormatMatcher, Matchers


def entries_below(
    folder: str | os.PathLike[str],
    unreadable: dict[str, OSError],
    ambiguous: dict[str, AmbiguousFormatError] | None = None,
    *,
    wanted: str = "",
) -> Iterator[tuple[str, str | None]]:
    """Yield (path, name of its format) of what `files_below` finds."""
    return ((path, name) for path, name, _ in files_below(folder, unreadable, ambiguous, wanted=wanted))


class FileBelow(NamedTuple):
    """An episode file or location, and its format; None: a file that is neither. status: as a store listed it."""

    path: str
    format: str | None
    status: ObjectStatus | None = None


def files_below(
    folder: str | os.PathLike[str],
    unreadable: dict[str, OSError],
    ambiguous: dict[str, AmbiguousFormatError] | None = None,
    *,
    wanted: str = "",
) -> Iterator[FileBelow]:
    """Yield the episode files and locations below a folder, and other files.

    unreadable, ambiguous: take the errors of folders that cannot be listed, and of locations that fit several formats,
    by path. wanted: the only format to look for, beside episode files; "" for all. Other files of a folder that is a
    location belong to it, and those of an archive to that. Raises LayoutError for a layout that is not there.
    """
    archives, ambiguous_found = list[str](), {} if ambiguous is None else ambiguous
    matchers = cache(partial(select_matchers, wanted))  # all modules of all formats: not for a folder of our own files
    for place, folders, names in walk(folder, unreadable):
        archives += [f"{place}/"] if ARCHIVE_DATABASE in names else []
        in_archive = f"{place}/".startswith(tuple(archives))
        is_ours = not wanted and bool(names) and not folders and all(map(is_episode, names))
        matcher = None if in_archive or is_ours else matched(place, matchers(), ambiguous_found)
        if matcher is not None:
            yield FileBelow(place, matcher.name)
            if matcher.whole:
                folders.clear()
                continue
        for number, name in enumerate(names):
            path = f"{place}/{name}"
            if is_episode(name):
                yield FileBelow(path, OWN_FORMAT, names.status(number) if isinstance(names, FarFiles) else None)
            elif matcher is None and not in_archive and _is_foreign(name):
                file_matcher = matched(path, matchers(), ambiguous_found)
                yield FileBelow(path, None if file_matcher is None else file_matcher.name)


def matched(
    path: str, matchers: Matchers, ambiguous: dict[str, AmbiguousFormatError] | None = None
) -> FormatMatcher | None:
    """Return the format of a location, None if there is none; ambiguous: takes the error of one that fits several."""
    try:
        name = match_format(path, matchers)
    except AmbiguousFormatError as error:
        if ambiguous is not None:
            ambiguous[path] = error
        return None
    return next((matcher for matcher in matchers if matcher.name == name), None)


def _is_foreign(name: str) -> bool:
    """Return whether a file is neither an episode nor part of one, such as a recording or backup."""
    return SUFFIX not in name and not name.startswith(".")
