"""The catalog: what episodes exist, where, what they are worth, and what has been embedded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wshard.lazily import importer

if TYPE_CHECKING:
    from catalog.catalog import Catalog
    from catalog.filters import FIELDS, Compare, Where, build_where, matches
    from catalog.queries import ORDERS
    from catalog.records import (
        Among,
        EmbeddingRow,
        EpisodeRecord,
        EpisodeRow,
        Known,
        LaneDefinition,
        LaneRecord,
        Layout,
        LedgerEntry,
        Page,
        Registered,
        SpaceRow,
    )

__all__ = [
    "FIELDS",
    "ORDERS",
    "Among",
    "Catalog",
    "Compare",
    "EmbeddingRow",
    "EpisodeRecord",
    "EpisodeRow",
    "Known",
    "LaneDefinition",
    "LaneRecord",
    "Layout",
    "LedgerEntry",
    "Page",
    "Registered",
    "SpaceRow",
    "Where",
    "build_where",
    "matches",
]

__getattr__ = importer(
    "catalog",
    {
        "Among": "catalog.records",
        "Catalog": "catalog.catalog",
        "Compare": "catalog.filters",
        "EmbeddingRow": "catalog.records",
        "EpisodeRecord": "catalog.records",
        "EpisodeRow": "catalog.records",
        "FIELDS": "catalog.filters",
        "Known": "catalog.records",
        "LaneDefinition": "catalog.records",
        "LaneRecord": "catalog.records",
        "Layout": "catalog.records",
        "LedgerEntry": "catalog.records",
        "ORDERS": "catalog.queries",
        "Page": "catalog.records",
        "Registered": "catalog.records",
        "SpaceRow": "catalog.records",
        "Where": "catalog.filters",
        "build_where": "catalog.filters",
        "matches": "catalog.filters",
    },
)
