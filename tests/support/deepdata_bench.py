"""An archive, the fake server and an index between them, for tests of faults."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from deepdata_fake import Fake
from deepdata_replay import serving

from bridge.index.deepdata.index import DeepDataIndex
from bridge.index.deepdata.settings import Settings
from bridge.testing.brute_force import Shelf, make_space, unit_vectors
from bridge.testing.index_contract import check, top
from wshard import Catalog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Bench:
    """shelf keeps ledger, index and the right answers in step; fake is the server."""

    def __init__(self, folder: Path, fake: Fake, url: str, catalog: Catalog, *, always_ask: bool = True) -> None:
        self.folder, self.fake, self.url, self.catalog, self.always_ask = folder, fake, url, catalog, always_ask
        self.space = make_space()
        self.opened: list[DeepDataIndex] = []
        self.shelf = Shelf(catalog, self.open(), exact=False)
        self.ids: list[int] = []

    def open(self, **options: Any) -> DeepDataIndex:
        """Open an index as another process would."""
        token = options.pop("token", None)
        attempts = options.pop("attempts", 1)
        settings = Settings(self.url, token=token, rpm=0, batch=options.pop("batch", 20), attempts=attempts)
        self.opened.append(
            DeepDataIndex(self.catalog, self.folder / "index", settings, **{"always_ask": self.always_ask, **options})
        )
        return self.opened[-1]

    def again(self, **options: Any) -> DeepDataIndex:
        """Go on with an index that knows nothing of the one before."""
        self.shelf.index = self.open(**options)
        return self.shelf.index

    def fill(self, count: int) -> list[int]:
        """Put as many more episodes, of one vector each, and return their ids."""
        made = self.shelf.register(len(self.ids) + count)[len(self.ids) :]
        self.ids += made
        self.shelf.put(self.space, {id_: unit_vectors(1, 10_000 + id_) for id_ in made})
        return made

    def commit(self, count: int) -> list[int]:
        """Write as many more to the ledger while the index cannot be reached."""
        index, self.shelf.index = self.shelf.index, Deaf()
        try:
            return self.fill(count)
        finally:
            self.shelf.index = index

    def check(self) -> None:
        """Compare searches with the right answers."""
        for seed in range(3):
            query = unit_vectors(1, seed)[0]
            for request in (top(5), top(5, distinct=False), top(10_000)):
                check(self.shelf, self.space, query, request)

    def healed(self) -> None:
        """Assert that the server holds exactly the ledger's vectors, once each, and that searches are right."""
        wanted = set(self.shelf.stored[self.space.fingerprint])
        uids = {row.uid for row in self.catalog.episodes.rows(wanted).values()}
        found = Counter(document["metadata"]["uid"] for document in self.collection.documents.values())
        assert set(found) == uids
        assert set(found.values()) <= {1}, "a vector is there twice"
        assert self.shelf.index.count(self.space) == len(wanted)
        assert self.shelf.index.audit(self.space, full=True).state == "ok"
        self.check()

    @property
    def collection(self) -> Any:
        """The one collection of the fake."""
        (made,) = self.fake.collections.values()
        return made

    def requested(self, path: str) -> int:
        """Return how many requests there were for a path."""
        return sum(line.endswith(path) for line in self.fake.requests)


class Deaf:
    def upsert(self, space: Any, points: Any) -> None:
        """Hear nothing."""


@contextmanager
def bench(folder: Path, *, always_ask: bool = True, **options: Any) -> Iterator[Bench]:
    (folder / "server").mkdir(parents=True, exist_ok=True)
    fake = Fake(folder / "server", **options)
    with Catalog.open(folder / "catalog.db", create=True) as catalog, serving(fake.respond) as server:
        made = Bench(folder, fake, server.url, catalog, always_ask=always_ask)
        try:
            yield made
        finally:
            for index in made.opened:
                index.close()


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[Bench]:
    """Give an archive of 40 episodes that the server holds."""
    with bench(tmp_path) as made:
        made.fill(40)
        assert made.shelf.index.count(made.space) == 40
        made.fake.requests.clear()
        yield made


def spy(made: Bench) -> list[dict[str, Any]]:
    """Return the list into which every later search's body goes."""
    searches: list[dict[str, Any]] = []
    route = made.fake._route

    def watch(method: str, path: str, headers: Any, body: bytes) -> Any:
        if path.endswith("/search"):
            searches.append(json.loads(body))
        return route(method, path, headers, body)

    made.fake._route = watch  # type: ignore[method-assign]
    return searches
