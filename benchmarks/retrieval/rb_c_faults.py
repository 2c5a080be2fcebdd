"""The faults of benchmark RB-C, put into clips of recorded episodes so that nothing can be told from their length.

Every clip, faulty or not, has the length that its episode gives it: faults that take timesteps away or add some use
the spare ones behind the clip. Does not know: how faults are found.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray
    from rb_a_data import Recorded

    Rows = NDArray[np.float32]
    Fault = Callable[["Clip", "Rows", np.random.Generator], "Clip | None"]

MARGIN: Final = 6  # timesteps before the clip, for actions that are shifted
HERTZ: Final = 80.0
_PERIOD_NS: Final = 1e9 / HERTZ
_JITTER: Final = 0.01
_RATE_ERROR: Final = 1e-4
_GRIPPER: Final = 3  # of the actions, and of the observations


@dataclass(frozen=True, eq=False)
class Clip:
    """A clip and what surrounds it: observations [M, 21], actions [M, 4], times in ns [M]; it is start:start + length.

    kind is the fault, "" for none.
    """

    task: str
    seen: Rows
    acted: Rows
    times: NDArray[np.int64]
    length: int
    start: int = MARGIN
    kind: str = ""

    def lanes(self) -> dict[str, Rows]:
        """Return the lanes of the clip."""
        part = slice(self.start, self.start + self.length)
        return {"signal/state": self.seen[part], "action/ctrl": self.acted[part]}

    def clock(self) -> NDArray[np.int64]:
        """Return the times of the clip."""
        return self.times[self.start : self.start + self.length]


def clip_of(episode: Recorded, rng: np.random.Generator) -> Clip:
    """Return the clip of an episode: three quarters of it, with a camera's usual clock."""
    seen = np.concatenate([episode.observations[:, :18], episode.observations[:, 36:39]], axis=1)
    even = np.arange(len(seen)) * (1 + _RATE_ERROR * rng.standard_normal())
    times = _PERIOD_NS * (even + _JITTER * rng.standard_normal(len(seen)))
    length = int(0.75 * len(seen)) - MARGIN // 2
    return Clip(episode.task, seen, episode.actions, times.astype(np.int64), length)


def _inside(clip: Clip, rng: np.random.Generator, share: float = 0.1) -> int:
    """Return a timestep, counted from the clip's first, that is not near its ends."""
    return int(rng.integers(max(2, int(share * clip.length)), int((1 - share) * clip.length) - 1))


def _moving(clip: Clip, spread: Rows, rng: np.random.Generator) -> int | None:
    """Return an observed channel that moves in this clip, at least a fifth as much as in its task."""
    found = np.flatnonzero(clip.lanes()["signal/state"].std(axis=0) > np.maximum(0.2 * spread, 1e-4))
    return int(rng.choice(found)) if len(found) else None


def _without(clip: Clip, gone: NDArray[np.int64]) -> Clip:
    rest = np.delete(np.arange(len(clip.seen)), gone)
    return replace(clip, seen=clip.seen[rest], acted=clip.acted[rest], times=clip.times[rest])


def _dropped(clip: Clip, spread: Rows, rng: np.random.Generator) -> Clip:  # noqa: ARG001  (all have one signature)
    count = int(rng.integers(1, 6))
    at = clip.start + _inside(clip, rng)
    return _without(clip, np.arange(at, at + count))


def _repeated(clip: Clip, spread: Rows, rng: np.random.Generator) -> Clip:  # noqa: ARG001
    places = np.sort(clip.start + rng.integers(2, clip.length - 2, rng.integers(1, 6)))
    order = np.sort(np.concatenate([np.arange(len(clip.seen)), places]))
    return replace(clip, seen=clip.seen[order], acted=clip.acted[order], times=clip.times[order])


def _backward(clip: Clip, spread: Rows, rng: np.random.Generator) -> Clip:  # noqa: ARG001
    times = clip.times.copy()
    times[clip.start + _inside(clip, rng) :] -= int(rng.uniform(1.5, 20) * _PERIOD_NS)
    return replace(clip, times=times)


def _jitter(clip: Clip, spread: Rows, rng: np.random.Generator) -> Clip:  # noqa: ARG001
    late = rng.uniform(0.08, 0.3) * _PERIOD_NS * rng.standard_normal(len(clip.times))
    return replace(clip, times=np.sort(clip.times + late.astype(np.int64)))


def _drift(clip: Clip, spread: Rows, rng: np.random.Generator) -> Clip:  # noqa: ARG001
    steps = np.diff(clip.times, prepend=clip.times[:1])
    grown = steps * (1 + rng.choice([-1, 1]) * rng.uniform(0.02, 0.1) * np.linspace(0, 1, len(steps)))
    return replace(clip, times=clip.times[0] + np.cumsum(grown).astype(np.int64))


def _frozen(clip: Clip, spread: Rows, rng: np.random.Generator) -> Clip | None:
    channel = _moving(clip, spread, rng)
    if channel is None:
        return None
    count = int(rng.uniform(0.3, 0.6) * clip.length)
    at = clip.start + int(rng.integers(0, clip.length - count))
    seen = clip.seen.copy()
    seen[at : at + count, channel] = seen[at, channel]
    return replace(clip, seen=seen)


