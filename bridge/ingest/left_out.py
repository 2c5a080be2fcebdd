"""What files have and episodes lack: arrays that a description does not name, or that no lane can hold."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from wshard.core.episode.protocol import OWN_FORMAT
from wshard.core.messages import plural
from wshard.formats.hdf5.lane_table import LEFT_OUT
from wshard.formats.layouts.named import find_layout
from wshard.formats.layouts.plan import NOT_DESCRIBED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog.episode_record import EpisodeRecord

_MOST_NAMED: Final = 4
_MOST_COUNTED: Final = 1024  # as some files name arrays by number


@dataclass(frozen=True)
class UnreadArray:
    """An array that was left out: its path, why, and in how many episodes."""

    path: str
    reason: str
    episodes: int


@dataclass(frozen=True)
class UnreadArrays:
    """Arrays that were left out of the episodes that one run read in one format, those of most episodes first.

    episodes: how many were read. undescribed: the description leaves the arrays out; else no lane can hold them.
    """

    format: str
    episodes: int
    undescribed: bool
    arrays: Sequence[UnreadArray]

    def __str__(self) -> str:
        """Say so in one line, with what to do about it."""
        named = ", ".join(self._state(one) for one in self.arrays[:_MOST_NAMED])
        more = f" and {len(self.arrays) - _MOST_NAMED} more" if len(self.arrays) > _MOST_NAMED else ""
        if not self.undescribed:
            return f"left out: {named}{more}; `wshard show EPISODE` lists them as left_out"
        line = f'{json.dumps(self.arrays[0].path, ensure_ascii=False)} = "observation" (or "metadata")'
        place = find_layout(self.format).file
        return f"arrays not in the description: {named}{more}; to read one, add {line} below [arrays] in {place}"

    def _state(self, one: UnreadArray) -> str:
        count = f"{one.episodes} of {plural(self.episodes, 'episode')}"
        return f"{one.path} ({count})" if self.undescribed else f"{one.path} ({one.reason}; {count})"


class LeftOutTally:
    """Counts what is left out, episode by episode."""

    def __init__(self) -> None:
        self._episodes = Counter[str]()
        self._counts = Counter[tuple[str, str]]()
        self._reasons: dict[tuple[str, str], str] = {}

    def add(self, record: EpisodeRecord) -> None:
        """Add an episode that was read; files of this project state what was left out when they were written."""
        stated = record.metadata.get(LEFT_OUT)
        if record.format == OWN_FORMAT:
            return
        self._episodes[record.format] += 1
        for path, reason in stated.items() if isinstance(stated, dict) else ():
            array = record.format, path
            if array in self._reasons or len(self._reasons) < _MOST_COUNTED:
                self._reasons.setdefault(array, str(reason))
                self._counts[array] += 1

    def list(self) -> list[UnreadArrays]:
        """Return what was found, by format."""
        found: dict[tuple[str, bool], list[UnreadArray]] = {}
        for (name, path), count in self._counts.most_common():
            reason = self._reasons[name, path]
            found.setdefault((name, reason == NOT_DESCRIBED), []).append(UnreadArray(path, reason, count))
        return [UnreadArrays(name, self._episodes[name], kind, arrays) for (name, kind), arrays in found.items()]
