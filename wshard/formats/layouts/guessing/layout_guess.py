"""A guess of a layout: the description, what each array was taken for, and what is open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wshard.formats.layouts.guessing.readings import EpisodeGuess
    from wshard.formats.layouts.guessing.roles import ArrayGuess
    from wshard.formats.layouts.layout import EpisodeLayout


@dataclass(frozen=True)
class LayoutGuess:
    """A guess. layout: by the first reading; arrays: what each was taken for; unread: those that it does not reach."""

    place: str
    layout: EpisodeLayout
    episodes: EpisodeGuess
    arrays: tuple[ArrayGuess, ...]
    unread: tuple[ArrayGuess, ...] = ()

    @property
    def is_certain(self) -> bool:
        """Whether nothing is open."""
        return not self.open_choices()

    def open_choices(self) -> list[str]:
        """Return what the user has to decide, one sentence each."""
        found = [*self.episodes.doubts]
        if len(self.episodes.readings) > 1:
            found.append(f"equally likely: {'; or '.join(one.why for one in self.episodes.readings)}")
        return found + [f"{one.path!r}: unit: {one.why}" for one in self.arrays if one.is_open]
