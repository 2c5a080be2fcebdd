"""Check whether the catalogued episodes exist unchanged, and find leftovers of interrupted writers.

Runs in worker processes.
"""

from __future__ import annotations

import posixpath
import re
import time
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bridge.episodes.found import FoundEpisode
from bridge.episodes.locations import list_location
from bridge.episodes.open import OpenLocations, exists
from bridge.episodes.read import Failure, describe_error
from bridge.maintenance.findings import Finding
from bridge.pictures.unused_files import find_unowned, find_unused
from bridge.support.interrupts import raise_interrupt
from catalog.location import DATABASE
from wshard.core.chunks.files import is_episode, walk
from wshard.core.chunks.manifest import MANIFEST_SUFFIX
from wshard.core.container.atomic_write import TEMPORARY
from wshard.core.container.draft import DRAFT_LOCK, is_dead_draft
from wshard.core.episode.protocol import OWN_FORMAT, EpisodeAddress
from wshard.core.repair.inspect import check_file
from wshard.errors import EntryNotFoundError, IngestError, SourceNotFoundError, WShardError
from wshard.formats.base import load_matchers
from wshard.formats.below import matched

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from bridge.archive import Archive
    from catalog.records import Asset, EpisodeRow
    from wshard.formats.base import Matchers

ABANDONED_S: Final = 3600.0  # a younger file may still be written to
_DRAFT: Final = re.compile(rf"\.{re.escape(DATABASE)}\.([0-9a-f]{{32}}|[0-9a-f]{{8}}\.tmp)(-wal|-shm|-journal)?")
_PARTIAL: Final = ".partial"
_MAX_LISTED: Final = 3  # damaged blocks that are named


def check_files(rows: Sequence[tuple[EpisodeRow, tuple[Asset, ...]]], *, data: bool) -> list[Finding]:
    """Compare catalogued episodes with their files; data: every block with its checksum, which reads all of it."""
    with OpenLocations() as locations:
        return [found for row, files in rows if (found := _check(row, files, locations, data=data)) is not None]


def _check(row: EpisodeRow, files: Sequence[Asset], locations: OpenLocations, *, data: bool) -> Finding | None:
    try:
        code, text = _compare(row, files, locations, data=data)
    except FileNotFoundError as error:
        code, text = "missing", _missing(error.filename or row.path, row.path)
    except EntryNotFoundError as error:
        code, text = ("missing", "no such episode") if row.key else ("corrupt", describe_error(error, row.address))
    except WShardError as error:
        code, text = "corrupt", describe_error(error, row.address)
    except OSError as error:
        code, text = "unreadable", describe_error(error, row.address)
    except Exception as error:  # noqa: BLE001  (one file must not end the check of the others)
        raise_interrupt(error)
        code, text = "corrupt", describe_error(error, row.address)
    return Finding(code, str(row.address), text, row.id) if code else None


def _describe_missing(row: EpisodeRow, files: Sequence[Asset], locations: OpenLocations) -> str:
    """Return a message for the first file that is missing or not a regular file, "" if there is none."""
    for file in files:
        try:
            locations.fingerprint(file.address)
        except SourceNotFoundError:
            return _missing(file.path, row.path)
        except IngestError as error:
            return describe_error(error, file.address).replace("a regular file", "a file")
    return ""


def _missing(name: str, path: str) -> str:
    file, place = Path(name), Path(path)
    if file == place:
        return "no such file"
    return f"no such file: {file.relative_to(place) if file.is_relative_to(place) else file.name}"


def _compare(row: EpisodeRow, files: Sequence[Asset], locations: OpenLocations, *, data: bool) -> tuple[str, str]:
    """Return the code and message of a problem, ("", "") if there is none."""
    if missing_file := _describe_missing(row, files, locations):
        return "missing", missing_file
    if row.format != OWN_FORMAT and (missing := locations.missing_files(row.address)):
        return "incomplete", _missing(missing[0], row.path)
    if (
        row.key and not data and locations.are_unchanged(files)
    ):  # in a location of several, a digest needs reading all of it
        return "", ""
    with locations.open(row.address) as reader:
        digest = reader.digest()
        is_own_format = row.format == OWN_FORMAT
        if data and not is_own_format:
            reader.verify()
    # A chunk that differs from the one in its manifest cannot be a newer version of the episode.
    looked = is_own_format and (data or (digest != row.digest and len(files) > 1))
    _, damaged = check_file(row.path) if looked else (0, {})
    if damaged:
        named = "; ".join(text.removeprefix(f"{row.path}: ") for text in [*damaged.values()][:_MAX_LISTED])
        return "corrupt", f"{len(damaged)} damaged parts ({', '.join([*damaged][:_MAX_LISTED])}): {named}"
    if digest != row.digest:
        return "changed", "the data has changed since it was ingested"
    unread = "" if is_own_format or data else ", of samples of frames and long lanes: --data reads all"
    touched = "touched", f"another size or time than in the catalog, the same digest{unread}"
    return ("", "") if locations.are_unchanged(files) else touched


