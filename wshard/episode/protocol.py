"""The parts that an episode may consist of, and the protocol that every open episode follows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path


MANIFEST: Final = "manifest"


CHUNK: Final = "chunk"


@dataclass(frozen=True)
class Part:
    """One of the files that an episode consists of: MANIFEST or CHUNK, and where it lies."""

    role: str
    path: Path
