"""Padding at the end of episodes is cut off their windows."""

from __future__ import annotations

import numpy as np
import pytest

from embedders.windows import cut_padding, without_padding


@pytest.mark.parametrize(
    ("tail", "used"),
    [([[0, 0]] * 5, 6), ([[3, 4]] * 3, 6), ([[3, 4]] * 2, 8), ([[0, 1], [0, 2], [0, 3]], 9), ([], 6)],
)
def test_rows_that_are_alike_at_the_end_are_padding(tail, used):
    rows = np.concatenate([np.arange(12.0).reshape(6, 2), np.reshape(tail, (-1, 2))])
    np.testing.assert_array_equal(cut_padding(rows), rows[:used])
    assert len(cut_padding(rows[:, :1])) == len(rows)  # of a single channel it may be rest


def test_what_is_alike_throughout_and_images_are_not_cut():
    assert len(cut_padding(np.ones((9, 2)))) == 9
    assert len(cut_padding(np.zeros((9, 4, 4)))) == 9


def test_windows_end_where_padding_begins():
    spans = np.array([[0, 100], [0, 10], [30, 50], [38, 58], [50, 70]])
    assert without_padding(spans, 42).tolist() == [[0, 42], [0, 10], [30, 42], [38, 58], [50, 70]]
    assert without_padding(spans, 3).tolist()[:2] == [[0, 3], [0, 3]]