def scan_folders(
    folders: Iterable[str], absent: Sequence[EpisodeRow]
) -> tuple[dict[str, list[EpisodeAddress]], list[Finding]]:
    """Return where the data of missing episodes is below the folders, by digest, and findings of unfinished files."""
    sizes, digests = {row.size for row in absent}, {row.digest for row in absent}
    addresses_by_digest: dict[str, list[EpisodeAddress]] = {}
    findings: list[Finding] = []
    unreadable: dict[str, OSError] = {}
    matchers = load_matchers() if absent else ()
    for folder in folders:
        for place, folders_in, files in walk(folder, unreadable):
            matcher = matched(place, matchers)
            is_location = matcher is not None and matcher.whole
            folders_in[:] = [] if is_location else folders_in
            names = [] if is_location else files
            with OpenLocations() as locations:
                for episode in _episodes_of(place, names, matchers) if absent else ():
                    if (digest := _digest_of(episode, sizes, locations)) in digests:
                        addresses_by_digest.setdefault(digest, []).append(episode.address)
            findings += _unfinished(place, names)
    findings += [
        Finding("unreadable", path, error.strerror or str(error))
        for path, error in unreadable.items()
        if exists(EpisodeAddress(path))
    ]
    return addresses_by_digest, findings


def _episodes_of(place: str, names: Iterable[str], matchers: Matchers) -> Iterator[FoundEpisode]:
    """Yield the episodes in a folder, and in locations that it is or else contains."""
    others = [place]
    is_location = matched(place, matchers) is not None
    for path in (f"{place}/{name}" for name in names):
        if is_episode(posixpath.basename(path)):
            yield FoundEpisode(EpisodeAddress(path))
        elif not is_location:
            others.append(path)
    for path in others:
        matcher = matched(path, matchers)
        episodes = None if matcher is None else list_location(path, matcher.name)
        if episodes is not None and not isinstance(episodes, Failure):
            yield from starmap(FoundEpisode, episodes)


def _digest_of(found: FoundEpisode, sizes: Collection[int], locations: OpenLocations) -> str:
    """Return the digest of an episode that has one of these sizes, "" for another or none."""
    try:
        # The catalogued size of an episode of several files is that of all of them.
        size = (found.fingerprint or locations.fingerprint(found.address)).size
        if size not in sizes and not found.address.uri.endswith(MANIFEST_SUFFIX):
            return ""
        with locations.open(found.address) as file:
            return file.digest()
    except Exception:  # noqa: BLE001  (if it is catalogued, that is reported already)
        return ""


def _unfinished(place: str, names: Iterable[str]) -> Iterator[Finding]:
    for name in names:
        path = f"{place}/{name}"
        if name.endswith(_PARTIAL) and is_episode(name.removesuffix(_PARTIAL)) and is_abandoned(path):
            yield Finding("unfinished", path, "a recording without writes for an hour")
        elif DRAFT_LOCK.fullmatch(name) and is_dead_draft(Path(path)):
            yield Finding("abandoned", path, "a draft whose writing was interrupted")
        elif TEMPORARY.fullmatch(name) and is_abandoned(path):
            yield Finding("abandoned", path, "a file whose writing was interrupted")


def leftovers(archive: Archive, living: Iterable[str]) -> list[Finding]:
    """Return what interrupted processes left in the archive's own folder; living: fingerprints of Spaces in use."""
    paths = [path for path in _children(archive.folder) if _DRAFT.fullmatch(path.name)]
    paths += archive.index.leftovers(living)
    paths += find_unowned(archive.folder, archive.catalog)
    paths += find_unused(archive.folder, archive.catalog)
    message = "leftover of an interrupted process, or of a removed Space or episode"
    return [Finding("leftover", path.as_posix(), message) for path in paths if is_abandoned(path)]


def is_abandoned(path: str | Path) -> bool:
    """Return True if the file or folder has had no writes for an hour."""
    try:
        return time.time() - Path(path).stat().st_mtime > ABANDONED_S
    except OSError:
        return False


def _children(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []
