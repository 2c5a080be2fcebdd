"""Certified lists: equal to brute force on any data, proven or given up, damaged, killed, written beside searches."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from index_folders import home_of

from bridge import Point, Request
from bridge.index.embedded import copy_folders, disk_copy, lists_file
from bridge.index.embedded.checksums import Checksums
from bridge.index.embedded.index import EmbeddedIndex
from bridge.index.embedded.inverted_lists import SearchCopy
from bridge.index.embedded.kmeans import Clustering, cluster
from bridge.index.embedded.rerank import rank
from bridge.index.embedded.router import SearchPlan
from bridge.index.embedded.segment import Segment
from bridge.index.metric import COSINE
from bridge.testing.brute_force import Shelf, make_space, unit_vectors
from bridge.testing.index_contract import IndexContract, check, top
from catalog import EVERYTHING, build_where
from wshard import Catalog
from wshard.core.container.layout import checksum
from wshard.errors import ChecksumError, VectorIndexError


class Listed(EmbeddedIndex):
    """Has lists from the first vector on, uses them for every filter, and goes on when they are written."""

    def __init__(self, catalog, folder, tail_rows=0) -> None:
        super().__init__(catalog, folder, tail_rows=tail_rows, lists_rows=1, direct_rows=0)

    def upsert(self, space, points):
        super().upsert(space, points)
        self.close()


class TestListedIndex(IndexContract):
    def open_index(self, catalog, folder):
        return Listed(catalog, folder)


class TestListedIndexByDistanceWithTail(IndexContract):
    metric = "l2"
    filters = 30

    def open_index(self, catalog, folder):
        return Listed(catalog, folder, tail_rows=20)


# ---- any data, without a catalog -------------------------------------------------------------------------------------


def rank_all(copies, query, wanted, request, *, direct_rows=0, metric=COSINE):
    return rank(copies, query, wanted, SearchPlan(request, metric, direct_rows))


def unit(rows):
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def clustered(rng, count, dim):
    centres = rng.normal(size=(5, dim))
    return unit(centres[rng.integers(5, size=count)] + 0.1 * rng.normal(size=(count, dim)))


def paths(rng, count, dim):
    return unit(rng.normal(size=dim) * 3 + np.cumsum(rng.normal(size=(count, dim)), axis=0) * 0.3)


DATA = {
    "independent": lambda rng, count, dim: unit(rng.normal(size=(count, dim))),
    "clustered": clustered,
    "paths": paths,
    "all equal": lambda rng, count, dim: np.repeat(unit(rng.normal(size=(1, dim))), count, axis=0),
    "antipodal": lambda rng, count, dim: unit(
        rng.normal(size=(1, dim)) * rng.choice([-1, 1], size=(count, 1)) + 1e-3 * rng.normal(size=(count, dim))
    ),
    "two by two equal": lambda rng, count, dim: np.repeat(unit(rng.normal(size=(count, dim))), 2, axis=0)[:count],
}


def one_list(vectors):
    centre = unit(vectors[:1].astype(float))
    return Clustering(centre, np.zeros(len(vectors), np.int32), (vectors @ centre.T).min(axis=0), len(vectors))


def with_empty_lists(vectors):
    found = cluster(vectors)
    strangers = np.concatenate([found.centroids, -found.centroids, found.centroids])
    return replace(found, centroids=strangers, radii=np.tile(found.radii, 3))


GROUPINGS = {"trained": cluster, "one list": one_list, "empty lists": with_empty_lists}


def listed(folder, points, make=cluster):
    """Return a segment with the lists that were written and read again."""
    segment = Segment.from_points(points, points[0].vectors.shape[1])
    place = folder / f"lists-{len(list(folder.iterdir()))}"
    lists_file.write(place, 7, segment.vectors, make(segment.vectors))
    lists = lists_file.read(place, 7, segment.vectors.shape, segment.starts)
    assert lists is not None
    return SearchCopy(segment, lists)


def cut(rng, vectors, first=0):
    """Return the vectors as points of 1 to 9 windows."""
    bounds = np.unique([0, len(vectors), *np.cumsum(rng.integers(1, 10, size=len(vectors)))]).clip(max=len(vectors))
    ranges = zip(np.unique(bounds)[:-1], np.unique(bounds)[1:], strict=True)
    return [Point(first + 10 * number, number, vectors[a:b]) for number, (a, b) in enumerate(ranges)]


def assert_right(answer, points, query, request):
    """Compare with all scores in float64: as many matches as exist, none better left out, every score true."""
    scores = {
        (point.episode, window): float(score)
        for point in points
        for window, score in enumerate(point.vectors.astype(float) @ query.astype(float))
    }
    if request.distinct:
        tops = {episode: -2.0 for episode, _ in scores}
        for (episode, _), score in scores.items():
            tops[episode] = max(tops[episode], score)
        ranked = sorted(tops.values(), reverse=True)
        assert len({match.episode for match in answer}) == len(answer)
    else:
        ranked = sorted(scores.values(), reverse=True)
        assert len({(match.episode, match.window) for match in answer}) == len(answer)
    assert len(answer) == min(request.top_k, len(ranked))
    for match, right in zip(answer, ranked, strict=False):
        assert match.score == pytest.approx(scores[match.episode, match.window], abs=1e-6)
        assert match.score == pytest.approx(right, abs=1e-6)


@pytest.mark.parametrize("clustering", GROUPINGS)
@pytest.mark.parametrize("data", DATA)
def test_lists_give_what_brute_force_gives(data, clustering, tmp_path):
    """18 x 16 = 288 cases: filters, counts, distinct, deleted episodes, tails, queries near and far."""
    for seed in range(2):
        rng = np.random.default_rng([seed, len(data), len(clustering)])
        count, dim = int(rng.integers(1, 900)), int(rng.choice([1, 2, 3, 8, 40]))
        base = cut(rng, DATA[data](rng, count, dim))
        tail = cut(rng, DATA[data](rng, int(rng.integers(1, 30)), dim), first=5)
        copy, younger = listed(tmp_path, base, GROUPINGS[clustering]), SearchCopy(Segment.from_points(tail, dim))
        dead = {point.episode for point in base if rng.random() < 0.2}
        copy.segment.kill(np.array(sorted(dead), np.int64))
        living = [point for point in (*base, *tail) if point.episode not in dead]
        for _ in range(8):
            near = base[int(rng.integers(len(base)))].vectors[:1] + rng.normal(size=(1, dim)) * rng.choice([0, 0.1, 9])
            share = rng.choice([0.0, 0.05, 0.5, 1.0, 2.0])
            wanted = {point.episode for point in living if rng.random() < share}
            request = Request(int(rng.choice([1, 3, 10, 1000])), EVERYTHING, distinct=bool(rng.integers(2)))
            query = unit(near)[0]
            chosen = None if share > 1 else np.array(sorted(wanted), np.int64)
            found = rank_all((copy, younger), query, chosen, request, direct_rows=0)
            assert all(one.exact for one in found.found)
            right = [point for point in living if share > 1 or point.episode in wanted]
            assert_right(found.matches, right, query, request)


def true_score(metric, vectors, query):
    vectors, query = vectors.astype(float), query.astype(float)
    return -np.linalg.norm(vectors - query, axis=1) if metric == "l2" else vectors @ query


@pytest.mark.parametrize("data", ["independent", "clustered", "paths", "two by two equal"])
@pytest.mark.parametrize("metric", ["l2", "dot"])
def test_lists_of_unit_vectors_serve_other_metrics(metric, data, tmp_path):
    """Vectors as far from unit length as lists take them, queries of any length, also short ones and none."""
    for seed in range(4):
        rng = np.random.default_rng([seed, len(data)])
        vectors = DATA[data](rng, 500, 8) * (1 + 9e-6 * rng.choice([-1, 1], size=(500, 1)))
        points = cut(rng, vectors.astype(np.float32))
        copy = listed(tmp_path, points)
        stored = np.concatenate([point.vectors for point in points])
        for length in (0.0, 1e-4, 2e-3, 0.05, 1.0, 30.0):
            query = (unit(stored[:1] + 0.1 * rng.normal(size=(1, 8)))[0] * length).astype(np.float32)
            request = Request(10, EVERYTHING, distinct=False)
            found = rank_all((copy,), query, None, request, direct_rows=0, metric=metric)
            assert found.found[0].exact
            right = np.sort(true_score(metric, stored, query))[::-1][:10]
            assert [match.score for match in found.matches] == pytest.approx(right.tolist(), abs=1e-12)


def test_distances_are_found_by_lists_where_there_is_structure(tmp_path):
    vectors = clustered(np.random.default_rng(5), 20_000, 16)
    points = [Point(number, number, vectors[100 * number : 100 * number + 100]) for number in range(200)]
    copy = listed(tmp_path, points)
    for metric in ("l2", "dot", "cosine"):
        found = rank_all((copy,), 3 * vectors[777], None, Request(10, EVERYTHING), direct_rows=0, metric=metric)
        assert found.found[0].route == "lists"
        assert found.found[0].scored < 0.3 * len(vectors)


def test_most_is_not_read_where_there_is_structure(tmp_path):
    rng = np.random.default_rng(0)
    tasks = [np.cumsum(rng.normal(size=(100, 32)), axis=0) for _ in range(20)]
    vectors = np.concatenate([unit(tasks[i % 20] + rng.normal(size=(100, 32)) * 0.5) for i in range(200)])
    points = [Point(number, number, vectors[100 * number : 100 * number + 100]) for number in range(200)]
    copy = listed(tmp_path, points)
    for distinct in (False, True):
        request = Request(10, EVERYTHING, distinct=distinct)
        found = rank_all((copy,), vectors[777], None, request, direct_rows=0)
        assert found.found[0].route == "lists"
        assert found.found[0].scored < 0.3 * len(vectors)
        assert_right(found.matches, points, vectors[777], request)


def test_data_without_structure_are_scanned_after_a_short_look(tmp_path):
    vectors = unit(np.random.default_rng(1).normal(size=(40_000, 64)))
    points = [Point(number, number, vectors[100 * number : 100 * number + 100]) for number in range(400)]
    copy = listed(tmp_path, points)
    found = rank_all((copy,), unit(-vectors[:1] + 0.5)[0], None, Request(10, EVERYTHING), direct_rows=0)
    assert found.found[0].route == "lists, then scan"
    assert found.found[0].scored < 2.1 * len(vectors)  # all sketches too, at most


def test_a_filter_that_nothing_near_passes_ends_in_a_scan(tmp_path):
    rng = np.random.default_rng(2)
    vectors = np.concatenate([clustered(rng, 20_000, 16), -np.abs(unit(rng.normal(size=(1000, 16))))])
    points = [Point(number, number, vectors[100 * number : 100 * number + 100]) for number in range(210)]
    copy, query = listed(tmp_path, points), np.abs(unit(rng.normal(size=(1, 16))))[0]
    request = Request(10, EVERYTHING)
    found = rank_all((copy,), query, np.arange(195, 210), request, direct_rows=0)
    assert found.found[0].route == "lists, then scan"
    assert found.found[0].scored < 8 * 1500
    assert_right(found.matches, points[195:], query, request)


def test_a_budget_ends_a_search_and_says_so(tmp_path):
    vectors = unit(np.random.default_rng(3).normal(size=(20_000, 32)))
    points = [Point(number, number, vectors[100 * number : 100 * number + 100]) for number in range(200)]
    copy, query = listed(tmp_path, points), unit(-vectors[:1] + 0.3)[0]
    short = rank_all((copy,), query, None, Request(10, EVERYTHING, budget=150), direct_rows=0)
    assert [one.exact for one in short.found] == [False]
    assert short.found[0].scored < 2500
    assert len(short.matches) == 10
    # Of a filter that nothing near passes there are k hits all the same.
    rare = rank_all((copy,), query, np.arange(3), Request(10, EVERYTHING, distinct=False, budget=1), direct_rows=0)
    assert len(rare.matches) == 10
    full = rank_all((copy,), query, None, Request(10, EVERYTHING, budget=20_000), direct_rows=0)
    assert full.found[0].exact


@pytest.mark.parametrize("wrong", [1.001, 0.5, 0.0, np.nan, np.inf])
def test_vectors_that_are_not_of_unit_length_get_no_lists(wrong):
    vectors = clustered(np.random.default_rng(0), 500, 8)
    assert cluster(vectors) is not None
    vectors[123] *= np.float32(wrong)
    with np.errstate(invalid="ignore"):
        assert cluster(vectors) is None


# ---- in an archive ---------------------------------------------------------------------------------------------------


@pytest.fixture
def shelf(tmp_path):
    with Catalog.open(tmp_path / "catalog.db", create=True) as catalog, Listed(catalog, tmp_path / "index") as index:
        made = Shelf(catalog, index)
        ids = made.register(60)
        made.put(make_space(), {id_: unit_vectors(4, id_) for id_ in ids})
        yield made


def check_everything(shelf, seeds=range(2)):
    space = make_space()
    for seed in seeds:
        query = unit_vectors(1, seed)[0]
        check(shelf, space, query, top(7, distinct=False))
        check(shelf, space, query, top(1000))
        check(shelf, space, query, top(5, build_where(env_id=["env-1", "env-3"])))


def opened(shelf, folder):
    home = home_of(folder, make_space())
    return disk_copy.read(home, shelf.catalog.edition, make_space().fingerprint, shelf.catalog.clock())


def reopened(shelf, folder):
    """Return the same archive with an index that has lists, and writes no copy unless one is broken."""
    index = EmbeddedIndex(shelf.catalog, folder / "index", tail_rows=10_000, lists_rows=1, direct_rows=0)
    return Shelf(shelf.catalog, index, stored=shelf.stored)


def test_the_answer_explains_itself(shelf):
    query = unit_vectors(1, 3)[0]
    answer = shelf.index.search(make_space(), query, Request(5, EVERYTHING, explain=True))
    message = answer.explained
    assert message.route.startswith("lists")
    assert (message.allowed, message.tail, message.all_lists) == (240, 0, 15)
    assert 0 < message.lists <= message.all_lists
    assert message.scored == answer.scored
    assert list(message.milliseconds) == ["refresh", "filter", "find", "rank"]
    assert all(spent >= 0 for spent in message.milliseconds.values())
    assert shelf.index.search(make_space(), query, Request(5, EVERYTHING)).explained is None


def test_vectors_of_episodes_with_one_each_lie_list_after_list_also_when_others_join_them(shelf, tmp_path):
    space, ids = make_space(), shelf.register(160)
    assert not opened(shelf, tmp_path).lists.are_slices
    shelf.put(space, {id_: unit_vectors(1, id_) for id_ in ids[:100]})
    for step in (lambda: shelf.bury(ids[:3], space), lambda: shelf.put(space, {ids[9]: unit_vectors(1, 9)})):
        step()
        check_everything(shelf)
    shelf.put(space, {id_: unit_vectors(1, id_) for id_ in ids[100:]})
    assert opened(shelf, tmp_path).lists.are_slices
    check_everything(shelf)


def test_new_vectors_join_the_lists_and_centroids_are_chosen_again_when_the_archive_has_doubled(shelf, tmp_path):
    space, before = make_space(), opened(shelf, tmp_path).lists
    ids = shelf.register(160)
    shelf.bury(ids[:3], space)
    shelf.put(space, {id_: unit_vectors(4, id_) for id_ in ids[60:100]})
    grown = opened(shelf, tmp_path).lists
    assert (before.trained, grown.trained, len(grown.rows)) == (240, 240, 388)
    assert np.array_equal(grown.centroids, before.centroids)
    check_everything(shelf)
    shelf.put(space, {id_: unit_vectors(4, id_) for id_ in ids[100:]})
    doubled = opened(shelf, tmp_path).lists
    assert doubled.trained == len(doubled.rows) == 628
    check_everything(shelf)


def test_a_tail_that_a_killed_process_left_is_written_when_the_index_is_notified_of_nothing_new(shelf, tmp_path):
    ids = shelf.register(80)
    killed = EmbeddedIndex(shelf.catalog, tmp_path / "index")  # never writes so few, as if it had not come to it
    Shelf(shelf.catalog, killed, stored=shelf.stored).put(make_space(), {id_: unit_vectors(4, id_) for id_ in ids[60:]})
    assert opened(shelf, tmp_path).header.vectors == 240
    with Listed(shelf.catalog, tmp_path / "index") as index:
        index.upsert(make_space(), [])
    assert opened(shelf, tmp_path).header.vectors == 320


@pytest.mark.parametrize("end", ["closed", "killed"])
def test_copies_of_an_ingest_get_their_lists_when_it_has_ended(tmp_path, end):
    space, rules = make_space(), {"tail_rows": 0, "lists_rows": 100, "direct_rows": 0}
    with Catalog.open(tmp_path / "catalog.db", create=True) as catalog:
        index = EmbeddedIndex(catalog, tmp_path / "index", **rules)
        shelf = Shelf(catalog, index)
        ids = shelf.register(60)
        shelf.put(space, {id_: unit_vectors(4, id_) for id_ in ids[:30]})
        assert opened(shelf, tmp_path) is None  # an ingest of so few writes its copy once, with lists
        shelf.put(space, {id_: unit_vectors(4, id_) for id_ in ids[30:]})
        index._job.wait()
        during = opened(shelf, tmp_path)
        assert (during.header.vectors, during.lists, during.lists_pending, during.lists_damaged) == (
            240,
            None,
            True,
            False,
        )
        check_everything(shelf)
        if end == "closed":
            index.close()
        else:
            with EmbeddedIndex(catalog, tmp_path / "index", **rules) as later:
                later.upsert(space, [])
        after = opened(shelf, tmp_path)
        assert (len(after.lists.rows), after.lists_pending) == (240, False)
        check_everything(shelf)


def test_vectors_that_get_no_lists_are_not_written_again_and_again(tmp_path):
    space, rules = make_space(metric="dot"), {"tail_rows": 0, "lists_rows": 100}
    with Catalog.open(tmp_path / "catalog.db", create=True) as catalog:
        homes = []
        with EmbeddedIndex(catalog, tmp_path / "index", **rules) as index:
            shelf = Shelf(catalog, index)
            shelf.put(space, {id_: 3 * unit_vectors(4, id_) for id_ in shelf.register(60)})
        for _ in range(2):
            with EmbeddedIndex(catalog, tmp_path / "index", **rules) as index:
                index.upsert(space, [])
            found = disk_copy.read(home_of(tmp_path, space), catalog.edition, space.fingerprint, catalog.clock())
            homes.append((found.home, found.lists, found.lists_pending))
        assert homes == [(homes[0][0], None, False)] * 2


FILES = [*lists_file._VERIFIED_ARRAYS, "sketches.f32", "inverted_lists.json"]


@pytest.mark.parametrize("name", FILES)
def test_damaged_lists_are_ignored_and_made_again(shelf, tmp_path, name):
    """Each file is damaged in two of four ways."""
    space, random = make_space(), Random(name)
    shutil.copytree(tmp_path / "index", tmp_path / "whole")
    damages = [
        lambda data: data[:-4],
        lambda data: random.randbytes(len(data)),
        lambda data: flipped(data, random.randrange(8 * len(data))),
        None,
    ]
    for damage in damages[FILES.index(name) % 2 :: 2]:
        shutil.rmtree(tmp_path / "index")
        shutil.copytree(tmp_path / "whole", tmp_path / "index")
        path = opened(shelf, tmp_path).home / "inverted_lists" / name
        data = path.read_bytes()
        path.unlink()
        if damage is not None:
            path.write_bytes(damage(data))
        again = reopened(shelf, tmp_path)
        check_everything(again, [1])
        assert again.index.count(space) == 240
        stored = again.index._spaces[space.fingerprint]
        assert stored.home is not None, "the vectors themselves are sound"
        again.index.upsert(space, [])
        again.index.close()
        if stored.lists_damaged:  # else the damage lies where no search has been yet
            opened(shelf, tmp_path).lists.checksums.check()
        check_everything(again, [1])


def flipped(data, bit):
    return data[: bit // 8] + bytes([data[bit // 8] ^ 1 << bit % 8]) + data[bit // 8 + 1 :]


def test_a_damaged_list_is_reported_at_its_first_visit(shelf, tmp_path):
    path = opened(shelf, tmp_path).home / "inverted_lists" / "sketches.f32"
    path.write_bytes(flipped(path.read_bytes(), 0))
    lists = opened(shelf, tmp_path).lists
    lists.checksums.check(np.array([3, 4]))
    with pytest.raises(ChecksumError, match=r"lists of the search copy: expected CRC32C \w{8} of part 0, found"):
        lists.checksums.check(np.array([3, 0]))


def test_a_part_that_is_requested_twice_does_not_vouch_for_another():
    vectors = unit_vectors(6)
    sums = np.array([checksum(vectors[:2].data), checksum(vectors[2:4].data), 0])
    checksums = Checksums(vectors, np.array([0, 2, 4, 6]), sums, "test")
    checksums.check(np.array([0, 0, 1]))
    with pytest.raises(ChecksumError, match="of part 2, found"):
        checksums.check()


def test_a_part_that_two_threads_compare_at_once_does_not_vouch_for_another(monkeypatch):
    vectors, both = unit_vectors(6), threading.Barrier(2)
    sums = np.array([checksum(vectors[:2].data), checksum(vectors[2:4].data), 0])
    checksums = Checksums(vectors, np.array([0, 2, 4, 6]), sums, "test")

    def side_by_side(data):
        found = checksum(data)
        both.wait(10)
        return found

    monkeypatch.setattr("bridge.index.embedded.checksums.checksum", side_by_side)
    threads = [threading.Thread(target=checksums.check, args=(np.array([0, 1]),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    monkeypatch.undo()
    with pytest.raises(ChecksumError, match="of part 2, found"):
        checksums.check()


@pytest.mark.parametrize("trained", ["-1", "1e999", "null", "[]"])
def test_a_number_that_cannot_be_reads_as_damage(shelf, tmp_path, trained):
    path = opened(shelf, tmp_path).home / "inverted_lists" / "inverted_lists.json"
    path.write_text(f'{{"trained": {trained}, "checksum": 0}}')
    found = opened(shelf, tmp_path)
    assert found.lists is None
    assert found.lists_damaged


def test_lists_of_another_generation_are_ignored(shelf, tmp_path):
    first = opened(shelf, tmp_path)
    shutil.copytree(first.home / "inverted_lists", tmp_path / "older")
    shelf.put(make_space(), {id_: unit_vectors(4, 99) for id_ in shelf.catalog.query.ids()[:5]})
    second = opened(shelf, tmp_path)
    shutil.rmtree(second.home / "inverted_lists")
    shutil.copytree(tmp_path / "older", second.home / "inverted_lists")
    assert opened(shelf, tmp_path).lists is None
    assert opened(shelf, tmp_path).lists_damaged
    check_everything(reopened(shelf, tmp_path))


def test_lists_of_an_older_layout_are_written_again_when_an_ingest_has_ended(shelf, tmp_path):
    home = opened(shelf, tmp_path).home
    header = json.loads((home / "header.json").read_text())
    del header["has_sketched_lists"]
    (home / "header.json").write_text(json.dumps(header | {"has_lists": True}))
    (home / "inverted_lists" / "radii.f32").write_bytes(b"as older software has written it")
    older = opened(shelf, tmp_path)
    assert (older.lists, older.lists_pending, older.lists_damaged) == (None, True, False)
    again = reopened(shelf, tmp_path)
    check_everything(again)
    again.index.upsert(make_space(), [])
    again.index.close()
    assert opened(shelf, tmp_path).lists is not None
    check_everything(again)


def test_searches_go_on_while_a_generation_is_written(tmp_path, monkeypatch):
    go_on, entered, write = threading.Event(), threading.Event(), disk_copy.write

    def slow(folder, header, points, recluster):
        entered.set()
        assert go_on.wait(30)
        write(folder, header, points, recluster)

    space = make_space()
    with Catalog.open(tmp_path / "catalog.db", create=True) as catalog:
        index = EmbeddedIndex(catalog, tmp_path / "index", tail_rows=0, lists_rows=1, direct_rows=0)
        shelf = Shelf(catalog, index)
        ids = shelf.register(40)
        monkeypatch.setattr(disk_copy, "write", slow)
        shelf.put(space, {id_: unit_vectors(4, id_) for id_ in ids[:20]})
        assert entered.wait(30)
        check_everything(shelf)
        shelf.put(space, {id_: unit_vectors(3, id_) for id_ in ids[20:]})
        shelf.bury(ids[:2], space)
        check_everything(shelf)
        assert opened(shelf, tmp_path) is None
        go_on.set()
        index.close()  # what came meanwhile gets its own copy
        assert opened(shelf, tmp_path).header.vectors == 132
        check_everything(shelf)


def test_a_full_disk_in_the_thread_is_reported(shelf, tmp_path, monkeypatch):
    def full(folder, header, points, recluster):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(disk_copy, "write", full)
    (first, *_), space = shelf.catalog.query.ids(), make_space()
    with pytest.raises(VectorIndexError, match="cannot write the search copy of 256 vectors"):
        shelf.put(space, {first: unit_vectors(20, 99)})
    shelf.stored[space.fingerprint][first] = unit_vectors(20, 99)
    check_everything(shelf)


WRITER = """
import sys
sys.path[:0] = sys.argv[2:]
from pathlib import Path
from bridge.testing.brute_force import Shelf, make_space, unit_vectors
from bridge.index.embedded.index import EmbeddedIndex
from catalog.catalog import Catalog
folder = Path(sys.argv[1])
with Catalog.open(folder / "catalog.db") as catalog:
    with EmbeddedIndex(catalog, folder / "index", tail_rows=0, lists_rows=1, direct_rows=0) as index:
        shelf, ids = Shelf(catalog, index), catalog.query.ids()
        for start in list(range(0, len(ids), 6)) * ROUNDS:
            shelf.put(make_space(), {id_: unit_vectors(4, id_) for id_ in ids[start : start + 6]})
            print(start, flush=True)
