"""Find episodes: the given files and locations, and every episode below the given folders."""

from __future__ import annotations

import os
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias, TypeGuard

from bridge.episodes.file_search import FileSearch, missing_place
from bridge.episodes.found import DiscoveredEpisodes
from bridge.episodes.locations import BelongingFiles, Discovery, Listings
from bridge.episodes.read import Failure, attempt
from bridge.support.progress import Silent, counted
from wshard.core.chunks.files import SUFFIX, chunks_of, locate
from wshard.core.episode.protocol import EpisodeAddress, parse_read_as, read_as
from wshard.core.files.schemes import place_of
from wshard.errors import LayoutError, SourceNotFoundError, WShardError
from wshard.formats.base import OWN_DATA
from wshard.formats.below import entries_below
from wshard.formats.detect import describe_arrays
from wshard.formats.layouts.guessing.reference import ReadingGuess, can_guess, guess_reading, is_cut
from wshard.formats.layouts.layout import SUFFIXES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bridge.episodes.locations import EarlierReadings
    from bridge.support.progress import Progress
    from wshard.core.files.place import Place as FilePlace

    Place: TypeAlias = str | os.PathLike[str] | EpisodeAddress


NO_LAYOUT: Final = "of no known layout"
_DOCUMENT: Final = ".json"
VIDEO_BESIDE: Final = (
    "a video beside data of its name: `wshard layout guess FOLDER` describes it as a camera; give that with --layout"
)


def discover(
    places: Sequence[Place],
    *,
    may_be_gone: bool = False,
    earlier: EarlierReadings | None = None,
    without_maps: bool = False,
    progress: Progress | None = None,
) -> Discovery:
    """Find the episodes at the paths; folders are searched recursively, hidden names are skipped.

    A manifest stands for the chunks that it lists: these are skipped, also if they are passed themselves. Files and
    folders that a format detects as a location yield all their episodes or, by an address, the one with the key. Any
    other file that is passed itself is included whatever its suffix. An EpisodeAddress may specify how to read its
    location; others are read as earlier ingests did, without_maps: but for their maps of lanes. may_be_gone: treat a
    missing path as an empty folder; otherwise, a folder without episodes is unreadable. A wrong place is unreadable
    beside others; raises the error of the first one if all are: SourceNotFoundError for a missing path or one without
    episodes, EntryNotFoundError for a key of a file without keys, UnknownSchemeError.
    """
    search, wrong = FileSearch(without_maps=without_maps), list[tuple[EpisodeAddress, WShardError]]()
    for place in places:
        address = place if isinstance(place, EpisodeAddress) else EpisodeAddress.parse(os.fspath(place))
        try:
            search.add_place(address, may_be_gone=may_be_gone)
        except WShardError as error:
            wrong.append((address, error))
    listings = Listings(earlier)
    episodes = _list_episodes(search, listings, progress or Silent())
    search.unreadable += listings.unreadable
    known = [*search.locations, *(failure.path for failure in search.unreadable)]
    without = [path for path in search.without if not _has_some(locate(path.uri), known)]
    wrong += [(EpisodeAddress(locate(path.uri)), _empty(path)) for path in without]
    if wrong and len(wrong) == len(places):
        raise wrong[0][1]
    search.unreadable += [Failure.of(error, address) for address, error in wrong]
    places_ = tuple(search.folders), tuple(search.given)
    belonging = BelongingFiles(listings.episodes)
    _leave_out_files(search, belonging)
    found = episodes, *places_, tuple(search.unreadable), tuple(listings.incomplete)
    return Discovery(
        *found, _count_skipped(search, belonging), search.unread, listings.states, listings.unchanged, search.guessed
    )


def expect_episodes(places: Sequence[Place]) -> None:
    """Raise SourceNotFoundError as `discover` does, but stop at the first episode."""
    wrong: list[SourceNotFoundError] = []
    for place in places:
        address = place if isinstance(place, EpisodeAddress) else EpisodeAddress.parse(os.fspath(place))
        path = place_of(address.uri)
        if not path.is_dir() or address.key or parse_read_as(address.read_as)[0]:
            if not path.exists():
                wrong.append(missing_place(path))
            continue
        unreadable: dict[str, OSError] = {}
        found = entries_below(path.uri, unreadable)
        if not any(name is not None or _is_data(_guess(file)) for file, name in found) and not unreadable:
            wrong.append(_empty(path))
    if wrong and len(wrong) == len(places):
        raise wrong[0]


def _has_some(folder: str, locations: Iterable[str]) -> bool:
    """Return True if a location is below a folder: files that only an earlier ingest said how to read, or were cut."""
    return any(path.startswith(f"{folder}/") for path in locations)


def _guess(path: str, *, is_given: bool = False) -> ReadingGuess | Failure | None:
    """Return how a file is read by a guess, a failure if it cannot be opened; None for files of which none is made."""
    make = partial(guess_reading, path, is_given=is_given)
    return attempt(make, EpisodeAddress(path)) if can_guess(path) else None


