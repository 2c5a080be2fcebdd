"""Cameras: measures of sampled frames, and what is wrong with them against the other episodes of an environment.

A score is 0 or more, and 1 and above is flagged, as in checks.py. Checks that compare need MIN_EPISODES episodes whose
cameras have the same names and sizes; with fewer, only dark, bright, frozen and dropped frames are judged.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.core.messages import plural
from wshard.core.quality.baseline import MIN_EPISODES
from wshard.core.quality.camera_frames import BURST, measure_frames
from wshard.core.quality.checks import QualityFinding, Verdict
from wshard.core.quality.measure import STILL_SPEED, TYPICAL_QUANTILE
from wshard.core.quality.thresholds import CAMERA, DEFAULT_THRESHOLDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from wshard.core.quality.camera_frames import FrameMeasures
    from wshard.core.quality.thresholds import Thresholds

    Numbers = NDArray[np.float64]

_DARK: Final = 10.0  # mean grey of a frame, of 255
_MOST_PIXELS: Final = 0.6
_SAME: Final = 0.02  # of the usual change between frames
_BACK: Final = -0.5  # cosine of two successive changes, below which frames seem to be in another order
_UPPER: Final = 0.85
_PICTURE_FLOOR: Final = 0.05  # standard deviations of a picture; smaller differences are never unusual
_MAX_AGE: Final = 1.25  # periods of a camera; where a frame is shown longer, the next one is lacking
_NEAR: Final = 0.25  # squared, of pictures of one camera
_SHARES: Final = ("dark", "bright", "frozen", "dropped", "reordered")
_COMPARED: Final = ("reordered", "blurred", "moved")
CHECKS: Final = (*_SHARES, "blurred", "moved")
"""The checks of cameras, without CAMERA."""
_WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "dark": "dark frames",
        "bright": "overexposed frames",
        "frozen": "frames of spans in which nothing changes while the robot moves",
        "dropped": "frames equal to the one before while the robot moves",
        "reordered": "frames that go back and forth",
    }
)


@dataclass(frozen=True, eq=False)
class CameraMeasures:
    """Measures of one camera in one episode, from some of its frames.

    shares: of the frames, by check; first: the first timestep with such a frame. sharpness: fine over coarse
    differences of pixels. picture: the mean frame [16, 16], grey, with mean 0 and standard deviation 1. frames: how
    many were looked at, of `length`.
    """

    shares: Mapping[str, float]
    first: Mapping[str, int]
    sharpness: float
    picture: Numbers
    frames: int
    length: int


def measure_camera(
    take: Callable[[int, int], NDArray[Any]], length: int, moving: NDArray[np.bool_] | None = None
) -> CameraMeasures:
    """Return the measures of a camera, from its frames; take, moving: as in measure_frames and summarise_camera."""
    return summarise_camera(measure_frames(take, length), length, moving)


def summarise_camera(frames: FrameMeasures, length: int, moving: NDArray[np.bool_] | None = None) -> CameraMeasures:
    """Return the measures of a camera, from those of its frames.

    moving [length - 1]: whether frames should change between each timestep and the next, as the robot moves and the
    camera has another one; None if that is not known.
    """
    steps, follows = frames.steps, frames.follows
    usual = float(np.median(sizes)) if len(sizes := frames.changes[frames.changes > 0]) else 0.0
    same = frames.changes <= _SAME * usual
    if moving is not None and len(follows):
        same &= moving[steps[follows]]
    lasting = _lasting(same, follows)
    shown = {
        "dark": (frames.grey < _DARK, steps),
        "bright": (frames.bright > _MOST_PIXELS, steps),
        "frozen": (lasting, steps[follows + 1]),
        "dropped": (same & ~lasting, steps[follows + 1]),
        "reordered": _turns(frames),
    }
    return CameraMeasures(
        {name: float(found.mean()) if len(found) else 0.0 for name, (found, _) in shown.items()},
        {name: int(at[found.argmax()]) if found.any() else 0 for name, (found, at) in shown.items()},
        float(np.median(frames.sharpness)),
        frames.picture,
        len(steps),
        length,
    )


def find_motion(lanes: Sequence[NDArray[Any]]) -> NDArray[np.bool_] | None:
    """Return [T - 1] whether anything observed [T, ...] moves from each timestep to the next; None without such."""
    moving = None
    for lane in lanes:
        rows = np.nan_to_num(lane.reshape(len(lane), -1).astype(np.float64))
        with np.errstate(over="ignore"):
            speed = np.linalg.norm(np.diff(rows, axis=0), axis=1)
        if len(speed) and (typical := float(np.quantile(speed, TYPICAL_QUANTILE))) > 0:
            moves = speed > STILL_SPEED * typical
            moving = moves if moving is None else moving | moves
    return moving


def find_repeats(stamps: NDArray[np.int64], times: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return [T - 1] whether the next timestep shows the same frame, as a camera slower than the clock has no other.

    stamps, times [T]: when the frame that is shown was taken, and the time of the timestep.
    """
    is_new = np.diff(stamps) != 0
    periods = np.diff(stamps[np.append(True, is_new)])
    usual = float(np.median(periods)) if len(periods) else 0.0
    repeats: NDArray[np.bool_] = ~is_new & (np.abs(times[1:] - stamps[1:]) <= _MAX_AGE * usual)
    return repeats