def _not_a_number(clip: Clip, spread: Rows, rng: np.random.Generator) -> Clip:  # noqa: ARG001
    seen = clip.seen.copy()
    for _ in range(rng.integers(1, 6)):
        at = clip.start + rng.integers(0, clip.length)
        seen[at, rng.integers(0, seen.shape[1])] = np.nan
    return replace(clip, seen=seen)


def _saturated(clip: Clip, spread: Rows, rng: np.random.Generator) -> Clip | None:
    channel = _moving(clip, spread, rng)
    if channel is None:
        return None
    seen, share = clip.seen.copy(), rng.uniform(0.2, 0.4)
    inside = clip.lanes()["signal/state"][:, channel]
    if rng.random() < 0.5:
        seen[:, channel] = np.minimum(seen[:, channel], np.quantile(inside, 1 - share))
    else:
        seen[:, channel] = np.maximum(seen[:, channel], np.quantile(inside, share))
    return replace(clip, seen=seen)


def _spike(clip: Clip, spread: Rows, rng: np.random.Generator) -> Clip | None:
    channel = _moving(clip, spread, rng)
    if channel is None:
        return None
    seen = clip.seen.copy()
    seen[clip.start + _inside(clip, rng), channel] += rng.choice([-1, 1]) * rng.uniform(1, 4) * spread[channel]
    return replace(clip, seen=seen)


def _collision(clip: Clip, spread: Rows, rng: np.random.Generator) -> Clip:
    seen, at = clip.seen.copy(), clip.start + _inside(clip, rng)
    fading = np.exp(-np.arange(len(seen) - at) / 3)[:, None]
    kick = rng.standard_normal(3)
    kick *= rng.uniform(0.5, 1.5) / np.linalg.norm(kick)
    seen[at:, :3] += (fading * kick * spread[:3]).astype(np.float32)
    return replace(clip, seen=seen)


def _stall(clip: Clip, spread: Rows, rng: np.random.Generator) -> Clip:
    at, count = clip.start + _inside(clip, rng, 0.2), int(rng.uniform(0.2, 0.4) * clip.length)
    order = np.concatenate([np.arange(at), np.repeat(at, count), np.arange(at, len(clip.seen) - count)])
    seen, acted = clip.seen[order], clip.acted[order]
    seen[at : at + count] += (1e-3 * spread * rng.standard_normal((count, len(spread)))).astype(np.float32)
    if rng.random() < 0.5:
        acted[at : at + count] = 0  # nothing was commanded; else the arm was commanded and stuck
    return replace(clip, seen=seen, acted=acted)


def _released(clip: Clip, spread: Rows, rng: np.random.Generator) -> Clip | None:  # noqa: ARG001
    part = slice(clip.start, clip.start + clip.length)
    closed = np.flatnonzero(clip.acted[part, _GRIPPER] > 0.1)
    if len(closed) < 0.3 * clip.length:
        return None
    at = clip.start + int(closed[int(rng.uniform(0.1, 0.6) * len(closed))])
    seen, acted = clip.seen.copy(), clip.acted.copy()
    acted[at:, _GRIPPER] = -1.0
    opening = np.minimum(np.arange(len(seen) - at) / 5, 1)
    widest = seen[part, _GRIPPER].max()
    seen[at:, _GRIPPER] += ((widest - seen[at:, _GRIPPER]) * opening).astype(np.float32)
    return replace(clip, seen=seen, acted=acted)


def _lagged(clip: Clip, spread: Rows, rng: np.random.Generator) -> Clip:  # noqa: ARG001
    return replace(clip, acted=np.roll(clip.acted, int(rng.choice([-1, 1]) * rng.integers(1, 6)), axis=0))


FAULTS: Final[Mapping[str, tuple[str, Fault]]] = {
    "dropped frames": ("clock", _dropped),
    "repeated frames": ("clock", _repeated),
    "backward clock": ("clock", _backward),
    "clock jitter": ("clock", _jitter),
    "clock drift": ("clock", _drift),
    "NaN": ("nan", _not_a_number),
    "frozen channel": ("frozen", _frozen),
    "saturated channel": ("saturated", _saturated),
    "spike": ("spike", _spike),
    "collision": ("spike", _collision),
    "stall": ("stall", _stall),
    "early gripper release": ("unusual", _released),
    "action/observation lag": ("lag", _lagged),
}
"""Family -> the check that is made for it, and how it is put into a clip; None where a clip cannot have it."""


def inject(clip: Clip, family: str, spread: Rows, rng: np.random.Generator) -> Clip | None:
    """Return the clip with a fault of the family, None if it cannot have one. spread: std per channel in its task.

    What changes nothing is no fault: a channel that rests at its lowest value anyway cannot be clipped there.
    """
    faulty = FAULTS[family][1](clip, spread, rng)
    if faulty is None or all(np.array_equal(a, b) for a, b in zip(_parts(clip), _parts(faulty), strict=True)):
        return None
    return replace(faulty, kind=family)


def _parts(clip: Clip) -> tuple[NDArray[Any], ...]:
    return (*clip.lanes().values(), clip.clock())
