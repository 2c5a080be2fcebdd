"""Certified lists of vectors of any length: equal to brute force, by distance and by inner product, and worth it."""

from __future__ import annotations

import math
import shutil
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from index_folders import home_of

from bridge.index.base import Point, Request
from bridge.index.embedded import disk_copy, lists_file
from bridge.index.embedded.index import EmbeddedIndex
from bridge.index.embedded.kmeans import group
from bridge.index.embedded.norm_bounds import Directions, Lengths, Sight
from bridge.index.embedded.rerank import best
from bridge.index.embedded.segment import Segment
from bridge.index.embedded.sketches import Outlines, outline
from bridge.testing.brute_force import Shelf, make_space, unit_vectors
from bridge.testing.index_contract import check, top
from catalog.catalog import Catalog
from catalog.filters.where import EVERYTHING, build_where

METRICS = ("l2", "dot")


def paths(rng, count, dim):
    """Windows along 20 smooth curves, each episode at a magnitude of its own."""
    anchors, clock = rng.normal(size=(20, dim)), np.linspace(0, 3, 100)[:, None]
    ways = rng.normal(size=(20, dim))
    rows = []
    for number in range(count // 100 + 1):
        path = anchors[number % 20] + np.sin(clock + rng.normal()) * ways[number % 20]
        rows.append((path + 0.05 * rng.normal(size=(100, dim))) * np.exp(0.5 * rng.normal()))
    return np.concatenate(rows)[:count]


def clusters(rng, count, dim):
    return rng.normal(size=(5, dim))[rng.integers(5, size=count)] + 0.1 * rng.normal(size=(count, dim))


def with_zeros(rows, rng):
    return rows * rng.integers(2, size=(len(rows), 1))


DATA = {
    "of length one": lambda rng, count, dim: unit_vectors(count, int(rng.integers(99)), dim),
    "independent": lambda rng, count, dim: rng.normal(size=(count, dim)),
    "clusters": clusters,
    "paths": paths,
    "six orders": lambda rng, count, dim: clusters(rng, count, dim) * 10.0 ** rng.uniform(-3, 3, size=(count, 1)),
    "zeros among them": lambda rng, count, dim: with_zeros(clusters(rng, count, dim), rng),
    "all equal": lambda rng, count, dim: np.repeat(rng.normal(size=(1, dim)), count, axis=0),
    "all zero": lambda _, count, dim: np.zeros((count, dim)),
    "two by two equal": lambda rng, count, dim: np.repeat(rng.normal(size=(count, dim)), 2, axis=0)[:count],
    "far from 0": lambda rng, count, dim: 1e4 + clusters(rng, count, dim),
    "one ray": lambda rng, count, dim: rng.normal(size=dim) * rng.integers(-9, 9, size=(count, 1)),
    "huge": lambda rng, count, dim: 1e20 * clusters(rng, count, dim),
    "tiny": lambda rng, count, dim: 1e-25 * clusters(rng, count, dim),
}

QUERIES = {
    "a vector": lambda near, _: near,
    "near one": lambda near, rng: near * (1 + 0.01 * rng.normal(size=len(near))),
    "opposite": lambda near, _: -near,
    "zero": lambda near, _: 0 * near,
    "ordinary": lambda near, rng: rng.normal(size=len(near)),
    "far": lambda near, rng: near + 1e6 * rng.normal(size=len(near)),
    "huge": lambda near, rng: 1e20 * rng.normal(size=len(near)),
    "tiny": lambda near, rng: 1e-20 * rng.normal(size=len(near)),
}


def cut(rng, vectors, first=0):
    """Return the vectors as points of 1 to 9 windows."""
    bounds = np.unique([0, len(vectors), *np.cumsum(rng.integers(1, 10, size=len(vectors))).clip(max=len(vectors))])
    parts = enumerate(pairwise(bounds))
    return [Point(first + 10 * number, number, vectors[a:b].astype(np.float32)) for number, (a, b) in parts]


def hundreds(vectors):
    return [Point(number, number, rows) for number, rows in enumerate(np.split(vectors.astype(np.float32), 100))]


def listed(folder, points, metric):
    """Return a segment with the lists that were written and read again."""
    segment = Segment.of(points, points[0].vectors.shape[1])
    place = folder / f"lists-{len(list(folder.iterdir()))}"
    lists_file.write(place, 7, segment.vectors, segment.starts, group(segment.vectors, metric=metric))
    segment.lists = lists_file.read(place, 7, segment.vectors.shape, segment.starts)
    assert segment.lists is not None
    return segment


def brute_force(metric, points, query, request):
    """Return (score, episode, window) of the best, ties by episode, then window, all in float64."""
    asked, found = query.astype(float), []
    for point in points:
        rows = point.vectors.astype(float)
        values = 0 - np.sqrt(((rows - asked) ** 2).sum(1)) if metric == "l2" else (rows * asked).sum(1)
        ranked = sorted((-value, window) for window, value in enumerate(values.tolist()))
        found += [(value, point.episode, window) for value, window in ranked[: 1 if request.distinct else None]]
    return [(episode, window, -value) for value, episode, window in sorted(found)[: request.top_k]]


def assert_right(segments, points, query, chosen, request, metric, *, direct_rows=0):
    found = best(segments, query, chosen, request, direct_rows=direct_rows, metric=metric)
    right = brute_force(metric, points, query, request)
    assert [(match.episode, match.window, match.score) for match in found.matches] == right
    assert all(one.exact for one in found.found)
    return found.found[0]


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("metric", METRICS)
def test_lists_give_what_brute_force_gives(metric, data, tmp_path):
    """26 x 32 = 832 cases: filters, counts, distinct, deleted episodes, tails; each match and score to the last bit."""
    for seed in range(4):
        rng = np.random.default_rng([seed, len(data), len(metric)])
        dim = int(rng.choice([1, 2, 3, 8, 40]))
        vectors = DATA[data](rng, int(rng.integers(1, 700)), dim)
        base, tail = cut(rng, vectors), cut(rng, DATA[data](rng, int(rng.integers(1, 30)), dim), first=5)
        segment, younger = listed(tmp_path, base, metric), Segment.of(tail, dim)
        dead = {point.episode for point in base if rng.random() < 0.2}
        segment.kill(np.array(sorted(dead), np.int64))
        living = [point for point in (*base, *tail) if point.episode not in dead]
        for make in QUERIES.values():
            query = make(vectors[rng.integers(len(vectors))].astype(np.float32), rng).astype(np.float32)
            share = rng.choice([0.0, 0.05, 0.5, 2.0])
            wanted = {point.episode for point in living if rng.random() < share}
            right = [point for point in living if point.episode in wanted]
            chosen = None if share > 1 else np.array(sorted(wanted), np.int64)
            request = Request(int(rng.choice([1, 3, 10, 1000])), EVERYTHING, distinct=bool(rng.integers(2)))
            assert_right(
                (segment, younger), right, query, chosen, request, metric, direct_rows=int(rng.choice([0, 9999]))
            )


def test_the_cases_meet_every_route(tmp_path):
    """So many vectors that the lists are worth a look."""
    routes = set()
    for metric in METRICS:
        for data in ("independent", "paths", "six orders"):
            rng = np.random.default_rng(len(data))
            vectors = DATA[data](rng, 6000, 24)
            points = cut(rng, vectors)
            segment = listed(tmp_path, points, metric)
            few = np.array([point.episode for point in points[::9]], np.int64)
            for query in (vectors[17], -vectors[17], rng.normal(size=24)):
                for chosen, direct_rows in ((None, 0), (few, 0), (few, 1000)):
                    right = points if chosen is None else points[::9]
                    asked = (query.astype(np.float32), chosen, Request(10, EVERYTHING), metric)
                    routes.add(assert_right((segment,), right, *asked, direct_rows=direct_rows).route)
    assert routes >= {"lists", "direct", "lists, then direct"}


# ---- the bounds ------------------------------------------------------------------------------------------------------

numbers = st.floats(-1e3, 1e3, width=32).map(lambda value: value if abs(value) > 1e-3 else 0.0)
triples = st.lists(numbers, min_size=3, max_size=3)


def squared(left, right):
    return sum((Fraction(a) - Fraction(b)) ** 2 for a, b in zip(left, right, strict=True))


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(METRICS), st.lists(triples, min_size=1, max_size=6), triples, triples, st.integers(1, 3))
def test_no_bound_is_below_the_score(metric, rows, asked, origin, axes):
    """Of outlines with 1, 2 or 3 axes, and of a list of all the rows; the scores as fractions, without any rounding."""
    vectors, query = np.array(rows, np.float32), np.array(asked, np.float32)
    origin = np.zeros(3) if metric == "dot" else np.array(origin)
    directions = Directions(vectors, origin)
    lengths = Lengths(origin, directions.lengths, np.sort(directions.lengths), np.sort(directions.lengths)[[[0], [-1]]])
    sight = Sight.of(query, lengths, metric)
    frame = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0][:axes]
    outlines = Outlines(frame[None], np.zeros(len(rows), np.uint8), outline(frame, directions[:])[0], None)
    bounds = sight.most(outlines.bounds(np.arange(len(rows)), outlines.sides(sight.query)), lengths.by_row)
    cosine = np.array([min((directions[:].astype(float) @ sight.query).max() + 1e-6, 1.0)])
    reach = float(sight.reach(cosine)[0])
    for row, bound, length in zip(rows, bounds.tolist(), lengths.by_row, strict=True):
        if metric == "dot":
            score = sum(Fraction(a) * Fraction(b) for a, b in zip(row, asked, strict=True))
            assert score <= min(Fraction(bound), Fraction(reach))
        else:
            score = -math.sqrt(squared(row, asked)) * (1 + 2.0**-50)
            assert all(squared(row, asked) >= Fraction(min(one, 0.0)) ** 2 for one in (bound, reach))
        if metric == "l2" or cosine > 0:
            shortest, longest = sight.span(cosine, float(score) - 2.0**-50 * abs(float(score)))
            assert shortest <= length <= longest


