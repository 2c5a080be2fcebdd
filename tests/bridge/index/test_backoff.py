"""Lists that are always in vain are left alone, for a while, and no answer depends on that."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from bridge.index.base import Point, Request
from bridge.index.embedded import lists_file
from bridge.index.embedded.kmeans import group
from bridge.index.embedded.rerank import best
from bridge.index.embedded.router import Patience
from bridge.index.embedded.segment import Segment
from bridge.index.metric import COSINE, DOT, L2
from bridge.support.blas_threads import blas_threads, one_blas_thread
from catalog.filters.where import EVERYTHING

ASKED = Request(5, EVERYTHING, distinct=False)


def test_it_runs_out_after_failures_in_a_row_only():
    patience, tried = Patience(), []
    for number in range(100):
        if patience.left("few"):
            tried.append(number)
            patience.learn("few", failed=number % 7 != 6)
    assert len(tried) == 100
    tried = []
    for number in range(100):
        if patience.left("few"):
            tried.append(number)
            patience.learn("few", failed=True)
    assert tried[0] == 0
    assert len(tried) < 20


def test_it_comes_back_with_the_first_success():
    patience = Patience()
    for _ in range(60):
        if patience.left("few"):
            patience.learn("few", failed=True)
    while not patience.left("few"):
        pass
    patience.learn("few", failed=False)
    assert all(patience.left("few") for _ in range(5))


def test_one_kind_of_search_does_not_pause_another():
    patience = Patience()
    for _ in range(20):
        patience.learn("many", failed=True)
    assert not patience.left("many")
    assert patience.left("few")


def unit(row):
    return (row / np.linalg.norm(row)).astype(np.float32)


def segment_of(tmp_path, rows, metric):
    segment = Segment.of([Point(n, n, rows[30 * n : 30 * n + 30]) for n in range(len(rows) // 30)], rows.shape[1])
    lists_file.write(tmp_path / "lists", 7, segment.vectors, segment.starts, group(segment.vectors, metric=metric))
    segment.lists = lists_file.read(tmp_path / "lists", 7, segment.vectors.shape, segment.starts)
    return segment


def found(segment, query, metric):
    ranked = best((segment,), query, None, ASKED, direct_rows=0, metric=metric)
    return ranked.found[0].route, [(match.episode, match.window, match.score) for match in ranked.matches]


@pytest.mark.parametrize("metric", [COSINE, DOT, L2])
def test_directions_without_structure_are_soon_scanned_and_answers_stay_the_same(tmp_path, metric):
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(6000, 48)).astype(np.float32)
    if metric == COSINE:
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    segment = segment_of(tmp_path, rows, metric)
    queries = rng.normal(size=(60, 48)).astype(np.float32)
    answers = [found(segment, query / np.linalg.norm(query), metric) for query in queries]
    routes = [route for route, _ in answers]
    assert routes[0] != "scan"
    assert routes.count("scan") > 40
    segment.lists = None
    for query, (_, matches) in zip(queries, answers, strict=True):
        assert found(segment, query / np.linalg.norm(query), metric)[1] == matches


def test_lists_that_help_are_used_again_after_others_were_in_vain(tmp_path):
    rng = np.random.default_rng(4)
    rows = np.cumsum(rng.normal(size=(6000, 48)), axis=0) + 40 * rng.normal(size=48)
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    segment = segment_of(tmp_path, rows, COSINE)
    for _ in range(60):
        segment.patience.learn((ASKED.distinct, ASKED.top_k.bit_length()), failed=True)
    routes = [found(segment, rows[number], COSINE)[0] for number in range(0, 6000, 100)]
    assert set(routes[:31]) == {"scan"}
    assert set(routes[31:]) == {"lists"}


def test_searches_for_few_do_not_pay_for_searches_for_many(tmp_path):
    rng = np.random.default_rng(5)
    centres = 3 * rng.normal(size=(6, 48))
    rows = centres[np.arange(200) % 6].repeat(30, axis=0) + 0.1 * rng.normal(size=(6000, 48))
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    segment = segment_of(tmp_path, rows, COSINE)
    many = Request(150, EVERYTHING, distinct=True)
    for query in rows[::300]:
        best((segment,), query, None, many, direct_rows=0)
    assert best((segment,), rows[0], None, many, direct_rows=0).found[0].route == "scan"
    assert found(segment, rows[0], COSINE)[0] == "lists"


@pytest.mark.parametrize("metric", [COSINE, DOT, L2])
def test_where_episodes_count_once_only_their_best_rows_are_ranked(metric):
    """However many of their rows are better than the best one of the last episode that is wanted."""
    rng = np.random.default_rng(6)
    rows = rng.normal(size=48) + 0.3 * rng.normal(size=(6000, 48))
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    segment = Segment.of([Point(n, n, rows[30 * n : 30 * n + 30]) for n in range(200)], 48)
    query = rows[77]
    ranked = best((segment,), query, None, Request(190, EVERYTHING), direct_rows=0, metric=metric)
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
