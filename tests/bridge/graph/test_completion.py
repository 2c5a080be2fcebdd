"""Vectors of all lanes are predicted from those of some where these tell what the others are like."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bridge.graph.completion import Completion, load_completed
from bridge.index.stored_rows import StoredRows
from embedders.base import unit_rows


def related(count=200, *, noise=0.0, seed=0):
    """Return vectors of fewer numbers and of all: the others follow from these, or are noise."""
    rng = np.random.default_rng(seed)
    fewer = rng.normal(size=(count, 8)) * 0.8 ** np.arange(8)
    others = (1 - noise) * fewer @ np.random.default_rng(1).normal(size=(8, 6)) + noise * rng.normal(size=(count, 6))
    return unit_rows(fewer), unit_rows(np.concatenate([fewer, (2 + 4 * noise) * others], axis=1))


def test_what_follows_is_predicted():
    completion = Completion.fit(None, *related())
    fewer, whole = related(50, seed=2)
    predicted = completion.predict(fewer)
    assert_allclose(np.linalg.norm(predicted, axis=1), 1, rtol=1e-5)
    assert np.vecdot(predicted, whole).mean() > 0.95


def test_what_is_predicted_is_not_nearer_to_everything():
    completion = Completion.fit(None, *related(noise=0.4))
    fewer, whole = related(50, noise=0.4, seed=2)
    apart, predicted_apart = (1 - rows @ completion.mean for rows in (whole, completion.predict(fewer)))
    assert predicted_apart.mean() == pytest.approx(apart.mean(), rel=0.1)


def test_noise_is_not():
    assert Completion.fit(None, *related(noise=1.0)) is None


def test_only_missing_vectors_are_predicted():
    fewer, whole = related()
    source, space = "fewer", "whole"
    completion = Completion.fit(source, fewer, whole)
    known = {"fewer": (range(10, 30), fewer[10:30]), "whole": (range(20), whole[:20])}

    def load(of, episodes):
        ids, rows = known[of]
        return StoredRows.of({id_: rows[id_ - ids[0]][None] for id_ in episodes if id_ in ids}, rows.shape[1])

    found = load_completed(load, space, [completion], np.array([5, 19, 20, 29, 40]))
    assert found.episodes.tolist() == [5, 19, 20, 29]
    assert_allclose(found.vectors[:2], whole[[5, 19]])
    assert_allclose(found.vectors[2:], completion.predict(fewer[[20, 29]]), rtol=1e-5)
