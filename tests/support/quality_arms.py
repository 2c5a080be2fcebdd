"""Episodes of an arm that follows its commands, with and without faults, and what checks say of them."""

# ruff: noqa: ANN003 -- as in tests, whose helpers these are
from __future__ import annotations

import numpy as np

from wshard.core.quality.baseline import fit_baseline
from wshard.core.quality.checks import judge
from wshard.core.quality.measure import measure
from wshard.core.quality.thresholds import DEFAULT_THRESHOLDS

PERIOD_NS = 20_000_000


def arm(seed=0, T=120, *, lag=2):  # noqa: N803 -- as in make_episode
    """Return lanes and times of an arm whose four joints follow noisy commands `lag` timesteps later."""
    rng = np.random.default_rng(seed)
    clock = np.linspace(0, 1, T + 10)[:, None]
    wanted = np.cos(2 * np.pi * (clock * np.array([1.0, 1.5, 2.0, 0.5]) + rng.uniform(-0.03, 0.03, 4)))
    acted = wanted + 0.05 * rng.normal(size=wanted.shape)
    joints = np.cumsum(np.roll(acted, lag, axis=0), axis=0) * 0.05 + 0.05 * rng.normal(size=4)
    lanes = {"signal/joints": joints[10:].astype(np.float32), "action/ctrl": acted[10:].astype(np.float32)}
    times = (np.arange(T) * PERIOD_NS + 0.01 * PERIOD_NS * rng.normal(size=T)).astype(np.int64)
    return lanes, times


def judged(lanes, times=None, *, limits=DEFAULT_THRESHOLDS, others=20, **arms):
    """Return the verdict on one episode among others of its kind."""
    length = len(next(iter(lanes.values())))
    form, vector = measure(lanes, length, times, 1e-9)
    known = [measure(*_among(n, length, lanes, times, arms)) for n in range(others)]
    assert all(found == form for found, _ in known)
    common = fit_baseline(form, np.stack([found for _, found in known])) if known else None
    return judge(form.read(vector[None]), common, limits)[0]


def _among(number, length, lanes, times, arms):
    others, clock = arm(100 + number, length, **arms)
    return {name: others[name] for name in lanes}, length, None if times is None else clock, 1e-9


def reasons(verdict):
    return {finding.check: finding.reason for finding in verdict.findings}
