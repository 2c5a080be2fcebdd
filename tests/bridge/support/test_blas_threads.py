"""One thread of BLAS for small products, in whichever threads of a program they are computed."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from bridge_episodes import episode, ingest, save
from threadpoolctl import OpenBLASController

from bridge.support.blas_threads import blas_threads, one_blas_thread
from embedders import PooledCallable
from wshard import TrajectoryRetriever


def counts():
    return {library.num_threads for library in blas_threads().lib_controllers}


@pytest.fixture(autouse=True)
def two_threads():
    limit = blas_threads().limit(limits=2)
    OpenBLASController.clear_controlling_thread(force=True)
    assert counts() == {2}
    yield
    limit.restore_original_limits()
    OpenBLASController.clear_controlling_thread(force=True)


def test_one_thread_is_for_the_time_of_its_use_alone():
    with one_blas_thread():
        assert counts() == {1}
        with one_blas_thread():
            assert counts() == {1}
        assert counts() == {1}
    assert counts() == {2}


def test_two_uses_that_overlap_both_have_one_thread_and_leave_two():
    """The first to come leaves first; the other goes on in another thread, and nothing is left limited."""
    inside, leave, seen = threading.Event(), threading.Event(), []

    def work():
        with one_blas_thread():
            inside.set()
            assert leave.wait(10)
            seen.append(counts())

    thread = threading.Thread(target=work)
    with one_blas_thread():
        thread.start()
        assert inside.wait(10)
    leave.set()
    thread.join()
    assert seen == [{1}]
    assert counts() == {2}


def test_an_error_inside_takes_the_limit_back():
    with pytest.raises(ZeroDivisionError), one_blas_thread():
        raise ZeroDivisionError
    assert counts() == {2}


def test_ingest_and_search_embed_with_one_thread(tmp_path):
    seen = []

    def look(mean):
        seen.append(counts())
        return np.asarray(mean, np.float64)

    save(tmp_path / "data", *(episode(task, 0) for task in range(3)))
    embedder = PooledCallable(look, "look")
    ingest(tmp_path / "archive", tmp_path / "data", embedder=embedder)
    assert seen
    assert seen == [{1}] * len(seen)
    seen.clear()
    with TrajectoryRetriever(tmp_path / "archive", embedder) as retriever:
        retriever.search_similar_episodes(episode(1, 0), 2)
    assert seen
    assert seen == [{1}] * len(seen)
    assert counts() == {2}
