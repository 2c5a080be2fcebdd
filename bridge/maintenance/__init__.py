"""Check, repair and restore archives: files, catalog, vectors, index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wshard.lazy import importer

if TYPE_CHECKING:
    from bridge.archive import restore_archive
    from bridge.maintenance.findings import Finding
    from bridge.maintenance.fsck import FsckResult
    from bridge.maintenance.fsck import check as check_archive
    from bridge.maintenance.fsck import repair as repair_archive

__all__ = [
    "Finding",
    "FsckResult",
    "check_archive",
    "repair_archive",
    "restore_archive",
]

__getattr__ = importer(
    "bridge.maintenance",
    {
        "FsckResult": "bridge.maintenance.fsck",
        "Finding": "bridge.maintenance.findings",
        "check_archive": "bridge.maintenance.fsck:check",
        "repair_archive": "bridge.maintenance.fsck:repair",
        "restore_archive": "bridge.archive",
    },
)


def __dir__() -> list[str]:
    """Return the names above, also those that were not used yet."""
    return sorted(__all__)
