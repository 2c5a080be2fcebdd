"""Disturbed views of an episode, which are still the same behaviour: what embedders are trained with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from embedders.numeric import Rows


def disturb(rows: Rows, rng: np.random.Generator) -> Rows:
    """Return a view of a z-scored episode: other speeds, perhaps a part of it, a stall, noise, an offset."""
    length = len(rows)
    speed = np.interp(np.linspace(0, 7, length), np.arange(8), np.exp(0.6 * rng.normal(size=8)))
    places = np.concatenate([[0.0], np.cumsum(speed[:-1])])
    places *= (length - 1) / max(places[-1], 1e-9)
    if length >= 16 and rng.random() < 0.3:
        size = int(length * rng.uniform(0.6, 1.0))
        begin = int(rng.integers(0, length - size + 1))
        places = places[begin : begin + size]
    if rng.random() < 0.3:
        at = int(rng.integers(0, len(places)))
        places = np.insert(places, at, np.full(int(0.3 * length), places[at]))
    below = places.astype(np.intp).clip(0, length - 1)
    share = (places - below)[:, None]
    view: Rows = rows[below] * (1 - share) + rows[np.minimum(below + 1, length - 1)] * share
    if rng.random() < 0.5:
        view = view + rng.uniform(0, 0.4) * rng.normal(size=view.shape)
    if rng.random() < 0.5:
        view = view + rng.uniform(0, 0.6) * rng.normal(size=(1, view.shape[1]))
    return view
