"""The catalog: what episodes exist, where, what they are worth, and what has been embedded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wshard.lazily import importer

if TYPE_CHECKING:
    from catalog.catalog import Catalog
    from catalog.collections import Named, Snapshot
    from catalog.fields import FIELDS
    from catalog.filters import EVERYTHING, NOTHING, AllOf, AnyOf, Compare, Not, Where, all_of, any_of, build_where
    from catalog.form_python import F
    from catalog.form_text import parse_where
    from catalog.form_url import parse_query, where_query
    from catalog.matching import matches
    from catalog.picks import Difference, Pick
    from catalog.plans import Explained
    from catalog.queries import ORDERS
    from catalog.records import (
        Among,
        Asset,
        Checked,
        EmbeddingRow,
        EpisodeRecord,
        EpisodeRow,
        Facts,
        Found,
        Known,
        LaneDefinition,
        LaneFacts,
        LaneRecord,
        Layout,
        LedgerEntry,
        Lineage,
        Note,
        Page,
        Registered,
        Review,
        SpaceRow,
        Spread,
        Storage,
    )
    from catalog.summaries import Group, Histogram, Summary
    from catalog.writing import where_text

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
    "Checked",
    "Compare",
    "Difference",
    "EmbeddingRow",
    "EpisodeRecord",
    "EpisodeRow",
    "Explained",
    "F",
    "Facts",
    "Found",
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
    "Page",
    "Pick",
    "Registered",
    "Review",
    "Snapshot",
    "SpaceRow",
    "Spread",
    "Storage",
    "Summary",
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
        "Snapshot": "catalog.collections",
        "Named": "catalog.collections",
        "Difference": "catalog.picks",
        "Pick": "catalog.picks",
        "AllOf": "catalog.filters",
        "Among": "catalog.records",
        "Asset": "catalog.records",
        "AnyOf": "catalog.filters",
        "Catalog": "catalog.catalog",
        "Checked": "catalog.records",
        "Compare": "catalog.filters",
        "EVERYTHING": "catalog.filters",
        "EmbeddingRow": "catalog.records",
        "EpisodeRecord": "catalog.records",
        "EpisodeRow": "catalog.records",
        "Explained": "catalog.plans",
        "F": "catalog.form_python",
        "FIELDS": "catalog.fields",
        "Facts": "catalog.records",
        "Found": "catalog.records",
        "Group": "catalog.summaries",
        "Histogram": "catalog.summaries",
        "Known": "catalog.records",
        "LaneDefinition": "catalog.records",
        "LaneFacts": "catalog.records",
        "LaneRecord": "catalog.records",
        "Layout": "catalog.records",
        "LedgerEntry": "catalog.records",
        "Lineage": "catalog.records",
        "NOTHING": "catalog.filters",
        "Not": "catalog.filters",
        "Note": "catalog.records",
        "ORDERS": "catalog.queries",
        "Page": "catalog.records",
        "Registered": "catalog.records",
        "Review": "catalog.records",
        "SpaceRow": "catalog.records",
        "Spread": "catalog.records",
        "Storage": "catalog.records",
        "Summary": "catalog.summaries",
        "Where": "catalog.filters",
        "all_of": "catalog.filters",
        "any_of": "catalog.filters",
        "build_where": "catalog.filters",
        "matches": "catalog.matching",
        "parse_query": "catalog.form_url",
        "parse_where": "catalog.form_text",
        "where_query": "catalog.form_url",
        "where_text": "catalog.writing",
    },
)


def __dir__() -> list[str]:
    """Return the names above, also those that were not used yet."""
    return sorted(__all__)
