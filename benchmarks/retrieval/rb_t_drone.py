"""A small quadrotor for benchmark RB-T: it flies figures, wherever and in whichever direction they begin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Rows = NDArray[np.float64]

_GRAVITY: Final = 9.81
_TICK: Final = 0.05


def _figure(label: int, size: float) -> Rows:
    """Return the places [n, 3] that a figure leads through."""
    style = np.random.default_rng(7000 + label)
    turns = np.linspace(0, 2 * np.pi, 40)
    if label % 3 == 0:  # loops of some ratio
        first, second = style.integers(1, 4, 2)
        return size * np.stack([np.sin(first * turns), np.sin(second * turns + 0.7), 0.4 * np.cos(turns)], axis=1)
    if label % 3 == 1:  # polygons
        return size * style.uniform(-1, 1, (6, 3))
    height = np.cumsum(style.uniform(-1, 1, 5))  # climbs on a line
    return size * np.stack([np.linspace(0, 3, 5), style.uniform(-0.3, 0.3, 5), height], axis=1)


def fly(label: int, rng: np.random.Generator, noise: float) -> tuple[list[Rows], list[Rows]]:
    """Return position, velocity and attitude [9] and thrust and tilts wanted [3] of every timestep of a flight."""
    steps, pace = int(rng.integers(80, 200)), rng.uniform(0.75, 1.3)
    way = _figure(label, rng.uniform(1.5, 2.5))
    yaw, begin = rng.normal(0, 0.3), rng.normal(0, 0.7, 3)
    turn = np.array([[np.cos(yaw), -np.sin(yaw), 0], [np.sin(yaw), np.cos(yaw), 0], [0, 0, 1]])
    way = way @ turn.T + begin
    place, speed, tilt = way[0].copy(), np.zeros(3), np.zeros(3)
    wind = rng.normal(0, 0.3, 3)
    rows, actions = [], []
    for step in range(steps):
        at = min(1.0, pace * step / steps) * (len(way) - 1)
        goal = np.array([np.interp(at, np.arange(len(way)), axis) for axis in way.T])
        pull = 6.0 * (goal - place) - 3.5 * speed + rng.normal(0, 4 * noise, 3)
        wanted = np.clip(np.array([pull[0], pull[1]]) / _GRAVITY, -0.6, 0.6)
        thrust = np.clip(_GRAVITY + pull[2], 0.0, 2 * _GRAVITY)
        rows.append(np.concatenate([place, speed, tilt]))
        actions.append(np.array([thrust / _GRAVITY - 1, *wanted]))
        tilt = tilt + np.array([*(wanted - tilt[:2]) * 0.4, 0.02 * rng.normal()])
        push = thrust * np.array([np.sin(tilt[0]), np.sin(tilt[1]), np.cos(tilt[0]) * np.cos(tilt[1])])
        speed = speed + _TICK * (push - np.array([0, 0, _GRAVITY]) + wind - 0.3 * speed)
        place = place + _TICK * speed
    return rows, actions