def _lasting(same: NDArray[np.bool_], follows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which equal pairs belong to a run of BURST - 1 and more."""
    lasting, start = np.zeros_like(same), 0
    edges = np.flatnonzero((np.diff(follows) != 1) | (np.diff(same.astype(np.int8)) != 0)) + 1
    for stop in [*edges.tolist(), len(same)]:
        if stop > start and same[start] and stop - start >= BURST - 1:
            lasting[start:stop] = True
        start = stop
    return lasting


def _turns(frames: FrameMeasures) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Return for each three consecutive frames whether the last goes back to the first, and its timestep."""
    pairs, sizes = frames.pairs, frames.changes
    large = np.minimum(sizes[pairs], sizes[pairs + 1]) >= np.median(sizes) if len(pairs) else np.zeros(0, bool)
    return (frames.turns < _BACK) & large, frames.steps[frames.follows[pairs + 1] + 1]


def judge_cameras(
    episodes: Sequence[Mapping[str, CameraMeasures]], limits: Thresholds = DEFAULT_THRESHOLDS
) -> list[Verdict]:
    """Return the verdicts on episodes of one environment, whose cameras have the same names and sizes.

    Scores are the largest of all cameras, by check with CAMERA before its name.
    """
    scores: list[dict[str, float]] = [{} for _ in episodes]
    reasons: list[dict[str, str]] = [{} for _ in episodes]
    for name in sorted(episodes[0]) if episodes else ():
        members = [cameras[name] for cameras in episodes]
        others = [other for other in episodes[0] if other != name] if len(episodes) >= MIN_EPISODES else []
        pictures = {other: _middle([cameras[other].picture for cameras in episodes]) for other in others}
        for check, values in _score(members, limits, is_compared=len(episodes) >= MIN_EPISODES).items():
            for number, value in enumerate(values.tolist()):
                if value >= scores[number].get(CAMERA + check, -1.0):
                    scores[number][CAMERA + check] = value
                    reasons[number][CAMERA + check] = _reason(name, members[number], check, pictures)
    return [
        Verdict(scored, tuple(QualityFinding(check, said[check]) for check, score in scored.items() if score >= 1))
        for scored, said in zip(scores, reasons, strict=True)
    ]


def _score(members: Sequence[CameraMeasures], limits: Thresholds, *, is_compared: bool) -> dict[str, Numbers]:
    """Return the scores [N] of one camera in N episodes, by check."""
    scores = {}
    for check in _SHARES:
        shares = np.array([one.shares[check] for one in members])
        usual = float(np.median(shares)) if is_compared else 0.0
        above = float(np.quantile(shares, _UPPER)) - usual if is_compared else 0.0
        if is_compared or check not in _COMPARED:
            scores[check] = np.maximum(shares - usual, 0) / (limits.of_camera(check) + above)
    if is_compared:
        sharp = np.maximum([one.sharpness for one in members], 1e-6)
        blur = np.median(sharp) / sharp - 1
        scores["blurred"] = np.maximum(blur, 0) / (limits.camera_blurred + max(float(np.quantile(blur, _UPPER)), 0.0))
        middle = _middle([one.picture for one in members])
        distances = np.array([float(np.sqrt(((one.picture - middle) ** 2).mean())) for one in members])
        usual = float(np.median(distances))
        above = float(np.quantile(distances, _UPPER)) - usual
        scores["moved"] = np.maximum(distances - usual, 0) / (above + _PICTURE_FLOOR) / limits.camera_moved
    return scores


def _middle(pictures: Sequence[Numbers]) -> Numbers:
    middle: Numbers = np.median(np.stack(pictures), axis=0)
    return middle


def _reason(name: str, one: CameraMeasures, check: str, others: Mapping[str, Numbers]) -> str:
    """Say what is wrong with a camera; others: the usual pictures of the other cameras, by name."""
    looked = "all frames" if one.frames == one.length else f"{one.frames} of {plural(one.length, 'frame')}"
    if check in _SHARES:
        share, first = one.shares[check], one.first[check]
        return f"{name}: {share:.0%} {_WORDS[check]}, first at timestep {first} (looked at {looked})"
    if check == "blurred":
        return f"{name}: less sharp than usual (looked at {looked})"
    near = min(others, key=lambda other: float(((one.picture - others[other]) ** 2).mean()), default="")
    if near and float(((one.picture - others[near]) ** 2).mean()) < _NEAR:
        return f"{name}: shows what {near} usually shows: are the cameras swapped?"
    return f"{name}: shows another picture than usual: was the camera moved, or the scene changed?"
