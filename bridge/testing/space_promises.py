"""What an index promises about Spaces: none mixes with another, and what is not of a living one is refused."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from bridge.index.base import Point
from bridge.testing.brute_force import DIM, unit_vectors
from bridge.testing.shelf import Promises, check, top
from catalog.filters.where import build_where
from catalog.vectors.records import Among
from embedders.space import Statistics
from wshard.errors import EmbedderError, SpaceMismatchError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from catalog.catalog import Catalog


class SpacePromises(Promises):
    """Tests of Spaces."""

    def test_two_spaces_never_mix(self, tmp_path: Path) -> None:
        with self.filled(tmp_path) as (shelf, one, ids):
            two = self.space("another")
            shelf.put(two, {id_: unit_vectors(2, 900 + number) for number, id_ in enumerate(ids[:10])})
            assert shelf.index.count(one) == sum(1 + number % 4 for number in range(len(ids)))
            assert shelf.index.count(two) == 20
            for seed in (0, 5, 900, 905):
                query = unit_vectors(1, seed)[0]
                for space in (one, two):
                    check(shelf, space, query, top(30, distinct=False))
                    check(shelf, space, query, top(30, build_where(env_id="env-0")))
            shelf.put(two, {ids[0]: unit_vectors(1, 5)})
            check(shelf, one, unit_vectors(1, 0)[0], top(3))
            assert all(
                np.array_equal(p.vectors, shelf.stored[two.fingerprint][p.episode]) for p in shelf.index.scan(two)
            )

    def test_a_space_that_the_archive_does_not_hold_is_refused(self, tmp_path: Path) -> None:
        with self.filled(tmp_path) as (shelf, space, ids):
            stranger, query = self.space("stranger"), unit_vectors(1)[0]
            _assert_refused(lambda: shelf.index.search(stranger, query, top(1)))
            _assert_refused(lambda: shelf.index.upsert(stranger, [Point(ids[0], 1, unit_vectors(1))]))
            _assert_refused(lambda: shelf.index.count(stranger))
            _assert_refused(lambda: list(shelf.index.scan(stranger)))
            _assert_refused(lambda: shelf.index.delete(stranger, ids[:1]))
            check(shelf, space, query, top(3))

    def test_a_space_that_was_replaced_is_refused(self, tmp_path: Path) -> None:
        with self.filled(tmp_path) as (shelf, old, ids):
            _activate(shelf.catalog, shelf.catalog.vectors.spaces()[0].id)
            new = replace(old, statistics=Statistics(1, np.zeros(DIM), np.ones(DIM)))
            shelf.put(new, {id_: unit_vectors(1, 300 + id_) for id_ in ids})
            check(shelf, old, unit_vectors(1)[0], top(3))
            _activate(shelf.catalog, shelf.catalog.vectors.spaces()[1].id)
            check(shelf, new, unit_vectors(1)[0], top(3))
            _assert_refused(lambda: shelf.index.search(old, unit_vectors(1)[0], top(3)))

    def test_vectors_of_another_size_or_type_are_refused(self, tmp_path: Path) -> None:
        with self.filled(tmp_path) as (shelf, space, ids):
            query, longer = unit_vectors(1)[0], unit_vectors(1, dim=DIM + 1)
            for wrong in (longer, longer[:, 2:], unit_vectors(1).astype(float), query):
                _assert_refused(partial(shelf.index.upsert, space, [Point(ids[0], 1, wrong)]))
            for wrong in (longer[0], longer[0, 2:], query.astype(float), query[None]):
                _assert_refused(partial(shelf.index.search, space, wrong, top(1)))
            check(shelf, space, query, top(3))

    def test_a_query_that_is_not_finite_is_refused(self, tmp_path: Path) -> None:
        with self.filled(tmp_path) as (shelf, space, _):
            for number in (np.nan, np.inf, -np.inf):
                query = unit_vectors(1)[0]
                query[3] = number
                _assert_refused(partial(shelf.index.search, space, query, top(1)), EmbedderError)


def _activate(catalog: Catalog, space_id: int) -> None:
    assert catalog.vectors.activate(space_id, Among(tuple(layout.id for layout in catalog.query.layouts())))


def _assert_refused(call: Callable[[], object], error: type[Exception] = SpaceMismatchError) -> None:
    try:
        call()
    except error:
        return
    raise AssertionError(f"expected {error.__name__}, found an answer")