@settings(max_examples=100, deadline=None)
@given(st.lists(triples, min_size=1, max_size=6), triples, st.sampled_from([1e-30, 1.0, 1e30]))
def test_directions_and_lengths_are_the_vectors(rows, origin, scale):
    vectors, origin = (np.array(rows) * scale).astype(np.float32), np.array(origin) * scale
    directions = Directions(vectors, origin)
    again = origin + directions[:].astype(float) * directions.lengths[:, None]
    assert np.abs(again - vectors).max() <= 1e-6 * max(directions.lengths.max(), 1e-40)
    assert np.linalg.norm(directions[:], axis=1) == pytest.approx(1, abs=1e-6)


def test_bounds_that_are_too_low_do_not_pass_unnoticed(tmp_path):
    rng = np.random.default_rng(4)
    points = cut(rng, DATA["paths"](rng, 4000, 16))
    segment = listed(tmp_path, points, "l2")
    segment.lists = replace(
        segment.lists, lengths=replace(segment.lists.lengths, spans=segment.lists.lengths.spans / 2)
    )
    request, wrong = Request(10, EVERYTHING, distinct=False), 0
    for point in points[:20]:
        found = best((segment,), point.vectors[0], None, request, direct_rows=0, metric="l2").matches
        wrong += brute_force("l2", points, point.vectors[0], request) != [(m.episode, m.window, m.score) for m in found]
    assert wrong > 0


