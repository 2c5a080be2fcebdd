"""Results of worker processes by way of files: as they are, once, nothing is left, also without room."""

from __future__ import annotations

import resource
import tempfile

import numpy as np
import pytest

from bridge.support.result_files import StoringResults
from bridge.support.workers import workers


def _double(batch):
    return 2 * np.asarray(batch)


def _nothing(_):
    return None


@pytest.mark.parametrize("room", [True, False], ids=["room", "no room"])
@pytest.mark.parametrize("function", [_double, _nothing])
def test_a_result_comes_back_as_it_is_and_leaves_no_file(tmp_path, function, room):
    folder = tmp_path / "results"
    if room:
        folder.mkdir()
    stored = StoringResults(function, str(folder))([1, 2])
    assert bool(stored.path) is room
    np.testing.assert_equal(stored.take(), function([1, 2]))
    assert [*tmp_path.rglob("*")] == [folder] * room


def test_a_file_that_cannot_be_written_to_its_end_is_removed(tmp_path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))  # writing more fails, as on a full disk
    try:
        stored = StoringResults(_double, str(tmp_path))(range(1000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [*tmp_path.iterdir()] == []
    assert stored.take().tolist() == [*range(0, 2000, 2)]


def test_their_folder_ends_with_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with workers(2) as crew:
        total = sum(one.sum() for one in crew.each(_double, np.arange(40).reshape(20, 2)))
        shown = [*tmp_path.iterdir()]
        assert total == 2 * sum(range(40))
        assert [one.name.startswith("wshard-") for one in shown] == [True]
    assert [*tmp_path.iterdir()] == []
