"""What is to be said of a split: which episodes stay together for want of a value, and what that does to the sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog.filters.fields import field_of
from catalog.filters.where import Compare
from wshard.core.messages import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from catalog.curation.collections import Named
    from catalog.query.api import Queries


def note_split(
    query: Queries, parts: Sequence[Named], fractions: Mapping[str, float], *, by: Sequence[str]
) -> list[str]:
    """Return lines about the parts that a collection was just split into, with these fractions and fields."""
    return [*_note_missing(query, parts, by), *_note_sizes(parts, fractions)]


def _note_missing(query: Queries, parts: Sequence[Named], by: Sequence[str]) -> Iterator[str]:
    whole = Compare("collection", "in", tuple(part.name for part in parts))
    for field in map(field_of, by):
        missing = query.count(whole & ~Compare(field.name, "exists")) if "exists" in field.operators else 0
        if missing > 1:
            yield f"{missing} episodes without {field.short} stay together, as one group"


def _note_sizes(parts: Sequence[Named], fractions: Mapping[str, float]) -> Iterator[str]:
    sizes = [part.snapshot.picks for part in parts if part.snapshot is not None]
    total = sum(sizes)
    expected = [fraction * total for fraction in fractions.values()]
    if any(abs(size - wanted) >= 1 or (wanted and not size) for size, wanted in zip(sizes, expected, strict=True)):
        found = ", ".join(
            f"{part.name} has {size} of {wanted:.4g}" for part, size, wanted in zip(parts, sizes, expected, strict=True)
        )
        yield f"groups and equal data stay together, so the parts of {plural(total, 'pick')} have other sizes: {found}"
