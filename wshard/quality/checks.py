"""The checks: from measures, and what is usual, to a score and a reason.

A score is 0 or more, higher is worse, and 1 and above is flagged. Checks that need to know what is usual give no score
where too few episodes of the environment are known. Does not know: files, the catalog, how anything was measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np

from wshard.quality.form import MOST_LAG, PHASES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from wshard.quality.form import Measures
    from wshard.quality.limits import Limits
    from wshard.quality.usual import Usual

    Scores = NDArray[np.float64]
    Judge = Callable[[Measures, Usual | None, Limits], "Judged | None"]


@dataclass(frozen=True, eq=False)
class Judged:
    """What one check says of N episodes: scores [N] (NaN where it cannot say), and the reason of one of them."""

    scores: Scores
    reason: Callable[[int], str]


@dataclass(frozen=True)
class Finding:
    """Something that is wrong with an episode: by which check, and the reason in words."""

    check: str
    reason: str


@dataclass(frozen=True)
class Verdict:
    """What the checks say of one episode: a score by check, and the findings of those with a score of 1 or more."""

    scores: Mapping[str, float]
    findings: tuple[Finding, ...]


def judge(measures: Measures, known: Usual | None, limits: Limits) -> list[Verdict]:
    """Return the verdicts on N episodes of one form and environment."""
    count = len(measures.episode)
    scores: list[dict[str, float]] = [{} for _ in range(count)]
    findings: list[list[Finding]] = [[] for _ in range(count)]
    for name, check in CHECKS.items():
        judged = check(measures, known, limits)
        if judged is None:
            continue
        for number, score in enumerate(judged.scores.tolist()):
            if np.isfinite(score):
                scores[number][name] = round(score, 4)
                if score >= 1:
                    findings[number].append(Finding(name, judged.reason(number)))
    return [Verdict(*parts) for parts in zip(scores, map(tuple, findings), strict=True)]


def _finite(found: Measures, _: Usual | None, limits: Limits) -> Judged | None:
    share = found.of_channels("bad")
    if not share.shape[1]:
        return None
    worst = share.argmax(axis=1)
    at = found.of_channels("bad_at")

    def reason(n: int) -> str:
        channels = int((share[n] > 0).sum())
        more = f", and in {channels - 1} other channels" if channels > 1 else ""
        return (
            f"{found.form.place(worst[n])}: NaN or Inf in {share[n, worst[n]]:.2%} of the timesteps, "
            f"first at timestep {at[n, worst[n]]:.0f}{more}"
        )

    return Judged(share.max(axis=1) / limits.finite, reason)


def _clock(found: Measures, known: Usual | None, limits: Limits) -> Judged:
    period = found.of_clock("period")
    common = known.middle.of_clock("period") if known else period
    off = np.abs(np.log(np.maximum(period, 1e-12) / np.maximum(common, 1e-12)))
    measured = {name: found.of_clock(name) for name in ("missing", "repeated", "backward", "jitter", "drift")}
    measured["period"] = np.maximum(off - np.log1p(0.0), 0)
    parts = np.stack([values / getattr(limits, name) for name, values in measured.items()])
    names = list(measured)
    length = found.of_episode("length")

    def reason(n: int) -> str:
        worst = names[int(np.nanargmax(parts[:, n]))]
        value = float(measured[worst][n])
        if worst in ("missing", "repeated", "backward"):
            at = found.of_clock(f"{worst}_at")[n]
            what = {"missing": "missing", "repeated": "with the same time as the one before"}
            return f"clock: {value * length[n]:.0f} timesteps {what.get(worst, 'back in time')}, first at timestep {at:.0f}"
        if worst == "period":
            return f"clock: {np.expm1(value):.0%} off the usual period of this environment"
        what = (
            "scatter from timestep to timestep by"
            if worst == "jitter"
            else "from first to second half, the period drifts by"
        )
        return f"clock: times {what} {value:.1%} of a period"

    with np.errstate(invalid="ignore"):
        return Judged(parts.max(axis=0), reason)


def _short(found: Measures, known: Usual | None, limits: Limits) -> Judged | None:
    if known is None:
        return None
    length, common = found.of_episode("length"), float(known.middle.of_episode("length")[0])
    return Judged(
        limits.shortest * common / np.maximum(length, 1),
        lambda n: f"{length[n]:.0f} timesteps, {length[n] / common:.0%} of the {common:.0f} that are usual",
    )


def _beyond(found: Measures, known: Usual, name: str, floor: float) -> Scores:
    """Return how far each channel lies above the middle, in usual spreads plus `floor`."""
    spread = known.spread.of_channels(name) + floor
    return np.maximum(found.of_channels(name) - known.middle.of_channels(name), 0) / spread


def _frozen(found: Measures, known: Usual | None, limits: Limits) -> Judged | None:
    if known is None or not found.form.channels:
        return None
    beyond = _beyond(found, known, "held", 0.03)
    worst = beyond.argmax(axis=1)
    share, at = found.of_channels("held"), found.of_channels("held_at")

    def reason(n: int) -> str:
        c = worst[n]
        common = float(known.middle.of_channels("held")[0, c])
        return (
            f"{found.form.place(c)}: the same value for {share[n, c]:.0%} of the duration from timestep {at[n, c]:.0f} "
            f"on (usual: {common:.0%})"
        )

    return Judged(beyond.max(axis=1) / limits.frozen, reason)


def _saturated(found: Measures, known: Usual | None, limits: Limits) -> Judged | None:
    if known is None or not found.form.channels:
        return None
    beyond = _beyond(found, known, "railed", 0.03)
    worst = beyond.argmax(axis=1)
    share, at = found.of_channels("railed"), found.of_channels("railed_at")

    def reason(n: int) -> str:
        c = worst[n]
        common = float(known.middle.of_channels("railed")[0, c])
        return (
            f"{found.form.place(c)}: at its own limit in {share[n, c]:.0%} of the timesteps, first at timestep "
            f"{at[n, c]:.0f} (usual: {common:.0%})"
        )

    return Judged(beyond.max(axis=1) / limits.saturated, reason)


def _spike(found: Measures, known: Usual | None, limits: Limits) -> Judged | None:
    if known is None or not found.form.channels:
        return None
    scale = known.scale + 1e-9
    size, at = found.of_channels("jump") / scale, found.of_channels("jump_at")
    common = known.middle.of_channels("jump") / scale
    upper = (known.middle.of_channels("jump") + known.spread.of_channels("jump")) / scale
    beyond = np.maximum(np.log((size + 0.02) / (common + 0.02)), 0) / (np.log((upper + 0.02) / (common + 0.02)) + 0.25)
    worst = beyond.argmax(axis=1)

    def reason(n: int) -> str:
        c = worst[n]
        return (
            f"{found.form.place(c)}: timestep {at[n, c]:.0f} lies {size[n, c]:.2g} standard deviations from its "
            f"neighbours (usual: {common[0, c]:.2g})"
        )

    return Judged(beyond.max(axis=1) / limits.spike, reason)


def _stall(found: Measures, known: Usual | None, limits: Limits) -> Judged | None:
    if known is None:
        return None
    share, at = found.of_episode("still"), found.of_episode("still_at")
    common = float(known.middle.of_episode("still")[0])
    beyond = np.maximum(share - common, 0) / (known.spread.of_episode("still") + 0.03)
    return Judged(
        beyond / limits.stall,
        lambda n: (
            f"nothing moves for {share[n]:.0%} of the duration from timestep {at[n]:.0f} on (usual: {common:.0%})"
        ),
    )


def _rough(found: Measures, known: Usual | None, limits: Limits) -> Judged | None:
    if known is None:
        return None
    size, common = found.of_episode("rough"), float(known.middle.of_episode("rough")[0])
    beyond = np.maximum(size - common, 0) / (known.spread.of_episode("rough") + 0.1)
    return Judged(beyond / limits.rough, lambda n: f"trembles {size[n] / common:.1f} times as much as usual")


def _lag(found: Measures, known: Usual | None, limits: Limits) -> Judged | None:
    if known is None or not found.lag.shape[1] or np.isnan(known.middle.lag).all():
        return None
    fit = fits(found.lag, known.middle.lag[0])
    best = fit.argmax(axis=1)
    middle = fit.shape[1] // 2
    better = (fit.max(axis=1) - fit[:, middle]) / (fit.max(axis=1) + 1e-9)
    shift = best - middle

    def reason(n: int) -> str:
        when = "earlier" if shift[n] > 0 else "later"
        return f"actions come {abs(shift[n])} timesteps {when} than usual against what is observed"

    return Judged(better / (0.1 * limits.lag), reason)


def fits(pairs: NDArray[np.float32], common: NDArray[np.float32], most: int = 6) -> NDArray[np.float64]:
    """Return the fit of [N, pairs, 17] with the usual ones moved by -most..most timesteps [N, 2 most + 1]."""
    inner = slice(most, common.shape[1] - most)
    reference = np.nan_to_num(common[:, inner]).astype(np.float64)
    moved = [pairs[:, :, inner.start + shift : inner.stop + shift] for shift in range(-most, most + 1)]
    return np.stack([np.nan_to_num(part).reshape(len(pairs), -1) @ reference.ravel() for part in moved], axis=1)


def _unusual(found: Measures, known: Usual | None, limits: Limits) -> Judged | None:
    if known is None or not found.form.channels:
        return None
    middle = known.middle.phases()
    up, down = known.spread.phases(), known.below.phases()
    floor = 0.1 * known.middle.of_channels("std")[:, None] + 1e-9
    apart = found.phases() - middle
    beyond = np.where(apart > 0, apart / (up + floor), -apart / (down + floor))
    sorted_ = np.sort(beyond, axis=1)
    worst_channel = sorted_[:, -3].argmax(axis=1)
    score = sorted_[:, -3].max(axis=1)
    phase = beyond.argmax(axis=1)
    length = found.of_episode("length")

    def reason(n: int) -> str:
        c = worst_channel[n]
        at = length[n] * phase[n, c] / PHASES
        return f"{found.form.place(c)}: unlike the others of this environment, most around timestep {at:.0f}"

    return Judged(score / limits.unusual, reason)


CHECKS: Final[Mapping[str, Judge]] = MappingProxyType(
    {
        "clock": _clock,
        "finite": _finite,
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
