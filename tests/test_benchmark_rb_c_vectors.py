"""Benchmark RB-C from vectors: what it counts with, and that it finds what it hid. No simulator is needed."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).resolve().parent.parent / "benchmarks" / "retrieval"


@pytest.fixture
def bench(monkeypatch):
    """Provide the benchmark: scripts beside each other, no package."""
    monkeypatch.syspath_prepend(str(FOLDER))
    import rb_c_vectors  # noqa: PLC0415  (importable only now)

    monkeypatch.setattr(rb_c_vectors, "COPIES", 4)
    return rb_c_vectors


def recorded(bench, tasks=3, each=22):
    """Return episodes of tasks that lie apart; the last of each task was recorded twice."""
    found = []
    for task in range(tasks):
        rng = np.random.default_rng(task)
        shape = rng.normal(size=(1, 39)) + np.sin(np.linspace(0, 5, 70))[:, None] * rng.normal(size=(1, 39))
        for number in range(each):
            rows = shape + 0.15 * np.random.default_rng([task, number]).normal(size=(70, 39)).cumsum(axis=0) / 3
            found.append(bench.Recorded(f"task {task}", rows.astype(np.float32), rows[:, :4].astype(np.float32), True))
        found.append(bench.Recorded(found[-1].task, found[-1].observations[:66], found[-1].actions[:66], True))
    return found


def test_it_finds_what_it_hid(bench, capsys):
    episodes = recorded(bench)
    results = bench.measure(episodes, "prop")
    assert "3 of 69 episodes are recorded twice already" in capsys.readouterr().out
    values = {(one.sought, one.measure): one.value for one in results}
    assert {name: value for name, value in values.items() if "cosine" not in name[0] and value < 1} == {}
    assert values["near duplicates by cosine alone", "precision at recall .98"] < 1
    assert {one.count for one in results if one.sought in bench.NEAR} == {4}
    table = bench.table(results)
    assert "| swapped labels | AUC | 1.000 | 0.97 |" in table


def test_the_area_is_the_share_of_pairs(bench):
    positive, negative = np.array([3.0, 1.0, 2.0]), np.array([0.0, 2.0])
    pairs = [(p > n) + (p == n) / 2 for p in positive for n in negative]
    assert bench.area(positive, negative) == pytest.approx(math.fsum(pairs) / 6)


def test_the_script_says_how_it_is_used():
    command = [sys.executable, str(FOLDER / "rb_c_vectors.py"), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0
    assert "--pieces" in done.stdout
