"""The embedders that only benchmarks compare with, against slow literal readings of their blocks."""

from __future__ import annotations

from importlib import import_module
from itertools import pairwise

import numpy as np
import pytest
from paths import ROOT

from embedders import ArcDct, Dct, Statistics, Stats
from wshard.errors import EmbedderError


@pytest.fixture
def combine(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks" / "retrieval"))
    return import_module("combine")


def read_signature(rows):
    """Return last row, mean, and half of the rooted signed areas of each pair of channels, summed step by step."""
    path = np.concatenate([np.zeros((1, rows.shape[1])), rows])
    areas = []
    for i in range(rows.shape[1]):
        for j in range(i + 1, rows.shape[1]):
            area = sum(a[i] * (b[j] - a[j]) - a[j] * (b[i] - a[i]) for a, b in pairwise(path)) / 2
            areas.append(0.5 * np.copysign(np.sqrt(abs(area)), area))
    return np.concatenate([rows[-1], rows.mean(axis=0), areas])


@pytest.mark.parametrize("name", ["Combo", "Combo2"])
@pytest.mark.parametrize("channels", [1, 3])
def test_a_combination_is_its_blocks_side_by_side(combine, name, channels):
    rng = np.random.default_rng(channels)
    windows = [rng.normal(0, 0.1, (length, channels)).cumsum(axis=0) for length in (2, 9, 80)]
    embedder, identity = getattr(combine, name)(), Statistics(100, np.zeros(channels), np.ones(channels))
    blocks = [
        (embedder.arcdct, 8, ArcDct(damping=0.0).describe(windows)),
        (embedder.stats, 4, Stats().describe(windows)),
        (embedder.dct, 8, Dct().describe(windows)),
        (embedder.sig2, 2, np.stack([read_signature(rows) for rows in windows])),
    ]
    weighted = [weight / np.sqrt(size * channels) * values for weight, size, values in blocks if weight]
    expected = np.concatenate(weighted, axis=1)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    found = embedder.embed(windows, identity)
    assert found.shape == (3, embedder.dim(channels))
    assert embedder.shares(channels).shape == (embedder.dim(channels), channels)
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6)


@pytest.mark.parametrize("parameters", [{"arcdct": -1}, {"stats": "1"}, {"dct": 0, "arcdct": 0, "stats": 0, "sig2": 0}])
def test_impossible_blocks_are_refused(combine, parameters):
    with pytest.raises(EmbedderError, match="expected"):
        combine.Combo(**parameters)
