"""A Milvus server as vector index, checked as a DeepData server is."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from bridge.index.deepdata.index import DeepDataIndex
from bridge.index.deepdata.settings import UrlForm, read_settings
from bridge.index.milvus.server import SCHEME, MilvusServer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bridge.index.deepdata.rate_limit import Throttle
    from bridge.index.deepdata.search import ServerView
    from bridge.index.deepdata.settings import Settings
    from catalog.catalog import Catalog
    from embedders.space import Space

FORM: Final = UrlForm(f"{SCHEME}http", ("ef", "batch", "timeout"), "MILVUS_TOKEN")


def _reach(
    settings: Settings,
    throttle: Throttle | None,  # noqa: ARG001  (this server allows any number of requests)
) -> tuple[MilvusServer, Callable[[], MilvusServer]]:
    server = MilvusServer(settings)
    return server, lambda: server


class MilvusIndex(DeepDataIndex):
    """VectorIndex on a Milvus server; see DeepDataIndex."""

    _reach = staticmethod(_reach)
    _wire: MilvusServer

    def _view(self, space: Space) -> ServerView:
        before = self._views.get(space.fingerprint)
        view = super()._view(space)
        if self._views.get(space.fingerprint) is not before:  # who changed it, here or elsewhere, may just have done so
            self._wire.note_change()
        return view


def open_milvus(url: str, catalog: Catalog, folder: Path, token: str | None = None) -> MilvusIndex:
    """Return the index of milvus+http://[TOKEN@]HOST[:PORT][/PREFIX][?ef=N&batch=N&timeout=S], or milvus+https://.

    See deepdata.settings; a TOKEN is USER:PASSWORD or an API key, else MILVUS_TOKEN. Raises UnknownIndexError.
    """
    environment = {FORM.token_variable: os.environ.get(FORM.token_variable, "")}  # not DeepData's tenant and limits
    found = read_settings(url, token, environment, form=FORM)
    parts = urlsplit(url)
    if token is None and parts.password:
        found = replace(found, token=unquote(f"{parts.username}:{parts.password}"))
    return MilvusIndex(catalog, folder, found)
