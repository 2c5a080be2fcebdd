"""The labels that a user has given to episodes, by the name of a field.

Knows: fields of filters, and that a plain word is a key of the metadata. Does not know: vectors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from catalog.fields import ALIASES, FAMILIES, FIELDS, field_of
from catalog.matching import NO_FACTS, parts_of, read_field
from wshard.errors import FilterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bridge.archive import Archive
    from catalog.fields import Field
    from catalog.records import EpisodeRow

_AT_ONCE: Final = 1000


def label_field(name: str) -> Field:
    """Return the field that a label's name means: one of filters ("env", "tag", "meta.robot.name"), else metadata.

    Raises FilterError.
    """
    root = name.partition(".")[0]
    known = root in FIELDS or root in ALIASES or root in FAMILIES
    field = field_of(name if known else f"meta.{name}")
    if field.root == "text":
        raise FilterError(f"expected the name of a field with labels, found {name!r}")
    return field


def labels_of(archive: Archive, rows: Sequence[EpisodeRow], name: str) -> list[str | None]:
    """Return the label of each episode, None where it has none; several values make one label, "a, b".

    Raises FilterError where no field has that name.
    """
    field = label_field(name)
    parts = parts_of([field])
    labels: list[str | None] = []
    for start in range(0, len(rows), _AT_ONCE):
        part = rows[start : start + _AT_ONCE]
        facts = archive.catalog.facts([row.id for row in part], parts=parts) if parts else {}
        found = [sorted(map(_text, read_field(field, row, facts.get(row.id, NO_FACTS)))) for row in part]
        labels += [", ".join(values) if values else None for values in found]
    return labels


def _text(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
