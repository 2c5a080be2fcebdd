"""What a Sink is: its required methods, and the other members with their defaults."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, runtime_checkable

from wshard.core.files.exchange import list_files

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from wshard.core.episode.info import EpisodeInfo
    from wshard.core.types import Episode


@runtime_checkable
class Sink(Protocol):
    """A place to write episodes to: a file for one, a file or a folder for many. Use as a context manager.

    Made as `Sink(location, compression=..., mode=...)`. mode "append" adds to existing episodes, "overwrite" replaces
    them when the new ones are complete, "error" refuses a location with episodes. Leaving the context by an exception
    leaves the location unchanged, or with whole episodes. What else callers ask of a Sink is declared by SinkBase, from
    which a Sink should derive: it gets the defaults otherwise.
    """

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...

    def write(self, ep: Episode) -> str:
        """Write one episode, whole or not at all; returns its key for a Source of the same location.

        Raises EpisodeError for an episode that the format cannot hold, or that exists already.
        """

    def has(self, id_: str) -> bool:
        """Return True if an episode of this id exists already; an interrupted conversion continues after these."""

    def losses(self, info: EpisodeInfo) -> Sequence[str]:
        """Return what the format cannot hold of an episode, one text per lane: "signal/rgb: float images"."""

    def close(self) -> None:
        """Finish writing; the written episodes are complete and visible."""


class SinkBase(Sink):
    """What formats may differ in when they are written; a subclass adds `write`, and what is not the default for it."""

    cannot_hold: ClassVar[tuple[str, ...]] = ()
    """What the format cannot store, for documentation."""

    one_per_file: ClassVar[bool] = False
    """Whether each episode is a file, and several need a folder."""

    copies_all: ClassVar[bool] = False
    """Whether appending copies the existing episodes, so that long conversions append less often."""

    numbers_episodes: ClassVar[bool] = False
    """Whether episodes get a number instead of their id, so that existing ones cannot be recognised."""

    one_environment: ClassVar[bool] = False
    """Whether all episodes of a location must be of one environment."""

    stores_statements: ClassVar[bool] = False
    """Whether there is a place for what is stated once for an episode, besides its metadata."""

    @classmethod
    def owned(cls, location: Path) -> Collection[str]:
        """Return the names of the files of the data set at a location, relative to its folder; [""] for a file of it.

        Only these are replaced. By default, all files belong to it.
        """
        return list_files(location)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Do nothing: what was written is complete."""

    def has(self, id_: str) -> bool:
        """Return False: no episode is recognised."""
        return False

    def losses(self, info: EpisodeInfo) -> Sequence[str]:
        """Return what the format cannot store of an episode: nothing."""
        return []

    def shared_lanes(self, info: EpisodeInfo) -> Collection[str]:
        """Return the lanes of an episode that all episodes of a location must have, by block name: none."""
        return ()

    def shared_rate(self, info: EpisodeInfo) -> float | None:
        """Return the timesteps per second that all episodes of a location must have; None for any, or if unknown."""
        return None

    def shared_settings(self, info: EpisodeInfo) -> Mapping[str, Any]:
        """Return what all episodes of a location must have equal, by the names of the fields in filters."""
        return {"env": info.env_id} if self.one_environment else {}

    def next_id(self, ahead: int = 0) -> str:
        """Return the id of the next episode, or of one further ahead, in a format that numbers episodes."""
        raise NotImplementedError

    def write_stated(self, ep: Episode, stated: Mapping[str, Any]) -> str:
        """Write one episode with values that are stated once for it: as metadata, unless the format has a place."""
        return self.write(replace(ep, metadata={**ep.metadata, **stated}))
