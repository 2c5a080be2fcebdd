"""Collections and their differences as JSON-able dicts, for the command line and for web pages."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog.curation.collections import Named
    from catalog.curation.collections_api import Collections
    from catalog.records import EpisodeRow


def list_named(named: Named, gone: Mapping[str, int] | None = None) -> dict[str, Any]:
    """Return a named collection: its query or its snapshot, by whom and when; gone: see Collections.gone."""
    shown = {key: value for key, value in asdict(named).items() if key != "replaced"}
    return shown if gone is None else {**shown, "gone": gone.get(named.name, 0)}


def list_collection(collections: Collections, ref: str) -> dict[str, Any]:
    """Return the picks of a collection, the number of missing ones, its query, and its lineage.

    Picks have episode_id, file_path and address (PATH#KEY) as they are now, None where the episode is missing or has
    changed.
    """
    picked = collections.picked(ref)
    query = next((named.query for named in collections.all() if named.name == ref), None)
    return {
        "items": [
            asdict(pick) | dict(zip(("episode_id", "file_path", "address"), _place(row), strict=True))
            for pick, row in picked
        ],
        "total": len(picked),
        "gone": sum(row is None for _, row in picked),
        "query": query,
        "lineage": [asdict(ancestor) for ancestor in collections.ancestors(ref)],
    }


def _place(row: EpisodeRow | None) -> tuple[str | None, ...]:
    return (None,) * 3 if row is None else (row.episode_id, row.path, str(row.address))


def list_difference(collections: Collections, before: str, after: str) -> dict[str, Any]:
    """Return the picks that differ between two collections, each with its change, and the number of each."""
    changes = asdict(collections.compare(before, after))
    items = [{"change": name, **pick} for name, picks in changes.items() for pick in picks]
    return {"items": items, "total": len(items), **{name: len(picks) for name, picks in changes.items()}}
