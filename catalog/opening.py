"""From an archive's place to its open catalog.

Knows: how a missing archive is told. Does not know: how places are named (location.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from catalog.catalog import Catalog
from wshard.errors import CatalogNotFoundError

if TYPE_CHECKING:
    from catalog.location import Place


def open_place(place: Place, *, create: bool = False) -> Catalog:
    """Open the catalog; create: make an empty one where there is none, else CatalogNotFoundError says what to do."""
    try:
        return Catalog.open(place.database, create=create)
    except CatalogNotFoundError as error:
        there = isinstance(place.database, Path) and place.database.exists()
        told = str(error) if there else f"no archive at {place.name}: {error}"
        raise CatalogNotFoundError(f"{told}; `wshard ingest` makes one") from error
