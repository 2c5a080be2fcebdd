"""What others rank episodes by, for benchmark RB-C: jerk, stillness, length, mutual information, distance to a medoid.

Knows the clips of one task; every score [N] is higher for what should be worse. NaN is replaced as the checks do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from dtw import full_dtw

from wshard.core.quality.channels import fill_bad

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray
    from rb_c_faults import Clip

    Rows = NDArray[np.float64]

_NEIGHBOURS: Final = 5
_LATENT: Final = 8
_STILL: Final = 0.01


def _rows(clips: Sequence[Clip], lane: str) -> list[Rows]:
    return [fill_bad(clip.lanes()[lane].T.astype(np.float64))[0].T for clip in clips]


def _scaled(rows: Sequence[Rows]) -> list[Rows]:
    steps = np.concatenate(rows)
    spread = steps.std(axis=0)
    return [(part - steps.mean(axis=0)) / np.where(spread < 1e-6, 1.0, spread) for part in rows]


def _beyond_quartiles(values: Sequence[float]) -> Rows:
    """Return how many quartile distances each value lies outside the quartiles, on either side."""
    found = np.asarray(values)
    low, high = np.quantile(found, [0.25, 0.75])
    return np.maximum(np.maximum(low - found, found - high), 0.0) / (high - low + 1e-9)


def jerk(clips: Sequence[Clip]) -> Rows:
    """Rank by the mean size of third differences."""
    scaled = _scaled(_rows(clips, "signal/state"))
    return _beyond_quartiles([float(np.abs(np.diff(rows, n=3, axis=0)).mean()) for rows in scaled])


def stillness(clips: Sequence[Clip]) -> Rows:
    """Rank by the share of timesteps in which nothing moves."""
    scaled = _scaled(_rows(clips, "signal/state"))
    speeds = [np.sqrt((np.diff(rows, axis=0) ** 2).mean(axis=1)) for rows in scaled]
    return _beyond_quartiles([float((speed < _STILL).mean()) for speed in speeds])


def length(clips: Sequence[Clip]) -> Rows:
    """Rank by the number of timesteps."""
    return _beyond_quartiles([float(clip.length) for clip in clips])


def mutual_information(clips: Sequence[Clip]) -> Rows:
    """Rank by how little an episode adds to the mutual information of states and actions (KSG on PCA latents)."""
    seen, acted = (_latents(_scaled(_rows(clips, lane))) for lane in ("signal/state", "action/ctrl"))
    apart, also = _distances(seen), _distances(acted)
    joint = np.maximum(apart, also)
    np.fill_diagonal(joint, np.inf)
    reach = np.partition(joint, _NEIGHBOURS - 1, axis=1)[:, _NEIGHBOURS - 1 : _NEIGHBOURS]
    near = _digamma((apart < reach).sum(axis=1)) + _digamma((also < reach).sum(axis=1))
    ends = np.cumsum([clip.length for clip in clips])
    return np.array([part.mean() for part in np.split(near, ends[:-1])])


def medoid(clips: Sequence[Clip]) -> Rows:
    """Rank by the distance to the task's medoid by dynamic time warping."""
    scaled = _scaled(_rows(clips, "signal/state"))
    costs = np.array([[full_dtw(one, other) for other in scaled] for one in scaled])
    distances: Rows = costs[int(costs.sum(axis=1).argmin())]
    return distances


def _latents(scaled: Sequence[Rows]) -> Rows:
    steps = np.concatenate(scaled)
    _, _, directions = np.linalg.svd(steps, full_matrices=False)
    found: Rows = steps @ directions[:_LATENT].T
    return found


def _distances(rows: Rows) -> NDArray[np.float32]:
    squares = (rows**2).sum(axis=1)
    apart = squares[:, None] + squares[None] - 2 * rows @ rows.T
    return np.sqrt(np.maximum(apart, 0.0)).astype(np.float32)


def _digamma(counts: NDArray[np.int64]) -> Rows:
    """Return the digamma function of whole numbers >= 1, by its series."""
    values = np.maximum(counts, 1).astype(np.float64)
    shift = np.zeros_like(values)
    for _ in range(6):
        small = values < 6
        shift -= np.where(small, 1 / values, 0.0)
        values = values + small
    found: Rows = shift + np.log(values) - 1 / (2 * values) - 1 / (12 * values**2) + 1 / (120 * values**4)
    return found


BASELINES: Final[Mapping[str, Callable[[Sequence[Clip]], Rows]]] = {
    "jerk": jerk,
    "stillness": stillness,
    "length": length,
    "mutual information": mutual_information,
    "DTW to medoid": medoid,
}
