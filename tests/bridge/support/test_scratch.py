"""Scratch memory is used again by the next call of a thread, and by no other thread."""

from __future__ import annotations

import threading

import numpy as np

from bridge.support.scratch import scratch


def test_a_thread_uses_its_memory_again_and_gets_more_where_that_is_not_enough():
    first, second = scratch(3, 4), scratch(2, 5)
    assert (first.shape, second.shape, first.dtype) == ((3, 4), (2, 5), np.float64)
    assert np.shares_memory(first, second)
    second[:] = 7.0
    assert (first.reshape(-1)[:10] == 7.0).all()
    assert scratch(1000, 1000).shape == (1000, 1000)
    assert scratch(0, 4).shape == (0, 4)


def test_threads_do_not_share_memory():
    own, others = scratch(8), []
    thread = threading.Thread(target=lambda: others.append(scratch(8)))
    thread.start()
    thread.join()
    assert not np.shares_memory(own, others[0])
