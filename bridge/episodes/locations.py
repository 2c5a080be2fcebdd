"""List the episodes of locations of several, but of those that have not changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from bridge.episodes.location_state import location_state
from bridge.episodes.read import Failure, attempt
from wshard.core.episode.protocol import EpisodeAddress
from wshard.formats.open import list_episodes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from wshard.errors import MissingFileError
    from wshard.formats.open import EpisodeList

    UnchangedSince: TypeAlias = Callable[[str, str], Sequence[int] | None]


def list_location(
    path: str, format_name: str | None = None, incomplete: list[Failure] | None = None
) -> EpisodeList | Failure:
    """Return the episodes of a location; format_name: as in wshard.formats.open.open_location.

    incomplete: list to which episodes that refer to a missing file are added.
    """
    missing: dict[str, MissingFileError] = {}
    listed = attempt(partial(list_episodes, path, format_name, missing=missing), EpisodeAddress(path))
    if incomplete is not None:
        incomplete += [Failure.of(error, EpisodeAddress(path, key)) for key, error in missing.items()]
    return listed


@dataclass
class Listings:
    """The episodes of the locations that were added; states, unchanged, incomplete, unreadable: as in Discovery.

    unchanged_since(path, state) returns the ids of a location's episodes if it need not be listed.
    """

    unchanged_since: UnchangedSince | None
    episodes: list[EpisodeList] = field(default_factory=list)
    states: dict[str, tuple[str, int]] = field(default_factory=dict)
    unchanged: dict[str, tuple[str, Sequence[int]]] = field(default_factory=dict)
    incomplete: list[Failure] = field(default_factory=list)
    unreadable: list[Failure] = field(default_factory=list)

    def add(self, path: str, how: str, keys: Collection[str]) -> None:
        """Add a location, or its episodes of these keys if there are any."""
        # Of before it is listed: what changes meanwhile is found the next time.
        state = location_state(path, how) if self.unchanged_since is not None and not keys else None
        if self.unchanged_since is not None and state and (ids := self.unchanged_since(path, state)):
            self.unchanged[path] = how, ids
            return
        incomplete: list[Failure] = []
        listed = list_location(path, how, incomplete)
        self.incomplete += incomplete
        if isinstance(listed, Failure):
            self.unreadable.append(listed)
            return
        if keys:
            listed = listed.of_keys(keys)
            missing = sorted({*keys} - {address.key for address, _ in listed})
            self.unreadable += [Failure(path, "expected an episode of this key", key=key) for key in missing]
        elif state and not incomplete:
            self.states[path] = state, len(listed)
        self.episodes.append(listed)