# ---- what it is good for ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", ["paths", "six orders", "far from 0"])
@pytest.mark.parametrize("metric", METRICS)
def test_most_is_not_read_where_there_is_structure(metric, data, tmp_path):
    rng = np.random.default_rng(5)
    vectors = DATA[data](rng, 20_000, 16)
    points = hundreds(vectors)
    segment = listed(tmp_path, points, metric)
    shares = []
    for row in rng.integers(len(vectors), size=15):
        query = (vectors[row] * (1 + 0.01 * rng.normal(size=16))).astype(np.float32)
        told = assert_right((segment,), points, query, None, Request(10, EVERYTHING, distinct=False), metric)
        shares.append(told.scored / len(vectors))
    if (metric, data) != ("dot", "far from 0"):  # all point the same way then
        assert np.median(shares) < 0.3


@pytest.mark.parametrize("metric", METRICS)
def test_data_without_structure_are_scanned_after_a_short_look(metric, tmp_path):
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(40_000, 64)) * np.exp(0.2 * rng.normal(size=(40_000, 1)))
    points = hundreds(vectors)
    segment = listed(tmp_path, points, metric)
    query = rng.normal(size=64).astype(np.float32)
    told = assert_right((segment,), points, query, None, Request(10, EVERYTHING), metric)
    assert told.route == "lists, then scan"
    assert told.scored < 1.1 * len(vectors)


@pytest.mark.parametrize("metric", METRICS)
def test_a_budget_ends_a_search_and_says_so(metric, tmp_path):
    rng = np.random.default_rng(3)
    points = hundreds(rng.normal(size=(20_000, 32)) * np.exp(rng.normal(size=(20_000, 1))))
    segment, query = listed(tmp_path, points, metric), rng.normal(size=32).astype(np.float32)
    short = best((segment,), query, None, Request(10, EVERYTHING, budget=150), direct_rows=0, metric=metric)
    assert [one.exact for one in short.found] == [False]
    assert len(short.matches) == 10
    assert short.found[0].scored < 2500


# ---- groups ----------------------------------------------------------------------------------------------------------


def test_vectors_are_seen_from_where_the_metric_allows():
    rng = np.random.default_rng(0)
    vectors = (5 + clusters(rng, 500, 8)).astype(np.float32)
    assert group(vectors) is None
    assert np.array_equal(group(vectors, metric="dot").origin, np.zeros(8))
    assert group(vectors, metric="l2").origin == pytest.approx(np.median(vectors, axis=0), abs=1)
    of_length_one = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    assert group(of_length_one, metric="l2").origin is None


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("metric", METRICS)
def test_what_is_not_finite_gets_no_lists(metric, wrong):
    for row in range(0, 500, 50):
        vectors = clusters(np.random.default_rng(0), 500, 8).astype(np.float32)
        vectors[row, 3] = wrong
        assert group(vectors, metric=metric) is None


