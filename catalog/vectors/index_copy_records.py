"""Records about what an external vector index holds of a Space."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CopyRow:
    """One copy; see SCHEMA.md. clock is the catalog's when this was read."""

    id: int
    place: str
    space_id: int
    generation: str
    version: int
    damaged: bool
    removed: int
    clock: int

    @property
    def state(self) -> tuple[int, int, int, str]:
        """Identity of a state of copy and catalog; every restore starts another generation."""
        return self.clock, self.id, self.version, self.generation


@dataclass(frozen=True)
class Synced:
    """One vector of a copy: seq and position identify it, the rest locates it; see SCHEMA.md."""

    seq: int
    position: int
    ref: str
    about: str
    document: int | None
    served: bool
    run: str | None


@dataclass(frozen=True)
class CopiedVector:
    """One live vector: its owner, and its bytes. document: its number in the copy, if any."""

    document: int | None
    ref: str
    episode_id: int
    position: int
    vector: bytes


@dataclass(frozen=True)
class Landed:
    """A document that is in the index: its name, its number, and the fields that it carries."""

    ref: str
    document: int
    about: str
