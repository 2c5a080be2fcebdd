"""Lists that are always in vain are left alone, for a while, and no answer depends on that."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest

from bridge import Point, Request
from bridge.index.embedded import lists_file
from bridge.index.embedded.inverted_lists import Backoff, SearchCopy
from bridge.index.embedded.kmeans import cluster
from bridge.index.embedded.rerank import rank
from bridge.index.embedded.router import SearchPlan
from bridge.index.embedded.segment import Segment
from bridge.index.metric import COSINE, DOT, L2
from bridge.support.blas_threads import blas_threads, one_blas_thread
from catalog import EVERYTHING

ASKED = Request(5, EVERYTHING, distinct=False)


def rank_all(copies, query, wanted, request, *, direct_rows=0, metric=COSINE):
    return rank(copies, query, wanted, SearchPlan(request, metric, direct_rows))


def test_it_runs_out_after_failures_in_a_row_only():
    backoff, tried = Backoff(), []
    for number in range(100):
        if backoff.allows("few"):
            tried.append(number)
            backoff.record("few", failed=number % 7 != 6)
    assert len(tried) == 100
    tried = []
    for number in range(100):
        if backoff.allows("few"):
            tried.append(number)
            backoff.record("few", failed=True)
    assert tried[0] == 0
    assert len(tried) < 20


def test_it_comes_back_with_the_first_success():
    backoff = Backoff()
    for _ in range(60):
        if backoff.allows("few"):
            backoff.record("few", failed=True)
    while not backoff.allows("few"):
        pass
    backoff.record("few", failed=False)
    assert all(backoff.allows("few") for _ in range(5))


def test_one_kind_of_search_does_not_pause_another():
    backoff = Backoff()
    for _ in range(20):
        backoff.record("many", failed=True)
    assert not backoff.allows("many")
    assert backoff.allows("few")


def unit(row):
    return (row / np.linalg.norm(row)).astype(np.float32)


def make_copy(folder, rows):
    segment = Segment.from_points([Point(n, n, rows[30 * n : 30 * n + 30]) for n in range(len(rows) // 30)], 48)
    lists_file.write(folder / "lists", 7, segment.vectors, cluster(segment.vectors))
    return SearchCopy(segment, lists_file.read(folder / "lists", 7, segment.vectors.shape, segment.starts))


def found(copy, query, metric):
    ranked = rank_all((copy,), query, None, ASKED, direct_rows=0, metric=metric)
    return ranked.found[0].route, [(match.episode, match.window, match.score) for match in ranked.matches]


@pytest.mark.parametrize("metric", [COSINE, DOT, L2])
def test_vectors_without_structure_are_soon_scanned_and_answers_stay_the_same(tmp_path, metric):
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(6000, 48))
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    copy = make_copy(tmp_path, rows)
    queries = rng.normal(size=(60, 48)).astype(np.float32)
    answers = [found(copy, query / np.linalg.norm(query), metric) for query in queries]
    routes = [route for route, _ in answers]
    assert routes[0] != "scan"
    assert routes.count("scan") > 40
    budget = rank_all((copy,), queries[0], None, replace(ASKED, budget=1000), metric=metric).found[0]
    assert (budget.route, budget.exact) == ("lists", False)  # which costs little, so that it is never left alone
    assert budget.scored < len(rows)
    plain = SearchCopy(copy.segment)
    for query, (_, matches) in zip(queries, answers, strict=True):
        assert found(plain, query / np.linalg.norm(query), metric)[1] == matches


def test_lists_that_help_are_used_again_after_others_were_without_effect(tmp_path):
    rng = np.random.default_rng(4)
    rows = np.cumsum(rng.normal(size=(6000, 48)), axis=0) + 40 * rng.normal(size=48)
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    copy = make_copy(tmp_path, rows)
    for _ in range(60):
        copy.backoff.record((ASKED.distinct, ASKED.top_k.bit_length()), failed=True)
    routes = [found(copy, rows[number], COSINE)[0] for number in range(0, 6000, 100)]
    assert set(routes[:31]) == {"scan"}
    assert set(routes[31:]) == {"lists"}


def test_searches_for_few_do_not_pay_for_searches_for_many(tmp_path):
    rng = np.random.default_rng(5)
    centres = 3 * rng.normal(size=(6, 48))
    rows = centres[np.arange(200) % 6].repeat(30, axis=0) + 0.1 * rng.normal(size=(6000, 48))
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    copy = make_copy(tmp_path, rows)
    many = Request(150, EVERYTHING, distinct=True)
    for query in rows[::300]:
        rank_all((copy,), query, None, many, direct_rows=0)
    assert rank_all((copy,), rows[0], None, many, direct_rows=0).found[0].route == "scan"
    assert found(copy, rows[0], COSINE)[0] == "lists"


@pytest.mark.parametrize("metric", [COSINE, DOT, L2])
def test_where_episodes_count_once_only_their_best_rows_are_ranked(metric):
    """However many of their rows are better than the best one of the last episode that is wanted."""
    rng = np.random.default_rng(6)
    rows = rng.normal(size=48) + 0.3 * rng.normal(size=(6000, 48))
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    copy = SearchCopy(Segment.from_points([Point(n, n, rows[30 * n : 30 * n + 30]) for n in range(200)], 48))
    query = rows[77]
    ranked = rank_all((copy,), query, None, Request(190, EVERYTHING), direct_rows=0, metric=metric)
    assert len(ranked.found[0].rows) < 300
    wide = rows.astype(np.float64)
    right = (-np.linalg.norm(wide - wide[77], axis=1) if metric == L2 else wide @ wide[77]).reshape(200, 30)
    order = np.argsort(-right.max(axis=1), kind="stable")[:190]
    assert [(match.episode, match.window) for match in ranked.matches] == [(n, right[n].argmax()) for n in order]


def test_a_search_in_any_thread_has_one_thread_of_blas():
    """Whichever thread was the first to search."""
    seen = []

    def look():
        with one_blas_thread():
            seen.append({library.num_threads for library in blas_threads().lib_controllers})

    before = [library.num_threads for library in blas_threads().lib_controllers]
    look()
    for _ in range(3):
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    assert seen == [{1}] * 4
    assert [library.num_threads for library in blas_threads().lib_controllers] == before
