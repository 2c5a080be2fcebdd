"""Statistics of features are those of numpy."""

from __future__ import annotations

import numpy as np
import pytest

from wshard.formats.lerobot.stats import QUANTILES, measure_frames


@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (2, 3, 1, 3), (5, 16, 12, 3), (7, 9, 11, 1)])
def test_frames_are_measured_as_all_their_pixels_sorted_would_be(shape):
    frames = np.random.default_rng(sum(shape)).integers(0, 256, shape, np.uint8)
    frames[..., 0] //= 3
    pixels = frames.reshape(-1, shape[-1]).astype(np.float64) / 255.0
    wanted = {"min": pixels.min(0), "max": pixels.max(0), "mean": pixels.mean(0), "std": pixels.std(0)}
    wanted |= {name: np.quantile(pixels, share, axis=0) for name, share in QUANTILES.items()}
    found = measure_frames(frames)
    assert found.pop("count").tolist() == [shape[0]]
    assert found.keys() == wanted.keys()
    for name, values in found.items():
        assert values.shape == (shape[-1], 1, 1)
        np.testing.assert_allclose(values.ravel(), wanted[name], rtol=0, atol=1e-12, err_msg=name)
