"""Ids in a column are a set of them, and batches are all items, whoever shares them."""

from __future__ import annotations

from random import Random

import pytest

from bridge.support.batches import BATCH, batches, growing_batches
from bridge.support.id_set import IdSet


@pytest.mark.parametrize("seed", range(20))
def test_it_equals_a_set(seed):
    random = Random(seed)
    several = [[random.randrange(1, 5000) for _ in range(random.randrange(200))] for _ in range(4)]
    ids, expected = IdSet(several[0]), {*several[0]}
    for more in several[1:]:
        ids.update(more)
        expected |= {*more}
    assert [*ids] == sorted(expected)
    assert len(ids) == len(expected)
    assert [number in ids for number in range(6000)] == [number in expected for number in range(6000)]


@pytest.mark.parametrize("count", [0, 1, BATCH, BATCH + 1, 5000])
def test_batches_are_all_items_in_order(count):
    for sharing in (1, 2, 9):
        sizes = [len(batch) for batch in batches(range(count), sharing)]
        growing = [*growing_batches(range(count), sharing)]
        assert [item for batch in growing for item in batch] == [*range(count)]
        assert all(len(batch) <= min(8 << number, BATCH) for number, batch in enumerate(growing))
        assert [item for batch in batches(range(count), sharing) for item in batch] == [*range(count)]
        assert max(sizes, default=0) <= BATCH
    assert sizes == sorted(sizes, reverse=True)  # so that those who share end together
