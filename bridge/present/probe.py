"""Probe results as a JSON-able dict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bridge.present.episodes import present_episode

if TYPE_CHECKING:
    from bridge.curation.probe import Probe

_UNCERTAIN: Final = 6


def present_probe(probe: Probe, *, top: int) -> dict[str, Any]:
    """Return the episodes that are most likely right, those it is least sure of, and how good it is."""
    ranked = probe.ranked()
    items = [
        {"rank": rank, "value": value, **present_episode(row)} for rank, (row, value) in enumerate(ranked[:top], 1)
    ]
    return {
        "items": items,
        "total": len(ranked),
        "positive": probe.positive,
        "uncertain": [{"value": value, **present_episode(row)} for row, value in probe.uncertain(_UNCERTAIN)],
        "ranked_by": "graph" if probe.by_graph else "vectors",
        "precision": probe.precision,
        "recall": probe.recall,
        "right": probe.right,
        "wrong": probe.wrong,
        "space": probe.space.fingerprint,
    }
