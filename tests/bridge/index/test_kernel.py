"""Residual codes bound every product; scans with numpy and with numba, of rows and of lists, lose no best row."""

from __future__ import annotations

import json
import weakref
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.index.base import Point, Request
from bridge.index.embedded import lists_file, numba_kernel
from bridge.index.embedded.candidates import SearchTarget
from bridge.index.embedded.checksums import Checksums
from bridge.index.embedded.filtered_scan import scan_filtered
from bridge.index.embedded.inverted_lists import SearchCopy
from bridge.index.embedded.kmeans import cluster
from bridge.index.embedded.rerank import rank
from bridge.index.embedded.residual_codes import ResidualCodes, encode
from bridge.index.embedded.router import SearchPlan
from bridge.index.embedded.segment import Segment
from bridge.index.embedded.sketches import SKETCH_ERROR, STEPS, WIDTH, bound_rounding, fit_axes, sketch
from bridge.index.metric import COSINE
from bridge.support.kernel_loader import KernelLoader
from catalog.filters.where import EVERYTHING
from wshard.errors import ChecksumError


def unit(rows):
    return (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)


# ---- codes -----------------------------------------------------------------------------------------------------------


def coded(left):
    codes, steps = encode(left.astype(np.float32))
    return ResidualCodes(codes, steps, Checksums(codes, np.array([0, len(codes)]), None, "test"))


def adversaries(rng, dim):
    """Return float64 rows [n, E]: nothing, one number, all alike, halves of steps, tiny and huge ones, and mixtures."""
    halves = (rng.integers(-127, 127, size=(4, dim)) + 0.5) / 127
    rows = np.concatenate([np.zeros((1, dim)), np.eye(dim)[:3], -np.eye(dim)[:3], np.ones((1, dim)), halves])
    spread = rng.normal(size=(4, dim)) * 10.0 ** rng.uniform(-30, 0, size=(4, dim))
    some = np.concatenate([rows, spread, rng.normal(size=(4, dim))])
    return np.concatenate([some, some * 1e-3, some * 1e-37, some * 1e-45, some * 1e30])


@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 3, 17, 64, 300]))
def test_no_product_is_farther_off_than_the_codes_say(seed, dim):
    rng = np.random.default_rng(seed)
    left = adversaries(rng, dim)
    some = coded(left)
    rows = rng.permutation(len(left))
    lost = left - some.codes * some.steps.astype(np.float64)[:, None]
    worst = unit(np.where(lost[0] < 0, -1.0, 1.0))
    for query in (worst, unit(np.sign(lost[rows[0]]) + 1e-9), unit(rng.normal(size=dim)), unit(left[1] + 1e-9)):
        exact = left[rows] @ query.astype(np.float64)
        found, off = some.multiply(rows, query)
        room = bound_rounding(dim) * (1e-30 + np.linalg.norm(left[rows], axis=1))
        assert (np.abs(found - exact) <= off + room).all()


def test_the_worst_rounding_is_what_the_codes_allow():
    """All numbers half a step off, and a query along that: nothing less than the bound would do."""
    left = (np.arange(64) % 2 * 2.0 - 1) * 0.5 / 127
    left[0] = 1.0
    some = coded(left[None])
    lost = left - some.codes[0] * some.steps[0].astype(np.float64)
    query = unit(lost)
    found, off = some.multiply(np.array([0]), query)
    apart = abs(float(found[0]) - float(left @ query))
    assert 0.95 * off[0] < apart <= off[0]


# ---- both kernels ----------------------------------------------------------------------------------------------------


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
    """Return a segment with lists, sketches and codes that were written and read again."""
    segment = Segment.from_points(points, points[0].vectors.shape[1])
    place = folder / f"lists-{len(list(folder.iterdir()))}"
    lists_file.write(place, 7, segment.vectors, segment.starts, cluster(segment.vectors))
    lists = lists_file.read(place, 7, segment.vectors.shape, segment.starts)
    assert lists is not None
    return SearchCopy(segment, lists)


