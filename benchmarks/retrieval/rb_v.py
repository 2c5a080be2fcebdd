"""RB-V: episodes of one task found by what cameras saw, and faults of cameras found.

Renders episodes of MetaWorld's 50 tasks once into --cache (about 12 minutes), then asks for the task of each episode
among the others: mean average precision from the same camera, from two others, in disturbed scenes, together with
states; and from the last frame of every fourth episode (nDCG@10). As in a public task, the last frames of two episodes
of each task ask for the four others, and the four for the last frames of the two. In other episodes, faults of cameras
are planted in a fifth and scored as `wshard check --cameras` does it, and events in half, which a picture is to find.

    python benchmarks/retrieval/rb_v.py --half tuned
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import rb_outcome
from rb_c import area
from rb_ranking import average_precisions, gains
from rb_v_events import LENGTH as EVENT
from rb_v_events import EventFound, find_grasps, measure_events, plant_lamps, plant_objects
from rb_v_faults import FAULTS, measure_whole, plant_all
from rb_v_learned import Trained, train_views
from rb_v_plot import draw_hits
from rb_v_record import Take, rendered, rendered_part
from rb_v_scenes import SCENES, put_object
from rb_v_search import search_all
from rb_v_views import over_time, views

from embedders import Frames

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from rb_v_record import Rendered
    from rb_v_views import Rows, View

SEEDS: Final = {"tuned": 1, "reported": 101}
TASKS: Final = slice(0, 50, 1)
EPISODES: Final = 6
"""Episodes of a task."""

FRAMES: Final = 10
"""Frames of an episode, evenly over it."""

_ASKING: Final = 2  # of these, whose goals ask for the others
_GOAL_COLUMNS: Final = ("goal -> episodes", "episode -> goals")
_THEIRS: Final = {"goal -> episodes": 0.230, "episode -> goals": 0.296}
"""Of jina-embeddings-v5-omni-nano on MetaWorldMT50I2V and V2I: pull request 5435 of MTEB, of other renders."""


@dataclass(frozen=True)
class Precision:
    """What one view of episodes finds: means by the name of the column."""

    name: str
    values: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Found:
    """How a fault of cameras is found: area under the curve of its check, share flagged, share flagged without it."""

    fault: str
    episodes: int
    area: float
    flagged: float
    wrongly: float


def _units(rows: Rows) -> Rows:
    return rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-9)


def _cosines(rows: Rows, others: Rows) -> Rows:
    return _units(rows) @ _units(others).T


def _precision(scores: Rows, tasks: NDArray[np.str_]) -> float:
    """Return the mean average precision of the same task, where each episode asks for the others."""
    return float(average_precisions(scores, tasks, np.arange(len(tasks))).mean())


def _best(pictures: Rows, frames: Rows) -> Rows:
    """Return the best cosine of each picture [P, D] with any of the frames [E, T, D] of each episode: [P, E]."""
    shown = _units(frames)
    found: Rows = np.einsum("pd,etd->pet", _units(pictures), shown, optimize=True).max(axis=2)
    return found


def _by_picture(frames: Rows, tasks: NDArray[np.str_]) -> float:
    """Return nDCG@10 of the last frame of every fourth episode among the other episodes."""
    asking = np.arange(0, len(tasks), 4)
    scores, relevant = _best(frames[asking, -1], frames), tasks[asking][:, None] == tasks[None]
    scores[np.arange(len(asking)), asking] = -np.inf
    relevant[np.arange(len(asking)), asking] = False
    return float(gains(scores, relevant).mean())


def _by_goal(frames: Rows, tasks: NDArray[np.str_]) -> tuple[float, float]:
    """Return nDCG@10 of goal pictures for episodes, and of episodes for goal pictures: of others in both cases."""
    asks = np.arange(len(tasks)) % EPISODES < _ASKING
    relevant = tasks[asks][:, None] == tasks[~asks][None]
    there = _best(frames[asks, -1], frames[~asks])
    back = _best(frames[~asks, -1], frames[asks]).T
    return float(gains(there, relevant).mean()), float(gains(back, relevant).mean())


def measure_view(view: View, data: Rendered) -> Precision:
    """Return what a view finds from the first camera, and with the others."""
    (_, near), *others = data.cameras.items()
    rows, states = view.of_episodes(near), by_states(data)
    values = {"same camera": _precision(_cosines(rows, rows), data.tasks)}
    for name, seen in [*others, *data.scenes.items()]:
        values[name] = _precision(_cosines(view.of_episodes(seen), rows), data.tasks)
    values["with states"] = _precision(_cosines(rows, rows) + states, data.tasks)
    frames = view.of_frames(near)
    values["picture"] = _by_picture(frames, data.tasks)
    values |= zip(_GOAL_COLUMNS, _by_goal(frames, data.tasks), strict=True)
    print(f"  {_line(view.name, [*values.values()])}", flush=True)
    return Precision(view.name, values)


def by_states(data: Rendered) -> Rows:
    """Return the cosines of episodes by their z-scored states, four cosines over time."""
    flat = data.states.reshape(-1, data.states.shape[-1]).astype(np.float64)
    rows = over_time((data.states - flat.mean(axis=0)) / np.maximum(flat.std(axis=0), 1e-6))
    return _cosines(rows, rows)


def measure_faults(data: Rendered, seed: int) -> list[Found]:
    """Return how each fault is found."""
    found, whole = [], measure_whole(data)
    for fault in FAULTS:
        faulty, scores = plant_all(data, whole, fault, np.random.default_rng(seed))
        flagged, wrongly = (float((scores[chosen] >= 1).mean()) for chosen in (faulty, ~faulty))
        found.append(Found(fault, int(faulty.sum()), area(scores[faulty], scores[~faulty]), flagged, wrongly))
        print(f"  {_line(fault, [found[-1].area, flagged, wrongly])}", flush=True)
    return found


def measure_all_events(cache: Path, data: Rendered, take: Take, embedders: dict[str, Any]) -> list[EventFound]:
    """Return how each kind of event is found."""
    part = rendered_part(cache, take._replace(part=EVENT), "object", put_object)
    numbered = take._replace(part=EVENT)
    kinds = {
        "an object is there for a second": plant_objects(data, part, numbered),
        "a lamp is lit for a second": plant_lamps(data, numbered),
        "the gripper closes": (data, find_grasps(data)),
    }
    rng = np.random.default_rng(take.seed)
    return [one for kind, planted in kinds.items() for one in measure_events(*planted, embedders, rng, kind=kind)]


def report(results: Sequence[Any], half: str) -> str:
    """Return the tables."""
    found, trained, faults, events = (
        [one for one in results if isinstance(one, kind)] for kind in (Precision, Trained, Found, EventFound)
    )
    columns = [*dict.fromkeys(name for one in found for name in one.values if name not in _GOAL_COLUMNS)]
    lines = [f"| {half} seeds, mAP; picture: nDCG@10 | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    lines += [_line(one.name, [one.values.get(name, np.nan) for name in columns]) for one in found]
    lines += ["", f"| {half} seeds, nDCG@10 | {' | '.join(_GOAL_COLUMNS)} |", "|---|---|---|"]
    lines += [_line(one.name, [one.values[name] for name in _GOAL_COLUMNS]) for one in found if len(one.values) > 1]
    lines.append(_line("theirs, other data: jina-embeddings-v5-omni-nano", [*_THEIRS.values()]))
    lines += ["", "| training on | CPU seconds | frames described a CPU second |", "|---|---:|---:|"] * bool(trained)
    lines += [f"| {one.cameras} | {one.seconds:.0f} | {one.rate:,.0f} |" for one in trained]
    header = f"| {half} seeds | episodes | AUC | flagged | flagged without it |"
    lines += ["", header, "|---|---|---|---|---|"] * bool(faults)
    lines += [_line(f"{one.fault} | {one.episodes}", [one.area, one.flagged, one.wrongly]) for one in faults]
    header = f"| {half} seeds, a picture of | by | questions | P@1 | by chance |"
    lines += ["", header, "|---|---|---|---|---|"] * bool(events)
    lines += [_line(f"{one.event} | {one.way} | {one.questions}", [one.first, one.chance]) for one in events]
    return "\n".join([*lines, "", f"Measured on {rb_outcome.facts()}."])


def _line(name: str, values: Sequence[float]) -> str:
    shown = ("-" if np.isnan(value) else f"{value:.3f}".removeprefix("0") for value in values)
    return f"| {name} | {' | '.join(shown)} |"


def main() -> None:
    """Render, measure, print, write."""
    parser = argparse.ArgumentParser(description="RB-V: what cameras saw")
    parser.add_argument("--cache", type=Path, default=Path(".bench/rb_v"), help="folder of rendered episodes")
    parser.add_argument("--half", choices=tuple(SEEDS), default="reported", help="seeds that were tuned on, or others")
    parser.add_argument("--views", action="store_true", help="only what finds episodes, without faults and events")
    rb_outcome.add_option(parser)
    options = parser.parse_args()
    seed = SEEDS[options.half]
    data = rendered(options.cache, Take(TASKS, EPISODES, seed, spread=FRAMES), SCENES)
    trained = train_views(data)
    ways = [*views(), *(view for view, _, _ in trained)]
    found = [measure_view(view, data) for view in ways]
    searched = search_all(data.cameras["this camera"], data.states)
    for name, column in (("frames", "same camera"), ("blocks", "states"), ("both", "with states")):
        precision = _precision(searched[name], data.tasks)
        found.append(Precision(f"searched in an archive: {name}", {column: precision}))
    found.append(Precision("39 numbers of states", {"states": _precision(by_states(data), data.tasks)}))
    results: list[Any] = [*found, *(about for _, _, about in trained)]
    if not options.views:
        take = Take(slice(1, 48, 6), 12, seed + 1, first=64)
        other = rendered(options.cache, take)
        embedders = {"`frames`": Frames()} | {view.name: embedder for view, embedder, _ in trained[:1]}
        results += measure_faults(other, seed)
        results += measure_all_events(options.cache, other, take, embedders)
    draw = partial(draw_hits, data=data, views=[views()[-1], trained[-1][0]])
    rb_outcome.leave(options, results, report(results, options.half), draw)


if __name__ == "__main__":
    main()
