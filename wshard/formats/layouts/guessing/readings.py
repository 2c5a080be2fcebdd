"""What a guess of episodes is: one reading of the arrays, or several that are equally likely."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wshard.formats.layouts.layout import EpisodeRule


@dataclass(frozen=True)
class EpisodeReading:
    """A rule of episodes, what it gives, and why. count: of the episodes."""

    rule: EpisodeRule
    count: int
    why: str


@dataclass(frozen=True)
class EpisodeGuess:
    """Where the episodes of a file are.

    readings: the first is meant; further ones are as likely. doubts: what no reading explains, so that none is sure.
    rows: timesteps of all episodes. evidence: arrays that say where episodes are, and how.
    """

    readings: tuple[EpisodeReading, ...]
    rows: int
    doubts: tuple[str, ...] = ()
    evidence: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_certain(self) -> bool:
        """Whether there is one reading, without doubts."""
        return len(self.readings) == 1 and not self.doubts
