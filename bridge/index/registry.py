"""Index backends by URL scheme: one literal table, and entry points of other packages; imported on use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wshard.core.messages import public_url
from wshard.core.plugins import announced_plugins, find_plugin, load_plugin
from wshard.errors import UnknownIndexError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from bridge.index.base import VectorIndex
    from catalog.catalog import Catalog

EMBEDDED: Final = "embedded:"

BACKENDS: Final[Mapping[str, str]] = {
    "embedded": "bridge.index.embedded.index:open_embedded",
    "dask": "bridge.index.shards.index:open_shards",
    "ray": "bridge.index.shards.index:open_shards",
    "http": "bridge.index.deepdata.index:open_deepdata",
    "https": "bridge.index.deepdata.index:open_deepdata",
    "milvus+http": "bridge.index.milvus.index:open_milvus",
    "milvus+https": "bridge.index.milvus.index:open_milvus",
}
"""URL scheme -> "module:function"; the function takes (url, catalog, folder, token)."""

_DISCARD: Final[Mapping[str, str]] = {"embedded": "bridge.index.embedded.copy_folders:discard"}
"""URL scheme -> "module:function" that removes what a backend stores in an archive's folder; most store nothing."""

ENTRY_POINT_GROUP: Final = "wshard.indexes"
"""Where other packages announce such functions by URL scheme; a scheme of the table cannot be taken over."""


def open_index(url: str, catalog: Catalog, folder: Path, *, token: str | None = None) -> VectorIndex:
    """Return the index for a URL such as "embedded:" or "http://host:8080", without connecting yet.

    token: a server's token; it takes precedence over the URL and the environment. An index with connections is a
    context manager. Raises UnknownIndexError for an unknown scheme or an invalid URL, MissingExtraError for a backend
    that cannot be imported.
    """
    scheme = url.partition(":")[0].lower()
    target = find_plugin(scheme, BACKENDS, ENTRY_POINT_GROUP)
    if target is None:
        known = ", ".join(dict.fromkeys((*BACKENDS, *announced_plugins(ENTRY_POINT_GROUP))))
        raise UnknownIndexError(f"expected an index of scheme {known}, found {public_url(url)!r}")
    build: Callable[[str, Catalog, Path, str | None], VectorIndex]
    build = load_plugin(target, f"index {scheme!r}", unknown=UnknownIndexError)
    return build(url, catalog, folder, token)


def discard_copies(folder: Path, archive_id: str) -> None:
    """Remove what the backends store in the folder for this archive, without opening its catalog."""
    for scheme, target in _DISCARD.items():
        discard: Callable[[Path, str], None]
        discard = load_plugin(target, f"index {scheme!r}", unknown=UnknownIndexError)
        discard(folder, archive_id)
