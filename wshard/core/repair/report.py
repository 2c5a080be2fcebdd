"""The report of a repair: the damage, and the recovered and unrecovered parts."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class Damage(StrEnum):
    """The kind of damage."""

    INTACT = "intact"
    INTERLEAVED = "interleaved"
    DAMAGED = "damaged"


@dataclass(frozen=True)
class RepairReport:
    """Damage of a file, and the result of its repair.

    output: the repaired file, None if nothing needed repair. recovered: names of its blocks. unrecovered: the reason
    for each other block, by name. unchecked: recovered blocks without a checksum. notes: further remarks.
    """

    path: str
    damage: Damage
    output: str | None = None
    backup: str | None = None
    recovered: tuple[str, ...] = ()
    unrecovered: Mapping[str, str] = field(default_factory=dict)
    unchecked: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """True if everything was recovered."""
        return not self.unrecovered
