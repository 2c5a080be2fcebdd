"""Statistics of scalers are accumulated in float64, whatever the column's own type."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from wshard.data import IdentityScaler, PercentileScaler, WrapTorchTransform, ZScoreScaler, get_scaler
from wshard.errors import DatasetError


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


def test_scalers_have_the_methods_of_scikit_learn():
    rows = np.random.default_rng(0).normal(5, 3, (50, 2))
    for scaler in (ZScoreScaler(), PercentileScaler(0, 100), IdentityScaler()):
        scaled = scaler.fit_transform(rows)
        assert np.array_equal(scaled, scaler.transform(rows))
        assert np.allclose(scaler.inverse_transform(scaled), rows)
        tensor = scaler.transform(torch.from_numpy(rows))
        assert tensor.dtype == torch.float32
        assert torch.allclose(tensor, torch.from_numpy(scaled).float())


def test_known_statistics_need_no_fit():
    scaler = ZScoreScaler(mean=[1.0, 2.0], std=[2.0, 0.0], eps=0.5)
    assert scaler.transform(np.array([[3.0, 3.0]])).tolist() == [[1.0, 2.0]]
    percentiles = get_scaler("percentile", q_low=torch.tensor([0.0]), q_high=10, eps=1.0)
    assert percentiles(np.array([[-5.0], [5.0], [10.0]])).ravel().tolist() == [-1.0, 0.0, 1.0]
    for options in ({"mean": "a"}, {"std": [np.nan]}, {"eps": "x"}):
        with pytest.raises(DatasetError, match=f"{next(iter(options))}: expected"):
            ZScoreScaler(**options)


def test_a_function_of_a_column_is_a_transform_of_items():
    negated = WrapTorchTransform(lambda rows: -rows, source="x", target="y")
    assert negated({"x": 3}) == {"x": 3, "y": -3}
    with pytest.raises(DatasetError, match="expected a function of a column, found 3"):
        WrapTorchTransform(3)
