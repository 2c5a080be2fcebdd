"""Statistics of scalers are accumulated in float64, whatever the column's own type."""

from __future__ import annotations

import math

import numpy as np
import pytest

from wshard.data import PercentileScaler, ZScoreScaler


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int16])
def test_statistics_of_many_narrow_numbers_are_those_of_wide_ones(dtype):
    rows = np.resize(np.array([1000, 1001, 1002.5], dtype), (300_000, 1))
    three = [float(number) for number in rows[:3, 0]]
    scaler = ZScoreScaler().fit(rows)
    assert scaler.mean.item() == pytest.approx(math.fsum(three) / 3, rel=1e-12)
    assert scaler.std.item() == pytest.approx(np.std(three), rel=1e-9)
    in_parts = ZScoreScaler().fit_parts(np.split(rows, 3))
    assert (in_parts.mean.item(), in_parts.std.item()) == pytest.approx((scaler.mean.item(), scaler.std.item()))
    percentiles = PercentileScaler(10, 60).fit(rows)
    assert (percentiles.q_low.item(), percentiles.q_high.item()) == pytest.approx(np.percentile(three * 100, (10, 60)))
