"""Evaluate the search on labels of an archive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wshard.lazy import importer

if TYPE_CHECKING:
    from bridge.evaluation.compare import evaluate_label, evaluate_search

__all__ = ["evaluate_label", "evaluate_search"]

__getattr__ = importer(
    "bridge.evaluation",
    {
        "evaluate_label": "bridge.evaluation.compare",
        "evaluate_search": "bridge.evaluation.compare",
    },
)


def __dir__() -> list[str]:
    """Return the names above, also those that were not used yet."""
    return sorted(__all__)
