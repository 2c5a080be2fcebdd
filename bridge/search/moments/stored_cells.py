"""The cells of an archive's blocks and changes, stored beside its timesteps: made once for many episodes.

Timesteps are added at their end, and cells stay as they are until an eighth of all blocks is in none of them.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bridge.index.array_files import ArrayFiles, StoredArrays
from bridge.index.derived_numbers import CELLS
from bridge.search.moments.blocks import CHANGE
from bridge.search.moments.cells import Cells, divide, list_blocks, list_changes
from bridge.search.moments.nearest_places import WITHOUT_CELLS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from bridge.alignment.arrays import Ints
    from bridge.search.moments.cells import Numbers

_VERSION: Final = 1
_LATER: Final = 1 / 8  # share of the blocks that may be in no cell


@dataclass(frozen=True, eq=False)
class StoredCells:
    """The arrays of the cells of blocks, and of those of changes."""

    arrays: Sequence[StoredArrays] = ()

    def read(self) -> Sequence[Cells]:
        """Return the cells of blocks and of changes, or none."""
        kinds = zip(self.arrays, (1, CHANGE), strict=False)
        cells = [Cells.of(one.arrays, apart, apart * one.state) for one, apart in kinds if one.arrays]
        return cells if len(cells) == len(_KINDS) else ()


@dataclass(frozen=True)
class _Kind:
    number: int  # of the array of timesteps
    stem: str
    list_rows: Callable[[Ints], Numbers]


_KINDS: Final = (_Kind(2, CELLS[0], list_blocks), _Kind(3, CELLS[1], list_changes))


def follow(folder: Path, timesteps: StoredArrays, before: StoredCells) -> StoredCells:
    """Return the cells of stored timesteps, made anew if too many blocks are in none; before: those read last.

    There are none for few blocks, and where they cannot be written.
    """
    if not timesteps.arrays or len(timesteps.arrays[2]) <= WITHOUT_CELLS:
        return StoredCells()
    known = before.arrays or [StoredArrays("", 0)] * len(_KINDS)
    with suppress(OSError):
        return StoredCells([_follow(folder, kind, timesteps, one) for kind, one in zip(_KINDS, known, strict=True)])
    return StoredCells()


def _follow(folder: Path, kind: _Kind, timesteps: StoredArrays, before: StoredArrays) -> StoredArrays:
    files, name = ArrayFiles(folder, kind.stem), f"cells {_VERSION} {timesteps.token}"
    known = before if before.name == name else StoredArrays(name, 0)
    values = timesteps.arrays[kind.number]
    least = (1 - _LATER) * len(values)
    if (found := files.read(known)).state < least:
        with files.locked():
            if (found := files.read(known)).state < least:  # no other process has made them meanwhile
                heads, rows = timesteps.arrays[:2]
                parts = divide(values, kind.list_rows(heads[:, 1]), rows.shape[1])
                found = files.replace(name, parts, len(values))
    return found if found.state <= len(values) else StoredArrays(name, 0)  # of more episodes than this process knows