@pytest.mark.parametrize("metric", METRICS)
def test_new_vectors_join_as_they_are_seen_from_there(metric, tmp_path):
    rng = np.random.default_rng(0)
    vectors = np.concatenate([clusters(rng, 500, 8), 100 + rng.normal(size=(300, 8))]).astype(np.float32)
    first = group(vectors[:500], metric=metric)
    joined = group(vectors, first, metric)
    assert np.array_equal(joined.centroids, first.centroids)
    assert np.array_equal(joined.origin, first.origin)
    assert (joined.trained, len(joined.labels)) == (500, 800)
    assert group(np.concatenate([vectors, vectors]), first, metric).trained == 1600
    segment = Segment.of([Point(i, i, rows) for i, rows in enumerate(np.split(vectors, 80))], 8)
    lists_file.write(tmp_path / "lists", 7, segment.vectors, segment.starts, joined)
    segment.lists = lists_file.read(tmp_path / "lists", 7, segment.vectors.shape, segment.starts)
    points = list(segment.points(segment.alive))
    for row in (3, 499, 500, 799):
        assert_right((segment,), points, vectors[row], None, Request(5, EVERYTHING, distinct=False), metric)


def test_one_vector_of_another_length_turns_lists_of_vectors_into_lists_of_directions():
    vectors = unit_vectors(600)
    before = group(vectors[:500], metric="l2")
    vectors[599] *= 2
    assert before.origin is None
    assert group(vectors, before, "l2").origin is not None
    assert group(vectors, before) is None


# ---- in an archive ---------------------------------------------------------------------------------------------------


class Listed(EmbeddedIndex):
    """Has lists from the first vector on, and goes on when they are written."""

    def __init__(self, catalog, folder) -> None:
        super().__init__(catalog, folder, tail_rows=0, lists_rows=1, direct_rows=0)

    def upsert(self, space, points):
        super().upsert(space, points)
        self.close()


@pytest.fixture
def shelf(tmp_path):
    with Catalog.open(tmp_path / "catalog.db", create=True) as catalog, Listed(catalog, tmp_path / "index") as index:
        made = Shelf(catalog, index)
        space, ids = make_space(metric="l2"), made.register(60)
        made.put(space, {id_: unit_vectors(4, id_) * np.float32(id_) for id_ in ids})
        yield made, space


def check_everything(made, space):
    query = 5 * unit_vectors(1, 7)[0]
    check(made, space, query, top(7, distinct=False))
    check(made, space, query, top(1000))
    check(made, space, query, top(5, build_where(env_id=["env-1", "env-3"])))


def test_a_query_whose_square_is_beyond_float32_is_answered(shelf):
    made, space = shelf
    query = np.full(space.dim, 1e20, np.float32)
    assert len(made.index.search(space, query, Request(5, EVERYTHING)).matches) == 5


def test_the_answer_explains_itself(shelf):
    made, space = shelf
    answer = made.index.search(space, unit_vectors(1, 3)[0], Request(5, EVERYTHING, explain=True))
    assert answer.exact
    assert answer.explained.route.startswith("lists")
    assert 0 < answer.explained.lists <= answer.explained.all_lists == 15


@pytest.mark.parametrize("name", [*lists_file._POLAR, "listed.i16", "outlines.i16", "lists.json"])
def test_damaged_lists_are_ignored_and_made_anew(shelf, tmp_path, name):
    made, space = shelf
    shutil.copytree(tmp_path / "index", tmp_path / "whole")

    def opened():
        home = home_of(tmp_path, space)
        return disk_copy.read(home, made.catalog.edition, space.fingerprint, made.catalog.clock())

    for damage in (lambda data: data[:-8], lambda data: data[:9] + bytes([data[9] ^ 64]) + data[10:]):
        shutil.rmtree(tmp_path / "index")
        shutil.copytree(tmp_path / "whole", tmp_path / "index")
        path = opened().home / "lists" / name
        data = path.read_bytes()
        path.unlink()
        path.write_bytes(damage(data))
        with Listed(made.catalog, tmp_path / "index") as index:
            again = Shelf(made.catalog, index, held=made.held)
            check_everything(again, space)
            index.upsert(space, [])
            check_everything(again, space)
        assert opened().segment.lists.lengths is not None
        assert not (opened().home / "lists" / "codes.i1").exists()  # nothing would read them
