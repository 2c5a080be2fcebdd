"""What benchmark RB-A counts with, against slow literal readings of the definitions. No simulator is needed."""

from __future__ import annotations

import math
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from paths import ROOT

from bridge.evaluation.metrics import leave_one_out
from embedders import Statistics

FOLDER = ROOT / "benchmarks" / "retrieval"


@pytest.fixture
def modules(monkeypatch):
    """Provide the modules of the benchmark: scripts beside each other, no package."""
    monkeypatch.syspath_prepend(str(FOLDER))
    import dtw  # noqa: PLC0415  (importable only now)
    import rb_a  # noqa: PLC0415
    import rb_a_archive  # noqa: PLC0415
    import rb_a_disturb  # noqa: PLC0415
    import rb_a_methods  # noqa: PLC0415

    return SimpleNamespace(dtw=dtw, rb_a=rb_a, disturb=rb_a_disturb, archive=rb_a_archive, methods=rb_a_methods)


def walks(*lengths: int):
    return [np.random.default_rng(length).normal(size=(length, 3)).cumsum(axis=0) for length in lengths]


def slow_full(query, rows):
    best = {(0, 0): (math.dist(query[0], rows[0]) ** 2, 1)}
    for i in range(len(query)):
        for j in range(len(rows)):
            if i or j:
                ways = [best[way] for way in ((i - 1, j - 1), (i - 1, j), (i, j - 1)) if way in best]
                cost, length = min(ways, key=lambda way: way[0])
                best[i, j] = (cost + math.dist(query[i], rows[j]) ** 2, length + 1)
    cost, length = best[len(query) - 1, len(rows) - 1]
    return cost / length


def slow_piece(query, rows, free):
    costs = [math.dist(query[0], row) for row in rows]
    for step in query[1:]:
        before, costs = costs, []
        for j, row in enumerate(rows):
            others = [costs[j - 1], before[j - 1]] if free and j else [before[j - b] for b in (1, 2) if j >= b]
            ways = [before[j], *others] if free else others
            costs.append(min(ways, default=math.inf) + math.dist(step, row))
    return min(costs) / len(query)


@pytest.mark.long
def test_alignments_equal_slow_loops(modules):
    archive = walks(9, 17, 1, 14)
    for query in [*walks(12, 5, 1, 20), archive[1], np.repeat(archive[2], 3, axis=0)]:
        for rows in archive:
            assert modules.dtw.full_dtw(query, rows) == pytest.approx(slow_full(query, rows))
            for free in (False, True):
                assert modules.methods.best_piece(query, rows, free=free) == pytest.approx(
                    slow_piece(query, rows, free)
                )


def test_scores_equal_those_of_the_evaluation(modules):
    rng = np.random.default_rng(0)
    vectors, tasks = rng.normal(size=(40, 6)), np.arange(40) % 4
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    archive = modules.methods.Archive([], Statistics(1, np.zeros(1), np.ones(1)), tasks, np.arange(40))
    average, first, _ = modules.rb_a.scored(unit @ unit.T, archive)
    expected = leave_one_out(vectors, [str(task) for task in tasks])
    assert (average, first) == pytest.approx((expected.mean_average_precision, expected.precision_at_1))


def test_expansion_adds_the_nearest_others_by_the_cube_of_their_similarity(modules):
    index = np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0], [-1.0, 0.0]])
    (found,) = modules.methods.expand(index[:1], index, np.array([0]), count=2)
    expected = index[0] + 0.8**3 * index[1]
    np.testing.assert_allclose(found, expected / np.linalg.norm(expected))


def test_disturbances_are_those_of_the_definition(modules):
    (rows,) = walks(100)
    spread = np.array([1.0, 2.0, 0.5])
    made = {n: change(rows, spread, np.random.default_rng(5)) for n, change in modules.disturb.DISTURBANCES.items()}
    assert made["clean"] is rows
    assert (made["prefix60"] == rows[:60]).all()
    assert len(made["stall40"]) == 140
    stalled = [
        row for row, times in zip(*np.unique(made["stall40"], axis=0, return_counts=True), strict=True) if times > 1
    ]
    assert len(stalled) == 1
    shift = made["offset"] - rows
    np.testing.assert_allclose(shift, np.tile(shift[0], (100, 1)))
    apart = (made["noise"] - rows) / spread
    assert abs(apart.std() - 0.3) < 0.03
    warped = made["warp"]
    assert 50 <= len(warped) <= 200
    np.testing.assert_allclose(warped[[0, -1]], rows[[0, -1]])


def test_an_archive_is_requested_all_but_the_one_that_asks(modules):
    episodes = walks(40, 50, 60, 70)
    with modules.archive.searched(episodes, [1, 3]) as ask:
        scores = ask([episodes[1], episodes[3][:35]])
    assert np.isneginf(scores).tolist() == [[False, True, False, False], [False, False, False, True]]
    assert (scores[np.isfinite(scores)] < 1).all()


@pytest.mark.long
def test_pictures_show_results_and_what_a_disturbed_episode_finds(modules, tmp_path):
    episodes = walks(40, 50, 60, 70)
    rows = np.concatenate(episodes)
    statistics = Statistics(len(rows), rows.mean(axis=0), rows.std(axis=0))
    archive = modules.methods.Archive(episodes, statistics, np.array([0, 0, 1, 1]), np.array([1, 3]))
    results = [
        modules.rb_a.Result("prop", "arcdct", 24, name, 0.9, 1.0, 0.9, 0.1) for name in modules.disturb.DISTURBANCES
    ]
    modules.rb_a.draw_all(results, archive, 100, ["reach", "push"], tmp_path / "rb_a.png")
    for name in ("rb_a.png", "rb_a_hits.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def test_the_script_says_how_it_is_used(modules, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["rb_a.py", "--help"])
    with pytest.raises(SystemExit, match="0"):
        modules.rb_a.main()
    assert "--cache" in capsys.readouterr().out
