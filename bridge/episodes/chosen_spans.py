"""Finds the episodes and spans of a collection, or of a filter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wshard.core.episode.protocol import EpisodeSpan
from wshard.errors import CollectionError

if TYPE_CHECKING:
    from catalog.catalog import Catalog


def find_spans(catalog: Catalog, *, collection: str | None, where: str | None) -> list[EpisodeSpan]:
    """Return the episodes and spans of a collection, or else those that pass a filter.

    Raises CollectionError if episodes of the collection are missing.
    """
    if collection is None:
        return [EpisodeSpan(row.address) for row in catalog.episodes.rows(catalog.query.ids(where or "")).values()]
    picked = catalog.collections.picked(collection)
    missing = [pick.uid for pick, row in picked if row is None]
    if missing:
        raise CollectionError(
            f"collection {collection!r}: {len(missing)} of its episodes are gone or changed: {missing[0]}"
        )
    return [
        EpisodeSpan(row.address, pick.start, None if (pick.start, pick.stop) == (0, row.length) else pick.stop)
        for pick, row in picked
        if row is not None
    ]
