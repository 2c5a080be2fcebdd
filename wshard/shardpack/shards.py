"""Names of the files of one dataset: brace ranges such as `train-{000000..000973}.shardpack`."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from wshard.errors import FormatError, LimitError, MissingFileError
from wshard.shardpack.layout import PARTIAL

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

_RANGE: Final = re.compile(r"\{([0-9]+)\.\.([0-9]*)\}")
_MOST: Final = 10_000_000
_MAX_NOTE_LENGTH: Final = 100  # bytes


@dataclass(frozen=True)
class ShardNames:
    """The path of one file, or those of a brace range; last None: the range is open."""

    before: str
    after: str = ""
    first: int | None = None
    last: int | None = None
    digits: int = 0

    @staticmethod
    def parse(path: str | os.PathLike[str]) -> ShardNames:
        """Read a path with at most one brace range, in its last part; raises FormatError, LimitError."""
        text = str(path)
        found = _RANGE.search(text)
        if found is None:
            return ShardNames(text)
        begin, end = found.groups()
        last = int(end) if end else None
        if "/" in text[found.end() :] or _RANGE.search(text, found.end()):
            raise FormatError(f"{text}: expected one brace range, in the name of the file")
        if last is not None and not int(begin) <= last < int(begin) + _MOST:
            raise LimitError(f"{text}: expected a range of 1 to {_MOST} files, found {found[0]}")
        return ShardNames(text[: found.start()], text[found.end() :], int(begin), last, len(begin))

    def path(self, number: int) -> Path:
        """Return the path of the shard with this number, counted from 0; raises LimitError after the last one."""
        if self.first is None:
            if number:
                raise LimitError(f"{self.before}: expected one file: for more, name a range as {{000000..}}")
            return Path(self.before)
        place = self.first + number
        if self.last is not None and place > self.last:
            raise LimitError(f"{self}: expected at most {self.last - self.first + 1} files, need more")
        return Path(f"{self.before}{place:0{self.digits}d}{self.after}")

    def existing(self, suffix: str = "") -> list[Path]:
        """Return the paths of the range, with this suffix added, that are there, in order."""
        if self.first is None:
            return [path] if (path := Path(self.before + suffix)).exists() else []
        folder, prefix = self.path(0).parent, Path(self.before + "x").name[:-1]
        named = re.compile(f"{re.escape(prefix)}([0-9]+){re.escape(self.after + suffix)}")
        found = []
        for path in folder.iterdir() if folder.is_dir() else ():
            if (fits := named.fullmatch(path.name)) and len(fits[1]) >= self.digits:
                place = int(fits[1])
                if place >= self.first and (self.last is None or place <= self.last):
                    found.append((place, path))
        return [path for _, path in sorted(found)]

    @property
    def note(self) -> Path:
        """Return the path of the note that is there while the files of a range are given their names."""
        first = self.path(0)
        return first.with_name(f"{first.name}.publishing")

    def read_note(self) -> int | None:
        """Return the number of files of a range that is complete, although files may still be named `.partial`.

        None where there is no note, or one that was not written to its end; raises OSError.
        """
        try:
            with self.note.open("rb") as file:
                count = json.loads(file.read(_MAX_NOTE_LENGTH))["shard_count"]
        except (FileNotFoundError, ValueError, TypeError, LookupError, RecursionError):
            return None
        return count if type(count) is int and 0 < count <= _MOST else None

    def expand(self) -> list[Path]:
        """Return the paths to read: all of a closed range, of an open one those that are there without a gap.

        After a kill while complete files were given their names, those without are read as `.partial`. Raises
        MissingFileError for a gap, and where there is none.
        """
        if self.first is None:
            return [Path(self.before)]
        complete = self.read_note()
        count = complete if self.last is None else self.last - self.first + 1
        if count is not None:  # one by one: a note may name millions that are not there
            paths = map(self.path, range(count))
            return [*(paths if complete is None else map(self._find_complete, paths))]
        found = self.existing()
        for number in range(max(len(found), 1)):
            if number == len(found) or found[number] != self.path(number):
                raise MissingFileError(f"{self}: expected the file {self.path(number)}, found none")
        return found

    def _find_complete(self, final: Path) -> Path:
        """Return the newest of a file with its name and one without; raises MissingFileError for neither."""
        for path in (partial_path(final), final):
            if path.exists():
                return path
        raise MissingFileError(f"{self}: expected the file {final}, found none")

    def __str__(self) -> str:
        """Return the path unchanged."""
        if self.first is None:
            return self.before
        last = "" if self.last is None else f"{self.last:0{self.digits}d}"
        return f"{self.before}{{{self.first:0{self.digits}d}..{last}}}{self.after}"


def partial_path(final: Path) -> Path:
    """Return the path of a file until it is given its name."""
    return final.with_name(final.name + PARTIAL)


def expand_shards(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield the files that a path names: itself, or those of its brace range; raises MissingFileError, FormatError."""
    yield from ShardNames.parse(path).expand()
