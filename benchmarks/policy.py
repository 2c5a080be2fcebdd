"""Measure whether episodes that a search chose train a better policy than as many random ones, in the simulator.

Run `make policy` to print Markdown; `--write docs/imitation.md` of the script replaces the section "## Measured".
Every seed has its own demonstrations, pool, starts of the network, and unseen goals on which it is judged.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import numpy as np
from machine import facts
from report import run_report

from bridge import Hits, TrajectoryIngestor, TrajectoryRetriever, open_archive
from bridge.curation import weigh
from catalog import F
from demo.policy import measure_success, train_policy
from demo.record import record_all
from demo.tasks import METAWORLD, METAWORLD_TASKS, Job

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from wshard.data import SpanDataset

TARGETS = ("drawer-open-v3", "push-v3", "window-close-v3")
TASKS = (*TARGETS, "button-press-topdown-v3", "door-close-v3", "drawer-close-v3", "faucet-open-v3", "pick-place-v3")
TASKS = (*TASKS, "reach-v3", "window-open-v3")
EXAMPLES, POOL, CHOSEN, UNSEEN, SEEDS = 3, 16, 32, 20, 3
STEPS = 1500
TRAINED: list[float] = []
"""CPU seconds of every training."""
KEYS = {"state": "state", "action": "ctrl"}
NOISE = (0.0, 0.1, 0.3)


def job_of(task: str, goal: int) -> Job:
    """Return the recording of a task with a goal, whose noise is that of the demo."""
    return Job(METAWORLD, task, goal, seed=1000 * METAWORLD_TASKS.index(task) + goal, noise=NOISE[goal % 3])


def choose(folder: Path, target: str, seed: int) -> tuple[dict[str, SpanDataset], float, list[int]]:
    """Return the training set of each way, the share of the target's among what was retrieved, and unseen goals."""
    rng = np.random.default_rng(seed)
    goals = {task: rng.permutation(50).tolist() for task in TASKS}
    shown = [folder / job_of(target, goal).file for goal in goals[target][:EXAMPLES]]
    pool = [folder / job_of(task, goal).file for task in TASKS for goal in goals[task][EXAMPLES : EXAMPLES + POOL]]
    place = str(folder / f"{target}-{seed}")
    with TrajectoryIngestor(place) as ingestor:
        ingestor.ingest([*shown, *pool])
    retriever = TrajectoryRetriever(place)
    examples = [retriever.search_similar_episodes(path, top_k=1)[0] for path in shown]
    wanted = F.uid.one_of([ref.uid for ref in examples])
    found = retriever.search_similar_episodes(like=examples, top_k=CHOSEN, where=~wanted)
    with open_archive(place) as archive:
        weights = {one.episode.uid: one.value for one in weigh(archive, wanted, ~wanted)}
        others = [ref for ref in archive if ref.uid not in {one.uid for one in examples}]
    mean = float(np.mean([weights[ref.uid] for ref in found]))
    labelled = [ref for ref in others if ref.metadata["env_id"] == target]
    sets = {
        "the examples alone": (examples, None),
        "random": ([*examples, *(others[place] for place in rng.permutation(len(others))[:CHOSEN])], None),
        "retrieved": ([*examples, *found], None),
        "retrieved, weighted": ([*examples, *found], [mean] * EXAMPLES + [weights[ref.uid] for ref in found]),
        "of the task, by its label": ([*examples, *labelled], None),
    }
    opened = {
        name: Hits(refs).dataset(weights=by, keys_to_load=KEYS, keys_to_cache=list(KEYS))
        for name, (refs, by) in sets.items()
    }
    share = sum(ref.metadata["env_id"] == target for ref in found) / POOL
    return opened, share, goals[target][EXAMPLES + POOL :][:UNSEEN]


def measure(folder: Path) -> Iterator[tuple[str, int, dict[str, float], float]]:
    """Yield target, seed, the successes of each way, and the share of the target's episodes that were found."""
    for target in TARGETS:
        for seed in range(SEEDS):
            sets, share, goals = choose(folder, target, seed)
            found = {}
            for name, data in sets.items():
                began = time.process_time()
                policy = train_policy(data, steps=STEPS, seed=seed)
                TRAINED.append(time.process_time() - began)
                found[name] = measure_success(target, policy, goals)
            yield target, seed, found, share


def report(folder: Path) -> Iterator[str]:
    """Yield the parts of the section."""
    began, load = time.perf_counter(), os.getloadavg()[0]
    record_all(folder, [job_of(task, goal) for task in TASKS for goal in range(50)])
    yield (
        f"## Measured\n\nBy `make policy` on {facts()}, load {load:.1f}. The pool has {POOL} episodes of "
        f"each of {len(TASKS)} tasks; {EXAMPLES} examples of one task are given, and {CHOSEN} episodes are added. Each "
        f"policy is trained by {STEPS} batches of 256 timesteps, and judged on {UNSEEN} goals that no episode of that "
        f"task in the archive has. The numbers are shares of successes, for seeds 0 to {SEEDS - 1}.\n"
    )
    scores: dict[str, dict[str, list[float]]] = {target: {} for target in TARGETS}
    shares = []
    for target, _, found, share in measure(folder):
        shares.append(share)
        for name, score in found.items():
            scores[target].setdefault(name, []).append(score)
        print(target, found, share, f"{time.perf_counter() - began:.0f} s", flush=True)
    names = list(scores[TARGETS[0]])
    yield f"| trained on | {' | '.join(TARGETS)} | mean |\n|---|{'---|' * len(TARGETS)}---:|"
    for name in names:
        cells = [", ".join(f"{score:.2f}" for score in scores[target][name]) for target in TARGETS]
        mean = np.mean([scores[target][name] for target in TARGETS])
        yield f"| {name} | {' | '.join(cells)} | {mean:.3f} |"
    yield (
        f"\nAmong what was retrieved were {np.mean(shares):.0%} of the pool's episodes of the task. A training took "
        f"{np.median(TRAINED):.0f} s of CPU time (median of {len(TRAINED)}).\n"
    )


if __name__ == "__main__":
    run_report(__doc__, report)
