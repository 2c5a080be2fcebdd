"""What benchmark RB-B counts with, against slow literal readings of the definitions. No simulator is needed."""

from __future__ import annotations

import json
import math
import re
import sys
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from paths import ROOT

FOLDER = ROOT / "benchmarks" / "retrieval"


@pytest.fixture
def modules(monkeypatch):
    """Provide the modules of the benchmark: scripts beside each other, no package."""
    monkeypatch.syspath_prepend(str(FOLDER))
    import dtw  # noqa: PLC0415  (importable only now)
    import rb_b  # noqa: PLC0415
    import rb_b_data  # noqa: PLC0415
    import rb_b_peer  # noqa: PLC0415
    import rb_b_scan  # noqa: PLC0415

    return SimpleNamespace(dtw=dtw, rb_b=rb_b, data=rb_b_data, scan=rb_b_scan, peer=rb_b_peer)


def walk(length, seed=0, channels=11):
    return np.random.default_rng(seed).normal(size=(length, channels)).cumsum(axis=0)


def play(modules, seed, length=300):
    rows = walk(length, seed).astype(np.float32)
    cuts = [0, 40, 95, 150, 190, 260, length]
    spans = np.array([*pairwise(cuts)])
    labels = ["cube", "button", "cube", "drawer", "button", "cube"]
    return modules.data.Play(seed, rows[:, :6], rows[:, 6:], labels, spans)


def test_hits_are_judged_by_the_segment_that_they_overlap_most(modules):
    one = play(modules, 0)
    assert modules.rb_b.judged(one, "button", 42, 99) == (True, 3.0)
    assert modules.rb_b.judged(one, "cube", 42, 99) == (False, None)
    assert modules.rb_b.judged(one, "button", 40, 60) == (False, 17.5)


def test_sixteen_segments_of_every_label_ask(modules):
    plays = [play(modules, seed) for seed in range(10)]
    asking = modules.data.choose(plays)
    counts = {label: sum(query.label == label for query in asking) for label in ("button", "cube", "drawer")}
    assert counts == {"button": 16, "cube": 16, "drawer": 10}
    assert len({(query.episode, query.start) for query in asking}) == len(asking)
    for query in asking:
        place = plays[query.episode].spans.tolist().index([query.start, query.stop])
        assert plays[query.episode].labels[place] == query.label


def test_a_warp_keeps_the_ends_and_the_way_between_them(modules):
    rows = walk(60)
    for number in range(5):
        replayed = modules.data.warped(rows, number)
        assert 30 <= len(replayed) <= 120
        np.testing.assert_allclose(replayed[[0, -1]], rows[[0, -1]])
        assert replayed.min() >= rows.min()
        assert replayed.max() <= rows.max()
        assert np.array_equal(replayed, modules.data.warped(rows, number))


@pytest.mark.parametrize(("free", "steps"), [(False, [(1, 1), (1, 2)]), (True, [(1, 1), (1, 0), (0, 1)])])
def test_scans_equal_slow_loops(modules, monkeypatch, free, steps):
    for name in ("_squares", "_pieces"):  # to compile them takes a thousand times as long
        monkeypatch.setattr(modules.dtw, name, getattr(modules.dtw, name).py_func)
    query, rows = walk(9, 1, 3), walk(31, 2, 3)
    best = {}
    for i in range(9):
        for j in range(31):
            ways = [(0.0, j)] if i == 0 else []
            ways += [best[i - a, j - b] for a, b in steps if (i - a, j - b) in best]
            if ways:
                total, start = min(ways)
                best[i, j] = (total + math.dist(query[i], rows[j]), start)
    expected = {j + 1: best[8, j][0] / 9 for j in range(31) if (8, j) in best and j + 1 - best[8, j][1] >= 8}
    costs, starts, stops = modules.scan.dtw_scan(free=free)(query, rows)
    assert (np.diff(costs) >= 0).all()
    assert (stops - starts >= 8).all()
    assert {int(stop): pytest.approx(cost) for stop, cost in zip(stops, costs, strict=True)} == expected


def test_the_profile_equals_slow_loops(modules):
    query, rows = walk(9, 1, 3), walk(31, 2, 3)
    scan = modules.scan.profile_scan(modules.scan.plain_profile)
    costs, starts, _ = scan(query, rows)
    expected = [np.sqrt(((query - rows[s : s + 9]) ** 2).sum(axis=0)).sum() for s in starts]
    np.testing.assert_allclose(costs, expected, atol=1e-6)
    assert len(scan(rows, query)[0]) == 0


MASS = """
import math, statistics
__version__ = "1.0"
def standard(values):
    mean, spread = statistics.fmean(values), statistics.pstdev(values)
    return [(value - mean) / spread for value in values] if spread else None
def mass(query, rows):
    wanted, found = standard(query.tolist()), []
    for start in range(len(rows) - len(query) + 1):
        part = standard(rows[start : start + len(query)].tolist())
        still = (wanted is None) + (part is None)
        found.append([math.dist(wanted, part) if not still else 0, len(query) ** 0.5, 0][still])
    import numpy
    return numpy.array(found)
"""
"""What stumpy.mass computes, by its definition: still windows are 0 apart, and the root of their length from others."""


def test_a_peer_is_queried_over_its_pipes_and_agrees_with_our_shapes(modules, monkeypatch, tmp_path):
    (tmp_path / "stumpy.py").write_text(MASS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    query, rows = walk(9, 1, 3), walk(31, 2, 3)
    rows[10:22, 1] = 4.0
    with modules.peer.stumpy(sys.executable) as peer:
        peer.compare(query, rows)
        query[:, 1] = 0.0
        peer.compare(query, rows)
        assert (peer.version, peer.busy > 0) == ("1.0", True)
        assert 0 < peer.apart < 1e-6
        np.testing.assert_allclose(peer.profile(query, rows), modules.scan.shape_profile(query, rows), atol=1e-6)


def test_a_peer_that_is_not_there_is_left_out_with_a_word(modules, monkeypatch, tmp_path):
    with modules.peer.stumpy(tmp_path / "python") as message:
        assert re.match(r"stumpy is skipped: .*No such file", message)
    (tmp_path / "stumpy.py").write_text("raise ImportError('no numba here')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with modules.peer.stumpy(sys.executable) as message:
        assert message == "stumpy is skipped: no numba here"


@pytest.mark.long
def test_all_of_it_runs_on_a_few_episodes_through_an_archive(modules, monkeypatch, tmp_path):
    plays = [play(modules, seed) for seed in range(4)]
    twin = play(modules, 2)
    plays.append(modules.data.Play(4, twin.arm, twin.action, twin.labels, twin.spans))
    monkeypatch.setattr(modules.rb_b, "choose", lambda plays: modules.data.choose(plays)[::8])
    monkeypatch.setattr(modules.rb_b, "load", lambda *_, **__: plays)
    monkeypatch.setattr(modules.rb_b, "_DRAWN", 0)
    monkeypatch.setattr(sys, "argv", ["rb_b.py", "--no-scans", "--out", str(tmp_path / "rb_b")])
    modules.rb_b.main()
    table = (tmp_path / "rb_b.md").read_text()
    assert table.count("\n| ") == 3
    assert "**`search_moments`**" in table
    assert len(json.loads((tmp_path / "rb_b.json").read_text())["results"]) == 6
    assert (tmp_path / "rb_b.png").read_bytes().startswith(b"\x89PNG")


def test_the_script_says_how_it_is_used(modules, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["rb_b.py", "--help"])
    with pytest.raises(SystemExit, match="0"):
        modules.rb_b.main()
    assert "--ogbench" in capsys.readouterr().out
