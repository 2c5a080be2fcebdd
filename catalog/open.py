"""From an archive's place to its open catalog."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from catalog.catalog import Catalog
from catalog.location import database_in
from wshard.errors import CatalogNotFoundError

if TYPE_CHECKING:
    from catalog.location import Place


def open_place(place: Place, *, create: bool = False) -> Catalog:
    """Open the catalog; create: make an empty one where there is none, else CatalogNotFoundError says what to do."""
    if isinstance(place.database, Path):
        folder = place.database.parent
        return Catalog.open(place.database if create else database_in(folder), create=create)
    try:
        return Catalog.open(place.database, create=create)
    except CatalogNotFoundError as error:
        raise CatalogNotFoundError(f"{error}; `wshard ingest` makes one") from error
