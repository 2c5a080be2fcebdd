"""Places in object stores, named by URIs such as s3://BUCKET/KEY: keys with a common prefix are a folder."""

from __future__ import annotations

import errno
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlsplit

import xxhash

from wshard.core.files.block_cache import read_blocks
from wshard.core.files.object_client import Listing, ObjectStatus, ReplacedError, client_of
from wshard.core.files.place import FileStatus, Place, PlainEntry
from wshard.core.messages import public_url
from wshard.errors import FormatError, ObjectStoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

_FRESH_FOR: Final = 2.0  # seconds for which what a store said is believed: a format asks for the same again and again
_MOST_SEEN: Final = 100_000
_SECOND: Final = 1_000_000_000

_SEEN: Final[dict[str, tuple[float, ObjectStatus | None]]] = {}
_LISTED: Final[dict[str, tuple[float, Listing]]] = {}


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
        if not listing.folders and not listing.objects:
            raise FileNotFoundError(errno.ENOENT, "no such folder of objects", self.uri)
        yield from (PlainEntry(name, folder=True) for name in listing.folders)
        yield from (PlainEntry(name) for name in listing.objects if name)

    def status(self) -> FileStatus:
        """Return size and version of an object, (0, 0) of a folder."""
        found = self._find()
        if found is None and self.is_dir():
            return FileStatus(0, 0)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, "no such object or folder of objects", self.uri)
        mixed = xxhash.xxh3_64_intdigest(found.version.encode()) % _SECOND
        return FileStatus(found.size, found.modified * _SECOND + mixed)

    def is_dir(self) -> bool:
        """Return True if no object has this key, and some have it as the first part of theirs."""
        if self._key and self._find() is not None:
            return False
        listing = self._list()
        return bool(listing.folders or listing.objects) or not self._key

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
        parent = _LISTED.get(self.uri.rpartition("/")[0])
        if parent is not None and time.monotonic() - parent[0] < _FRESH_FOR:
            return parent[1].objects.get(self.name)
        try:
            found: ObjectStatus | None = client_of(self._scheme, self._root).head(self._key)
        except FileNotFoundError:
            found = None
        _remember(_SEEN, self.uri, found)
        return found

    def _list(self) -> Listing:
        known = _LISTED.get(self.uri)
        if known is not None and time.monotonic() - known[0] < _FRESH_FOR:
            return known[1]
        listing = client_of(self._scheme, self._root).list(self._key)
        _remember(_LISTED, self.uri, listing)
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


def _remember(known: dict[str, tuple[float, Any]], uri: str, found: Any) -> None:
    if len(known) > _MOST_SEEN:
        known.clear()
    known[uri] = time.monotonic(), found
