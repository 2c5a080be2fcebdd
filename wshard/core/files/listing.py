"""What is directly below a prefix of an object store, in columns: an object for each of a million keys does not fit."""

from __future__ import annotations

import math
import threading
import time
from array import array
from bisect import bisect_left
from typing import TYPE_CHECKING, Final, NamedTuple

import xxhash

from wshard.core.made_sequence import MadeSequence

if TYPE_CHECKING:
    from collections.abc import Iterator

_SECOND: Final = 1_000_000_000


class ObjectStatus(NamedTuple):
    """Size of an object, what tells its versions apart, and the time of its modification in seconds.

    A version that begins with a quotation mark is a strong etag: the same bytes.
    """

    size: int
    version: str
    modified: int

    @property
    def mtime_ns(self) -> int:
        """A time in nanoseconds that differs with each version."""
        return self.modified * _SECOND + xxhash.xxh3_64_intdigest(self.version.encode()) % _SECOND


_UNKNOWN: Final = ObjectStatus(-1, "", 0)


class KeyPage(NamedTuple):
    """Some of a listing: names of folders, and of objects, which ascend as UTF-8, with their status if it is known."""

    folders: list[str]
    objects: list[tuple[str, ObjectStatus | None]]


class Listing(MadeSequence[str]):
    """Names of folders and, a sequence, of objects with their status; pages are read as they are needed.

    Reading raises what a store answers, and again each time. Threads may share it. read_at: when the last page was, by
    time.monotonic.
    """

    def __init__(self, pages: Iterator[KeyPage]) -> None:
        self.folders: list[str] = []
        self.read_at = time.monotonic()
        self._pages: Iterator[KeyPage] | None = pages
        self._failed: BaseException | None = None
        self._lock = threading.Lock()
        self._names, self._name_ends = bytearray(), array("Q", [0])
        self._versions, self._version_ends = bytearray(), array("Q", [0])
        self._sizes, self._modified = array("q"), array("q")

    @property
    def is_complete(self) -> bool:
        """Whether all pages have been read."""
        return self._pages is None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing at all; reads what is needed to know."""
        while not self.folders and not len(self):
            if not self.read_page():
                return True
        return False

    def read(self, most: int | None = None) -> bool:
        """Read all pages, or until there are more than so many objects; return whether all were read."""
        while (most is None or len(self) <= most) and self.read_page():
            pass
        return self.is_complete

    def read_page(self) -> bool:
        """Read one page more; False after the last one."""
        with self._lock:
            if self._failed is not None:
                raise self._failed
            if self._pages is None:
                return False
            try:
                page = next(self._pages, None)
            except BaseException as error:
                self._failed, self.read_at = error, -math.inf
                raise
            self.read_at = time.monotonic()
            if page is None:
                self._pages = None
                return False
            self.folders += page.folders
            for name, status in page.objects:
                self._add(name, status)
            return True

    def _add(self, name: str, status: ObjectStatus | None) -> None:
        size, version, modified = status or _UNKNOWN
        self._names += name.encode(errors="surrogatepass")
        self._versions += version.encode()
        self._version_ends.append(len(self._versions))
        self._sizes.append(size)
        self._modified.append(modified)
        self._name_ends.append(len(self._names))  # last: then it counts

    def __len__(self) -> int:
        """Return how many objects have been read."""
        return len(self._name_ends) - 1

    def make(self, number: int) -> str:
        """Return the name of an object."""
        return self._name(number).decode(errors="surrogatepass")

    def status(self, number: int) -> ObjectStatus | None:
        """Return the status of an object, None if the place does not tell."""
        version = self._versions[self._version_ends[number] : self._version_ends[number + 1]].decode()
        found = ObjectStatus(self._sizes[number], version, self._modified[number])
        return None if found == _UNKNOWN else found

    def find(self, name: str) -> int | None:
        """Return the number of the object of this name, None without one among those that have been read."""
        wanted, size = name.encode(errors="surrogatepass"), len(self)
        number = bisect_left(range(size), wanted, key=self._name)
        return number if number < size and self._name(number) == wanted else None

    def _name(self, number: int) -> bytes:
        return bytes(self._names[self._name_ends[number] : self._name_ends[number + 1]])
