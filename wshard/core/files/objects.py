"""Places in object stores, named by URIs such as s3://BUCKET/KEY: keys with a common prefix are a folder."""

from __future__ import annotations

import errno
import time
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlsplit

from wshard.core.files.block_cache import read_blocks
from wshard.core.files.listing import Listing, ObjectStatus
from wshard.core.files.object_client import ReplacedError, client_of
from wshard.core.files.place import FileStatus, Place, PlainEntry
from wshard.core.messages import public_url
from wshard.errors import FormatError, ObjectStoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

_FRESH_FOR: Final = 2.0  # seconds for which what a store said is believed: a format asks for the same again and again
_MOST_SEEN: Final = 100_000
_MOST_LISTED: Final = 10_000  # objects of a listing that is kept, 90 bytes each; more are asked for one by one

_SEEN: Final[dict[str, tuple[float, ObjectStatus | None]]] = {}
_LISTED: Final[dict[str, Listing]] = {}


class ObjectPlace(Place):
    """An object, or all whose keys begin with a prefix. What is there is asked for at most once in two seconds.

    Other than on a disk, `exists` and `is_dir` raise PermissionError and ObjectStoreError: a store that does not answer
    says nothing about what it has.
    """

    __slots__ = ("_key", "_pinned", "_root", "_scheme")
    reads_ahead = True

    def __init__(self, uri: str, pinned: ObjectStatus | None = None) -> None:
        """Take a URI; pinned: the only version to read. Raises FormatError for one with a password or options."""
        scheme, _, rest = uri.partition("://")
        self._scheme, (self._root, _, key) = scheme.lower(), rest.partition("/")
        self._key, self._pinned = key.strip("/"), pinned
        is_web = self._scheme.startswith("http")
        if not self._root or "@" in self._root or (is_web and (urlsplit(uri).query or "?" in uri)):
            raise FormatError(
                f"{public_url(uri)}: expected {self._scheme}://BUCKET/KEY without user, password, token and options: "
                "credentials are taken from the environment"
            )
        super().__init__(f"{self._scheme}://{self._root}/{self._key}".rstrip("/"))

    def __reduce__(self) -> tuple[type[Self], tuple[str, ObjectStatus | None]]:
        return type(self), (self.uri, self._pinned)

    # ---- what is there -----------------------------------------------------------------------------------------------

    def entries(self) -> Iterator[PlainEntry]:
        """Yield the names directly in a folder; raises FileNotFoundError for none."""
        listing = self._list()
        if listing.is_empty:
            raise FileNotFoundError(errno.ENOENT, "no such folder of objects", self.uri)
        folders = objects = 0  # yielded before
        while True:
            more = listing.folders[folders:], range(objects, len(listing))
            yield from (PlainEntry(name, folder=True) for name in more[0])
            yield from (PlainEntry(listing[number]) for number in more[1])
            folders, objects = folders + len(more[0]), more[1].stop
            if (folders, objects) == (len(listing.folders), len(listing)) and not listing.read_page():
                return

    def listing(self, most: int | None = None) -> Listing:
        """Return what is directly in a folder, not all if there are more than so many; raises FileNotFoundError."""
        listing = self._list()
        if listing.is_empty:
            raise FileNotFoundError(errno.ENOENT, "no such folder of objects", self.uri)
        listing.read(most)
        _find_listing(self.uri)
        return listing

    def status(self) -> FileStatus:
        """Return size and version of an object, (0, 0) of a folder."""
        found = self._find()
        if found is None and self.is_dir():
            return FileStatus(0, 0)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, "no such object or folder of objects", self.uri)
        return FileStatus(found.size, found.mtime_ns)

    def is_dir(self) -> bool:
        """Return True if no object has this key, and some have it as the first part of theirs."""
        if self._key and self._find() is not None:
            return False
        return not self._list().is_empty or not self._key

    def exists(self) -> bool:
        """Return True if an object or folder is there."""
        return self._find() is not None or self.is_dir()

    def pinned(self) -> Self:
        """Return the place of the version that is there now: reading another one raises ObjectStoreError."""
        return self if self._pinned else type(self)(self.uri, self._find())

    def _find(self) -> ObjectStatus | None:
        """Return the status of the object, None if there is none."""
        if self._pinned is not None:
            return self._pinned
        if not self._key:
            return None
        seen = _SEEN.get(self.uri)
        if seen is not None and time.monotonic() - seen[0] < _FRESH_FOR:
            return seen[1]
        parent = _find_listing(self.uri.rpartition("/")[0])
        if parent is not None and parent.is_complete:
            return None if (number := parent.find(self.name)) is None else parent.status(number)
        try:
            found: ObjectStatus | None = client_of(self._scheme, self._root).head(self._key)
        except FileNotFoundError:
            found = None
        _remember(_SEEN, self.uri, found)
        return found

    def _list(self) -> Listing:
        listing = _find_listing(self.uri)
        if listing is None:
            for uri in [*islice(_LISTED, 2)]:  # more than are added, so that few old ones stay
                _find_listing(uri)
            listing = _LISTED[self.uri] = Listing(client_of(self._scheme, self._root).list(self._key))
        return listing

    # ---- what is in it -----------------------------------------------------------------------------------------------

    def read(self, start: int, stop: int) -> bytes:
        """Return the bytes [start, stop) of an object, fewer at its end."""
        return self.read_ranges([(start, stop)])[0]

    def read_ranges(self, ranges: Any) -> list[bytes]:
        """Return several ranges of one version, in order; those that are not in the cache are fetched at once."""
        wanted = list(ranges)
        for is_last in (False, True):
            status = self._find()
            if status is None:
                if self.is_dir():
                    raise IsADirectoryError(errno.EISDIR, "expected an object, found a folder of them", self.uri)
                raise FileNotFoundError(errno.ENOENT, "no such object", self.uri)
            fetch = partial(client_of(self._scheme, self._root).get, self._key, status)
            try:
                return read_blocks((self.uri, status.version, status.size), wanted, fetch)
            except ReplacedError:
                forget()
                if is_last or self._pinned:
                    break
        raise ObjectStoreError(
            f"{self.uri}: expected the version that was opened, found that it was replaced meanwhile: open it again"
        )


def forget() -> None:
    """Ask the stores again for all that they said."""
    _SEEN.clear()
    _LISTED.clear()


def _find_listing(uri: str) -> Listing | None:
    """Return what was listed below a prefix within two seconds; what is older, or takes much memory, is forgotten."""
    listing = _LISTED.get(uri)
    if listing is None or (time.monotonic() - listing.read_at < _FRESH_FOR and len(listing) <= _MOST_LISTED):
        return listing
    _LISTED.pop(uri, None)
    return None


def _remember(known: dict[str, tuple[float, Any]], uri: str, found: Any) -> None:
    if len(known) > _MOST_SEEN:
        known.clear()
    known[uri] = time.monotonic(), found
