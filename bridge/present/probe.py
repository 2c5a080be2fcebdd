"""Probe results as a JSON-able dict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bridge.present.episodes import present_episode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bridge.curation.probe import Probe
    from catalog.query.api import Queries
    from catalog.records import EpisodeRow

_UNCERTAIN: Final = 6


def present_probe(probe: Probe, query: Queries, *, top: int) -> dict[str, Any]:
    """Return the episodes that are most likely right, those it is least sure of, and how good it is."""
    ranked, uncertain = probe.ranked(), probe.uncertain(_UNCERTAIN)
    items = [{"rank": rank, **one} for rank, one in enumerate(_present_values(query, ranked[:top]), 1)]
    return {
        "items": items,
        "total": len(ranked),
        "positive": probe.positive,
        "uncertain": _present_values(query, uncertain),
        "ranked_by": "graph" if probe.by_graph else "vectors",
        "precision": probe.precision,
        "recall": probe.recall,
        "right": probe.right,
        "wrong": probe.wrong,
        "space": probe.space.fingerprint,
    }


def _present_values(query: Queries, valued: Sequence[tuple[EpisodeRow, float]]) -> list[dict[str, Any]]:
    names = query.short_names([row for row, _ in valued])
    return [
        {"value": value, "name": name, **present_episode(row)} for (row, value), name in zip(valued, names, strict=True)
    ]
