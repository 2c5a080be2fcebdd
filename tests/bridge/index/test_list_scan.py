"""Scans of inverted lists lose no best row, read little where there is structure, and give up where there is none."""

from __future__ import annotations

import json
import weakref
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge import Point, Request
from bridge.index.embedded import disk_copy, lists_file
from bridge.index.embedded.candidates import SearchTarget
from bridge.index.embedded.disk_copy import CopyHeader
from bridge.index.embedded.inverted_lists import SearchCopy
from bridge.index.embedded.kmeans import cluster
from bridge.index.embedded.list_scan import ListScanLimits, scan_lists
from bridge.index.embedded.rerank import rank
from bridge.index.embedded.router import SearchPlan
from bridge.index.embedded.segment import Segment
from bridge.index.embedded.sketches import bound_rounding
from bridge.index.metric import COSINE
from catalog import EVERYTHING
from wshard.errors import ChecksumError


def unit(rows):
    return (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)


def straight(rng, count, dim):
    return unit(rng.normal(size=dim) + np.linspace(0, 2, count)[:, None] * rng.normal(size=dim))


DATA = {
    "independent": lambda rng, count, dim: unit(rng.normal(size=(count, dim))),
    "paths": lambda rng, count, dim: unit(np.cumsum(rng.normal(size=(count, dim)), axis=0) + 3 * rng.normal(size=dim)),
    "straight": straight,
    "all equal": lambda rng, count, dim: np.repeat(unit(rng.normal(size=(1, dim))), count, axis=0),
    "two by two equal": lambda rng, count, dim: np.repeat(unit(rng.normal(size=(count, dim))), 2, axis=0)[:count],
    "nearly equal": lambda rng, count, dim: unit(
        unit(rng.normal(size=(1, dim))) + 1e-7 * rng.normal(size=(count, dim))
    ),
    "one number": lambda rng, count, dim: np.eye(dim, dtype=np.float32)[rng.integers(dim, size=count)],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("lists")


def listed(folder, points):
    """Return a segment with lists that were written and read again."""
    segment = Segment.from_points(points, points[0].vectors.shape[1])
    place = folder / f"lists-{len(list(folder.iterdir()))}"
    lists_file.write(place, 7, segment.vectors, cluster(segment.vectors))
    lists = lists_file.read(place, 7, segment.vectors.shape, segment.starts)
    assert lists is not None
    return SearchCopy(segment, lists)


def written(folder, points):
    """Return a copy that was written with its lists and opened again."""
    place, dim = folder / f"copy-{len(list(folder.iterdir()))}", points[0].vectors.shape[1]
    header = CopyHeader("edition", "space", dim, len(points), sum(len(point.vectors) for point in points))
    disk_copy.write(place, header, points, cluster)
    copy = disk_copy.read(place, "edition", "space", len(points))
    return SearchCopy(copy.segment, copy.lists)


def search(copies, query, allowed, request):
    return rank(copies, query, allowed, SearchPlan(request, COSINE, direct_rows=0))


def cut(random, vectors, most=30):
    """Return the vectors as points of 1 to 30 windows."""
    points, start = [], 0
    while start < len(vectors):
        stop = min(len(vectors), start + random.randint(1, most))
        points.append(Point(10 * len(points), len(points), vectors[start:stop]))
        start = stop
    return points


def matches_of(ranking):
    return [(match.episode, match.window, match.score) for match in ranking.matches]


@pytest.mark.parametrize("data", DATA)
def test_lists_give_what_a_scan_gives(data, folder):
    """7 x 60 cases: filters, counts, distinct, deleted episodes, tails, equal vectors, any queries, lists in order."""
    for seed in range(6):
        rng, random = np.random.default_rng([seed, len(data)]), Random(seed)
        dim, are_single = random.choice([1, 3, 16, 40, 70]), seed > 3
        points = cut(random, DATA[data](rng, random.randint(20, 700), dim), 1 if are_single else 30)
        copy = (written if are_single else listed)(folder, points)
        assert copy.lists.are_slices >= are_single
        tail = SearchCopy(Segment.from_points([Point(5, 999, DATA[data](rng, 9, dim))], dim))
        copy.segment.kill(copy.segment.episodes[rng.random(len(copy.segment.episodes)) < 0.1])
        for _ in range(10):
            some = copy.segment.episodes[rng.random(len(copy.segment.episodes)) < random.choice([0.1, 0.5, 1.0])]
            allowed = None if random.random() < 0.2 else np.append(some, 5)
            near = copy.segment.vectors[:1] + rng.normal(size=(1, dim)) * random.choice([0, 0.1, 9])
            query = unit(near + 1e-6)[0]
            request = Request(random.choice([1, 3, 10]), EVERYTHING, distinct=random.random() < 0.5)
            found = search((copy, tail), query, allowed, request)
            assert all(candidates.exact for candidates in found.found)
            assert matches_of(found) == matches_of(search((SearchCopy(copy.segment), tail), query, allowed, request))


@pytest.fixture(scope="module")
def copies(folder):
    """Return a copy of each kind of data."""
    made = {}
    for dim, (data, make) in zip([2, 20, 40, 20, 40, 30, 20], DATA.items(), strict=True):
        made[data] = listed(folder, cut(Random(dim), make(np.random.default_rng(dim), 300, dim)))
    return made


@given(st.integers(0, 2**32 - 1), st.sampled_from(sorted(DATA)), st.booleans(), st.sampled_from([1, 2, 10, 40]))
def test_a_proven_scan_of_lists_has_every_best_row(copies, seed, data, distinct, top_k):
    rng, copy = np.random.default_rng(seed), copies[data]
    query = unit(copy.segment.vectors[0] + 0.3 * rng.normal(size=copy.segment.vectors.shape[1]))
    allowed = rng.random(len(copy.segment.episodes)) < 0.6
    owners = copy.segment.find_owners(np.arange(len(copy.segment.vectors)))
    rows = np.flatnonzero(allowed[owners])
    exact = copy.segment.vectors.astype(np.float64) @ query.astype(np.float64)
    best = {owner: exact[rows[owners[rows] == owner]].max() for owner in set(owners[rows].tolist())}
    tops = list(best.values()) if distinct else exact[rows].tolist()
    kth = sorted(tops)[-min(top_k, len(tops))] if tops else np.inf
    needed = {row for row in rows.tolist() if exact[row] >= kth and (not distinct or exact[row] == best[owners[row]])}
    target = SearchTarget(query, bound_rounding(len(query)), top_k, distinct, 10**6)
    found = scan_lists(copy.segment, copy.lists, target, ListScanLimits(allowed, 10**6))
    assert found.proven
    assert needed <= set(found.rows.tolist()) <= set(rows.tolist())
    assert len(set(found.rows.tolist())) == len(found.rows)


@pytest.fixture(scope="module")
def walks(folder):
    """Return a segment of 20 tasks, 15 episodes of each, random walks of 40 windows."""
    rng = np.random.default_rng(1)
    starts = np.repeat(2 * rng.normal(size=(20, 1, 32)), 15, axis=0)
    steps = starts + 0.05 * rng.normal(size=(300, 40, 32)).cumsum(axis=1)
    return listed(folder, [Point(number, number, unit(walk)) for number, walk in enumerate(steps)])


@pytest.mark.parametrize("distinct", [False, True])
def test_few_lists_are_read_where_vectors_have_structure(walks, distinct):
    rng = np.random.default_rng(4)
    for row in range(0, len(walks.segment.vectors), 997):
        query = unit(walks.segment.vectors[row] + 0.02 * rng.normal(size=32))
        (found,) = search((walks,), query, None, Request(10, EVERYTHING, distinct=distinct)).found
        assert found.route == "lists"
        assert 0 < found.scored < len(walks.segment.vectors) / 2
        assert len(found.rows) < 200


def test_a_budget_ends_the_scan_of_lists(walks):
    query = unit(walks.segment.vectors.sum(axis=0))
    full, short, ample = (
        search((walks,), query, None, Request(10, EVERYTHING, budget=budget)) for budget in (None, 30, 10**6)
    )
    assert len(short.matches) == 10
    assert not short.found[0].exact
    assert 30 <= short.found[0].scored < full.found[0].scored
    assert matches_of(ample) == matches_of(full)
    assert ample.found[0].exact


@pytest.mark.parametrize("distinct", [False, True])
@pytest.mark.parametrize("dim", [64, 128])
def test_lists_are_given_up_where_nothing_is_ruled_out(folder, dim, distinct):
    rng = np.random.default_rng(8)
    vectors = unit(rng.normal(size=(4000, dim)))
    copy = listed(folder, [Point(n, n, vectors[20 * n : 20 * n + 20]) for n in range(200)])
    wide, routes = vectors.astype(np.float64), []
    for query in unit(rng.normal(size=(20, dim))):
        scores = wide @ (query / np.linalg.norm(query.astype(np.float64))) / np.linalg.norm(wide, axis=1)
        right = np.sort(scores.reshape(200, 20).max(axis=1) if distinct else scores)[:-11:-1]
        ranked = search((copy,), query, None, Request(10, EVERYTHING, distinct=distinct))
        assert [match.score for match in ranked.matches] == pytest.approx(right, abs=1e-12)
        routes.append(ranked.found[0].route)
        assert len(ranked.found[0].rows) < 100
    assert routes[0] == "lists, then scan"
    assert {*routes} == {"lists, then scan", "scan"}


def test_lists_are_given_up_where_a_filter_leaves_nothing_near(walks):
    query = walks.segment.vectors[5]
    far = np.argsort(
        [walks.segment.vectors[a:b].max(axis=0) @ query for a, b in pairwise(walks.segment.starts.tolist())]
    )[:20]
    (found,) = search((walks,), query, walks.segment.episodes[far], Request(10, EVERYTHING)).found
    assert found.route == "lists, then scan"
    assert found.allowed == 800
    assert 2 * 800 < found.scored < 8 * 800  # once in vain, some lists more, and then their own


@pytest.mark.parametrize("part", ["lists", "vectors"])
def test_what_the_scan_has_read_is_checked_before_it_is_used(part, folder, monkeypatch):
    copy = listed(folder, cut(Random(3), unit(np.random.default_rng(3).normal(size=(400, 20)))))
    vectors = copy.segment.vectors
    sums = {"lists": copy.lists.checksums, "vectors": copy.segment.checksums}[part]
    parts = len(sums._starts) - 1
    monkeypatch.setattr(
        sums, "_sums", np.full(parts, -1)
    )  # as if every byte had another value than when it was written
    monkeypatch.setattr(sums, "_unread", np.ones(parts, np.bool_))
    monkeypatch.setattr(sums, "_has_unread", True)
    with pytest.raises(ChecksumError, match=f"{part} of the search copy: expected CRC32C"):
        search((copy,), vectors[7], None, Request(10, EVERYTHING, distinct=False))


def squeezed(numbers, name):
    """Return numbers that lead out of their file in several ways, too few of them, and too many."""
    wrong = numbers.copy()
    wrong[len(wrong) // 2] = np.array(100_000).astype(wrong.dtype)
    below = numbers.copy()
    below[len(below) // 2] = np.array(-1).astype(below.dtype)
    around = numbers.copy()
    around[:4] += np.array(2**62 if name == "sizes.i64" else 0).astype(around.dtype)  # whose sum is the same in 64 bits
    return {"out": wrong, "below": below, "around": around, "short": numbers[:-3], "long": np.tile(numbers, 3)}


@pytest.mark.parametrize(
    ("name", "how"),
    [(name, how) for name in ("rows.i32", "sizes.i64") for how in ("out", "below", "short", "long")]
    + [(name, how) for name in ("radii.f32", "centroids.f32") for how in ("short", "long")]
    + [("sizes.i64", "around")],
)
def test_lists_whose_numbers_lead_out_of_their_files_are_not_opened(name, how, folder):
    """Even if the checksum says that they were meant so."""
    vectors = unit(np.random.default_rng(6).normal(size=(300, 8)))
    segment = Segment.from_points([Point(n, n, vectors[10 * n : 10 * n + 10]) for n in range(30)], 8)
    place = folder / f"wrong-{name}-{how}"
    lists_file.write(place, 7, segment.vectors, cluster(segment.vectors))
    assert lists_file.read(place, 7, segment.vectors.shape, segment.starts) is not None
    kinds = lists_file._VERIFIED_ARRAYS
    squeezed(np.fromfile(place / name, kinds[name]), name)[how].tofile(place / name)
    small = {one: np.fromfile(place / one, kind) for one, kind in kinds.items()}
    header = json.loads((place / "inverted_lists.json").read_text())
    header["checksum"] = lists_file._checksum(7, header["trained"], small)
    (place / "inverted_lists.json").write_text(json.dumps(header))
    assert lists_file.read(place, 7, segment.vectors.shape, segment.starts) is None


def test_a_selection_is_made_again_when_an_episode_is_deleted():
    segment = Segment.from_points([Point(n, n, np.eye(3, dtype=np.float32)) for n in range(4)], 3)
    allowed = np.array([1, 3, 9])
    assert segment.select(allowed) is segment.select(allowed)
    assert segment.select(allowed).positions.tolist() == [1, 3]
    assert (segment.select(None).rows, segment.select(allowed).rows) == (12, 6)
    segment.kill(np.array([3]))
    assert segment.select(allowed).positions.tolist() == [1]
    assert segment.select(allowed).stops.tolist() == [6]
    assert segment.select(None).rows == 9


@pytest.mark.parametrize("size", [pytest.param(0, marks=pytest.mark.long), 100_000])
def test_cached_selections_do_not_pile_up(size):
    segment = Segment.from_points([Point(1, 1, np.eye(3, dtype=np.float32))], 3)
    requested = [np.arange(5, 5 + size) for _ in range(10_000 if size == 0 else 20)]
    references = [weakref.ref(ids) for ids in requested]
    while requested:
        assert segment.select(requested.pop()).rows == 0
    left = sum(reference() is not None for reference in references)
    assert left <= (6250 if size == 0 else 2)
