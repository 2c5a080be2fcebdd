"""The catalog: what episodes exist, where, what they are worth, and what has been embedded."""

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
