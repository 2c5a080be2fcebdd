"""Garbage is collected rarely while somebody asks for it, and as before afterwards."""

from __future__ import annotations

import gc
import os
import time
from itertools import takewhile

import pytest

from bridge.support import garbage
from bridge.support.garbage import collect_rarely
from bridge.support.workers import workers


@pytest.fixture(autouse=True)
def threshold(monkeypatch):
    """Begin without users: a command that ran in this process is one until the process ends."""
    monkeypatch.setattr(garbage, "_threshold", garbage._Threshold())
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


def test_the_last_user_restores_the_threshold():
    first, second = collect_rarely(), collect_rarely()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert gc.get_threshold() == (200_000, 10, 10)
    second.__exit__(None, None, None)
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("own", [0, 500_000])
def test_who_wants_fewer_collections_has_them(own):
    gc.set_threshold(own, 10, 10)
    with collect_rarely():
        assert gc.get_threshold() == (own, 10, 10)
    assert gc.get_threshold() == (own, 10, 10)


def test_work_on_episodes_collects_rarely():
    with workers(1) as crew:
        assert [*crew.each(_look, [0])] == [(200_000, os.getpid())]
    assert gc.get_threshold()[0] == 700


def test_so_do_worker_processes():
    with workers(2) as crew:
        found = set()
        for one in crew.each(_look, takewhile(lambda _: len(found) < 2, range(3000))):
            found.add(one)
    assert len(found) == 2
    assert {threshold for threshold, _ in found} == {200_000}


def _look(_: int) -> tuple[int, int]:
    time.sleep(0.02)
    return gc.get_threshold()[0], os.getpid()
