"""Benchmark RB-C from vectors: what it counts with, and that it finds what it hid. No simulator is needed."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from paths import ROOT

FOLDER = ROOT / "benchmarks" / "retrieval"


@pytest.fixture
def bench(monkeypatch):
    """Provide the benchmark: scripts beside each other, no package."""
    monkeypatch.syspath_prepend(str(FOLDER))
    import rb_a_data  # noqa: PLC0415  (importable only now)
    import rb_c_copies  # noqa: PLC0415
    import rb_c_pieces  # noqa: PLC0415
    import rb_c_vectors  # noqa: PLC0415

    monkeypatch.setattr(rb_c_copies, "COPIES", 4)
    return SimpleNamespace(data=rb_a_data, copies=rb_c_copies, pieces=rb_c_pieces, vectors=rb_c_vectors)


def recorded(bench, tasks=3, each=22):
    """Return episodes of tasks that lie apart; the last of each task was recorded twice."""
    found = []
    for task in range(tasks):
        rng = np.random.default_rng(task)
        shape = rng.normal(size=(1, 39)) + np.sin(np.linspace(0, 5, 70))[:, None] * rng.normal(size=(1, 39))
        for number in range(each):
            rows = shape + 0.15 * np.random.default_rng([task, number]).normal(size=(70, 39)).cumsum(axis=0) / 3
            found.append(
                bench.data.Recorded(f"task {task}", rows.astype(np.float32), rows[:, :4].astype(np.float32), True)
            )
        found.append(bench.data.Recorded(found[-1].task, found[-1].observations[:66], found[-1].actions[:66], True))
    return found


@pytest.mark.long
def test_it_finds_what_it_hid(bench, capsys):
    originals = bench.copies.distinct(recorded(bench), "prop")
    results = bench.vectors.measure(originals, "prop")
    assert "3 of 69 episodes are recorded twice already" in capsys.readouterr().out
    values = {(one.sought, one.measure): one.value for one in results}
    assert {name: value for name, value in values.items() if "cosine" not in name[0] and value < 1} == {}
    assert values["near duplicates by cosine alone", "precision at recall .98"] < 1
    assert {one.count for one in results if one.sought in bench.copies.NEAR} == {4}
    table = bench.vectors.table(results)
    assert "| swapped labels | AUC | 1.000 | 0.97 |" in table


def test_it_finds_the_pieces_that_it_spliced(bench):
    originals = bench.copies.distinct(recorded(bench), "prop")
    (_, recall, count), (_, error, found) = bench.pieces.measure_pieces(originals, 0)
    assert (recall, count, found) == (1.0, 8, 8)
    assert error <= 2


def test_the_script_says_how_it_is_used(bench, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["rb_c_vectors.py", "--help"])
    with pytest.raises(SystemExit, match="0"):
        bench.vectors.main()
    assert "--out" in capsys.readouterr().out
