"""What the catalog stores of lanes, computed for many episodes at once."""

from __future__ import annotations

import numpy as np

from bridge.episodes.measure import pack_spreads
from catalog import Spread
from catalog.testing.records import pack


def test_spreads_of_many_episodes_are_those_of_each():
    numbers = np.random.default_rng(0).normal(size=(5, 3, 4)).cumsum(axis=0)
    numbers[..., 3] **= 2
    found = pack_spreads(numbers)
    np.testing.assert_allclose(
        [np.frombuffer(one, "<f8") for one in found],
        [np.frombuffer(pack(*map(Spread._make, episode.tolist())), "<f8") for episode in numbers],
        rtol=1e-14,
    )
    assert pack_spreads(numbers[:0]) == []
