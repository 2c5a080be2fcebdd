"""The catalog: which episodes exist and where, their annotations, and what has been embedded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wshard.lazy import importer

if TYPE_CHECKING:
    from catalog.catalog import Catalog
    from catalog.curation.collections import Named, Snapshot
    from catalog.curation.selection import Difference, Pick
    from catalog.database.query_plan import QueryPlan
    from catalog.episode_record import EpisodeRecord
    from catalog.filters.builder import F
    from catalog.filters.evaluate import matches
    from catalog.filters.fields import FIELDS
    from catalog.filters.parse import parse_where
    from catalog.filters.to_text import where_text
    from catalog.filters.url import parse_query, where_query
    from catalog.filters.where import (
        EVERYTHING,
        NOTHING,
        AllOf,
        AnyOf,
        Compare,
        Not,
        Where,
        all_of,
        any_of,
        build_where,
    )
    from catalog.query.pages import ORDERS
    from catalog.query.summary_records import Group, Histogram, NumberSummary
    from catalog.records import (
        Asset,
        CheckFinding,
        CheckResult,
        EpisodeRow,
        Facts,
        Known,
        LaneDefinition,
        LaneFacts,
        LaneRecord,
        Layout,
        Lineage,
        Note,
        Page,
        Registered,
        Review,
        Spread,
    )
    from catalog.vectors.records import Among, EmbeddingRow, LedgerEntry, SpaceRow

__all__ = [
    "EVERYTHING",
    "FIELDS",
    "NOTHING",
    "ORDERS",
    "AllOf",
    "Among",
    "AnyOf",
    "Asset",
    "Catalog",
    "CheckFinding",
    "CheckResult",
    "Compare",
    "Difference",
    "EmbeddingRow",
    "EpisodeRecord",
    "EpisodeRow",
    "F",
    "Facts",
    "Group",
    "Histogram",
    "Known",
    "LaneDefinition",
    "LaneFacts",
    "LaneRecord",
    "Layout",
    "LedgerEntry",
    "Lineage",
    "Named",
    "Not",
    "Note",
    "NumberSummary",
    "Page",
    "Pick",
    "QueryPlan",
    "Registered",
    "Review",
    "Snapshot",
    "SpaceRow",
    "Spread",
    "Where",
    "all_of",
    "any_of",
    "build_where",
    "matches",
    "parse_query",
    "parse_where",
    "where_query",
    "where_text",
]

__getattr__ = importer(
    "catalog",
    {
        "Snapshot": "catalog.curation.collections",
        "Named": "catalog.curation.collections",
        "Difference": "catalog.curation.selection",
        "Pick": "catalog.curation.selection",
        "AllOf": "catalog.filters.where",
        "Among": "catalog.vectors.records",
        "Asset": "catalog.records",
        "AnyOf": "catalog.filters.where",
        "Catalog": "catalog.catalog",
        "CheckResult": "catalog.records",
        "Compare": "catalog.filters.where",
        "EVERYTHING": "catalog.filters.where",
        "EmbeddingRow": "catalog.vectors.records",
        "EpisodeRecord": "catalog.episode_record",
        "EpisodeRow": "catalog.records",
        "QueryPlan": "catalog.database.query_plan",
        "F": "catalog.filters.builder",
        "FIELDS": "catalog.filters.fields",
        "Facts": "catalog.records",
        "CheckFinding": "catalog.records",
        "Group": "catalog.query.summary_records",
        "Histogram": "catalog.query.summary_records",
        "Known": "catalog.records",
        "LaneDefinition": "catalog.records",
        "LaneFacts": "catalog.records",
        "LaneRecord": "catalog.records",
        "Layout": "catalog.records",
        "LedgerEntry": "catalog.vectors.records",
        "Lineage": "catalog.records",
        "NOTHING": "catalog.filters.where",
        "Not": "catalog.filters.where",
        "Note": "catalog.records",
        "ORDERS": "catalog.query.pages",
        "Page": "catalog.records",
        "Registered": "catalog.records",
        "Review": "catalog.records",
        "SpaceRow": "catalog.vectors.records",
        "Spread": "catalog.records",
        "NumberSummary": "catalog.query.summary_records",
        "Where": "catalog.filters.where",
        "all_of": "catalog.filters.where",
        "any_of": "catalog.filters.where",
        "build_where": "catalog.filters.where",
        "matches": "catalog.filters.evaluate",
        "parse_query": "catalog.filters.url",
        "parse_where": "catalog.filters.parse",
        "where_query": "catalog.filters.url",
        "where_text": "catalog.filters.to_text",
    },
)


def __dir__() -> list[str]:
    """Return the names above, also those that were not used yet."""
    return sorted(__all__)
