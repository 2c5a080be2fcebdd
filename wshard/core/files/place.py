"""A place of data: a file or folder, whatever holds it, that is named by a URI."""

from __future__ import annotations

import fnmatch
import io
import json
import re
from collections import Counter
from contextlib import suppress
from functools import total_ordering
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple, Protocol, Self

from wshard.core.files.listing import KeyPage, Listing
from wshard.core.files.range_file import RangeFile
from wshard.errors import FormatError, LimitError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_BUFFER_SIZE: Final = 1 << 16  # bytes read at once by a file object that reads ranges


class FileStatus(NamedTuple):
    """Facts that change when a file may have changed.

    mtime_ns: time of modification, or of an object store a number made of its etag. number: differs for a file that
    took the place of another one; 0 where there is no such number.
    """

    size: int
    mtime_ns: int
    number: int = 0


class Entry(Protocol):
    """One name in a folder, as os.scandir gives it."""

    @property
    def name(self) -> str:
        """The name in the folder."""

    def is_dir(self) -> bool:
        """Return True for a folder, links followed."""

    def is_symlink(self) -> bool:
        """Return True for a link."""


class PlainEntry(NamedTuple):
    """An Entry of a place without links."""

    name: str
    folder: bool = False

    def is_dir(self) -> bool:
        """Return True for a folder."""
        return self.folder

    def is_symlink(self) -> bool:
        """Return False."""
        return False


