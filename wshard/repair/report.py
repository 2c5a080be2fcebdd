"""The report of a repair: what was damaged, and what was kept and lost."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class Damage(StrEnum):
    """What was found."""

    INTACT = "intact"
    INTERLEAVED = "interleaved"
    DAMAGED = "damaged"


@dataclass(frozen=True)
class RepairReport:
    """What was wrong with a file and what became of it.

    output: the repaired file, None if nothing needed repair. kept: names of the blocks in it. lost: why, by the name of
    each block that is not. unchecked: kept blocks that have no checksum. notes: what else a reader should know.
    """

    path: str
    damage: Damage
    output: str | None = None
    backup: str | None = None
    kept: tuple[str, ...] = ()
    lost: Mapping[str, str] = field(default_factory=dict)
    unchecked: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """True if nothing was lost."""
        return not self.lost
