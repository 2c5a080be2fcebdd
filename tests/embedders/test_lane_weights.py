"""Weights of lanes: what share of a vector a lane has, what they do to similarities, and how Spaces tell them apart."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedders import ArcDct, Dct, LaneSpec, Space, Statistics, Stats, WindowPlan, check_same_space
from wshard.errors import EmbedderError, SpaceMismatchError

LANES = (LaneSpec("signal/state", (5,)), LaneSpec("action/ctrl", (2,)), LaneSpec("reward", ()))
CUTS = (slice(0, 5), slice(5, 7), slice(7, 8))

OLD = (
    '{"dim":32,"embedder":"arcdct","lanes":[{"name":"signal/state","shape":[3]},{"name":"reward","shape":[]}],'
    '"metric":"cosine","parameters":{"damping":0.15,"length":64},"statistics":{"count":10,"mean":[0.0,1.0,2.0,3.0],'
    '"std":[1.0,2.0,0.0,0.1]},"version":1,"windows":{"size":32,"stride":16}}'
)


def walk(seed, steps=60):
    return np.random.default_rng(seed).normal(size=(steps, 8)).cumsum(axis=0) * np.array([1, 9, 1, 0.1, 1, 30, 1, 1])


def make_space(weights, rows, embedder=None):
    embedder = embedder or ArcDct()
    statistics = Statistics(len(rows), rows.mean(axis=0), rows.std(axis=0))
    return Space(
        embedder=embedder.name,
        version=1,
        parameters=embedder.parameters(),
        lanes=LANES,
        windows=WindowPlan(),
        dim=embedder.dim(8),
        metric="cosine",
        statistics=statistics,
        weights=weights,
    )


def cosine(embedder, space, first, second):
    one, two = embedder.embed([first, second], space.scaling).astype(float)
    return float(one @ two)


positive = st.floats(1e-3, 1e3)


@given(weights=st.tuples(positive, positive, positive), seed=st.integers(0, 99))
def test_a_weight_is_the_share_of_the_lane_in_the_squared_length(weights, seed):
    whole = np.clip(walk(seed), -50, 50) + 0.01 * np.random.default_rng(seed).normal(size=(60, 8))
    spectrum = Dct(length=60, coefficients=60)  # orthonormal: keeps the squared length of every channel
    scored = (whole - whole.mean(axis=0)) / whole.std(axis=0)
    if np.abs(scored).max() >= 5:
        return  # clipped values have less than variance 1
    (vector,) = spectrum.embed([whole], make_space(weights, whole).scaling).astype(float)
    energy = (vector.reshape(60, 8) ** 2).sum(axis=0)
    found = [energy[cut].sum() for cut in CUTS]
    np.testing.assert_allclose(found, np.array(weights) / sum(weights), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("embedder", [ArcDct(), Dct(), Stats()], ids=lambda embedder: embedder.name)
def test_weights_in_the_ratio_of_the_channels_change_nothing_and_others_do(embedder):
    rows = walk(0, 400)
    plain = embedder.embed([walk(1)], make_space(None, rows).scaling)
    np.testing.assert_allclose(embedder.embed([walk(1)], make_space((5, 2, 1), rows).scaling), plain, atol=1e-6)
    assert np.abs(embedder.embed([walk(1)], make_space((1, 1, 1), rows).scaling) - plain).max() > 1e-3


@pytest.mark.parametrize("embedder", [ArcDct(), Dct(), Stats()], ids=lambda embedder: embedder.name)
@pytest.mark.parametrize("lane", [0, 1, 2])
def test_a_lane_that_weighs_all_decides_alone(embedder, lane):
    rows, one = walk(0, 400), walk(1)
    alike = walk(2)
    alike[:, :3] = one[:, :3]  # the same path: both are resampled at the same places
    alike[:, CUTS[lane]] = one[:, CUTS[lane]]
    weights = [1e-6] * 3
    weights[lane] = 1.0
    assert cosine(embedder, make_space(tuple(weights), rows), one, alike) > 0.999
    weights = [1.0] * 3
    weights[lane] = 1e-6
    assert cosine(embedder, make_space(tuple(weights), rows), one, alike) < 0.95


def test_the_factors_come_after_the_clip():
    rows = walk(0, 400)
    wild, wilder = (np.full((3, 8), value) for value in (1e5, 1e6))
    space = make_space((8, 1, 1), rows)
    assert cosine(Stats(), space, wild, wilder) == pytest.approx(1.0)


def test_weights_count_in_fingerprint_and_family_and_are_named():
    rows = walk(0, 400)
    plain, one, two = (make_space(weights, rows) for weights in (None, (1, 1, 1), (2, 1, 1)))
    assert len({space.fingerprint for space in (plain, one, two)}) == 3
    assert len({space.family for space in (plain, one, two)}) == 3
    for first, second in ((plain, one), (one, two)):
        with pytest.raises(SpaceMismatchError, match="weights: expected"):
            check_same_space(first, second)


def test_weights_survive_the_json_of_the_space():
    space = make_space((1 / 3, 2, 1e-9), walk(0, 400))
    again = Space.from_json(space.to_json())
    assert again == space
    assert again.weights == (1 / 3, 2.0, 1e-9)
    assert again.scaling.factors.tobytes() == space.scaling.factors.tobytes()
    assert again.statistics.factors is None


def test_a_space_stored_before_there_were_weights_reads_and_keeps_its_fingerprint():
    space = Space.from_json(OLD)
    assert space.to_json() == OLD
    assert space.fingerprint == hashlib.sha256(OLD.encode()).hexdigest()
    assert space.fingerprint == "62ac150310fa0f433c2df84d595d28a90ae8d91aff2b434060d03347550e4d95"
    assert space.family == "7593b7b411497415e4827c068e76a7fe4fffe2824bc80cb6f0551f4d9d32eba6"
    assert "weights" not in json.loads(space.to_json())


@pytest.mark.parametrize("weights", [(1, 1), (1, 1, 0), (1, 1, -1), (1, 1, float("nan")), (1, 1, "1"), ()])
def test_impossible_weights_are_refused(weights):
    with pytest.raises(EmbedderError, match=r"weights? of .*lanes?: expected"):
        make_space(weights, walk(0, 400))


@pytest.mark.parametrize("factors", [[1.0], [0.0] * 8, [np.nan] * 8])
def test_impossible_factors_are_refused(factors):
    with pytest.raises(EmbedderError, match="factors"):
        replace(make_space(None, walk(0, 400)).statistics, factors=factors)