def rank_all(copies, query, wanted, request, *, direct_rows=0, metric=COSINE):
    return rank(copies, query, wanted, SearchPlan(request, metric, direct_rows))


def cut(random, vectors):
    """Return the vectors as points of 1 to 30 windows."""
    points, start = [], 0
    while start < len(vectors):
        stop = min(len(vectors), start + random.randint(1, 30))
        points.append(Point(10 * len(points), len(points), vectors[start:stop]))
        start = stop
    return points


def walked_by(monkeypatch, module):
    kernel = KernelLoader("", 0)
    kernel.module = module
    for scan in ("filtered_scan", "list_scan"):
        monkeypatch.setattr(f"bridge.index.embedded.{scan}.get_kernel", lambda: kernel)


def told(answer):
    return [(match.episode, match.window, match.score) for match in answer.matches]


@pytest.mark.parametrize("direct_rows", [0, 10**9])
@pytest.mark.parametrize("data", DATA)
def test_both_kernels_give_what_brute_force_gives(data, direct_rows, folder, monkeypatch):
    """6 x 40 cases, by lists or not: filters, counts, distinct, deleted episodes, tails, equal vectors, any queries."""
    for seed in range(4):
        rng, random = np.random.default_rng([seed, len(data)]), Random(seed)
        dim = random.choice([1, 3, 16, 40, 70])
        copy = listed(folder, cut(random, DATA[data](rng, random.randint(20, 700), dim)))
        tail = SearchCopy(Segment.from_points([Point(5, 999, DATA[data](rng, 9, dim))], dim))
        copy.segment.kill(copy.segment.episodes[rng.random(len(copy.segment.episodes)) < 0.1])
        for _ in range(10):
            some = copy.segment.episodes[rng.random(len(copy.segment.episodes)) < random.choice([0.1, 0.5, 1.0])]
            wanted = None if random.random() < 0.2 else np.append(some, 5)
            near = copy.segment.vectors[:1] + rng.normal(size=(1, dim)) * random.choice([0, 0.1, 9])
            query = unit(near + 1e-6)[0]
            top_k = random.choice([1, 3, 10])
            request = Request(top_k, EVERYTHING, distinct=random.random() < 0.5)
            answers = []
            for module in (None, numba_kernel):
                walked_by(monkeypatch, module)
                found = rank_all((copy, tail), query, wanted, request, direct_rows=direct_rows)
                assert all(one.exact for one in found.found)
                answers.append(told(found))
            plain = SearchCopy(copy.segment)
            right = told(rank_all((plain, tail), query, wanted, request, direct_rows=10**9))
            assert answers == [right, right]


@pytest.fixture(scope="module")
def segments(folder):
    """Return a segment of each kind of data."""
    made = {}
    for dim, (data, make) in zip([2, 20, 40, 20, 40, 30, 20], DATA.items(), strict=True):
        made[data] = listed(folder, cut(Random(dim), make(np.random.default_rng(dim), 300, dim)))
    return made


@given(st.integers(0, 2**32 - 1), st.sampled_from(sorted(DATA)), st.booleans(), st.sampled_from([1, 2, 10, 40]))
def test_no_best_row_is_lost_by_either_kernel(segments, seed, data, distinct, top_k):
    rng, copy = np.random.default_rng(seed), segments[data]
    query = unit(copy.segment.vectors[0] + 0.3 * rng.normal(size=copy.segment.vectors.shape[1]))
    chosen = copy.segment.select(copy.segment.episodes[rng.random(len(copy.segment.episodes)) < 0.6])
    exact = copy.segment.vectors.astype(np.float64) @ query.astype(np.float64)
    rows = np.concatenate([np.arange(a, b) for a, b in zip(chosen.starts, chosen.stops, strict=True)] or [[]])
    if not len(rows):
        return
    tops = [exact[a:b].max() for a, b in zip(chosen.starts, chosen.stops, strict=True)] if distinct else exact[rows]
    kth = np.sort(tops)[-min(top_k, len(tops))]
    owners = copy.segment.find_owners(rows.astype(np.int64))
    whole = {owner: exact[rows[owners == owner].astype(int)].max() for owner in set(owners.tolist())}
    needed = {
        int(row)
        for row, owner in zip(rows, owners.tolist(), strict=True)
        if exact[int(row)] >= kth and (not distinct or exact[int(row)] == whole[owner])
    }
    target = SearchTarget(query, bound_rounding(len(query)), top_k, distinct, 10**6)
    for module in (None, numba_kernel):
        with pytest.MonkeyPatch.context() as patch:
            walked_by(patch, module)
            found = scan_filtered(copy.segment, copy.lists, target, chosen)
        assert found.kernel == ("numpy" if module is None else "numba")
        assert needed <= set(found.rows.tolist())
        assert len(set(found.rows.tolist())) == len(found.rows)
        assert not np.setdiff1d(found.rows, rows).size