def _is_data(found: ReadingGuess | Failure | None) -> bool:
    """Return whether a file is read by its guess, or was cut."""
    return not found.why if isinstance(found, ReadingGuess) else _is_cut(found)


def _is_cut(found: ReadingGuess | Failure | None) -> TypeGuard[Failure]:
    """Return whether a file was cut or is being written: this is data, other files of no known layout may not be."""
    return isinstance(found, Failure) and (
        isinstance(found.cause, BlockingIOError) or attempt(partial(is_cut, found.path), found.address) is True
    )


def _reason(found: ReadingGuess | Failure | None) -> str:
    """Return why nothing was guessed; NO_LAYOUT only for a file that could be opened."""
    if isinstance(found, Failure):
        return f"{NO_LAYOUT}: {found.error}" if isinstance(found.cause, LayoutError) else found.error
    return NO_LAYOUT if found is None else f"{NO_LAYOUT}: {found.why}"


def _empty(path: FilePlace) -> SourceNotFoundError:
    expected = f"expected files that end in {SUFFIX}, or data of another format; {OWN_DATA}"
    return SourceNotFoundError(f"no episodes in {path}: {describe_arrays(path) or expected}")


def _stored_readings(search: FileSearch, earlier: EarlierReadings) -> dict[str, str]:
    """Return how the archive reads what was found, also if it has that elsewhere."""
    stored = earlier.of_paths([*search.locations, *search.ambiguous, *search.unknown])
    kinds = dict.fromkeys(search.unknown, "") | {
        path: name for path, how in search.locations.items() if (name := parse_read_as(how)[0]) == how
    }
    stored |= earlier.of_moved({path: name for path, name in kinds.items() if path not in stored})
    return {path: read_as(parse_read_as(how)[0]) for path, how in stored.items()} if search.without_maps else stored


def _list_episodes(search: FileSearch, listings: Listings, progress: Progress) -> DiscoveredEpisodes:
    """Return the episodes of all files and locations; locations that cannot be listed are recorded."""
    search.read_as = ""  # the places are searched
    stored = {} if listings.earlier is None else _stored_readings(search, listings.earlier)
    for path, is_given in counted([*search.unknown.items()], "looking into files", progress):
        if path in stored:
            search.locations[path] = stored[path]
        else:
            _add_unknown(search, path, is_given=is_given)
    for path, error in search.ambiguous.items():
        if path in stored:
            search.locations[path] = stored[path]
        else:
            search.unreadable.append(Failure.of(error, EpisodeAddress(path)))
    search.files.leave_out(chunks_of(search.files.paths()))
    for path in counted([*search.locations], "listing", progress):
        format_name, lane_map = parse_read_as(search.stated.get(path, ""))
        if path in stored and not format_name:
            known, known_map = parse_read_as(stored[path])
            search.locations[path] = read_as(known, lane_map or known_map)
        listings.add(path, search.locations[path], search.keys.get(path, ()))
    return DiscoveredEpisodes(search.files, listings.episodes)


def _add_unknown(search: FileSearch, path: str, *, is_given: bool) -> None:
    """Add a file of arrays or a table if what is in it can be guessed."""
    found = _guess(path, is_given=is_given)
    if isinstance(found, ReadingGuess) and not found.why:
        search.add(path, found.reference)
        search.guessed[path] = found.reference
    elif not is_given and _is_cut(found):
        search.unreadable.append(found)
    elif not is_given:
        search.unread[path] = _reason(found)
    elif found is None:
        search.locations[path] = ""  # opening it reports what it is
    else:
        failed = found if isinstance(found, Failure) else attempt(found.expect, EpisodeAddress(path))
        search.unreadable += [failed] if isinstance(failed, Failure) else []


def _leave_out(search: FileSearch, path: str) -> None:
    """Skip a file that nothing reads; one that cannot be opened, or that Git LFS has not fetched yet, has failed."""
    opened = attempt(lambda: place_of(path).open().close(), EpisodeAddress(path))
    if isinstance(opened, Failure):
        search.unreadable.append(opened)
    elif path.lower().endswith((_DOCUMENT, *SUFFIXES["video"])):  # most belong to others
        search.skip(path)
    else:
        return
    del search.unread[path]


def _count_skipped(search: FileSearch, belonging: BelongingFiles) -> dict[str, int]:
    """Return the numbers of files of no format by suffix, the most frequent first, without those read with episodes."""
    counts = Counter[str]()
    for folder, found in search.skipped.items():
        counts += found - belonging.count_in(folder)
    return dict(counts.most_common())


def _leave_out_files(search: FileSearch, belonging: BelongingFiles) -> None:
    """Skip the files that nothing reads, but for those that belong to episodes."""
    for path, reason in [*search.unread.items()]:
        if belonging.has(locate(path)):
            del search.unread[path]
        elif belonging.is_beside(locate(path)):
            search.unread[path] = VIDEO_BESIDE
        elif reason.startswith(NO_LAYOUT) or path in search.unknown:
            _leave_out(search, path)
