"""Names of the files of one dataset: brace ranges such as `train-{000000..000973}.shardpack`."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from wshard.errors import FormatError, LimitError, MissingFileError
from wshard.training.shardpack.layout import PARTIAL

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

_RANGE: Final = re.compile(r"\{([0-9]+)\.\.([0-9]*)\}")
_MAX_FILES: Final = 10_000_000
_MAX_NOTE_LENGTH: Final = 100  # bytes


@dataclass(frozen=True)
class ShardNames:
    """The path of one file, or of the files of a brace range; last None: an open range."""

    path_prefix: str
    path_suffix: str = ""
    first: int | None = None
    last: int | None = None
    digits: int = 0

    @staticmethod
    def parse(path: str | os.PathLike[str]) -> ShardNames:
        """Read a path with at most one brace range, in its last part; raises FormatError, LimitError."""
        text = str(path)
        match = _RANGE.search(text)
        if match is None:
            return ShardNames(text)
        first, last_text = match.groups()
        last = int(last_text) if last_text else None
        if "/" in text[match.end() :] or _RANGE.search(text, match.end()):
            raise FormatError(f"{text}: expected one brace range, in the name of the file")
        if last is not None and not int(first) <= last < int(first) + _MAX_FILES:
            raise LimitError(f"{text}: expected a range of 1 to {_MAX_FILES} files, found {match[0]}")
        return ShardNames(text[: match.start()], text[match.end() :], int(first), last, len(first))

    def path(self, number: int) -> Path:
        """Return the path of the shard with this number, counted from 0; raises LimitError after the last one."""
        if self.first is None:
            if number:
                raise LimitError(f"{self.path_prefix}: expected one file: for more, name a range as {{000000..}}")
            return Path(self.path_prefix)
        file_number = self.first + number
        if self.last is not None and file_number > self.last:
            raise LimitError(f"{self}: expected at most {self.last - self.first + 1} files, need more")
        return Path(f"{self.path_prefix}{file_number:0{self.digits}d}{self.path_suffix}")

    def existing(self, suffix: str = "") -> list[Path]:
        """Return the existing files of the range, in order; suffix: appended to each path."""
        if self.first is None:
            return [path] if (path := Path(self.path_prefix + suffix)).exists() else []
        folder, prefix = self.path(0).parent, Path(self.path_prefix + "x").name[:-1]
        pattern = re.compile(f"{re.escape(prefix)}([0-9]+){re.escape(self.path_suffix + suffix)}")
        numbered = []
        for path in folder.iterdir() if folder.is_dir() else ():
            if (match := pattern.fullmatch(path.name)) and len(match[1]) >= self.digits:
                file_number = int(match[1])
                if file_number >= self.first and (self.last is None or file_number <= self.last):
                    numbered.append((file_number, path))
        return [path for _, path in sorted(numbered)]

    @property
    def note(self) -> Path:
        """Return the path of the note that exists while the files of a range are renamed."""
        first = self.path(0)
        return first.with_name(f"{first.name}.publishing")

    def read_note(self) -> int | None:
        """Return the number of files of a range that is complete, although files may still be named `.partial`.

        None if there is no note or a truncated one; raises OSError.
        """
        try:
            with self.note.open("rb") as file:
                count = json.loads(file.read(_MAX_NOTE_LENGTH))["shard_count"]
        except (FileNotFoundError, ValueError, TypeError, LookupError, RecursionError):
            return None
        return count if type(count) is int and 0 < count <= _MAX_FILES else None

    def expand(self) -> list[Path]:
        """Return the paths to read: all of a closed range; of an open one the existing files, without a gap.

        If a writer was killed while renaming complete files, the others are read as `.partial`. Raises
        MissingFileError for a gap, and if there is no file.
        """
        if self.first is None:
            return [Path(self.path_prefix)]
        noted_count = self.read_note()
        count = noted_count if self.last is None else self.last - self.first + 1
        if count is not None:  # lazily: a note may claim millions of missing files
            paths = map(self.path, range(count))
            return [*(paths if noted_count is None else map(self._find_complete, paths))]
        existing = self.existing()
        for number in range(max(len(existing), 1)):
            if number == len(existing) or existing[number] != self.path(number):
                raise MissingFileError(f"{self}: expected the file {self.path(number)}, found none")
        return existing

    def _find_complete(self, final: Path) -> Path:
        """Return the `.partial` file if it exists, as it is newer, else the final one; raises MissingFileError."""
        for path in (partial_path(final), final):
            if path.exists():
                return path
        raise MissingFileError(f"{self}: expected the file {final}, found none")

    def __str__(self) -> str:
        """Return the path as it was given."""
        if self.first is None:
            return self.path_prefix
        last = "" if self.last is None else f"{self.last:0{self.digits}d}"
        return f"{self.path_prefix}{{{self.first:0{self.digits}d}..{last}}}{self.path_suffix}"


def partial_path(final: Path) -> Path:
    """Return the path of a file until it is complete and renamed."""
    return final.with_name(final.name + PARTIAL)


def expand_shards(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield the files that a path names: itself, or those of its brace range; raises MissingFileError, FormatError."""
    yield from ShardNames.parse(path).expand()
