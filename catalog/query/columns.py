"""Episodes by columns: any field of the filters, all tags, the metadata as JSON text."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from catalog.filters.evaluate import NO_FACTS, parts_of, read_field
from catalog.filters.fields import NAME, Field, field_of
from wshard.errors import FilterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog.records import EpisodeRow, Facts

PLAIN: Final = (
    *(
        "id",
        "uid",
        "path",
        "key",
        "format",
        "episode_id",
        "env_id",
        "length",
        "total_reward",
        "success",
        "review",
        "tags",
    ),
    *("digest", "size", "ingested_at", "metadata"),
)
"""The default columns, followed by score.NAME for every score in use."""

_NOT_FIELDS: Final = ("tags", "metadata", "name")  # these are not fields of filters


@dataclass(frozen=True)
class Column:
    """A column: its name as requested, and its field, None for all tags, the metadata and the short name."""

    name: str
    field: Field | None

    @property
    def type(self) -> type | None:
        """The type of its values, or of list items; None if metadata may have any type."""
        return str if self.field is None else self.field.type

    @property
    def listed(self) -> bool:
        """Whether an episode has a list of values here."""
        return self.name == "tags" or (self.field is not None and (self.field.many or self.field.root == "text"))

    @property
    def timed(self) -> bool:
        """Whether its values are times: UTC, in ISO 8601."""
        return self.field is not None and self.field.timed

    def value(self, row: EpisodeRow, facts: Facts = NO_FACTS) -> Any:
        """Return the value of an episode: a value, a list, or None; facts must have the parts of parts_needed."""
        if self.name == "name":
            return row.episode_id  # readers of several rows know which of them others have, too
        if self.field is None:
            return json.dumps(row.metadata) if self.name == "metadata" else list(row.tags)
        values = read_field(self.field, row, facts)
        return list(values) if self.listed else values[0] if values else None


def columns_of(names: Sequence[str]) -> list[Column]:
    """Return the columns with these names; FilterError for an unknown field."""
    return [Column(name, None if name in _NOT_FIELDS else field_of(name)) for name in names]


def split_names(text: str) -> list[str]:
    """Read names of columns separated by commas; raises FilterError for an unknown name."""
    names, start = [], 0
    while start <= len(text):
        match = NAME.match(text, start)
        if match is None or text[match.end() : match.end() + 1] not in ("", ","):
            raise FilterError(f"expected names of columns with commas between them, found {text[start:]!r}")
        names.append(match[0])
        start = match.end() + 1
    return names


def parts_needed(columns: Sequence[Column]) -> frozenset[str]:
    """Return the names of the parts of Facts that the columns need; empty if rows have all values."""
    return parts_of(column.field for column in columns if column.field is not None)
