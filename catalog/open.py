"""Open the catalog at an archive's location."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from catalog.catalog import Catalog
from catalog.location import database_in
from wshard.errors import CatalogNotFoundError

if TYPE_CHECKING:
    from catalog.location import ArchivePlace


def open_place(place: ArchivePlace, *, create: bool = False) -> Catalog:
    """Open the catalog; create: create an empty one if there is none, else CatalogNotFoundError explains how."""
    if isinstance(place.database, Path):
        folder = place.database.parent
        return Catalog.open(place.database if create else database_in(folder), create=create)
    try:
        return Catalog.open(place.database, create=create)
    except CatalogNotFoundError as error:
        raise CatalogNotFoundError(f"{error}; `wshard ingest` makes one") from error
