"""What benchmark RB-T plants, splits and counts. No simulator is needed."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from paths import ROOT

from embedders import Statistics

FOLDER = ROOT / "benchmarks" / "retrieval"


@pytest.fixture
def modules(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    import rb_a_methods  # noqa: PLC0415  (importable only now)
    import rb_t  # noqa: PLC0415
    import rb_t_moments  # noqa: PLC0415
    import rb_t_series  # noqa: PLC0415
    import rb_t_sets  # noqa: PLC0415

    yield SimpleNamespace(methods=rb_a_methods, t=rb_t, moments=rb_t_moments, series=rb_t_series, sets=rb_t_sets)
    for name in [name for name in sys.modules if name.startswith(("rb_", "dtw"))]:
        sys.modules.pop(name)


def make_archive(modules, count=100):
    rng = np.random.default_rng(3)
    episodes = [rng.normal(size=(90 + number % 20, 3)).cumsum(axis=0) for number in range(count)]
    steps = np.concatenate(episodes)
    frozen = Statistics(len(steps), steps.mean(axis=0), steps.std(axis=0))
    return modules.methods.Archive(episodes, frozen, np.arange(count) % 5, np.arange(0, count, 9))


def test_no_set_is_both_tuned_on_and_reported(modules):
    assert not {*modules.sets.TUNED} & {*modules.sets.REPORTED}
    assert {*modules.sets.FIXTURES} <= {*modules.sets.TUNED, *modules.sets.REPORTED}
    assert {*modules.series.SERIES} > modules.series.TUNED_SERIES


def test_copies_lie_where_it_is_stated_and_nowhere_else(modules):
    archive = make_archive(modules)
    episodes, probes = modules.moments.plant(archive, modules.moments.KINDS["copy"])
    places = [copy for probe in probes for copy in probe.copies]
    assert len({episode for episode, _, _ in places}) == len(places)
    for probe in probes:
        assert all(np.array_equal(episodes[where][start:stop], probe.rows) for where, start, stop in probe.copies)
    changed = {number for number, rows in enumerate(episodes) if not np.array_equal(rows, archive.episodes[number])}
    assert changed == {episode for episode, _, _ in places}


def test_average_precision_and_gain_are_those_of_slow_loops(modules):
    import rb_ranking  # noqa: PLC0415  (importable only with the fixture)

    archive = make_archive(modules, 40)
    scores = np.random.default_rng(8).normal(size=(len(archive.asking), 40))
    found = rb_ranking.average_precisions(scores, archive.tasks, archive.asking)
    relevant = archive.tasks[None] == archive.tasks[archive.asking][:, None]
    gains = rb_ranking.gains(scores, relevant)
    for row, own, precision, gain in zip(scores, archive.asking, found, gains, strict=True):
        order = sorted((number for number in range(40) if number != own), key=lambda number: -row[number])
        ranks = [rank for rank, number in enumerate(order, 1) if archive.tasks[number] == archive.tasks[own]]
        assert precision == pytest.approx(np.mean([count / rank for count, rank in enumerate(ranks, 1)]))
        best = sorted(range(40), key=lambda number: -row[number])[:10]
        hits = [
            1 / np.log2(rank + 1) for rank, number in enumerate(best, 1) if archive.tasks[number] == archive.tasks[own]
        ]
        assert gain == pytest.approx(sum(hits) / sum(1 / np.log2(rank + 1) for rank in range(1, 9)))  # of eight


def test_series_are_read_from_text(modules):
    rows, labels = modules.series._parse_ts("#about\n@problemName x\n@data\n1,2,3:4,5,6:a\n7,8:9,10:b\n")
    assert [one.tolist() for one in rows] == [[[1, 4], [2, 5], [3, 6]], [[7, 9], [8, 10]]]
    assert labels == ["a", "b"]
