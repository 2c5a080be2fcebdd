"""Ctrl-C ends a run also where a library makes another error of it, and no other error counts as Ctrl-C."""

import pytest

from bridge.episodes.read import Failure, attempt
from wshard import EpisodeAddress


def read_with_cleanup(error: BaseException) -> None:
    try:
        raise error
    finally:
        raise RuntimeError("cleaning up failed")


def test_an_interrupt_is_no_failure_of_an_episode():
    with pytest.raises(KeyboardInterrupt):
        attempt(lambda: read_with_cleanup(KeyboardInterrupt()), EpisodeAddress("a.wshard"))
    found = attempt(lambda: read_with_cleanup(OSError()), EpisodeAddress("a.wshard"))
    assert isinstance(found, Failure)
    assert "cleaning up failed" in found.error
