"""Index backends by URL scheme: one literal table, imported on use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from wshard.errors import UnknownIndexError
from wshard.messages import public_url

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from bridge.index.base import VectorIndex
    from catalog.catalog import Catalog

EMBEDDED: Final = "embedded:"

BACKENDS: Final[Mapping[str, str]] = {
    "embedded": "bridge.index.embedded.index:open_embedded",
    "http": "bridge.index.deepdata.index:open_deepdata",
    "https": "bridge.index.deepdata.index:open_deepdata",
}
"""URL scheme -> "module:function"; the function takes (url, catalog, folder, token)."""


def open_index(url: str, catalog: Catalog, folder: Path, *, token: str | None = None) -> VectorIndex:
    """Return the index for a URL such as "embedded:" or "http://host:8080"; nothing is connected yet.

    token: what a server wants to see; it counts before one in the URL or in the environment. What holds connections is
    a context manager. Raises UnknownIndexError for an unknown scheme, or a URL that its backend cannot read.
    """
    scheme = url.partition(":")[0].lower()
    if scheme not in BACKENDS:
        raise UnknownIndexError(f"expected an index of scheme {', '.join(BACKENDS)}, found {public_url(url)!r}")
    module, _, attribute = BACKENDS[scheme].partition(":")
    build: Callable[[str, Catalog, Path, str | None], VectorIndex] = getattr(import_module(module), attribute)
    return build(url, catalog, folder, token)