@total_ordering
class Place:
    """A file or folder, which need not exist. Its identity is `uri`: a path for a local one; places can be pickled.

    A scheme is a subclass with `entries`, `status`, `is_dir` and `read`, made from a URI; the rest is derived from
    them. Only LocalPlace is an os.PathLike: libraries that need the path of a file ask for `local_path()`, those that
    also take file objects for `path_or_file()`.

    Raises FileNotFoundError and other OSErrors, FormatError for what is no data, such as a named pipe.
    """

    __slots__ = ("uri",)
    reads_ahead = False
    """Whether a small range costs no more than a larger one, as what is around it is kept."""
    is_local = False
    """Whether it is on a disk of this machine, so that its `uri` is a path."""

    def __init__(self, uri: str) -> None:
        self.uri = uri

    # ---- what a scheme defines ---------------------------------------------------------------------------------------

    def entries(self) -> Iterable[Entry]:
        """Return the names directly in a folder, in any order."""
        raise NotImplementedError

    def status(self) -> FileStatus:
        """Return size and version of what is there; links are followed."""
        raise NotImplementedError

    def listing(self, most: int | None = None) -> Listing:  # noqa: ARG002  (where a part costs less)
        """Return what `entries` does, in columns, perhaps not all if there are more than `most` files."""
        folders, names = list[str](), list[str]()
        for entry in self.entries():
            (folders if entry.is_dir() else names).append(entry.name)
        listing = Listing(iter([KeyPage(folders, [(name, None) for name in sorted(names)])]))
        listing.read()
        return listing

    def is_dir(self) -> bool:
        """Return True for a folder; never raises."""
        raise NotImplementedError

    def expect_unlocked(self) -> None:
        """Raise BlockingIOError while another program has locked a local file, as HDF5 locks those that it writes."""

    def read(self, start: int, stop: int) -> bytes:
        """Return the bytes [start, stop) of a file, fewer at its end."""
        raise NotImplementedError

    def read_ranges(self, ranges: Iterable[tuple[int, int]]) -> list[bytes]:
        """Return several ranges, in order; an object store may fetch them at once."""
        return [self.read(start, stop) for start, stop in ranges]

    def open(self) -> io.BufferedReader:
        """Open a file for reading and seeking."""
        place = self.pinned()
        return io.BufferedReader(RangeFile(place.read, place.status().size), _BUFFER_SIZE)

    def whole(self) -> memoryview:
        """Return all bytes of a file, memory-mapped if it is local."""
        place = self.pinned()
        return memoryview(place.read(0, place.status().size))

    def pinned(self) -> Self:
        """Return the place of the version that is there now, if the scheme knows versions: no other one is read."""
        return self

    def local_path(self) -> str:
        """Return the path of a file or folder on a local disk, for libraries that take nothing else."""
        raise FormatError(f"{self.uri}: expected a path on a local disk, which this format needs: download it")

    def path_or_file(self) -> str | IO[bytes]:
        """Return the path of a local file or an open file, for libraries that take both."""
        return self.open()

    def leads_out(self, _name: str) -> bool:
        """Return True if the path of a file below this folder leaves it, through links."""
        return False

    # ---- derived -----------------------------------------------------------------------------------------------------

    def exists(self) -> bool:
        """Return True if a file or folder is there; never raises."""
        try:
            self.status()
        except (OSError, ValueError):
            return self.is_dir()
        return True

    def is_file(self) -> bool:
        """Return True if something is there that is no folder; never raises."""
        return not self.is_dir() and self.exists()

    @property
    def name(self) -> str:
        """The last part of the URI."""
        return self.uri.rstrip("/").rpartition("/")[2]

    @property
    def stem(self) -> str:
        """The name without its suffix."""
        return self.name.removesuffix(self.suffix)

    @property
    def suffix(self) -> str:
        """The last dot of the name and what follows, "" if there is none."""
        stem, dot, end = self.name.rpartition(".")
        return f"{dot}{end}" if stem and end else ""

    @property
    def parent(self) -> Self:
        """The folder of a file or folder."""
        return type(self)(self.uri.rstrip("/").rpartition("/")[0])

    def __truediv__(self, name: str) -> Self:
        """Return the place of a relative path in this folder, its parts separated by "/"."""
        return type(self)(f"{self.uri.rstrip('/')}/{name}")

    def relative_to(self, folder: Place) -> str:
        """Return the relative path of a place that was found below a folder."""
        return self.uri[len(folder.uri.rstrip("/")) + 1 :]

    def folders(self) -> list[Self]:
        """Return the folders directly in this one, sorted by name; links are followed."""
        return [self / name for name in sorted(entry.name for entry in self.entries() if entry.is_dir())]

    def glob(self, pattern: str) -> list[Self]:
        """Return what matches a relative path with wildcards, sorted; nothing if this is no folder."""
        first, _, rest = pattern.partition("/")
        fits = re.compile(fnmatch.translate(first)).match
        names: list[str] = []
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            names = [entry.name for entry in self.entries() if fits(entry.name) and (not rest or entry.is_dir())]
        found = [self / name for name in sorted(names)]
        return [below for folder in found for below in folder.glob(rest)] if rest else found

    def walk(self) -> Iterator[Self]:
        """Yield all files below this folder, in any order; folders that are links are not followed."""
        for entry in self.entries():
            if not entry.is_dir():
                yield self / entry.name
            elif not entry.is_symlink():
                yield from (self / entry.name).walk()

    def read_json(self, max_size: int) -> Any:
        """Return the JSON value in a file; raises LimitError for one of more bytes, FormatError for no JSON."""
        return parse_json(self.read(0, max_size + 1), max_size, self.uri)

    def __str__(self) -> str:
        return self.uri

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.uri!r})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and isinstance(other, Place) and other.uri == self.uri

    def __lt__(self, other: Place) -> bool:
        return self.uri.split("/") < other.uri.split("/")

    def __hash__(self) -> int:
        return hash(self.uri)


def parse_json(text: str | bytes, max_size: int, where: str, *, unique: bool = False) -> Any:
    """Return the value of a text of JSON; raises as Place.read_json, and if unique for two members of one name."""
    if len(text) > max_size:
        raise LimitError(f"{where}: expected at most {max_size} bytes of JSON, found more")
    try:
        return json.loads(text, object_pairs_hook=_unique_members if unique else None)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{where}: expected JSON: {error}") from error


def _unique_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"expected different names of members, found {twice[:60]!r} twice")
    return members