"""


def writer(folder, rounds):
    command = [sys.executable, "-c", WRITER.replace("ROUNDS", str(rounds)), str(folder), *sys.path]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.long
def test_a_process_that_is_killed_while_it_writes_lists_costs_nothing(shelf, tmp_path):
    random = Random(4)
    for _ in range(2):
        victim = writer(tmp_path, 1000)
        victim.stdout.readline()
        time.sleep(random.random() * 0.3)
        victim.kill()
        victim.communicate()
        check_everything(reopened(shelf, tmp_path), [1])
    check_everything(shelf)


@pytest.mark.long
def test_two_processes_that_write_lists_at_once_do_not_disturb_each_other(shelf, tmp_path):
    processes = [writer(tmp_path, 1) for _ in range(2)]
    while any(process.poll() is None for process in processes):
        check_everything(shelf, [2])
        time.sleep(0.2)  # they need a core, too
    for process in processes:
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
    check_everything(shelf)
    assert opened(shelf, tmp_path).lists is not None


def test_many_writers_leave_the_one_generation_that_is_current(tmp_path):
    points = [Point(1, 1, unit_vectors(2))]
    header = disk_copy.CopyHeader("archive", "space", 6, 1, 2)
    home, barrier = tmp_path / "space", threading.Barrier(4)

    def write():
        barrier.wait()
        for _ in range(8):
            disk_copy.write(home, header, points)

    writers = [threading.Thread(target=write) for _ in range(4)]
    for one in writers:
        one.start()
    for one in writers:
        one.join()
    assert disk_copy.read(home, "archive", "space", 1) is not None
    assert sorted(path.name for path in home.iterdir()) == sorted(["CURRENT", "LOCK", (home / "CURRENT").read_text()])
    copy_folders.drop(home)
    assert [path.name for path in home.iterdir()] == ["LOCK"]
    copy_folders.drop(tmp_path / "nothing")
