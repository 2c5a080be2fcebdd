"""Write a location of many episodes in parts beside the target: an interrupted conversion resumes after the last.

A part begins as a copy by hard links of the one before, and is complete once the record names it. Where parts end
depends on the episodes alone, so that a conversion in several runs writes the same files as an uninterrupted one.
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

from wshard.core.container.atomic_write import publish
from wshard.core.container.draft import DraftLock, put_in_place, remove_dead_drafts
from wshard.core.files.exchange import link_file, link_files, list_files, stamp_owned
from wshard.errors import WShardError
from wshard.formats.base import sink_class

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wshard.core.types import Episode
    from wshard.formats.sink_base import SinkBase
    from wshard.training.conversion.target import ConversionTarget

    Outcome = int | str | None

PART_SIZE: Final = 1 << 26
"""Minimum size of a part in bytes of decoded lanes; later parts have at least an eighth of all parts before them."""

_EPISODE_SIZE: Final = 1 << 14  # bytes added for each episode, so that many very small ones complete a part, too
_RECORD: Final = "conversion.json"


class StagedParts:
    """The parts of a conversion to one location. outcomes: those of the jobs in complete parts, in order.

    An outcome is the number of timesteps, the reason for a failure, or None for an episode that existed.
    """

    def __init__(self, target: ConversionTarget, identity: Sequence[object]) -> None:
        self._target = target
        self._target_path = Path(os.path.realpath(target.location))
        self._stamps = stamp_owned(self._target_path, self._list_owned(), target.mode)
        existing = sorted((name, size, time) for name, (_, size, time) in self._stamps.items())
        self._identity = hashlib.sha256(json.dumps([*identity, existing]).encode()).hexdigest()
        self._part, self._size, self._total = 0, 0, 0
        self.outcomes: list[Outcome] = []
        self._lock = DraftLock(self._target_path, self._is_this_conversion)
        remove_dead_drafts(self._target_path)
        try:
            with self.named_as_target():
                self._resume() if self._lock.adopted else self._lock.draft.mkdir()
        except BaseException:
            self._discard()
            raise

    def _list_owned(self) -> list[str]:
        """Return the names of the files of the data set that exists, all files for a format that cannot tell."""
        path = self._target_path
        return [*sink_class(self._target.format).owned(path)] if path.exists() else []

    def _is_this_conversion(self, folder: Path) -> bool:
        return bool(_read_record(folder).get("identity") == self._identity)

    def _resume(self) -> None:
        record = _read_record(self._lock.draft)
        self.outcomes, self._part, self._total = record["outcomes"], record["part"], record["size"]
        for path in self._lock.draft.iterdir():
            if path.is_dir() and path.name != str(self._part):
                shutil.rmtree(path)

    def _part_path(self, part: int) -> Path:
        """Return the path of a part; it ends with the target's name and folder name, which some formats store."""
        return self._lock.draft / str(part) / (self._target_path.parent.name or "root") / self._target_path.name

    def open_sink(self) -> SinkBase:
        """Begin the next part."""
        with self.named_as_target():
            new = self._part_path(self._part + 1)
            new.parent.mkdir(parents=True)
            if self._part:
                _link_copy(self._part_path(self._part), new)
            elif self._target_path.is_dir():
                new.mkdir()
                link_files(self._target_path, new, self._stamps)
            elif self._target_path.exists():
                link_file(self._target_path, new)
            self._size = 0
            return self._target.open(new, "append" if self._part else self._target.mode)

    def count(self, episode: Episode) -> None:
        """Add the size of an episode that was written."""
        self._size += _EPISODE_SIZE + sum(
            math.prod(lane.shape) * lane.dtype.size * episode.length for lane in episode.lanes().values()
        )

    @property
    def is_complete(self) -> bool:
        """Whether the part has reached its minimum size."""
        divisor = 1 if sink_class(self._target.format).copies_all else 8
        return self._size >= max(PART_SIZE, self._total // divisor)

    def commit(self, outcomes: Sequence[Outcome]) -> None:
        """Record a part, whose Sink is closed, as complete; outcomes: of all jobs so far."""
        self.outcomes = [*outcomes]
        previous, self._part, self._total = self._part, self._part + 1, self._total + self._size
        record = {"part": self._part, "size": self._total, "outcomes": self.outcomes, "identity": self._identity}
        with publish(self._lock.draft / _RECORD) as file:
            file.write(json.dumps(record).encode())
        shutil.rmtree(self._lock.draft / str(previous), ignore_errors=True)

    def publish(self, outcomes: Sequence[Outcome]) -> None:
        """Move the last part, whose Sink is closed, to the target, if it has new episodes or there is no target.

        Raises FileExistsError in mode "error", if the target was created meanwhile.
        """
        location, any_written = self._part_path(self._part + 1), any(isinstance(outcome, int) for outcome in outcomes)
        if not location.exists() or (not any_written and self._target_path.exists()):
            self._discard()
            return
        with self.named_as_target():
            unused = self._target.mode == "error"
            put_in_place(location, self._target_path, self._stamps, self._lock, unused=unused)
        self._discard()

    def abandon(self) -> None:
        """Remove the incomplete part; complete ones stay, so that the same conversion can resume."""
        if not self._part:
            self._discard()
        shutil.rmtree(self._lock.draft / str(self._part + 1), ignore_errors=True)
        self._lock.release(keep=True)

    def _discard(self) -> None:
        self._lock.discard()

    @contextlib.contextmanager
    def named_as_target(self) -> Iterator[None]:
        """Replace paths of parts by those of the target in the errors raised inside."""
        try:
            yield
        except (WShardError, OSError) as error:
            error.args = tuple(map(self._name_target, error.args))
            if isinstance(error, OSError):
                lacks_filename = error.filename is None and error.errno is not None
                error.filename = self._target.location if lacks_filename else self._name_target(error.filename)
            raise

    def _name_target(self, value: Any) -> Any:
        for part in (self._part, self._part + 1) if isinstance(value, str) else ():
            location = self._part_path(part)
            value = value.replace(str(location), self._target.location)
            value = value.replace(str(location.parent), str(self._target_path.parent))
        return value


def _link_copy(part: Path, copy: Path) -> None:
    """Copy a part by hard links."""
    if part.is_dir():
        copy.mkdir()
        link_files(part, copy, list_files(part))
    elif part.exists():
        link_file(part, copy)


def _read_record(folder: Path) -> dict[str, Any]:
    try:
        record = json.loads((folder / _RECORD).read_bytes())
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}
