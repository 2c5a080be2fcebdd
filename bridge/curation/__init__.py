"""Data curation by vectors: duplicates, leaks, outliers, subsets, weights and doubtful labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wshard.lazy import importer

if TYPE_CHECKING:
    from bridge.curation.duplicates import find_duplicates, find_leaks
    from bridge.curation.probe import Probe, save_probe, train_probe
    from bridge.curation.projection import project_episodes
    from bridge.curation.shared_pieces import find_pieces, find_shared
    from bridge.curation.signals import find_mislabeled, find_outliers, select_subset, weigh

__all__ = [
    "Probe",
    "find_duplicates",
    "find_leaks",
    "find_mislabeled",
    "find_outliers",
    "find_pieces",
    "find_shared",
    "project_episodes",
    "save_probe",
    "select_subset",
    "train_probe",
    "weigh",
]

__getattr__ = importer(
    "bridge.curation",
    {
        "Probe": "bridge.curation.probe",
        "save_probe": "bridge.curation.probe",
        "train_probe": "bridge.curation.probe",
        "project_episodes": "bridge.curation.projection",
        "find_duplicates": "bridge.curation.duplicates",
        "find_leaks": "bridge.curation.duplicates",
        "find_mislabeled": "bridge.curation.signals",
        "find_outliers": "bridge.curation.signals",
        "find_pieces": "bridge.curation.shared_pieces",
        "find_shared": "bridge.curation.shared_pieces",
        "select_subset": "bridge.curation.signals",
        "weigh": "bridge.curation.signals",
    },
)


def __dir__() -> list[str]:
    """Return the names above, also those that were not used yet."""
    return sorted(__all__)