def test_codes_leave_hardly_more_than_the_best(folder, monkeypatch):
    rng = np.random.default_rng(2)
    vectors = unit(rng.normal(size=(4000, 128)))
    copy = listed(folder, [Point(n, n, vectors[20 * n : 20 * n + 20]) for n in range(200)])
    target = SearchTarget(vectors[77], bound_rounding(128), 10, distinct=False, limit=10**6)
    for module in (None, numba_kernel):
        walked_by(monkeypatch, module)
        found = scan_filtered(copy.segment, copy.lists, target, copy.segment.select(None))
        assert found.rows is not None
        assert 10 <= len(found.rows) < 80


def visited(monkeypatch, copy, query, *, distinct=True, budget=None):
    """Return what both kernels find by lists among all vectors: matches and candidates of each."""
    found = []
    for module in (None, numba_kernel):
        walked_by(monkeypatch, module)
        one = rank_all((copy,), query, None, Request(10, EVERYTHING, distinct=distinct, budget=budget), direct_rows=0)
        if one.found[0].route == "lists":
            assert one.found[0].kernel == ("numpy" if module is None else "numba")
        found.append((told(one), one.found[0]))
    return found


@pytest.fixture(scope="module")
def walks(folder):
    """Return a segment of 20 tasks, 15 episodes of each, random walks of 40 windows."""
    rng = np.random.default_rng(1)
    starts = np.repeat(2 * rng.normal(size=(20, 1, 32)), 15, axis=0)
    steps = starts + 0.05 * rng.normal(size=(300, 40, 32)).cumsum(axis=1)
    return listed(folder, [Point(number, number, unit(walk)) for number, walk in enumerate(steps)])


@pytest.mark.parametrize("distinct", [False, True])
def test_both_kernels_read_hardly_more_lists_than_it_takes(walks, distinct, monkeypatch):
    rng = np.random.default_rng(4)
    for row in range(0, len(walks.segment.vectors), 997):
        query = unit(walks.segment.vectors[row] + 0.02 * rng.normal(size=32))
        (numpys, by_numpy), (numbas, by_numba) = visited(monkeypatch, walks, query, distinct=distinct)
        assert numpys == numbas
        assert (by_numpy.route, by_numba.route) == ("lists", "lists")
        assert 0 < by_numba.lists <= by_numpy.lists  # which looks at what it found after several lists
        assert 0 < by_numba.scored <= by_numpy.scored < len(walks.segment.vectors) / 2
        assert len(by_numba.rows) < 200


def test_a_budget_ends_either_kernel(walks, monkeypatch):
    query = unit(walks.segment.vectors.sum(axis=0))
    full = visited(monkeypatch, walks, query)
    assert all(one.exact for _, one in full)
    for matches, one in visited(monkeypatch, walks, query, budget=30):
        assert len(matches) == 10
        assert not one.exact
        assert 30 <= one.scored < min(one.scored for _, one in full)
    for matches, one in visited(monkeypatch, walks, query, budget=10**6):
        assert (matches, one.exact) == (full[0][0], True)


