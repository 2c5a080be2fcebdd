"""Many channels: what is folded, and that no number of channels is a cliff."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.spaces.lanes import MAX_CHANNELS
from embedders import ArcDct, Blocks, Statistics, WindowPlan
from embedders.registry import default_embedder
from embedders.testing import EmbedderContract
from embedders.trajectory.folding import MOST_CHANNELS, fold

DEFAULTS = (Blocks(), default_embedder(WindowPlan(20, 10)))
OTHERS = (65, 256, 257, 1000)


class TestBlocksOfMoreThanAreDescribedOneByOne(EmbedderContract):
    channels = 259
    make = Blocks


class TestArcDctOfMoreThanAreDescribedOneByOne(EmbedderContract):
    channels = 259
    make = ArcDct


def slow_sign(place):
    """Return the sign of a place: the highest bit of the output of SplitMix64 after so many steps, 0 for plus."""
    mixed = (place + 1) * 0x9E3779B97F4A7C15 % 2**64
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB % 2**64
    mixed ^= mixed >> 31
    return -1 if mixed >> 63 else 1


@pytest.mark.parametrize(("count", "size"), [(5, 4), (8, 4), (1000, 7)])
def test_folding_follows_the_slow_loops(count, size):
    rows = np.random.default_rng(count).normal(size=(3, count))
    expected = np.zeros((3, size))
    for place in range(count):
        expected[:, place % size] += slow_sign(place) * rows[:, place]
    np.testing.assert_allclose(fold(rows, size), expected, atol=1e-12)


@pytest.mark.parametrize("count", [1, 6, 7])
def test_what_fits_stays_as_it_is(count):
    rows = np.random.default_rng(0).normal(size=(3, count))
    assert np.array_equal(fold(rows, 7), rows)


def curves(seed, channels):
    """Return two curves of 60 channels that have much in common, among constant channels at random places."""
    rng = np.random.default_rng(seed)
    times = np.linspace(0, 1, 50)[:, None]
    phases, heights = rng.uniform(0, 2 * np.pi, (3, 1, 60)), rng.normal(size=(3, 1, 60))
    waves = [height * np.sin(np.pi * (1 + turn) * times + phases[turn]) for turn, height in enumerate(heights)]
    places = rng.permutation(channels)[:60]
    found = np.full((2, 50, channels), 0.5)
    found[0][:, places] = waves[0] + waves[1]
    found[1][:, places] = waves[0] + waves[2]
    return found


def cosine(embedder, windows, order=slice(None)):
    channels = windows.shape[2]
    one, two = embedder.embed(
        [rows[:, order] for rows in windows], Statistics(100, np.full(channels, 0.5), np.ones(channels))
    )
    return float(one @ two)


@pytest.mark.parametrize("embedder", DEFAULTS, ids=str)
@given(seed=st.integers(0, 2**32 - 1), channels=st.sampled_from(OTHERS))
def test_constant_channels_change_no_similarity_much(embedder, seed, channels):
    assert cosine(embedder, curves(seed, channels)) == pytest.approx(cosine(embedder, curves(seed, 60)), abs=0.12)


@pytest.mark.parametrize("embedder", DEFAULTS, ids=str)
@given(seed=st.integers(0, 2**32 - 1), channels=st.sampled_from(OTHERS))
def test_the_order_of_many_channels_hardly_matters(embedder, seed, channels):
    windows, order = curves(seed, channels), np.random.default_rng(seed + 1).permutation(channels)
    assert cosine(embedder, windows, order) == pytest.approx(cosine(embedder, windows), abs=0.12)


def test_vectors_and_shares_grow_no_further():
    wide = [len(Blocks().shares(channels)) for channels in (64, 65, 1000, 5000)]
    assert wide == [Blocks().dim(64)] * 4
    assert ArcDct().dim(5000) == ArcDct().dim(MOST_CHANNELS) == len(ArcDct().shares(5000))
    for embedder in (Blocks(), ArcDct()):
        np.testing.assert_allclose(embedder.shares(300).sum(axis=1), 1.0)
    assert MAX_CHANNELS >= 1000
