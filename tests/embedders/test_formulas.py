"""The vectors are those of the formulas, spelt out here as slow loops over plain numbers."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from embedders import ArcDct, Blocks, Dct, Mean, PooledCallable, Statistics, Stats
from embedders.trajectory.resample import arc_resample, joined, resample
from embedders.trajectory.spectral import dct_matrix

LENGTHS = (1, 2, 3, 17, 64, 65, 200)


def make_windows(channels):
    rng = np.random.default_rng(11)
    windows = [rng.normal(0.5, 1.0, (length, channels)).cumsum(axis=0) for length in LENGTHS]
    windows[4][10:30] = windows[4][10]  # a stall
    windows[5][:, 0] = 3.25  # a constant channel
    windows[6][50] = 1e6  # beyond the clip
    return windows


def make_statistics(channels):
    rng = np.random.default_rng(12)
    std = rng.uniform(0.5, 20.0, channels)
    std[-1] = 1e-7  # a constant channel: not divided
    return Statistics(1000, rng.normal(size=channels), std)


def slow_z(window, statistics):
    scored = []
    for row in window:
        stds = [1.0 if std < 1e-6 else std for std in statistics.std]
        values = [(x - m) / s for x, m, s in zip(row, statistics.mean, stds, strict=True)]
        scored.append([min(5.0, max(-5.0, value)) for value in values])
    return scored


def slow_mix(first, second, weight):
    return [(1 - weight) * a + weight * b for a, b in zip(first, second, strict=True)]


def slow_resample(rows, length):
    out = []
    for j in range(length):
        place = j * (len(rows) - 1) / (length - 1)
        below = math.floor(place)
        out.append(slow_mix(rows[below], rows[min(below + 1, len(rows) - 1)], place - below))
    return out


def slow_arc_resample(rows, length, position, epsilon, path=None):
    path = rows if path is None else path
    if len(rows) == 1:
        return [list(rows[0]) for _ in range(length)]
    arc = [0.0]
    for before, after in pairwise(path):
        arc.append(arc[-1] + math.dist(before[:position], after[:position]) + epsilon)
    arc = [s / arc[-1] for s in arc]
    out = []
    for j in range(length):
        u = j / (length - 1)
        i = max(i for i in range(len(rows)) if arc[i] <= u)
        i = min(i, len(rows) - 2)
        out.append(slow_mix(rows[i], rows[i + 1], (u - arc[i]) / (arc[i + 1] - arc[i])))
    return out


def slow_dct(rows, coefficients, damping):
    length, flat = len(rows), []
    for k in range(coefficients):
        scale = math.sqrt((1 if k == 0 else 2) / length) * math.exp(-damping * k)
        for channel in range(len(rows[0])):
            waves = [rows[j][channel] * math.cos(math.pi * (2 * j + 1) * k / (2 * length)) for j in range(length)]
            flat.append(scale * math.fsum(waves))
    return flat


def slow_mean(rows):
    return [math.fsum(column) / len(column) for column in zip(*rows, strict=True)]


def slow_std(rows):
    means = slow_mean(rows)
    squares = [[(x - m) ** 2 for x, m in zip(row, means, strict=True)] for row in rows]
    return [math.sqrt(value) for value in slow_mean(squares)]


def slow_unit(vector):
    norm = math.sqrt(math.fsum(x * x for x in vector))
    return [x / norm for x in vector]


def slow_arcdct(window, statistics, length=64, coefficients=8, damping=0.15, position=3):
    rows = slow_arc_resample(slow_z(window, statistics), length, position, 1e-4)
    return slow_unit(slow_dct(rows, coefficients, damping))


def slow_dct_vector(window, statistics, length=64, coefficients=8):
    return slow_unit(slow_dct(slow_resample(slow_z(window, statistics), length), coefficients, 0.0))


def slow_stats(window, statistics):
    z = slow_z(window, statistics)
    return slow_unit([*slow_mean(z), *slow_std(z), *z[0], *z[-1]])


def slow_smooth(rows, around=2):
    return [slow_mean(rows[max(0, at - around) : at + around + 1]) for at in range(len(rows))]


def slow_steadiness(column):
    steps = [b - a for a, b in pairwise(column)]
    turns = [b - a for a, b in pairwise(steps)]
    most = 4 * math.fsum(step**2 for step in steps)
    return max(0.0, 1 - math.fsum(turn**2 for turn in turns) / most) ** 4 if most > 1e-9 else 1.0


def slow_arc_path(rows):
    steady = [slow_steadiness(column) for column in zip(*slow_smooth(rows, 1), strict=True)]
    return [[x * share for x, share in zip(row, steady, strict=True)] for row in slow_smooth(rows, 4)]


def slow_arc_mean(rows):
    steps = [*pairwise(rows)]
    lengths = [math.dist(a, b) for a, b in steps]
    if not sum(lengths):
        return rows[0]
    middles = zip(*([(x + y) / 2 for x, y in zip(a, b, strict=True)] for a, b in steps), strict=True)
    return [math.fsum(map(math.prod, zip(channel, lengths, strict=True))) / math.fsum(lengths) for channel in middles]


def slow_areas(rows):
    mean, channels = slow_arc_mean(rows), len(rows[0])
    paths = [[x - m for x, m in zip(row, mean, strict=True)] for row in rows]

    def area(i, j):
        steps = pairwise(paths)
        return math.fsum(a[i] * (b[j] - a[j]) - a[j] * (b[i] - a[i]) for a, b in steps) / 2

    pairs = [area(i, j) for i in range(channels) for j in range(i + 1, channels)]
    return [math.copysign(math.sqrt(abs(one)), one) for one in pairs]


def slow_silent(block):
    return [*[0.0] * (len(block) - 1), 1.0] if max(map(abs, block)) < 1e-9 else slow_unit(block)


def slow_quantiles(values):
    """Return nine quantiles of values and of steps, of all, of halves and of quarters."""
    found = []
    for count in (1, 2, 4):
        size, longer = divmod(len(values), count)
        begins = [number * size + min(number, longer) for number in range(count + 1)]
        for begin, end in pairwise(begins):
            part = values[begin:end]
            if len(part) < 3:
                part = (values * 3)[: max(3, len(values))]
            steps = [3 * (b - a) for a, b in pairwise(part)]
            for some in (part, steps):
                ordered = sorted(some)
                for eighth in range(9):
                    below, rest = divmod(eighth * (len(some) - 1), 8)
                    above = min(below + 1, len(some) - 1)
                    found.append((ordered[below] + rest / 8 * (ordered[above] - ordered[below])) / math.sqrt(count))
    return found


def slow_blocks(window, statistics):
    z = slow_z(window, statistics)
    if len(z[0]) == 1:
        return slow_silent(slow_quantiles([row[0] for row in z]))
    path = slow_dct(slow_arc_resample(z, 64, None, 1e-4, slow_arc_path(z)), 8, 0.15)
    shape = slow_dct(slow_resample(z, 64), 16, 0.0)[len(z[0]) :]
    return slow_unit([x for block in (path, shape, slow_areas(slow_smooth(z))) if block for x in slow_silent(block)])


def slow_mean_vector(window, statistics):
    return slow_unit(slow_mean(window))


def slow_pooled(window, statistics):
    mean = slow_mean(window)
    return slow_unit([mean[0], math.tanh(mean[-1]), 2.0])


def pooled(mean):
    return np.array([mean[0], np.tanh(mean[-1]), 2.0])


@pytest.mark.parametrize("channels", [1, 3, 8, 39])
@pytest.mark.parametrize(
    ("embedder", "oracle"),
    [
        (ArcDct(), slow_arcdct),
        (ArcDct(32, 5, 0.0, position=None), lambda w, s: slow_arcdct(w, s, 32, 5, 0.0, None)),
        (ArcDct(position=1), lambda w, s: slow_arcdct(w, s, position=1)),
        (Blocks(), slow_blocks),
        (Dct(), slow_dct_vector),
        (Dct(16, 16), lambda w, s: slow_dct_vector(w, s, 16, 16)),
        (Stats(), slow_stats),
        (Mean(), slow_mean_vector),
        (PooledCallable(pooled, "pooled"), slow_pooled),
    ],
    ids=[
        "arcdct",
        "arcdct-all",
        "arcdct-one",
        "blocks",
        "dct",
        "dct-16",
        "stats",
        "mean",
        "pooled",
    ],
)
def test_vectors_are_those_of_the_slow_loops(embedder, oracle, channels):
    windows, statistics = make_windows(channels), make_statistics(channels)
    expected = np.array([oracle(window.tolist(), statistics) for window in windows])
    np.testing.assert_allclose(embedder.embed(windows, statistics), expected, rtol=0, atol=2e-6)


@pytest.mark.parametrize("length", [2, 5, 64])
def test_resampling_follows_the_slow_loops(length):
    for window in make_windows(4):
        even = resample(*joined([window]), length)[0]
        np.testing.assert_allclose(even, slow_resample(window, length), rtol=1e-9, atol=1e-9)
        for position in (1, 3, None):
            found = arc_resample(*joined([window]), length, path=window[:, :position], epsilon=1e-3)[0]
            np.testing.assert_allclose(found, slow_arc_resample(window, length, position, 1e-3), rtol=1e-7, atol=1e-7)


def test_resampling_to_its_own_length_gives_the_window_back():
    (window,) = (window for window in make_windows(4) if len(window) == 65)
    np.testing.assert_allclose(resample(*joined([window]), 65)[0], window, rtol=1e-12)


def test_a_window_that_never_moves_is_resampled_in_time():
    still = np.hstack([np.zeros((9, 3)), np.arange(9.0)[:, None]])
    found = arc_resample(*joined([still]), 5, path=still[:, :3], epsilon=1e-4)[0]
    np.testing.assert_allclose(found[:, 3], [0, 2, 4, 6, 8], atol=1e-9)


def test_the_whole_dct_is_orthonormal_and_cannot_be_changed():
    matrix = dct_matrix(24, 24)
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(24), atol=1e-12)
    with pytest.raises(ValueError, match="read-only"):
        matrix[0, 0] = 1.0
