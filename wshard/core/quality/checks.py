"""The checks: each turns measures and a baseline into scores and reasons.

A score is 0 or more, higher is worse, and 1 and above is flagged. Without a baseline, as the environment has too few
episodes, checks flag what is certain from the episode alone; those to which nothing is give no score.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from wshard.core.messages import plural
from wshard.core.quality.certain import INVALID, CheckScores, judge_apart, judge_invalid, judge_reset, worse
from wshard.core.quality.lag import best_shift
from wshard.core.quality.measure_vector import PHASES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from wshard.core.quality.baseline import Baseline
    from wshard.core.quality.measure_vector import Measures
    from wshard.core.quality.thresholds import Thresholds

    Scores = NDArray[np.float64]
    CheckFunction: TypeAlias = Callable[[Measures, Baseline | None, Thresholds], "CheckScores | None"]

_SHARE_FLOOR: Final = 0.03  # of the duration; smaller differences are never unusual
_JUMP_FLOOR: Final = 0.02  # of a standard deviation
_RATIO_FLOOR: Final = 0.25
_ROUGH_FLOOR: Final = 0.1
_LEVEL_FLOOR: Final = 0.1  # of a standard deviation
_MIN_PHASES: Final = 3  # phases in which a channel must differ from the others
_GAIN_FLOOR: Final = 0.2  # of the fit
_TINY: Final = 1e-9
_COUNT_REASONS: Final = MappingProxyType(
    {
        "repeated": "at the time of the one before, first at timestep",  # a repeated time leaves a gap after it
        "missing": "missing before, first at timestep",
        "backward": "back in time, first at timestep",
    }
)
_CLOCK_REASONS: Final = MappingProxyType(
    {
        "jitter": "timesteps scatter by {:.1%} of a period",
        "drift": "the period drifts by {:.1%} from the first to the last timestep",
        "period": "the period is {:.0%} off that of this environment",
    }
)


@dataclass(frozen=True)
class QualityFinding:
    """A problem of an episode: the name of the check, the reason in words, and the channel if it is that of one."""

    check: str
    reason: str
    channel: str = ""


@dataclass(frozen=True)
class Verdict:
    """Results of the checks for one episode: a score by check, and the findings with a score of 1 or more.

    compared: with a baseline; without, only what is certain was judged.
    """

    scores: Mapping[str, float]
    findings: tuple[QualityFinding, ...]
    compared: bool = False


def judge(measures: Measures, baseline: Baseline | None, limits: Thresholds) -> list[Verdict]:
    """Return the verdicts on N episodes of one layout and environment; baseline: None for too few episodes."""
    count = len(measures.episode)
    scores: list[dict[str, float]] = [{} for _ in range(count)]
    findings: list[list[QualityFinding]] = [[] for _ in range(count)]
    with np.errstate(all="ignore"):  # numbers near the limits of floats; NaN if not applicable
        for name, check in CHECKS.items():
            result = check(measures, baseline, limits)
            for number, score in enumerate([] if result is None else result.scores.tolist()):
                if result is not None and np.isfinite(score):
                    scores[number][name] = score
                    if score >= 1:
                        channel = "" if result.channels is None else measures.layout.label(int(result.channels[number]))
                        findings[number].append(QualityFinding(name, result.reason(number), channel))
    compared = baseline is not None
    return [Verdict(*parts, compared) for parts in zip(scores, map(tuple, findings), strict=True)]


def _clock(measures: Measures, baseline: Baseline | None, limits: Thresholds) -> CheckScores:
    measured: dict[str, NDArray[np.floating]] = {n: measures.of_clock(n) for n in (*_COUNT_REASONS, "jitter", "drift")}
    counts = {name: np.rint(measured[name] * measures.of_episode("length")) for name in _COUNT_REASONS}
    measured["backward"] = counts["backward"]  # once is too often, however long the episode
    period = np.maximum(measures.of_clock("period"), _TINY)
    usual = np.maximum(baseline.middle.of_clock("period"), _TINY) if baseline else period
    measured["period"] = np.maximum(period, usual) / np.minimum(period, usual) - 1
    names = list(measured)
    parts = np.stack([values / getattr(limits, name) for name, values in measured.items()])

    def describe_part(name: str, n: int) -> str:
        if name in _COUNT_REASONS:
            return (
                f"{plural(counts[name][n], 'timestep')} {_COUNT_REASONS[name]} {measures.of_clock(f'{name}_at')[n]:.0f}"
            )
        return _CLOCK_REASONS[name].format(float(measured[name][n]))

    def reason(n: int) -> str:
        # All reasons, worst first, as scattered timesteps look like missing ones, too.
        worst = np.argsort(-parts[:, n], kind="stable").tolist()
        return f"clock: {'; '.join(describe_part(names[part], n) for part in worst if parts[part, n] >= 1)}"

    return CheckScores(parts.max(axis=0), reason)


def _invalid(check: str) -> CheckFunction:
    return lambda measures, _, limits: judge_invalid(check, measures, limits) if measures.layout.channels else None


def _reset(measures: Measures, _: Baseline | None, limits: Thresholds) -> CheckScores | None:
    return judge_reset(measures, limits) if measures.layout.channels else None


def _short(measures: Measures, baseline: Baseline | None, limits: Thresholds) -> CheckScores | None:
    if baseline is None:
        return None
    length, usual = measures.of_episode("length"), float(baseline.middle.of_episode("length")[0])
    return CheckScores(
        limits.short * usual / np.maximum(length, 1),
        lambda n: f"{plural(length[n], 'timestep')}, {length[n] / usual:.0%} of the {usual:.0f} that are usual",
    )


def _lasting(measures: Measures, measure: str, action: str, limit: float, baseline: Baseline | None) -> CheckScores:
    """Judge the share of the duration for which a channel does something (`action`, in words); None: none is usual."""
    share, at = measures.of_channels(measure), measures.of_channels(f"{measure}_at")
    usual = baseline.middle.of_channels(measure) if baseline else np.zeros_like(share[:1])
    above = baseline.above.of_channels(measure) if baseline else usual
    excess = np.maximum(share - usual, 0) / (above + _SHARE_FLOOR)
    if baseline:
        excess = np.where(baseline.moves, excess, 0.0)
    worst = excess.argmax(axis=1)

    def reason(n: int) -> str:
        c = worst[n]
        place = f"for {share[n, c]:.0%} of the duration, from timestep {at[n, c]:.0f} on"
        return f"{measures.layout.label(c)}: {action} {place}" + (f" (usual: {usual[0, c]:.0%})" if baseline else "")

    return CheckScores(excess.max(axis=1) / limit, reason, worst)


def _frozen(measures: Measures, baseline: Baseline | None, limits: Thresholds) -> CheckScores | None:
    if not measures.layout.channels:
        return None
    stuck = _lasting(measures, "stuck", "keeps one value while others move,", limits.frozen, None)
    if baseline is None:
        return stuck
    return worse(_lasting(measures, "held", "keeps one value", limits.frozen, baseline), stuck)


def _saturated(measures: Measures, baseline: Baseline | None, limits: Thresholds) -> CheckScores | None:
    if baseline is None or not measures.layout.channels:
        return None
    return _lasting(measures, "railed", "is at its own highest or lowest value", limits.saturated, baseline)


def _spike(measures: Measures, baseline: Baseline | None, limits: Thresholds) -> CheckScores | None:
    if not measures.layout.channels:
        return None
    apart = judge_apart(measures, limits)
    return apart if baseline is None else worse(_jumps(measures, baseline, limits), apart)


def _jumps(measures: Measures, baseline: Baseline, limits: Thresholds) -> CheckScores:
    scale = baseline.scale + _TINY
    size, at = measures.of_channels("jump") / scale, measures.of_channels("jump_at")
    usual = baseline.middle.of_channels("jump") / scale
    above = baseline.above.of_channels("jump") / scale
    ratio = np.log((size + _JUMP_FLOOR) / (usual + _JUMP_FLOOR))
    excess = np.maximum(ratio, 0) / (np.log1p(above / (usual + _JUMP_FLOOR)) + _RATIO_FLOOR)
    worst = excess.argmax(axis=1)

    def reason(n: int) -> str:
        c = worst[n]
        if not baseline.moves[c]:
            distance = measures.of_channels("jump")[n, c]
            where = f"{measures.layout.label(c)}: timestep {at[n, c]:.0f} lies {distance:.3g} from its neighbours"
            return f"{where}, in a channel that usually keeps one value"
        return (
            f"{measures.layout.label(c)}: timestep {at[n, c]:.0f} lies {size[n, c]:.2g} standard deviations from its "
            f"neighbours (usual: {usual[0, c]:.2g} at most)"
        )

    return CheckScores(excess.max(axis=1) / limits.spike, reason, worst)


def _stall(measures: Measures, baseline: Baseline | None, limits: Thresholds) -> CheckScores | None:
    if baseline is None:
        return None
    share, at = measures.of_episode("still"), measures.of_episode("still_at")
    usual = float(baseline.middle.of_episode("still")[0])
    excess = np.maximum(share - usual, 0) / (baseline.above.of_episode("still") + _SHARE_FLOOR)
    return CheckScores(
        excess / limits.stall,
        lambda n: (
            f"nothing moves for {share[n]:.0%} of the duration, from timestep {at[n]:.0f} on (usual: {usual:.0%})"
        ),
    )


def _lag(measures: Measures, baseline: Baseline | None, limits: Thresholds) -> CheckScores | None:
    if baseline is None or baseline.response is None:
        return None
    shift, gain = best_shift(measures.lag, baseline.response)

    def reason(n: int) -> str:
        when = f"{plural(abs(shift[n]), 'timestep')} too {'late' if shift[n] < 0 else 'early'}"
        return f"actions are {when} for what is observed, against what is usual"

    return CheckScores(gain / (baseline.gain + _GAIN_FLOOR) / limits.lag, reason)


def _rough(measures: Measures, baseline: Baseline | None, limits: Thresholds) -> CheckScores | None:
    if baseline is None:
        return None
    size, usual = measures.of_episode("rough"), float(baseline.middle.of_episode("rough")[0])
    limit = usual + limits.rough * (baseline.above.of_episode("rough") + _ROUGH_FLOOR)
    return CheckScores(size / limit, lambda n: f"trembles {size[n] / usual:.1f} times as much as usual")


def _unusual(measures: Measures, baseline: Baseline | None, limits: Thresholds) -> CheckScores | None:
    if baseline is None or not measures.layout.channels:
        return None
    deviation = measures.phases() - baseline.middle.phases()
    spread_to_side = np.where(deviation > 0, baseline.above.phases(), baseline.below.phases())
    spread = np.where(baseline.moves, baseline.middle.of_channels("std"), baseline.scale)
    excess = np.abs(deviation) / (spread_to_side + _LEVEL_FLOOR * spread[:, None] + _TINY)
    lasting_excess = np.partition(excess, PHASES - _MIN_PHASES, axis=1)[:, PHASES - _MIN_PHASES]
    worst = lasting_excess.argmax(axis=1)
    phase = excess.argmax(axis=1)
    length = measures.of_episode("length")

    def reason(n: int) -> str:
        first = length[n] * phase[n, worst[n]] / PHASES
        name = measures.layout.label(worst[n])
        return f"{name}: unlike the others of this environment, most from timestep {first:.0f} on"

    return CheckScores(np.log1p(lasting_excess.max(axis=1)) / np.log1p(limits.unusual), reason, worst)


CHECKS: Final[Mapping[str, CheckFunction]] = MappingProxyType(
    {
        "clock": _clock,
        **{name: _invalid(name) for name in INVALID},
        "reset": _reset,
        "short": _short,
        "frozen": _frozen,
        "saturated": _saturated,
        "spike": _spike,
        "stall": _stall,
        "lag": _lag,
        "rough": _rough,
        "unusual": _unusual,
    }
)
"""Every check by name, in the order of reports."""
