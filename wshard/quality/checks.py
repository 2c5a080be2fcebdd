"""The checks: from measures and a baseline to a score and a reason.

A score is 0 or more, higher is worse, and 1 and above is flagged. Checks that need a baseline give no score where too
few episodes of the environment are known.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from wshard.messages import plural
from wshard.quality.lag import best_shift
from wshard.quality.measure_vector import PHASES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from wshard.quality.baseline import Baseline
    from wshard.quality.measure_vector import Measures
    from wshard.quality.thresholds import Thresholds

    Scores = NDArray[np.float64]
    Judge: TypeAlias = Callable[[Measures, Baseline | None, Thresholds], "Judged | None"]

_SHARE_FLOOR: Final = 0.03  # of the duration: what differs by less is never far from usual
_JUMP_FLOOR: Final = 0.02  # of a standard deviation
_RATIO_FLOOR: Final = 0.25
_ROUGH_FLOOR: Final = 0.1
_LEVEL_FLOOR: Final = 0.1  # of a standard deviation
_LASTING: Final = 3  # phases in which a channel must be unlike the others
_GAIN_FLOOR: Final = 0.2  # of the fit
_TINY: Final = 1e-9
_AMOUNTS: Final = MappingProxyType(
    {
        "repeated": "at the time of the one before, first at timestep",  # which leaves a gap behind it
        "missing": "missing before, first at timestep",
        "backward": "back in time, first at timestep",
    }
)
_PARTS: Final = MappingProxyType(
    {
        "jitter": "timesteps scatter by {:.1%} of a period",
        "drift": "the period drifts by {:.1%} from the first to the last timestep",
        "period": "the period is {:.0%} off that of this environment",
    }
)


@dataclass(frozen=True, eq=False)
class Judged:
    """Result of one check for N episodes: scores [N] (NaN if not applicable), and the reason for one of them."""

    scores: Scores
    reason: Callable[[int], str]


@dataclass(frozen=True)
class QualityFinding:
    """Something that is wrong with an episode: by which check, and the reason in words."""

    check: str
    reason: str


@dataclass(frozen=True)
class Verdict:
    """Results of the checks for one episode: a score by check, and the findings with a score of 1 or more."""

    scores: Mapping[str, float]
    findings: tuple[QualityFinding, ...]


def judge(measures: Measures, known: Baseline | None, limits: Thresholds) -> list[Verdict]:
    """Return the verdicts on N episodes of one form and environment; known: what is usual there, None for too few."""
    count = len(measures.episode)
    scores: list[dict[str, float]] = [{} for _ in range(count)]
    findings: list[list[QualityFinding]] = [[] for _ in range(count)]
    with np.errstate(all="ignore"):  # numbers near the limits of a float; what cannot be judged is NaN
        for name, check in CHECKS.items():
            judged = check(measures, known, limits)
            for number, score in enumerate([] if judged is None else judged.scores.tolist()):
                if judged is not None and np.isfinite(score):
                    scores[number][name] = score
                    if score >= 1:
                        findings[number].append(QualityFinding(name, judged.reason(number)))
    return [Verdict(*parts) for parts in zip(scores, map(tuple, findings), strict=True)]


def _clock(found: Measures, known: Baseline | None, limits: Thresholds) -> Judged:
    measured: dict[str, NDArray[np.floating]] = {n: found.of_clock(n) for n in (*_AMOUNTS, "jitter", "drift")}
    counts = {name: np.rint(measured[name] * found.of_episode("length")) for name in _AMOUNTS}
    measured["backward"] = counts["backward"]  # once is too often, however long the episode
    period = np.maximum(found.of_clock("period"), _TINY)
    common = np.maximum(known.middle.of_clock("period"), _TINY) if known else period
    measured["period"] = np.maximum(period, common) / np.minimum(period, common) - 1
    names = list(measured)
    parts = np.stack([values / getattr(limits, name) for name, values in measured.items()])

    def describe_part(name: str, n: int) -> str:
        if name in _AMOUNTS:
            return f"{plural(counts[name][n], 'timestep')} {_AMOUNTS[name]} {found.of_clock(f'{name}_at')[n]:.0f}"
        return _PARTS[name].format(float(measured[name][n]))

    def reason(n: int) -> str:
        # All of them, the worst first: timesteps that scatter look like missing ones, too.
        worst = np.argsort(-parts[:, n], kind="stable").tolist()
        return f"clock: {'; '.join(describe_part(names[part], n) for part in worst if parts[part, n] >= 1)}"

    return Judged(parts.max(axis=0), reason)


def _finite(found: Measures, _: Baseline | None, limits: Thresholds) -> Judged | None:
    if not found.form.channels:
        return None
    count = np.rint(found.of_channels("bad") * found.of_episode("length")[:, None])
    at = found.of_channels("bad_at")
    worst = count.argmax(axis=1)

    def reason(n: int) -> str:
        c, others = worst[n], int((count[n] > 0).sum()) - 1
        more = f", and in {plural(others, 'other channel')}" if others else ""
        many = plural(count[n, c], "timestep")
        return f"{found.form.place(c)}: NaN or Inf in {many}, first at timestep {at[n, c]:.0f}{more}"

    return Judged(count.max(axis=1) / limits.finite, reason)


def _short(found: Measures, known: Baseline | None, limits: Thresholds) -> Judged | None:
    if known is None:
        return None
    length, common = found.of_episode("length"), float(known.middle.of_episode("length")[0])
    return Judged(
        limits.short * common / np.maximum(length, 1),
        lambda n: f"{plural(length[n], 'timestep')}, {length[n] / common:.0%} of the {common:.0f} that are usual",
    )


def _lasting(check: str, measure: str, says: str) -> Judge:
    """Return a check of the share of the duration for which a channel does something."""

    def judge_lasting(found: Measures, known: Baseline | None, limits: Thresholds) -> Judged | None:
        if known is None or not found.form.channels:
            return None
        share, at = found.of_channels(measure), found.of_channels(f"{measure}_at")
        common = known.middle.of_channels(measure)
        above = known.above.of_channels(measure)
        beyond = np.where(known.moves, np.maximum(share - common, 0) / (above + _SHARE_FLOOR), 0.0)
        worst = beyond.argmax(axis=1)

        def reason(n: int) -> str:
            c = worst[n]
            return (
                f"{found.form.place(c)}: {says} for {share[n, c]:.0%} of the duration, from timestep {at[n, c]:.0f} on "
                f"(usual: {common[0, c]:.0%})"
            )

        return Judged(beyond.max(axis=1) / getattr(limits, check), reason)

    return judge_lasting


def _spike(found: Measures, known: Baseline | None, limits: Thresholds) -> Judged | None:
    if known is None or not found.form.channels:
        return None
    scale = known.scale + _TINY
    size, at = found.of_channels("jump") / scale, found.of_channels("jump_at")
    common = known.middle.of_channels("jump") / scale
    above = known.above.of_channels("jump") / scale
    ratio = np.log((size + _JUMP_FLOOR) / (common + _JUMP_FLOOR))
    beyond = np.maximum(ratio, 0) / (np.log1p(above / (common + _JUMP_FLOOR)) + _RATIO_FLOOR)
    worst = beyond.argmax(axis=1)

    def reason(n: int) -> str:
        c = worst[n]
        if not known.moves[c]:
            apart = found.of_channels("jump")[n, c]
            where = f"{found.form.place(c)}: timestep {at[n, c]:.0f} lies {apart:.3g} from its neighbours"
            return f"{where}, in a channel that usually keeps one value"
        return (
            f"{found.form.place(c)}: timestep {at[n, c]:.0f} lies {size[n, c]:.2g} standard deviations from its "
            f"neighbours (usual: {common[0, c]:.2g} at most)"
        )

    return Judged(beyond.max(axis=1) / limits.spike, reason)


def _stall(found: Measures, known: Baseline | None, limits: Thresholds) -> Judged | None:
    if known is None:
        return None
    share, at = found.of_episode("still"), found.of_episode("still_at")
    common = float(known.middle.of_episode("still")[0])
    beyond = np.maximum(share - common, 0) / (known.above.of_episode("still") + _SHARE_FLOOR)
    return Judged(
        beyond / limits.stall,
        lambda n: (
            f"nothing moves for {share[n]:.0%} of the duration, from timestep {at[n]:.0f} on (usual: {common:.0%})"
        ),
    )


def _lag(found: Measures, known: Baseline | None, limits: Thresholds) -> Judged | None:
    if known is None or known.answer is None:
        return None
    shift, better = best_shift(found.lag, known.answer)

    def reason(n: int) -> str:
        when = f"{plural(abs(shift[n]), 'timestep')} too {'late' if shift[n] < 0 else 'early'}"
        return f"actions are {when} for what is observed, against what is usual"

    return Judged(better / (known.gain + _GAIN_FLOOR) / limits.lag, reason)


def _rough(found: Measures, known: Baseline | None, limits: Thresholds) -> Judged | None:
    if known is None:
        return None
    size, common = found.of_episode("rough"), float(known.middle.of_episode("rough")[0])
    most = common + limits.rough * (known.above.of_episode("rough") + _ROUGH_FLOOR)
    return Judged(size / most, lambda n: f"trembles {size[n] / common:.1f} times as much as usual")


def _unusual(found: Measures, known: Baseline | None, limits: Thresholds) -> Judged | None:
    if known is None or not found.form.channels:
        return None
    apart = found.phases() - known.middle.phases()
    usual = np.where(apart > 0, known.above.phases(), known.below.phases())
    spread = np.where(known.moves, known.middle.of_channels("std"), known.scale)
    beyond = np.abs(apart) / (usual + _LEVEL_FLOOR * spread[:, None] + _TINY)
    lasting = np.partition(beyond, PHASES - _LASTING, axis=1)[:, PHASES - _LASTING]
    worst = lasting.argmax(axis=1)
    phase = beyond.argmax(axis=1)
    length = found.of_episode("length")

    def reason(n: int) -> str:
        first = length[n] * phase[n, worst[n]] / PHASES
        return f"{found.form.place(worst[n])}: unlike the others of this environment, most from timestep {first:.0f} on"

    return Judged(np.log1p(lasting.max(axis=1)) / np.log1p(limits.unusual), reason)


CHECKS: Final[Mapping[str, Judge]] = MappingProxyType(
    {
        "clock": _clock,
        "finite": _finite,
        "short": _short,
        "frozen": _lasting("frozen", "held", "keeps one value"),
        "saturated": _lasting("saturated", "railed", "is at its own highest or lowest value"),
        "spike": _spike,
        "stall": _stall,
        "lag": _lag,
        "rough": _rough,
        "unusual": _unusual,
    }
)
"""Every check by name, in the order of reports."""
