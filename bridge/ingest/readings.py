"""Replaces the episodes of a location that was read otherwise before: by another layout, format or map of lanes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bridge.ingest.moves import find_annotated
from bridge.ingest.report import EarlierReading

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from bridge.ingest.report import Run
    from catalog.records import EpisodeRow, Known


def supersede_readings(run: Run, earlier: Mapping[str, Collection[int]]) -> list[int]:
    """Replace the episodes with these ids, by their locations, by those that the run read there.

    An episode of an equal digest is the same, and so is the only one of a location. Returns the ids of those that are
    kept as missing, since they have annotations.
    """
    if not earlier:
        return []
    episodes = run.archive.catalog.episodes
    successors: dict[int, int | None] = {}
    transferred = 0
    for path, ids in earlier.items():
        rows, present = episodes.rows(ids).values(), [one for one in episodes.known([path])[path] if one.id not in ids]
        annotated = find_annotated(run.archive.catalog, rows)
        for row in rows:
            successor = _find_same(row, present, is_only=len(ids) == len(present) == 1)
            if row.id in annotated:
                successors[row.id] = successor
                transferred += successor is not None
    ids = [id_ for listed in earlier.values() for id_ in listed]
    apart = [id_ for id_, successor in successors.items() if successor is None]
    episodes.supersede(successors)
    episodes.remove([id_ for id_ in ids if id_ not in successors])
    run.index_sync.delete(ids)
    run.report.earlier = EarlierReading(len(ids), len(earlier), transferred, len(apart))
    return apart


def _find_same(row: EpisodeRow, present: Sequence[Known], *, is_only: bool) -> int | None:
    """Return the id of the episode that is the same as one of an earlier reading."""
    return next((one.id for one in present if is_only or one.digest == row.digest), None)
