"""Arrays wait in temporary files, and are dropped where these have no room."""

from __future__ import annotations

import resource

import numpy as np
import pytest

from bridge.support.array_spool import ArraySpool

ROWS, NAMES = np.arange(6.0).reshape(3, 2), np.array(["a", "bc"])


def test_groups_come_once_in_their_order(tmp_path):
    with ArraySpool(1 << 20, tmp_path / "new") as spool:
        spool.add("one", [[NAMES, ROWS], [NAMES[:1], ROWS[:0]]])
        spool.add("two", [[NAMES, ROWS]])
        spool.add("one", [[NAMES, 2 * ROWS]])
        found = [*spool.take("one", 2)]
        for arrays, expected in zip(found, ([NAMES, ROWS], [NAMES[:1], ROWS[:0]], [NAMES, 2 * ROWS]), strict=True):
            for array, wanted in zip(arrays, expected, strict=True):
                np.testing.assert_array_equal(array, wanted)
        assert [*spool.take("one", 2)] == []
    assert [*spool.take("two", 2)] == []
    assert not [*(tmp_path / "new").iterdir()]


def test_a_disk_that_is_full_before_a_buffer_is_written_is_no_error(tmp_path, request):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    request.addfinalizer(lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limits))
    with ArraySpool(1 << 20, tmp_path) as spool:
        resource.setrlimit(resource.RLIMIT_FSIZE, (200, limits[1]))
        spool.add("one", [[ROWS], [ROWS]])
        assert not spool.has_room
        assert [*spool.take("one", 1)] == []


@pytest.mark.parametrize("is_full", [True, False])
def test_all_is_dropped_without_room(tmp_path, is_full):
    (tmp_path / "file").touch()
    with ArraySpool(100 if is_full else 1000, tmp_path if is_full else tmp_path / "file") as spool:
        spool.add("one", [[ROWS], [ROWS], [ROWS]])
        assert not spool.has_room
        assert [*spool.take("one", 1)] == []
    assert not ArraySpool().has_room
