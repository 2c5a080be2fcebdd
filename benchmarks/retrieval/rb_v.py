"""RB-V: episodes of one task found by what cameras saw, and faults of cameras found.

Renders MetaWorld episodes once into --cache (about 6 minutes), then asks for the task of each episode among the
others: mean average precision from the same camera and from another one, and from the last frame of every fourth
episode (nDCG@10). Faults are planted in a fifth of other episodes, and scored as `wshard check --cameras` does it.

    python benchmarks/retrieval/rb_v.py --half tuned
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import rb_outcome
from machine import facts
from rb_c import area
from rb_v_faults import FAULTS, plant_all
from rb_v_record import rendered

from embedders.image.frames import Frames
from embedders.trajectory.spectral import dct_matrix

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from rb_v_record import Rendered

    Rows = NDArray[np.float64]

SEEDS: Final = {"tuned": 1, "reported": 101}
_FRAMES: Final = 10
_HITS: Final = 10
_CELLS: Final = 16


@dataclass(frozen=True)
class Precision:
    """What one description of episodes finds: same and other camera (mAP), picture (nDCG@10); NaN: not asked."""

    name: str
    same: float
    other: float
    picture: float


@dataclass(frozen=True)
class Found:
    """How a fault of cameras is found: area under the curve of its check, share flagged, share flagged without it."""

    fault: str
    episodes: int
    area: float
    flagged: float
    wrongly: float


def _cells(frames: NDArray[np.uint8]) -> Rows:
    """Return episodes [E, T, 96, 96, 3] as grey cells [E, T, 256], each frame less its mean."""
    side = frames.shape[2] // _CELLS
    grey = frames.mean(axis=-1).reshape(*frames.shape[:2], _CELLS, side, _CELLS, side).mean(axis=(3, 5))
    rows = grey.reshape(*frames.shape[:2], -1)
    return rows - rows.mean(axis=-1, keepdims=True)


def _over_time(rows: Rows) -> Rows:
    """Return four cosines over time of rows [E, T, D]."""
    return np.einsum("kt,etd->ekd", dct_matrix(rows.shape[1], 4), rows).reshape(len(rows), -1)


def _cosines(rows: Rows, others: Rows) -> Rows:
    units = [one / np.maximum(np.linalg.norm(one, axis=-1, keepdims=True), 1e-9) for one in (rows, others)]
    return units[0] @ units[1].T


def _precision(scores: Rows, tasks: NDArray[np.str_]) -> float:
    """Return the mean average precision of the same task, where each episode asks for the others."""
    found = []
    for number, row in enumerate(scores):
        order = np.argsort(-row, kind="stable")
        ranks = np.flatnonzero(tasks[order[order != number]] == tasks[number])
        found.append(((np.arange(len(ranks)) + 1) / (ranks + 1)).mean())
    return float(np.mean(found))


def _gain(frames: Rows, tasks: NDArray[np.str_]) -> float:
    """Return nDCG@10 of the last frame of every fourth episode, by the best frame of each other one."""
    units = frames / np.maximum(np.linalg.norm(frames, axis=-1, keepdims=True), 1e-9)
    discount, gains = 1 / np.log2(np.arange(2, _HITS + 2)), []
    for number in range(0, len(tasks), 4):
        scores = (units @ units[number, -1]).max(axis=1)
        scores[number] = -np.inf
        right = tasks[np.argsort(-scores, kind="stable")[:_HITS]] == tasks[number]
        most = min(_HITS, int((tasks == tasks[number]).sum()) - 1)
        gains.append(float((right * discount).sum() / discount[:most].sum()))
    return float(np.mean(gains))


def measure_precision(data: Rendered) -> list[Precision]:
    """Return what each description finds."""
    near, far = data.cameras.values()
    found = []
    for name, describe in (("16 x 16 pixels, mean", lambda rows: rows.mean(axis=1)), ("four cosines", _over_time)):
        rows, others = (describe(_cells(frames)) for frames in (near, far))
        same, other = (_precision(_cosines(rows, one), data.tasks) for one in (rows, others))
        found.append(Precision(name, same, other, _gain(_cells(near), data.tasks)))
    frames = Frames()
    seen = frames.embed(list(near), None).astype(np.float64)
    others = frames.embed(list(far), None).astype(np.float64)
    described = np.stack([frames.encode_frames(one) for one in near]).astype(np.float64)
    same, other = (_precision(_cosines(seen, one), data.tasks) for one in (seen, others))
    found.append(Precision("`frames`", same, other, _gain(described, data.tasks)))
    flat = data.states.reshape(-1, data.states.shape[-1]).astype(np.float64)
    states = _over_time((data.states - flat.mean(axis=0)) / np.maximum(flat.std(axis=0), 1e-6))
    by_state = _cosines(states, states)
    found.append(Precision("39 numbers of states", _precision(by_state, data.tasks), np.nan, np.nan))
    both = _precision(by_state + _cosines(seen, seen), data.tasks)
    found.append(Precision("`frames` and states", both, np.nan, np.nan))
    return found


def measure_faults(data: Rendered, seed: int) -> list[Found]:
    """Return how each fault is found."""
    found = []
    for fault, check in FAULTS.items():
        faulty, scores = plant_all(data, fault, check, np.random.default_rng(seed))
        flagged, wrongly = (float((scores[chosen] >= 1).mean()) for chosen in (faulty, ~faulty))
        found.append(Found(fault, int(faulty.sum()), area(scores[faulty], scores[~faulty]), flagged, wrongly))
    return found


def report(found: list[Precision], faults: list[Found], half: str) -> str:
    """Return both tables."""
    lines = [f"| {half} seeds | same camera | other camera | picture, nDCG@10 |", "|---|---|---|---|"]
    lines += [f"| {one.name} | {_short(one.same)} | {_short(one.other)} | {_short(one.picture)} |" for one in found]
    lines += ["", f"| {half} seeds | episodes | AUC | flagged | flagged without it |", "|---|---|---|---|---|"]
    for one in faults:
        shares = " | ".join(map(_short, (one.area, one.flagged, one.wrongly)))
        lines.append(f"| {one.fault} | {one.episodes} | {shares} |")
    return "\n".join([*lines, "", f"Measured on {facts()}."])


def _short(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.3f}"


def main() -> None:
    """Render, measure, print, write."""
    parser = argparse.ArgumentParser(description="RB-V: what cameras saw")
    parser.add_argument("--cache", type=Path, default=Path(".bench/rb_v"), help="folder of rendered episodes")
    parser.add_argument("--half", choices=tuple(SEEDS), default="reported", help="seeds that were tuned on, or others")
    rb_outcome.add_option(parser)
    options = parser.parse_args()
    seed = SEEDS[options.half]
    render = partial(rendered, options.cache)
    found = measure_precision(render(slice(0, 50, 2), 8, seed, spread=_FRAMES))
    faults = measure_faults(render(slice(1, 48, 6), 12, seed + 1, first=64), seed)
    rb_outcome.leave(options, [*found, *faults], report(found, faults, options.half), lambda _: None)


if __name__ == "__main__":
    main()
