"""The scores of a search, against a slow literal reading of their definition."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from bridge.evaluation.metrics import leave_one_out, leave_one_out_by, leave_one_out_of_windows


def slow(vectors, labels, queries):
    first, average = [], []
    for number, query in enumerate(queries):
        others = [other for other in range(len(vectors)) if other != number]
        cosine = {o: vectors[o] @ query / np.linalg.norm(vectors[o]) / np.linalg.norm(query) for o in others}
        ranking = sorted(others, key=lambda other: -cosine[other])
        hits, precisions = 0, []
        for rank, other in enumerate(ranking, 1):
            if labels[other] == labels[number]:
                hits += 1
                precisions.append(hits / rank)
        if precisions:
            first.append(labels[ranking[0]] == labels[number])
            average.append(sum(precisions) / len(precisions))
    return np.mean(first), np.mean(average), len(first)


@pytest.mark.parametrize("disturbed", [False, True])
def test_scores_equal_the_definition(disturbed):
    rng = np.random.default_rng(7)
    labels = [str(number % 4) for number in range(41)] + ["alone"]
    vectors = rng.normal(size=(42, 6)) + np.array([[hash_ % 4 == axis for axis in range(6)] for hash_ in range(42)])
    queries = vectors + rng.normal(size=vectors.shape) if disturbed else None
    scores = leave_one_out(vectors, labels, queries=queries)
    expected = slow(vectors, labels, vectors if queries is None else queries)
    assert (scores.precision_at_1, scores.mean_average_precision, scores.queries) == pytest.approx(expected)
    assert scores.queries == 41


@pytest.mark.parametrize("metric", ["dot", "l2"])
def test_spaces_are_ranked_by_their_own_metric(metric):
    rng = np.random.default_rng(3)
    vectors, labels = 5 + rng.normal(size=(30, 4)) * rng.uniform(0.1, 3, (30, 1)), [str(n % 3) for n in range(30)]
    by = {"dot": vectors @ vectors.T, "l2": -np.linalg.norm(vectors[:, None] - vectors, axis=2)}
    expected = leave_one_out_by(lambda places: by[metric][places].copy(), labels, np.arange(30))
    assert leave_one_out(vectors, labels, metric=metric) == expected != leave_one_out(vectors, labels)
    starts = np.arange(0, 31, 2)
    of_two = by[metric].reshape(30, 15, 2).max(axis=2).reshape(15, 2, 15).mean(axis=1)
    expected = leave_one_out_by(lambda places: of_two[places].copy(), labels[:15], np.arange(15))
    assert leave_one_out_of_windows(vectors, starts, labels[:15], metric=metric) == expected


def test_perfect_and_hopeless():
    apart = np.repeat(np.eye(3), 4, axis=0)
    assert leave_one_out(apart, list("aaaabbbbcccc")).mean_average_precision == 1.0
    assert leave_one_out(apart, list("abcdabcdabcd")).precision_at_1 == 0.0


def test_no_two_of_a_label_is_an_error():
    with pytest.raises(ValueError, match="expected at least two vectors of one label"):
        leave_one_out(np.eye(3), ["a", "b", "c"])


def test_who_asks_is_not_a_hit_where_others_were_not_found_at_all():
    def ask(places):
        found = np.full((len(places), 5), -np.inf)
        found[:, 4] = 0.0  # all that was found
        return found

    scores = leave_one_out_by(ask, list("abbab"), np.array([0, 1]))
    assert scores.queries == 2
    found = {one.label: one for one in scores.of_labels}
    assert found["a"].figures.mean_average_precision in (1 / 2, 1 / 3, 1 / 4)  # behind 4, and by lot 1 and 2
    assert found["b"].figures.mean_average_precision in (1.0, (1 + 2 / 3) / 2, (1 + 2 / 4) / 2)  # 4, then 2
    assert [found[name].size for name in "ab"] == [2, 3]
    with pytest.raises(ValueError, match="two vectors of one label"):
        leave_one_out_by(ask, list("abcde"), np.array([0]))


def test_each_label_is_scored_with_what_it_is_taken_for():
    apart = np.repeat(np.eye(3), 14, axis=0) + 0.01
    apart[24:28] = apart[-1]  # four of b are just like c
    found = {one.label: one for one in leave_one_out(apart, ["a"] * 14 + ["b"] * 14 + ["c"] * 14).of_labels}
    assert [*found][-1] == "a"
    assert all(one.figures.queries == 14 for one in found.values())
    assert found["a"].figures.mean_average_precision == 1.0
    assert [found[name].instead for name in "abc"] == ["", "c", "b"]
    alone = leave_one_out(np.ones((3, 2)), list("aaa")).of_labels
    assert [(one.label, one.instead) for one in alone] == [("a", "")]


@pytest.mark.parametrize("labels", [["a"] * 200 + ["b"] * 200, ["a", "b"] * 200, ["b"] * 300 + ["a"] * 100])
def test_what_is_equally_similar_favours_no_label(labels):
    scores = leave_one_out(np.ones((400, 3)), labels)
    for one in scores.of_labels:
        by_chance = (one.size - 1) / 399
        assert one.figures.mean_average_precision == pytest.approx(by_chance, abs=0.06)
        assert one.figures.precision_at_10 == pytest.approx(by_chance, abs=0.35)


def test_windows_are_in_memory_once_more_and_not_in_double_precision():
    items, each = 1000, 100
    vectors = np.random.default_rng(1).normal(size=(items * each, 64)).astype(np.float32)
    starts, labels = np.arange(items + 1) * each, [str(number % 2) for number in range(items)]
    asking = np.array([0])
    tracemalloc.start()
    try:
        scores = leave_one_out_of_windows(vectors, starts, labels, query_items=asking)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert scores.queries == 1
    matrix = each * len(vectors) * 4  # cosines of one item's windows with all
    assert peak - matrix < 2 * vectors.nbytes
