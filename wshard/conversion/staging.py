"""Write a location of many episodes in parts beside its place: an interrupted conversion continues after the last.

A part begins as a copy by hard links of the one before, and counts once the record names it. Where parts end depends on
the episodes alone, so that a conversion in several runs writes what it would have written in one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from wshard.container.atomic_write import publish
from wshard.container.draft import DraftLock, link_copy, put_in_place, remove_dead_drafts
from wshard.errors import WShardError
from wshard.formats.base import open_sink, sink_class

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wshard.conversion.target import ConversionTarget
    from wshard.formats.base import Sink
    from wshard.types import Episode

    Outcome = int | str | None

PART_SIZE: Final = 1 << 26
"""The least that a part has, of decoded lanes; a later one has an eighth of what was written before."""

_EPISODE_SIZE: Final = 1 << 14  # counted for an episode in addition, so that very small ones end a part, too
_RECORD: Final = "conversion.json"


class StagedParts:
    """The parts of a conversion to one location. outcomes: of the episodes in complete parts, in the order of the jobs.

    An outcome is the number of timesteps, the reason for a failure, or None for an episode that existed.
    """

    def __init__(self, target: ConversionTarget, identity: Sequence[object]) -> None:
        self._target = target
        self._place = Path(os.path.realpath(target.location))
        before = _list_files(self._place)
        self._before = frozenset(name for name, *_ in before or ())
        self._identity = hashlib.sha256(json.dumps([*identity, before]).encode()).hexdigest()
        self._part, self._size, self._total = 0, 0, 0
        self.outcomes: list[Outcome] = []
        self._lock = DraftLock(self._place, self._is_of_this_conversion)
        remove_dead_drafts(self._place)
        try:
            with self.named_as_target():
                self._continue() if self._lock.adopted else self._lock.draft.mkdir()
        except BaseException:
            self._discard()
            raise

    def _is_of_this_conversion(self, folder: Path) -> bool:
        return bool(_read_record(folder).get("identity") == self._identity)

    def _continue(self) -> None:
        record = _read_record(self._lock.draft)
        self.outcomes, self._part, self._total = record["outcomes"], record["part"], record["size"]
        for path in self._lock.draft.iterdir():
            if path.is_dir() and path.name != str(self._part):
                shutil.rmtree(path)

    def _location(self, part: int) -> Path:
        """Return where a part is, under the names of the target and of its folder, which some formats store."""
        return self._lock.draft / str(part) / (self._place.parent.name or "root") / self._place.name

    def open_sink(self) -> Sink:
        """Begin the next part."""
        with self.named_as_target():
            older = self._location(self._part) if self._part else self._place
            new = self._location(self._part + 1)
            new.parent.mkdir(parents=True)
            if older.exists():
                link_copy(older, new)
            mode = "append" if self._part else self._target.mode
            self._size = 0
            return open_sink(new, self._target.format, compression=self._target.compression, mode=mode)

    def count(self, ep: Episode) -> None:
        """Add the size of an episode that was written."""
        self._size += _EPISODE_SIZE + sum(
            math.prod(one.shape) * one.dtype.size * ep.length for one in ep.lanes().values()
        )

    @property
    def is_complete(self) -> bool:
        """Whether the part is large enough to end it."""
        grows = 1 if getattr(sink_class(self._target.format), "copies_all", False) else 8
        return self._size >= max(PART_SIZE, self._total // grows)

    def commit(self, outcomes: Sequence[Outcome]) -> None:
        """Keep a part whose Sink is closed; outcomes: of all episodes so far."""
        self.outcomes = [*outcomes]
        older, self._part, self._total = self._part, self._part + 1, self._total + self._size
        record = {"part": self._part, "size": self._total, "outcomes": self.outcomes, "identity": self._identity}
        with publish(self._lock.draft / _RECORD) as file:
            file.write(json.dumps(record).encode())
        shutil.rmtree(self._lock.draft / str(older), ignore_errors=True)

    def publish(self, outcomes: Sequence[Outcome]) -> None:
        """Put the last part, whose Sink is closed, where the target is, if it has episodes or nothing is there yet.

        Raises FileExistsError in mode "error", if there is a target meanwhile.
        """
        location, written = self._location(self._part + 1), any(isinstance(one, int) for one in outcomes)
        if not location.exists() or (not written and self._place.exists()):
            self._discard()
            return
        with self.named_as_target():
            unused = self._target.mode == "error"
            put_in_place(location, self._place, self._before.__contains__, self._lock, unused=unused)
        self._discard()

    def abandon(self) -> None:
        """Keep the complete parts for the same conversion to continue, and remove the last one."""
        if not self._part:
            self._discard()
        shutil.rmtree(self._lock.draft / str(self._part + 1), ignore_errors=True)
        self._lock.release(keep=True)

    def _discard(self) -> None:
        shutil.rmtree(self._lock.draft, ignore_errors=True)
        self._lock.release()

    @contextlib.contextmanager
    def named_as_target(self) -> Iterator[None]:
        """Name the target rather than the part in errors."""
        try:
            yield
        except (WShardError, OSError) as error:
            error.args = tuple(map(self._named, error.args))
            if isinstance(error, OSError):
                nameless = error.filename is None and error.errno is not None
                error.filename = self._target.location if nameless else self._named(error.filename)
            raise

    def _named(self, value: Any) -> Any:
        for part in (self._part, self._part + 1) if isinstance(value, str) else ():
            location = self._location(part)
            value = value.replace(str(location), self._target.location)
            value = value.replace(str(location.parent), str(self._place.parent))
        return value


def _list_files(place: Path) -> list[tuple[str, int, int]] | None:
    """Return relative path, size and time of each file of a location, None if it does not exist."""
    if not place.is_dir():
        return [("", place.stat().st_size, place.stat().st_mtime_ns)] if place.exists() else None
    found = []
    for folder, _, names in os.walk(place):
        for name in names:
            path = Path(folder, name)
            about = path.lstat()
            found.append((path.relative_to(place).as_posix(), about.st_size, about.st_mtime_ns))
    return sorted(found)


def _read_record(folder: Path) -> dict[str, Any]:
    try:
        found = json.loads((folder / _RECORD).read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
