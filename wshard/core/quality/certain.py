"""Checks of what is certainly wrong in an episode, whatever is usual in others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from wshard.core.messages import plural
from wshard.core.quality.odd_values import APART
from wshard.core.quality.thresholds import DEFAULT_THRESHOLDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from wshard.core.quality.measure_vector import Measures
    from wshard.core.quality.thresholds import Thresholds

    Scores = NDArray[np.float64]

INVALID: Final = {"nan": "NaN", "infinite": "infinity", "placeholder": "a value that stands for none"}
"""Checks of the number of timesteps with values that are none -> these in words."""


@dataclass(frozen=True, eq=False)
class CheckScores:
    """Result of one check for N episodes: scores [N] (NaN if not applicable), and the reason for one of them.

    channels: the number of the channel of each reason [N], for a check of channels.
    """

    scores: Scores
    reason: Callable[[int], str]
    channels: NDArray[np.int64] | None = None


def worse(one: CheckScores, other: CheckScores) -> CheckScores:
    """Return the higher score of each episode, with its reason; both are of channels."""
    is_other = other.scores > one.scores
    both = None if one.channels is None or other.channels is None else (other.channels, one.channels)
    return CheckScores(
        np.fmax(one.scores, other.scores),
        lambda n: (other if is_other[n] else one).reason(n),
        None if both is None else np.where(is_other, *both),
    )


def judge_invalid(check: str, measures: Measures, limits: Thresholds) -> CheckScores:
    """Judge the number of timesteps with values that are none; check: one of INVALID."""
    count = np.rint(measures.of_channels(check) * measures.of_episode("length")[:, None])
    at = measures.of_channels(f"{check}_at")
    worst = count.argmax(axis=1)

    def reason(n: int) -> str:
        c, other_count = worst[n], int((count[n] > 0).sum()) - 1
        suffix = f", and in {plural(other_count, 'other channel')}" if other_count else ""
        place = f"{plural(count[n, c], 'timestep')}, first at timestep {at[n, c]:.0f}"
        return f"{measures.layout.label(c)}: {INVALID[check]} in {place}{suffix}"

    return CheckScores(count.max(axis=1) / getattr(limits, check), reason, worst)


def judge_reset(measures: Measures, limits: Thresholds) -> CheckScores:
    """Judge the first step, after a row that is perhaps of another episode."""
    steps = measures.of_channels("reset")
    worst = steps.argmax(axis=1)

    def reason(n: int) -> str:
        place = f"{measures.layout.label(worst[n])}: the first step is {steps[n, worst[n]]:.0f} times the largest"
        return f"{place} other one: perhaps a row of another episode"

    return CheckScores(np.log1p(steps.max(axis=1)) / np.log1p(limits.reset), reason, worst)


def judge_apart(measures: Measures, limits: Thresholds) -> CheckScores:
    """Judge a few values that are far from all others."""
    apart, at = measures.of_channels("apart"), measures.of_channels("apart_at")
    worst = apart.argmax(axis=1)

    def reason(n: int) -> str:
        c = worst[n]
        place = f"{measures.layout.label(c)}: timestep {at[n, c]:.0f}"
        return f"{place} lies {apart[n, c]:.0f} times the range of the other values away from them"

    limit = np.log1p(APART * limits.spike / DEFAULT_THRESHOLDS.spike)
    return CheckScores(np.log1p(apart.max(axis=1)) / limit, reason, worst)
