"""Open episodes by address; check that they exist and have not changed since they were catalogued."""

from __future__ import annotations

import os
import stat
import threading
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from bridge.support.batches import BATCH
from wshard.core.episode.protocol import Fingerprint, parse_read_as
from wshard.core.files.schemes import place_of
from wshard.errors import EntryNotFoundError, IngestError, SourceNotFoundError, WShardError
from wshard.formats.detect import detect_format, is_recognised
from wshard.formats.lazy_source import LazySource
from wshard.formats.open import open_episode, open_location

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from catalog.catalog import Catalog
    from catalog.records import Asset, EpisodeRow, Known
    from wshard.core.episode.protocol import EpisodeAddress, EpisodeReader
    from wshard.core.files.listing import Listing
    from wshard.core.files.place import Place
    from wshard.formats.source_base import SourceBase

_MAX_OPEN: Final = 16  # locations at a time
_MOST_LISTED: Final = 10_000  # names in a folder of a store, which are ten answers


class OpenLocations:
    """Opens episodes by their addresses, and each location of several episodes once. Use it as a context manager.

    A location is seen as it was when it was opened, so use one instance per batch of work, not for a long time. Those
    used least recently are closed, so that a batch from hundreds of files needs few open ones.
    """

    def __init__(self, *, most_files: int | None = None) -> None:
        """most_files: of a location that stay open, where fewer are enough than for random access."""
        self._most_files = most_files
        self._sources: dict[tuple[str, str], SourceBase] = {}
        self._existing: dict[str, bool] = {}
        self._listings = _FarFolders()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        while self._sources:
            self._sources.popitem()[1].close()

    def open(self, address: EpisodeAddress, *, hashed: bool = False) -> EpisodeReader:
        """Open an episode; hashed: compare chunks with their hashes. Raises as wshard.formats.open.open_episode."""
        return self._source(address).open(address.key) if address.key else open_episode(address, hashed=hashed)

    def fingerprint(self, address: EpisodeAddress) -> Fingerprint:
        """Return the fingerprint, which changes with the file; reads no data.

        Raises SourceNotFoundError, EntryNotFoundError, IngestError for all but regular files, and errors of formats.
        """
        if address.key:
            return self._source(address).fingerprint(address.key)
        place = place_of(address.uri)
        if not place.is_local:
            return self._far_fingerprint(address, place)
        try:
            status = os.stat(place.uri)  # noqa: PTH116  (a million times)
        except FileNotFoundError:
            raise SourceNotFoundError(f"{address.uri}: no such file") from None
        if address.read_as or (stat.S_ISDIR(status.st_mode) and detect_format(address.uri)):
            return self._source(address).fingerprint("")  # of files beside it, too, such as its layout
        if not stat.S_ISREG(status.st_mode):  # opening a pipe would wait for ever
            raise IngestError(f"{address.uri}: expected a regular file, found {stat.filemode(status.st_mode)}")
        return Fingerprint(status.st_size, status.st_mtime_ns)

    def is_unchanged(
        self, address: EpisodeAddress, known: EpisodeRow | Known, found: Fingerprint | None = None
    ) -> bool:
        """Return whether the fingerprint of an episode, `found` if it is known, is that of the catalog.

        False if it cannot be read: reading the episode reports the error.
        """
        try:
            return (found or self.fingerprint(address)) == Fingerprint(known.size, known.mtime_ns)
        except (OSError, WShardError):
            return False

    def is_as_ingested(self, file: EpisodeReader, row: EpisodeRow, found: Fingerprint | None = None) -> bool:
        """Return whether an open episode has the data that the catalog has; raises as fingerprint.

        In a location of several, the fingerprint is compared, `found` if it is known; the digest would read every lane.
        """
        known = Fingerprint(row.size, row.mtime_ns)
        is_unchanged = row.key != "" and (found or self.fingerprint(row.address)) == known
        return is_unchanged or file.digest() == row.digest

    def exists(self, address: EpisodeAddress) -> bool:
        """Return whether the episode exists: its file, or its key in a location if that can be read.

        In an object store, what lies in a folder without any object counts as existing, since an empty answer is no
        proof. Raises ObjectStoreError and PermissionError if a store does not answer.
        """
        place = place_of(address.uri)
        path = place.uri
        if not place.is_local:
            listed = self._listings.lists(place)
            if listed is None or not address.key:
                return listed is not False
            self._existing.setdefault(address.uri, listed)
        if not address.key and not _is_other_folder(path, address.read_as):
            return os.path.exists(path)  # noqa: PTH110  (Path.exists can raise)
        if address.uri not in self._existing:
            self._existing[address.uri] = _location_exists(path)
        if not self._existing[address.uri]:
            return False
        try:
            self.fingerprint(address)
        except (EntryNotFoundError, FileNotFoundError):
            return False
        except Exception:  # noqa: BLE001  (opening it reports the error)
            return True
        return True

    def _far_fingerprint(self, address: EpisodeAddress, place: Place) -> Fingerprint:
        if place.is_dir():
            if address.read_as or detect_format(place):
                return self._source(address).fingerprint("")
            raise IngestError(f"{address.uri}: expected an object, found a folder of them")
        try:
            status = place.status()
        except FileNotFoundError as error:
            raise SourceNotFoundError(f"{address.uri}: {error.strerror}") from None
        return Fingerprint(status.size, status.mtime_ns)

    def are_unchanged(self, files: Iterable[Asset]) -> bool:
        """Return whether all files of an episode have size and time as in the catalog."""
        try:
            return all(self.fingerprint(file.address) == Fingerprint(file.size, file.mtime_ns) for file in files)
        except Exception:  # noqa: BLE001  (reading it reports the error)
            return False

    def missing_files(self, address: EpisodeAddress) -> list[str]:
        """Return the paths of missing files that the location of an episode lists for it. Raises as open."""
        return self._source(address).missing_files(address.key)

    def _source(self, address: EpisodeAddress) -> SourceBase:
        place = address.uri, address.read_as
        source = self._sources.pop(place, None)
        if source is None:
            source = open_location(address.uri, address.read_as or None)
            if self._most_files is not None and isinstance(source, LazySource):
                source.most_open = min(source.most_open, self._most_files)
            if len(self._sources) >= _MAX_OPEN:
                self._sources.pop(next(iter(self._sources))).close()
        self._sources[place] = source
        return source


