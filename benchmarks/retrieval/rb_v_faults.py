"""Faults of cameras for benchmark RB-V: planted in a fifth of the episodes, and scored as `wshard check` does it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.core.quality.cameras import find_motion, judge_cameras, measure_camera
from wshard.core.quality.thresholds import CAMERA

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from rb_v_record import Rendered

    Random = np.random.Generator
    Measures = list[dict[str, Any]]

FAULTS: Final = {
    "frozen to the end": "frozen",
    "two to six black frames": "dark",
    "three to six overexposed frames": "bright",
    "one in twelve repeated": "dropped",
    "one in twelve exchanged with the next": "reordered",
    "blurred": "blurred",
    "cameras swapped": "moved",
    "shifted by 6 to 13 of 96 pixels": "moved",
}
"""Names of faults, and the check that is to find each."""
_SHARE: Final = 0.2
_ROUNDS: Final = 2


def measure_whole(data: Rendered) -> Measures:
    """Return the measures of the cameras of every episode, without a fault."""
    return [
        _measure({name: frames[number] for name, frames in data.cameras.items()}, states)
        for number, states in enumerate(data.states)
    ]


def _measure(cameras: dict[str, Any], states: NDArray[np.float32]) -> dict[str, Any]:
    moving = find_motion([states])
    return {
        name: measure_camera(lambda start, stop, frames=frames: frames[start:stop], len(frames), moving)
        for name, frames in cameras.items()
    }


def plant_all(
    data: Rendered, whole: Measures, fault: str, rng: Random
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Return whether each episode had the fault, and the score of its check, for several rounds."""
    marks, scores = [], []
    for _ in range(_ROUNDS):
        faulty = rng.random(len(data.tasks)) < _SHARE
        measures = [*whole]
        for number in np.flatnonzero(faulty).tolist():
            cameras = {name: frames[number].copy() for name, frames in data.cameras.items()}
            _plant(cameras, fault, rng)
            measures[number] = _measure(cameras, data.states[number])
        for task in np.unique(data.tasks):
            members = np.flatnonzero(data.tasks == task)
            verdicts = judge_cameras([measures[number] for number in members])
            marks += faulty[members].tolist()
            scores += [one.scores[CAMERA + FAULTS[fault]] for one in verdicts]
    return np.array(marks), np.array(scores)


def _plant(cameras: dict[str, Any], fault: str, rng: Random) -> None:  # noqa: C901  (a branch a fault)
    name = str(rng.choice(sorted(cameras)))
    frames = cameras[name]
    length = len(frames)
    start = int(rng.integers(0, length - 6))
    some = rng.choice(np.arange(1, length - 1), length // 12, replace=False)
    if fault.startswith("frozen"):
        stop = int(rng.integers(length // 4, length * 3 // 4))
        frames[stop:] = frames[stop]
    elif "black" in fault:
        frames[start : start + rng.integers(2, 7)] = rng.integers(0, 4)
    elif "overexposed" in fault:
        span = slice(start, start + int(rng.integers(3, 7)))
        frames[span] = np.minimum(frames[span].astype(int) * 3 + 120, 255)
    elif "repeated" in fault:
        for step in np.sort(some):
            frames[step] = frames[step - 1]
    elif "exchanged" in fault:
        for step in some:
            frames[[step, step + 1]] = frames[[step + 1, step]]
    elif fault == "blurred":
        soft = frames.astype(float)
        for axis in (1, 2):
            soft = (np.roll(soft, 1, axis) + soft + np.roll(soft, -1, axis)) / 3
        cameras[name] = soft.astype(np.uint8)
    elif "swapped" in fault:
        first, second = rng.choice(sorted(cameras), 2, replace=False)
        cameras[first], cameras[second] = cameras[second], cameras[first]
    else:
        cameras[name] = np.roll(frames, int(rng.integers(6, 14) * rng.choice([-1, 1])), axis=int(rng.integers(1, 3)))
