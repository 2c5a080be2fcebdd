"""Benchmark RB-W: failures planted in simulated episodes, found by the error of a simple world model.

The model is linear: for each task, the step of the hand by ridge regression on its place and the last nine commands,
fitted on the archive itself, failures included. Its error is stored as a lane and ingested as a view. Measured is the
precision of the first ten: of episodes by size of their error, and of searches like each failed one for others that
failed the same way.

    python benchmarks/retrieval/rb_w.py --first 1020 --out .bench/rb_w

Episodes are recorded once (about a processor minute) into --cache. Needs the extra "demo". Seeds 0 to 23 were tuned on;
goals repeat after 50.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import rb_outcome
from rb_c import area
from rb_w_record import KINDS, TASKS, load

from bridge.archive import open_archive
from bridge.curation import find_outliers
from wshard.core.episode.file import save_wshard
from wshard.types import Channel, Episode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from rb_w_record import Played

    Rows = NDArray[np.float64]

_HAND: Final = 4  # place and gripper
_PAST: Final = 9  # commands
_RIDGE: Final = 1e-3
_LIMIT: Final = 8.0  # of an error, in usual ones
_SMOOTH: Final = 9  # timesteps
_HITS: Final = 10
ERROR: Final = "uncert/state/ridge/error"
VIEWS: Final = {
    "states, default": (["state"], None),
    "states, `stats`": (["state"], "stats"),
    "error, `stats`": ([ERROR], "stats"),
    "**error, default**": ([ERROR], None),
}


@dataclass(frozen=True)
class Alike:
    """Precision of the first ten like a failed episode, by kind, in one view."""

    view: str
    kinds: dict[str, float]


@dataclass(frozen=True)
class Largest:
    """Precision of the first ten of a ranking, any failure counting, and its area under the curve by kind."""

    ranking: str
    precision: float
    areas: dict[str, float]


def errors_of(played: Sequence[Played]) -> list[Rows]:
    """Return the errors [T, 4] of each episode of one task, in usual ones of it."""
    inputs, steps = zip(*map(_pairs, played), strict=True)
    rows = np.concatenate(inputs)
    spread = rows.std(axis=0)
    spread[spread < 1e-9] = 1
    scaled = rows / spread
    normal = scaled.T @ scaled + _RIDGE * len(rows) * np.eye(rows.shape[1])
    weights = np.linalg.solve(normal, scaled.T @ np.concatenate(steps)) / spread[:, None]
    errors = [step - given @ weights for given, step in zip(inputs, steps, strict=True)]
    usual = 1.48 * np.median(np.abs(np.concatenate(errors)), axis=0) + 1e-5
    return [np.clip(np.vstack([np.zeros(_HAND), error / usual]), -_LIMIT, _LIMIT) for error in errors]


def _pairs(episode: Played) -> tuple[Rows, Rows]:
    place, acted = episode.observations[:, :_HAND].astype(float), episode.actions.astype(float)
    past = [np.vstack([np.repeat(acted[:1], lag, axis=0), acted])[: len(acted)] for lag in range(_PAST)]
    return np.hstack([place, *past, np.ones((len(place), 1))])[:-1], np.diff(place, axis=0)


def lane_of(error: Rows) -> NDArray[np.float32]:
    """Return what is ingested: direction and logarithm of the size of an error, averaged over nine timesteps."""
    kernel = np.full(_SMOOTH, 1 / _SMOOTH)
    signed, size = (np.stack([np.convolve(one, kernel, "same") for one in rows.T], 1) for rows in (error, abs(error)))
    return np.hstack([signed, np.log1p(size)]).astype(np.float32)


def save_all(folder: Path, played: Sequence[Played], errors: Sequence[Rows]) -> None:
    """Save the episodes, with their errors as lanes."""
    for number, (one, error) in enumerate(zip(played, errors, strict=True)):
        episode = Episode(f"e{number}", one.task, len(one.actions))
        episode.observations = {"state": Channel.of("state", one.observations)}
        episode.actions = {"ctrl": Channel.of("ctrl", one.actions)}
        name = ERROR.removeprefix("uncert/")
        episode.uncerts = {name: Channel.of(name, lane_of(error))}
        save_wshard(episode, folder / f"e{number}.wshard")


def measure_view(folder: Path, kinds: NDArray[np.str_], lanes: list[str], embedder: Any) -> tuple[Rows, Rows]:
    """Return how many of the first ten failed like each failed episode, and how unusual each episode is."""
    with tempfile.TemporaryDirectory() as name, open_archive(Path(name, "archive"), create=True) as archive:
        archive.ingest(folder, windows="whole", lanes=lanes, embedder=embedder)
        shares = np.full(len(kinds), np.nan)
        for number in np.flatnonzero(kinds != ""):
            hits = archive.search(f"e{number}", _HITS, lanes=lanes, embedder=embedder, exclude_self=True)
            shares[number] = np.mean([kinds[int(hit.episode_id[1:])] == kinds[number] for hit in hits])
        unusual = np.zeros(len(kinds))
        for row in find_outliers(archive):
            unusual[int(row.episode.episode_id[1:])] = row.value
    return shares, unusual


def rank(name: str, values: Rows, kinds: NDArray[np.str_]) -> Largest:
    """Return how well a value ranks failures."""
    first = np.argsort(-values, kind="stable")[:_HITS]
    areas = {kind: area(values[kinds == kind], values[kinds == ""]) for kind in KINDS}
    return Largest(name, float((kinds[first] != "").mean()), areas)


def tables(alike: Sequence[Alike], largest: Sequence[Largest], kinds: NDArray[np.str_]) -> str:
    """Return both tables as Markdown."""
    head = f"| {' | '.join(KINDS)} | mean |\n|---|{'---:|' * (len(KINDS) + 1)}"
    chance = (len(kinds) // len(TASKS) // 12 * len(TASKS) - 1) / (len(kinds) - 1)
    lines = [
        f"P@10 of the same failure (by chance {chance:.3f}), searches like each of the failed episodes",
        *("", f"| {head}", *(_row(one.view, one.kinds) for one in alike)),
        *("", "Area under the curve, failed against whole episodes, and P@10 of any failure"),
        *("", f"| {head}", *(_row(f"{one.ranking}; P@10 {one.precision:.2f}", one.areas) for one in largest)),
    ]
    return "\n".join(lines)


def _row(name: str, values: dict[str, float]) -> str:
    numbers = [*values.values(), float(np.mean([*values.values()]))]
    return f"| {name} | {' | '.join(f'{value:.2f}' for value in numbers)} |"


def draw(path: Path, alike: Sequence[Alike]) -> None:
    """Draw the precision by kind of failure."""
    mpl.use("Agg")
    figure, axes = plt.subplots(figsize=(8, 3), layout="constrained")
    for place, one in enumerate(alike):
        axes.bar(np.arange(len(KINDS)) + 0.2 * place, [*one.kinds.values()], 0.2, label=one.view.strip("*"))
    axes.set_xticks(np.arange(len(KINDS)) + 0.3, KINDS)
    axes.set_ylabel("P@10")
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=150)


def main() -> None:
    """Record, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=1020, help="the first seed")
    parser.add_argument("--cache", type=Path, default=Path(".bench/rb_w_episodes"))
    parser.add_argument("--workers", type=int, default=2)
    rb_outcome.add_option(parser)
    options = parser.parse_args()
    played = load(options.cache, options.first, options.workers)
    kinds = np.array([one.kind for one in played])
    errors = [error for task in TASKS for error in errors_of([one for one in played if one.task == task])]
    alike, largest = [], [rank("mean error", np.array([np.abs(error).mean() for error in errors]), kinds)]
    with tempfile.TemporaryDirectory() as name:
        save_all(Path(name), played, errors)
        for view, (lanes, embedder) in VIEWS.items():
            shares, unusual = measure_view(Path(name), kinds, lanes, embedder)
            alike.append(Alike(view, {kind: float(shares[kinds == kind].mean()) for kind in KINDS}))
            if embedder is None:
                largest.append(rank(f"outliers by {view.strip('*')}", unusual, kinds))
    text = (
        f"{len(played)} episodes of seeds {options.first} on; {rb_outcome.facts()}.\n\n{tables(alike, largest, kinds)}"
    )
    rb_outcome.leave(options, [*alike, *largest], text, lambda path: draw(path, alike))


if __name__ == "__main__":
    main()
