"""Index backends by URL scheme: one literal table, imported on use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from wshard.errors import UnknownIndexError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from bridge.index.base import VectorIndex
    from catalog.catalog import Catalog

EMBEDDED: Final = "embedded:"

BACKENDS: Final[Mapping[str, str]] = {
    "embedded": "bridge.index.embedded:EmbeddedIndex",
}
"""URL scheme -> "module:class"; the class takes (catalog, folder)."""


def open_index(url: str, catalog: Catalog, folder: Path) -> VectorIndex:
    """Return the index for a URL such as "embedded:"; raises UnknownIndexError for an unknown scheme."""
    scheme = url.partition(":")[0].lower()
    if scheme not in BACKENDS:
        raise UnknownIndexError(f"expected an index of scheme {', '.join(BACKENDS)}, found {url!r}")
    module, _, attribute = BACKENDS[scheme].partition(":")
    build: Callable[[Catalog, Path], VectorIndex] = getattr(import_module(module), attribute)
    return build(catalog, folder)
