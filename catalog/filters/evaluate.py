"""Evaluation of filters in Python: the reference that every database and every index must agree with.

Saved queries must be substituted before (Catalog does): here, a collection is a snapshot.
"""

from __future__ import annotations

import posixpath
from math import isnan
from operator import eq, ge, gt, le, lt, ne
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from catalog.database.roots import join
from catalog.filters.fields import SPREAD, TEXT_OPERATORS
from catalog.filters.times import bounds_of
from catalog.filters.where import AllOf, AnyOf, Compare, Not, Where
from catalog.full_text import contains_phrase, texts
from catalog.records import EpisodeRow, Facts
from catalog.values import Scalar, comparable_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from catalog.filters.fields import Field

OPERATORS: Final[Mapping[str, Callable[[Any, Any], bool]]] = MappingProxyType(
    {"eq": eq, "ne": ne, "lt": lt, "le": le, "gt": gt, "ge": ge}
)
"""Operators between a field and one value that Python and SQLAlchemy share."""

_TESTS: Final[Mapping[str, Callable[[Any, Any], bool]]] = MappingProxyType(
    {
        **OPERATORS,
        "in": lambda found, values: found in values,
        "between": lambda found, bounds: bool(bounds[0] <= found <= bounds[1]),
        "contains": lambda found, part: part in found,
        "startswith": lambda found, start: bool(found.startswith(start)),
    }
)

NO_FACTS: Final = Facts()

_PARTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "lane": "lanes",
        "score": "scores",
        "flag": "findings",
        **dict.fromkeys(("note", "note_by", "note_at", "text"), "notes"),
        **dict.fromkeys(("review", "reviewer", "reviewed_at"), "review"),
        "lineage": "lineage",
        "collection": "collections",
        **dict.fromkeys(("space", "space_family", "space_state", "vectors"), "embedded"),
        **dict.fromkeys(("asset", "asset_path", "asset_digest", "asset_size", "asset_mtime_ns"), "assets"),
    }
)
"""Which part of the facts a field is read from, by the field's root; those not listed are in the row."""


def matches(where: Where, row: EpisodeRow, facts: Facts = NO_FACTS) -> bool:
    """Evaluate the filter on an episode; facts are required if it uses more than the fields of the row."""
    match where:
        case AllOf(parts):
            return all(matches(part, row, facts) for part in parts)
        case AnyOf(parts):
            return any(matches(part, row, facts) for part in parts)
        case Not(part):
            return not matches(part, row, facts)
        case Compare():
            return any(meets(where, value) for value in read_field(where.about, row, facts))
    raise TypeError(f"expected a filter, found {where!r}")


def read_field(field: Field, row: EpisodeRow, facts: Facts = NO_FACTS) -> Sequence[Any]:
    """Return the values of the field in this episode: none if missing, several for a multi-valued field."""
    if field.root in _LISTS:
        return _LISTS[field.root](field, row, facts)
    value = _SINGLES[field.root](field, row, facts) if field.root in _SINGLES else getattr(row, field.root)
    return () if value is None else (value,)


def parts_of(fields: Iterable[Field]) -> frozenset[str]:
    """Return the names of the parts of Facts that read_field needs for these fields; empty if rows suffice."""
    return frozenset(_PARTS[field.root] for field in fields if field.root in _PARTS)


def meets(clause: Compare, value: Any) -> bool:
    """Return True if a value of the clause's field matches it."""
    if clause.op == "exists":
        return True
    if clause.field == "text":
        return contains_phrase(value, clause.value)
    if clause.about.timed and clause.op not in TEXT_OPERATORS:
        return any(
            (start is None or start <= value) and (stop is None or value < stop)
            for start, stop in bounds_of(clause.op, clause.values)
        )
    if clause.about.type is None:
        value = _as_kind(value, clause.kind)
    return value is not None and _TESTS[clause.op](value, clause.value)


def _as_kind(value: Any, kind: str) -> Scalar | None:
    if kind == "number":
        return comparable_number(value)
    return value if isinstance(value, bool if kind == "flag" else str) else None


def _metadata(field: Field, row: EpisodeRow, _: Facts) -> Any:
    value: Any = row.metadata
    for key in field.parts:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _lane(field: Field, _: EpisodeRow, facts: Facts) -> Scalar | None:
    name, statistic = field.parts
    lane = facts.lanes.get(name)
    if lane is None:
        return None
    if statistic == "shape":
        return shape_text(lane.shape)
    if statistic not in SPREAD:
        owner = lane if statistic in ("count", "rate", "dtype") else lane.storage
        return getattr(owner, statistic, None)
    spreads = (lane.whole,) if field.channel is None else lane.channels[field.channel : field.channel + 1]
    number = getattr(spreads[0], statistic) if spreads and spreads[0] else None
    return None if number is None or isnan(number) else float(number)


def shape_text(shape: Sequence[int]) -> str:
    """Return the shape of one timestep as filters name it."""
    return "x".join(map(str, shape)) or "scalar"


_SINGLES: Final[Mapping[str, Callable[[Field, EpisodeRow, Facts], Any]]] = MappingProxyType(
    {
        "meta": _metadata,
        "lane": _lane,
        "folder": lambda _, row, __: posixpath.dirname(row.path),
        "score": lambda field, _, facts: facts.scores.get(field.parts[0]),
        "review": lambda _, __, facts: facts.review and facts.review.state,
        "reviewer": lambda _, __, facts: facts.review and facts.review.who,
        "reviewed_at": lambda _, __, facts: facts.review and facts.review.at,
    }
)
_LISTS: Final[Mapping[str, Callable[[Field, EpisodeRow, Facts], Sequence[str | int]]]] = MappingProxyType(
    {
        "tag": lambda _, row, __: row.tags,
        "flag": lambda _, __, facts: [found.check for found in facts.findings],
        "note": lambda _, __, facts: [note.text for note in facts.notes],
        "note_by": lambda _, __, facts: [note.who for note in facts.notes],
        "note_at": lambda _, __, facts: [note.at for note in facts.notes],
        "collection": lambda _, __, facts: facts.collections,
        "space": lambda _, __, facts: [there.space for there in facts.embedded],
        "space_family": lambda _, __, facts: [there.family for there in facts.embedded],
        "space_state": lambda _, __, facts: [there.state for there in facts.embedded],
        "vectors": lambda _, __, facts: [there.vectors for there in facts.embedded],
        "asset": lambda _, __, facts: [file.role for file in facts.assets],
        "asset_path": lambda _, row, facts: [join(posixpath.dirname(row.path), file.path) for file in facts.assets],
        "asset_digest": lambda _, __, facts: [file.digest for file in facts.assets],
        "asset_size": lambda _, __, facts: [file.size for file in facts.assets],
        "asset_mtime_ns": lambda _, __, facts: [file.mtime_ns for file in facts.assets],
        "lineage": lambda field, _, facts: [c.source for c in facts.lineage if c.relation == field.parts[0]],
        "text": lambda _, row, facts: list(texts(row.metadata, [note.text for note in facts.notes])),
    }
)