def test_either_kernel_gives_up_where_nothing_is_ruled_out(folder, monkeypatch):
    vectors = unit(np.random.default_rng(2).normal(size=(4000, 64)))
    copy = listed(folder, [Point(n, n, vectors[20 * n : 20 * n + 20]) for n in range(200)])
    (_, by_numpy), (_, by_numba) = visited(monkeypatch, copy, unit(np.ones(64)))
    assert by_numpy.route.startswith("lists, then")
    assert by_numba.route.startswith("lists, then")


@pytest.mark.parametrize("distinct", [False, True])
def test_the_compiled_kernel_never_scans_wide_vectors_without_structure(folder, monkeypatch, distinct):
    """Codes are quicker to compare than vectors, and leave hardly a row more than the best; to numpy they are not."""
    rng = np.random.default_rng(8)
    request = Request(10, EVERYTHING, distinct=distinct)
    for dim, wide in ((128, True), (64, False)):
        vectors = unit(rng.normal(size=(4000, dim)))
        copy = listed(folder, [Point(n, n, vectors[20 * n : 20 * n + 20]) for n in range(200)])
        routes = {None: [], numba_kernel: []}
        for query in unit(rng.normal(size=(20, dim))):
            wide_rows = vectors.astype(np.float64)
            scores = wide_rows @ (query / np.linalg.norm(query.astype(np.float64))) / np.linalg.norm(wide_rows, axis=1)
            right = np.sort(scores.reshape(200, 20).max(axis=1) if distinct else scores)[:-11:-1]
            for module, seen in routes.items():
                walked_by(monkeypatch, module)
                ranked = rank_all((copy,), query, None, request, direct_rows=0)
                assert [match.score for match in ranked.matches] == pytest.approx(right, abs=1e-12)
                seen.append(ranked.found[0].route)
                assert len(ranked.found[0].rows) < 100
        assert {route.rpartition(" ")[2] for route in routes[numba_kernel]} == {"direct" if wide else "scan"}
        assert {route.rpartition(" ")[2] for route in routes[None]} == {"scan"}


@pytest.mark.parametrize("distinct", [False, True])
def test_a_query_near_nothing_is_not_a_reason_to_scan_what_has_structure(walks, monkeypatch, distinct):
    """Where the lists are given up, the compiled kernel looks at all sketches before it leaves codes alone."""
    walked_by(monkeypatch, numba_kernel)
    wide, routes = walks.segment.vectors.astype(np.float64), set()
    for query in unit(np.random.default_rng(9).normal(size=(30, 32))):
        ranked = rank_all((walks,), query, None, Request(10, EVERYTHING, distinct=distinct), direct_rows=0)
        scores = wide @ (query / np.linalg.norm(query.astype(np.float64))) / np.linalg.norm(wide, axis=1)
        right = np.sort(scores.reshape(300, 40).max(axis=1) if distinct else scores)[:-11:-1]
        assert [match.score for match in ranked.matches] == pytest.approx(right, abs=1e-12)
        routes.add(ranked.found[0].route)
    assert routes <= {"lists", "lists, then direct"}


@pytest.mark.parametrize("part", ["lists", "codes"])
def test_what_the_compiled_kernel_has_read_is_checked_before_it_is_used(part, folder, monkeypatch):
    rng = np.random.default_rng(3)
    copy = listed(folder, cut(Random(3), unit(rng.normal(size=(400, 20)))))
    walked_by(monkeypatch, numba_kernel)
    sums = copy.lists.checksums if part == "lists" else copy.lists.residual_codes.checksums
    monkeypatch.setattr(sums, "_sums", sums._sums + 1)  # as if every byte had another value than when it was written
    request = Request(10, EVERYTHING, distinct=False)
    with pytest.raises(ChecksumError, match=f"{part} of the search copy: expected CRC32C"):
        rank_all((copy,), copy.segment.vectors[7], None, request, direct_rows=0)


