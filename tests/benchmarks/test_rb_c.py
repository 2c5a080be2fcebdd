"""What benchmark RB-C counts with: faults that keep the length, areas, ranks, digamma. No simulator is needed."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
from paths import ROOT

FOLDER = ROOT / "benchmarks" / "retrieval"


@pytest.fixture
def modules(monkeypatch):
    """Provide the modules of the benchmark: scripts beside each other, no package."""
    monkeypatch.syspath_prepend(str(FOLDER))
    import rb_a_data  # noqa: PLC0415  (importable only now)
    import rb_c  # noqa: PLC0415
    import rb_c_baselines  # noqa: PLC0415
    import rb_c_faults  # noqa: PLC0415
    import rb_c_plot  # noqa: PLC0415
    import rb_outcome  # noqa: PLC0415

    return SimpleNamespace(
        data=rb_a_data, rb_c=rb_c, baselines=rb_c_baselines, faults=rb_c_faults, plot=rb_c_plot, outcome=rb_outcome
    )


def recorded(modules, number, length=120):
    rng = np.random.default_rng(number)
    seen = np.cumsum(rng.normal(size=(length, 39)), axis=0).astype(np.float32)
    acted = np.clip(rng.normal(0.3, 0.5, (length, 4)), -1, 1).astype(np.float32)
    return modules.data.Recorded("task", seen, acted, success=True)


def test_every_fault_changes_the_clip_and_not_its_length(modules):
    faults = modules.faults
    for family in faults.FAULTS:
        for number in range(5):
            rng = np.random.default_rng(number)
            clip = faults.clip_of(recorded(modules, number), rng)
            spread = clip.lanes()["signal/state"].std(axis=0)
            faulty = faults.inject(clip, family, spread, rng)
            assert faulty is not None
            assert faulty.kind == family
            assert [rows.shape for rows in faulty.lanes().values()] == [rows.shape for rows in clip.lanes().values()]
            assert len(faulty.clock()) == clip.length
            same = [np.array_equal(faulty.lanes()[name], rows) for name, rows in clip.lanes().items()]
            assert not all([*same, np.array_equal(faulty.clock(), clip.clock())]), family
            assert clip.kind == ""


def test_what_changes_nothing_is_not_a_fault(modules):
    faults = modules.faults
    clip = faults.clip_of(recorded(modules, 0), np.random.default_rng(0))
    still = dataclasses.replace(clip, seen=np.zeros_like(clip.seen))
    still.seen[clip.start + clip.length // 2 :, 5] = 3.0  # half of the time at either end
    spread = np.ones(21, np.float32)
    made = [faults.inject(still, "saturated channel", spread, np.random.default_rng(n)) for n in range(20)]
    assert made == [None] * 20


def test_areas_and_ranks_are_those_of_slow_loops(modules):
    rng = np.random.default_rng(0)
    faulty, clean = rng.integers(0, 5, 20).astype(float), rng.integers(0, 5, 30).astype(float)
    slow = np.mean([(a > b) + 0.5 * (a == b) for a in faulty for b in clean])
    assert modules.rb_c.area(faulty, clean) == pytest.approx(slow)
    lengths = np.arange(50.0)
    scores, is_faulty = lengths.copy(), np.arange(50) % 2 == 0
    assert modules.rb_c.area(scores[40:], scores[:40]) == 1.0
    assert modules.rb_c.area_within(scores, is_faulty, ~is_faulty, lengths) == pytest.approx(0.5, abs=0.05)
    assert modules.rb_c.rank_correlation(faulty, faulty**3) == pytest.approx(1.0)
    assert modules.rb_c.rank_correlation(faulty, -faulty) == pytest.approx(-1.0)


def test_digamma_follows_its_recurrence(modules):
    counts = np.arange(1, 200)
    slow = [-np.euler_gamma + sum(1 / k for k in range(1, n)) for n in counts]
    assert modules.baselines._digamma(counts) == pytest.approx(slow, abs=1e-6)


@pytest.mark.long
def test_a_round_says_something_of_every_clip(modules, tmp_path):
    task = [recorded(modules, number, 80 + number) for number in range(20)]
    seen = modules.rb_c.play_round(task, [0.0, 0.1, 0.3, 0.1] * 5, seed=(0, 0), baselines=True)
    assert [one.clip.length for one in seen] == [int(0.75 * (80 + n)) - 3 for n in range(20)]
    assert sum(one.clip.kind != "" for one in seen) == 4
    assert all(math.isfinite(one.scores[name]) for one in seen for name in modules.baselines.BASELINES)
    rows = modules.rb_c.results(seen)
    assert {row.family for row in rows} == {one.clip.kind for one in seen} - {""}
    assert modules.rb_c.table(rows).count("\n") == len(rows) + 2
    options = SimpleNamespace(first=0, out=tmp_path / "made" / "rb_c")
    modules.outcome.leave(
        options, rows, "| a |", functools.partial(modules.plot.draw, rows), also={"clean": {"all": 1}}
    )
    assert (tmp_path / "made" / "rb_c.md").read_text() == "| a |\n\nOptions: first 0.\n"
    assert (tmp_path / "made" / "rb_c.png").read_bytes().startswith(b"\x89PNG")
    written = json.loads((tmp_path / "made" / "rb_c.json").read_text())
    assert [one["family"] for one in written["results"]] == [row.family for row in rows]
    assert written["clean"] == {"all": 1}
