"""A scan is exact for every metric and vectors of any length; only vectors of unit length get inverted lists."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from index_folders import home_of

from bridge import Point, Request
from bridge.index.embedded import disk_copy
from bridge.index.embedded.index import EmbeddedIndex
from bridge.index.embedded.inverted_lists import SearchCopy
from bridge.index.embedded.rerank import rank
from bridge.index.embedded.router import SearchPlan
from bridge.index.embedded.segment import Segment
from bridge.index.metric import METRICS, score
from bridge.testing.brute_force import Shelf, make_space, unit_vectors
from bridge.testing.index_contract import check, top
from catalog import EVERYTHING
from wshard import Catalog


def clusters(rng, count, dim):
    return rng.normal(size=(5, dim))[rng.integers(5, size=count)] + 0.1 * rng.normal(size=(count, dim))


DATA = {
    "independent": lambda rng, count, dim: rng.normal(size=(count, dim)),
    "clusters": clusters,
    "six orders": lambda rng, count, dim: clusters(rng, count, dim) * 10.0 ** rng.uniform(-3, 3, size=(count, 1)),
    "far from 0": lambda rng, count, dim: 1e4 + clusters(rng, count, dim),
    "zeros among them": lambda rng, count, dim: clusters(rng, count, dim) * rng.integers(2, size=(count, 1)),
    "two by two equal": lambda rng, count, dim: np.repeat(rng.normal(size=(count, dim)), 2, axis=0)[:count],
    "huge": lambda rng, count, dim: 1e18 * clusters(rng, count, dim),
}
QUERIES = {
    "a vector": lambda near, _: near,
    "opposite": lambda near, _: -near,
    "zero": lambda near, _: 0 * near,
    "ordinary": lambda near, rng: rng.normal(size=len(near)),
    "far": lambda near, rng: near + 1e6 * rng.normal(size=len(near)),
}


def score_all(metric, rows, query):
    rows, query = rows.astype(np.float64), query.astype(np.float64)
    if metric == "l2":
        return 0.0 - np.sqrt(np.square(rows - query).sum(axis=1))
    products = (rows * query).sum(axis=1)
    if metric == "dot":
        return products
    return np.clip(products / np.sqrt((rows * rows).sum(axis=1) * (query * query).sum()), -1.0, 1.0)


def brute_force(metric, points, query, request):
    """Return (episode, window, score) of the best, ties by episode, then window, all in float64."""
    found = []
    for point in points:
        values = score_all(metric, point.vectors, query).tolist()
        ranked = sorted((-value, window) for window, value in enumerate(values))
        found += [(value, point.episode, window) for value, window in ranked[: 1 if request.distinct else None]]
    return [(episode, window, -value) for value, episode, window in sorted(found)[: request.top_k]]


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("metric", METRICS)
def test_a_scan_gives_what_brute_force_gives(metric, data):
    for seed in range(3):
        rng = np.random.default_rng([seed, len(data)])
        rows = DATA[data](rng, 400, int(rng.choice([2, 8, 40])))
        if metric == "cosine":
            rows = rng.normal(size=rows.shape)
            rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        points = [Point(n, n, rows[4 * n : 4 * n + 4].astype(np.float32)) for n in range(100)]
        segment = Segment.from_points(points, rows.shape[1])
        segment.kill(np.array([3, 50]))
        living = [point for point in points if point.episode not in {3, 50}]
        for make in QUERIES.values():
            query = make(rows[7], rng).astype(np.float32)
            if metric == "cosine" and not query.any():
                continue
            request = Request(int(rng.choice([1, 5, 1000])), EVERYTHING, distinct=bool(rng.integers(2)))
            few, many = np.arange(0, 100, 7), np.arange(9, 100)
            for wanted in (None, few, many, None):  # products are computed once for all of them
                found = rank((SearchCopy(segment),), query, wanted, SearchPlan(request, metric, 0))
                right = [point for point in living if wanted is None or point.episode in wanted]
                expected = brute_force(metric, right, query, request)
                assert [tuple(match)[:2] for match in found.matches] == [match[:2] for match in expected]
                scale = max(1.0, abs(rows).max()) * max(1.0, abs(query).max())  # of the terms that are summed
                off = np.subtract([match.score for match in found.matches], [score for _, _, score in expected])
                assert np.abs(off).max() <= 1e-14 * rows.shape[1] * scale
                assert found.found[0].route == "scan"


@pytest.fixture
def shelf(tmp_path):
    with (
        Catalog.open(tmp_path / "catalog.db", create=True) as catalog,
        EmbeddedIndex(catalog, tmp_path / "index", tail_rows=0, lists_rows=1, direct_rows=0) as index,
    ):
        yield Shelf(catalog, index)


def read_copy(shelf, folder, space):
    return disk_copy.read(home_of(folder, space), shelf.catalog.edition, space.fingerprint, shelf.catalog.clock())


@pytest.mark.parametrize("metric", ["dot", "l2"])
def test_vectors_that_are_not_of_unit_length_are_scanned(shelf, tmp_path, metric):
    space = make_space(metric=metric)
    ids = shelf.register(40)
    shelf.put(space, {id_: unit_vectors(4, id_) * np.float32(1 + id_ % 3) for id_ in ids})
    shelf.index.close()
    found = read_copy(shelf, tmp_path, space)
    assert (found.lists, found.lists_damaged, found.header.vectors) == (None, False, 160)
    answer = shelf.index.search(space, unit_vectors(1, 3)[0], Request(5, EVERYTHING, explain=True))
    assert (answer.explained.route, answer.explained.all_lists) == ("scan", 0)
    check(shelf, space, unit_vectors(1, 3)[0], top(50, distinct=False))


def test_a_copy_of_an_older_layout_is_written_again(shelf, tmp_path):
    space = make_space()
    ids = shelf.register(40)
    shelf.put(space, {id_: unit_vectors(4, id_) for id_ in ids})
    shelf.index.close()
    header = read_copy(shelf, tmp_path, space).header
    older = [Point(id_, header.seq, -unit_vectors(4, id_)) for id_ in ids]
    disk_copy.write(home_of(tmp_path, space), replace(header, layout=header.layout - 1), older)
    assert read_copy(shelf, tmp_path, space) is None
    with EmbeddedIndex(shelf.catalog, tmp_path / "index", tail_rows=0, lists_rows=1) as index:
        again = Shelf(shelf.catalog, index, stored=shelf.stored)
        check(again, space, unit_vectors(1, 3)[0], top(50, distinct=False))
        index.upsert(space, [])
    assert read_copy(shelf, tmp_path, space).header == header


@pytest.mark.parametrize("name", METRICS)
def test_scores_do_not_depend_on_the_memory_that_they_are_computed_in(name):
    rows, query = np.random.default_rng(3).normal(size=(21, 413)), np.random.default_rng(4).normal(size=413)
    expected = score(name, rows, query)
    assert score(name, rows, query, np.full(rows.shape, np.nan)).tobytes() == expected.tobytes()
    assert np.concatenate([score(name, row[None], query) for row in rows]).tobytes() == expected.tobytes()
