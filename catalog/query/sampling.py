"""Some of the episodes of an archive, drawn by their ids; the same ones each time."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final

from catalog.filters.where import Compare

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog.filters.where import Where
    from catalog.query.api import Queries
    from catalog.records import EpisodeRow

_FIRST: Final = 400
_DRAWN: Final = 400


def sample_episodes(query: Queries) -> list[EpisodeRow]:
    """Return some hundred episodes by id: the first ones, and others of the whole archive; all of a small one."""
    first = query.select(order="id", limit=_FIRST).rows
    last = query.select(order="-id", limit=1).rows
    drawn = query.select(draw_ids(range(1, last[0].id + 1), _DRAWN), order="id", limit=_DRAWN).rows if last else ()
    return [*{row.id: row for row in (*first, *drawn)}.values()]


def draw_ids(ids: Sequence[int], count: int) -> Where:
    """Return a filter for at most `count` of the ids. They are drawn: whatever repeats in steps is in every step."""
    dice = Random(0)  # noqa: S311  (no secrets)
    return Compare("id", "in", tuple(sorted(dice.sample(ids, min(count, len(ids))))))