class _FarFolders:
    """What folders in object stores list, each asked for once; of many objects, each is asked for instead."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[Listing, frozenset[str]] | None] = {}

    def lists(self, place: Place) -> bool | None:
        """Return whether a file or folder is there; None if nothing is in its folder. Raises as Place.listing."""
        folder = place.parent
        if folder.uri not in self._found:
            try:
                listing = folder.listing(_MOST_LISTED)
                self._found[folder.uri] = listing, frozenset(listing.folders)
            except FileNotFoundError:
                self._found[folder.uri] = None
        found = self._found[folder.uri]
        if found is None:
            return None
        listing, folders = found
        if listing.find(place.name) is not None or place.name in folders:
            return True
        return not listing.is_complete and place.exists()


def _is_other_folder(path: str, how: str) -> bool:
    """Return whether a folder is no longer recognised as what it was read as, such as a bag without metadata."""
    is_folder = bool(how) and os.path.isdir(path)  # noqa: PTH112  (Path.is_dir can raise)
    return is_folder and not is_recognised(path, parse_read_as(how)[0])


def _location_exists(location: str) -> bool:
    """Return whether a location of several episodes exists and is not an empty folder."""
    if not os.path.exists(location):  # noqa: PTH110  (Path.exists can raise)
        return False
    try:
        return not Path(location).is_dir() or next(Path(location).iterdir(), None) is not None
    except OSError:
        return True  # opening it reports the error


class _Recent(threading.local):
    """The locations that this thread opened last, which stay open."""

    def __init__(self) -> None:
        self.sources: dict[tuple[str, str], SourceBase] = {}


_RECENT: Final = _Recent()
_MAX_RECENT: Final = 4


def open_at(address: EpisodeAddress) -> EpisodeReader:
    """Open one episode by its address, without hashing chunks. Raises like wshard.formats.open.open_episode."""
    source = _open_recent(address) if address.key else None
    return open_episode(address, hashed=False) if source is None else source.open(address.key)


def open_unchanged(address: EpisodeAddress, seen: Fingerprint | None) -> EpisodeReader | None:
    """Open an episode of a location of several if its fingerprint is unchanged; None if its digest must be compared."""
    source = _open_recent(address) if address.key and seen is not None else None
    return None if source is None or source.fingerprint(address.key) != seen else source.open(address.key)


def _open_recent(address: EpisodeAddress) -> SourceBase | None:
    """Return the Source of a location, None for one that is not read lane by lane.

    The Sources of the last four locations of this thread stay open while what they list is unchanged, and the files of
    the episodes that are opened: only these are looked at each time.
    """
    place = address.uri, address.read_as
    source = _RECENT.sources.pop(place, None)
    if source is not None and not source.is_current(address.key):
        source.close()
        source = None
    if source is None:
        source = open_location(address.uri, address.read_as or None)
        if not source.stays_open:
            source.close()
            return None
    try:
        source.fingerprint(address.key)  # is_current compares with it
    except BaseException:
        source.close()
        raise
    _RECENT.sources[place] = source
    if len(_RECENT.sources) > _MAX_RECENT:
        _RECENT.sources.pop(next(iter(_RECENT.sources))).close()
    return source


def exists(address: EpisodeAddress) -> bool:
    """Return True if one episode exists; for many, use OpenLocations."""
    with OpenLocations() as locations:
        return locations.exists(address)


def fingerprint_of(address: EpisodeAddress) -> Fingerprint:
    """Return the fingerprint of one episode; raises as OpenLocations.fingerprint."""
    with OpenLocations() as locations:
        return locations.fingerprint(address)


def known_episodes(
    catalog: Catalog, addresses: Iterable[EpisodeAddress]
) -> Iterator[tuple[EpisodeAddress, Known | None]]:
    """Yield each address, in order, with the catalog's entry for it; queries a batch at a time."""
    remaining = iter(addresses)
    while batch := list(islice(remaining, BATCH)):
        known = catalog.episodes.known([*{address.uri for address in batch}], {address.key for address in batch})
        entries = {(uri, entry.key): entry for uri, found in known.items() for entry in found}
        yield from ((address, entries.get((address.uri, address.key))) for address in batch)