def test_either_kernel_leaves_lists_that_a_filter_finds_nothing_in(walks, monkeypatch):
    query = walks.segment.vectors[5]
    far = np.argsort(
        [walks.segment.vectors[a:b].max(axis=0) @ query for a, b in pairwise(walks.segment.starts.tolist())]
    )[:20]
    request = Request(10, EVERYTHING)
    for module in (None, numba_kernel):
        walked_by(monkeypatch, module)
        (found,) = rank_all((walks,), query, walks.segment.episodes[far], request, direct_rows=0).found
        assert found.route == "lists, then direct"
        assert found.passing == 800
        assert 2 * 800 < found.scored < 4 * 800  # once in vain, at most two lists more, and then their own


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
    [(name, how) for name in ("rows.i32", "frames.u8", "sizes.i64") for how in ("out", "below", "short", "long")]
    + [
        (name, how)
        for name in ("radii.f32", "centroids.f32", "checksums.i64", "steps.f32")
        for how in ("short", "long")
    ]
    + [("sizes.i64", "around"), ("checksums.i64", "half")],
)
def test_lists_whose_numbers_lead_out_of_their_files_are_not_opened(name, how, folder):
    """Even if the checksum says that they were meant so."""
    vectors = unit(np.random.default_rng(6).normal(size=(300, 8)))
    segment = Segment.from_points([Point(n, n, vectors[10 * n : 10 * n + 10]) for n in range(30)], 8)
    place = folder / f"wrong-{name}-{how}"
    lists_file.write(place, 7, segment.vectors, segment.starts, cluster(segment.vectors))
    assert lists_file.read(place, 7, segment.vectors.shape, segment.starts) is not None
    kinds = lists_file._VERIFIED_ARRAYS
    numbers = np.fromfile(place / name, kinds[name])
    (numbers[: len(numbers) // 2] if how == "half" else squeezed(numbers, name)[how]).tofile(place / name)
    small = {one: np.fromfile(place / one, kind) for one, kind in kinds.items()}
    header = json.loads((place / "inverted_lists.json").read_text())
    header["checksum"] = lists_file._checksum(7, header["trained"], small)
    (place / "inverted_lists.json").write_text(json.dumps(header))
    assert lists_file.read(place, 7, segment.vectors.shape, segment.starts) is None


def test_what_a_filter_chose_is_forgotten_when_an_episode_dies():
    segment = Segment.from_points([Point(n, n, np.eye(3, dtype=np.float32)) for n in range(4)], 3)
    wanted = np.array([1, 3, 9])
    assert segment.select(wanted) is segment.select(wanted)
    assert segment.select(wanted).positions.tolist() == [1, 3]
    assert (segment.select(None).rows, segment.select(wanted).rows) == (12, 6)
    segment.kill(np.array([3]))
    assert segment.select(wanted).positions.tolist() == [1]
    assert segment.select(wanted).stops.tolist() == [6]
    assert segment.select(None).rows == 9


@pytest.mark.parametrize("size", [0, 100_000])
def test_choices_of_episodes_that_are_elsewhere_do_not_pile_up(size):
    segment = Segment.from_points([Point(1, 1, np.eye(3, dtype=np.float32))], 3)
    asked = [np.arange(5, 5 + size) for _ in range(10_000 if size == 0 else 20)]
    kept = [weakref.ref(one) for one in asked]
    while asked:
        assert segment.select(asked.pop()).rows == 0
    left = sum(one() is not None for one in kept)
    assert left <= (6250 if size == 0 else 2)


def test_outlines_leave_what_codes_say():
    rng = np.random.default_rng(5)
    vectors = unit(rng.normal(size=(50, 30)))
    axes = fit_axes(vectors)
    sketches, left = sketch(axes, vectors)
    assert sketches[:, :-1] / STEPS @ axes + left == pytest.approx(vectors, abs=1e-6)
    lengths = np.linalg.norm(left, axis=1) * STEPS
    assert (lengths <= sketches[:, -1]).all()
    assert (lengths > sketches[:, -1] - 1.01).all()  # rounded up


def test_the_compiled_kernel_knows_outlines_as_they_are():
    assert numba_kernel._WIDTH == WIDTH
    assert numba_kernel._UNIT == STEPS
    assert float(numba_kernel._SKETCH_ERROR) == pytest.approx(SKETCH_ERROR, rel=1e-6)
