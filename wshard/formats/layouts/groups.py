"""Containers in which something else than groups separates episodes, as containers of groups."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Protocol

from wshard.core.episode.natural_order import sort_naturally

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wshard.formats.layouts.columns import RowArray

_NUMBERED: Final = re.compile(r"(.+?)_(\d+)(?:_(\d+))?")


class _Named(Protocol):
    """A container whose arrays are opened one by one."""

    def names(self) -> Sequence[str]:
        """Return the names of the arrays that are in no group."""

    def single(self, name: str) -> RowArray:
        """Return an array without a look at others."""

    def unit(self, path: str) -> str:
        """Return the unit of an array."""

    def attributes(self, group: str = "") -> Mapping[str, Any]:
        """Return what is stated once."""

    def close(self) -> None:
        """Close the file."""


class NumberedArrays:
    """Arrays NAME_NUMBER as groups "NUMBER" of arrays NAME, and NAME_NUMBER_PART as NAME_PART."""

    def __init__(self, file: _Named) -> None:
        self._file = file
        self._paths: dict[str, dict[str, str]] = {}
        for path in file.names():
            if (found := _NUMBERED.fullmatch(path)) is not None:
                name = found[1] if found[3] is None else f"{found[1]}_{found[3]}"
                self._paths.setdefault(found[2], {})[name] = path

    def paths(self, group: str = "") -> Sequence[str]:
        """Return the names of the arrays of a number."""
        return [*self._paths.get(group, ())]

    def column(self, path: str) -> RowArray:
        """Return an array by "NUMBER/NAME"."""
        group, _, name = path.partition("/")
        return self._file.single(self._paths.get(group, {}).get(name, path))

    def unit(self, path: str) -> str:
        """Return the unit of an array by "NUMBER/NAME"."""
        group, _, name = path.partition("/")
        return self._file.unit(self._paths.get(group, {}).get(name, path))

    def groups(self, _pattern: str) -> Sequence[str]:
        """Return the numbers."""
        return sort_naturally(self._paths)

    def attributes(self, group: str = "") -> Mapping[str, Any]:
        """Return what is stated for all numbers."""
        return {} if group else self._file.attributes()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class _Cells(Protocol):
    """A table whose cells are arrays."""

    count: int

    def paths(self, group: str = "") -> Sequence[str]:
        """Return the names of the columns."""

    def cell(self, path: str, row: int) -> RowArray:
        """Return a cell."""

    def unit(self, path: str) -> str:
        """Return the unit of a column."""

    def close(self) -> None:
        """Close the file."""


class RowGroups:
    """Rows of a table with lists in its columns as groups "NUMBER" of arrays."""

    def __init__(self, table: _Cells) -> None:
        self._table = table
        self.close = table.close

    def paths(self, _group: str = "") -> Sequence[str]:
        """Return the names of the columns."""
        return self._table.paths()

    def column(self, path: str) -> RowArray:
        """Return the list of a row by "NUMBER/COLUMN"."""
        row, _, name = path.partition("/")
        return self._table.cell(name, int(row))

    def unit(self, path: str) -> str:
        """Return the unit of the column "NUMBER/COLUMN"."""
        return self._table.unit(path.partition("/")[2])

    def groups(self, _pattern: str) -> Sequence[str]:
        """Return the numbers of the rows."""
        return [*map(str, range(self._table.count))]

    def attributes(self, _group: str = "") -> Mapping[str, Any]:
        """Return nothing."""
        return {}
