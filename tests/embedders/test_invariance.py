"""What the path embedder is for: neither stalls nor speed change what it sees, and shape does."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from embedders import BOTH, ArcDct, Dct, Statistics
from embedders.registry import default_embedder
from embedders.trajectory.blocks import areas
from embedders.trajectory.resample import joined

FROZEN = Statistics(1000, np.zeros(5), np.full(5, 0.7))


def make_curve(seed, places):
    """Return a smooth curve [len(places), 5] read at `places` within [0, 1]."""
    rng = np.random.default_rng(seed)
    waves = np.arange(1, 4)[:, None, None]
    phases, heights = rng.uniform(0, 2 * np.pi, (3, 1, 5)), rng.normal(size=(3, 1, 5)) / waves
    return (heights * np.sin(np.pi * waves * places[None, :, None] + phases)).sum(axis=0)


def cosine(embedder, first, second):
    vectors = embedder.embed([first, second], FROZEN)
    return float(vectors[0] @ vectors[1])


def retime(curve, speeds):
    """Return `curve` replayed at varying speed by linear interpolation of its rows."""
    clock = np.concatenate(
        [[0.0], np.cumsum(np.interp(np.linspace(0, 1, 2 * len(curve) - 1), np.linspace(0, 1, 8), speeds))]
    )
    places = clock / clock[-1] * (len(curve) - 1)
    return np.stack([np.interp(places, np.arange(len(curve)), column) for column in curve.T], axis=1)


seeds = st.integers(0, 2**32 - 1)


@given(seed=seeds, at=st.integers(0, 119), repeats=st.integers(1, 500))
def test_a_stall_changes_next_to_nothing(seed, at, repeats):
    curve = make_curve(seed, np.linspace(0, 1, 120))
    stalled = np.concatenate([curve[:at], np.repeat(curve[at : at + 1], repeats, axis=0), curve[at:]])
    assert cosine(ArcDct(), curve, stalled) > 0.99


@given(seed=seeds, speeds=st.lists(st.floats(0.2, 5.0), min_size=8, max_size=8))
def test_another_speed_changes_next_to_nothing(seed, speeds):
    curve = make_curve(seed, np.linspace(0, 1, 120))
    assert cosine(ArcDct(), curve, retime(curve, speeds)) > 0.98


@given(seed=seeds, order=st.permutations(range(5)), windows=st.booleans())
def test_the_order_of_channels_changes_no_similarity(seed, order, windows):
    embedder = default_embedder(BOTH[windows])
    first, second = (make_curve(seed + more, np.linspace(0, 1, 90 + more)) for more in (0, 7))
    shuffled = cosine(embedder, first[:, order], second[:, order])
    assert abs(cosine(embedder, first, second) - shuffled) < 1e-5


@given(
    seed=seeds, speeds=st.lists(st.floats(0.2, 5.0), min_size=8, max_size=8), many=st.booleans(), shift=st.floats(-1, 1)
)
def test_areas_see_neither_speed_nor_where_it_is(seed, speeds, many, shift):
    curve = make_curve(seed, np.linspace(0, 1, 400)) @ np.eye(5, 70 if many else 5)
    rotated = curve + np.roll(curve, 3, axis=1)  # of many channels each with the mean of all
    first, second = areas(*joined([rotated, retime(rotated, speeds) + shift]))
    assert first @ second > 0.999 * np.linalg.norm(first) * np.linalg.norm(second)


def test_the_spectrum_in_time_sees_what_the_path_does_not():
    curve = make_curve(3, np.linspace(0, 1, 120))
    stalled = np.concatenate([curve[:20], np.repeat(curve[20:21], 500, axis=0), curve[20:]])
    assert cosine(Dct(), curve, stalled) < 0.9
    assert cosine(ArcDct(), curve, stalled) > 0.99


def test_the_way_back_and_other_paths_look_different():
    curve = make_curve(3, np.linspace(0, 1, 120))
    assert cosine(ArcDct(), curve, curve[::-1]) < 0.9
    assert cosine(ArcDct(), curve, make_curve(4, np.linspace(0, 1, 120))) < 0.9


def test_damping_weighs_fine_shape_less():
    curve = make_curve(5, np.linspace(0, 1, 200))
    shaken = curve + 0.2 * np.sin(np.linspace(0, 6 * np.pi, 200))[:, None]
    assert cosine(ArcDct(damping=1.0), curve, shaken) > cosine(ArcDct(damping=0.0), curve, shaken)
