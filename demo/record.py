"""Record planned episodes into a folder of WShard files, in several processes.

Recording is resumable: finished files are never recorded again.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
from collections import deque
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from bridge.support.workers import end_with_parent, interrupts_held
from demo.tasks import CLASSIC, METAWORLD, Job
from wshard.core.messages import how_to_install
from wshard.core.recording.writer import WShardStreamWriter
from wshard.errors import MissingExtraError
from wshard.types import TimebaseSpec, TimebaseType

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from pathlib import Path

    from demo.simulator import Simulator, Step

# Imported on use, so that one simulator works without the other.
_SIMULATORS = {METAWORLD: ("demo.arm", "Arm"), CLASSIC: ("demo.classic", "Classic")}

# Read by the libraries on import: disable windows and messages on stdout.
_HEADLESS = {"SDL_VIDEODRIVER": "dummy", "MUJOCO_GL": "disabled", "PYGAME_HIDE_SUPPORT_PROMPT": "1"}


@dataclass(frozen=True)
class Summary:
    """Result of `record_all`: numbers of episodes recorded, of episodes that existed already, and of steps recorded."""

    recorded: int
    skipped: int
    steps: int


def record(job: Job, folder: Path) -> Path:
    """Record one episode below `folder` and return its file; a finished file is not changed.

    Raises MissingExtraError when the simulator is not installed, RecordingExistsError while another process records
    the same file.
    """
    path = folder / job.file
    if not _is_finished(path):
        with closing(_open_simulator(job)) as simulator:
            _write_episode(job, simulator, path)
    return path


def record_all(
    folder: Path,
    jobs: Sequence[Job],
    *,
    workers: int | None = None,
    progress: Callable[[int, int, int], None] | None = None,
) -> Summary:
    """Record all jobs that have no finished file yet, in `workers` processes (default: one per core).

    progress(done, total, steps) is called at the start and whenever the episodes of a task are finished: episodes
    on disk, episodes planned, steps recorded by this call. KeyboardInterrupt is raised after the running tasks have
    finished (a few seconds); the next call resumes there. Errors are those of `record`.
    """
    missing = [job for job in jobs if not _is_finished(folder / job.file)]
    skipped = len(jobs) - len(missing)
    recorded = steps = 0
    report = progress or (lambda _done, _total, _steps: None)
    report(skipped, len(jobs), 0)
    with closing(_record_in_processes(folder, missing, workers or os.cpu_count() or 1)) as finished:
        for lengths in finished:
            recorded += len(lengths)
            steps += sum(lengths)
            report(skipped + recorded, len(jobs), steps)
    return Summary(recorded, skipped, steps)


def _is_finished(path: Path) -> bool:
    # A process killed while publishing leaves a .partial beside the file; recording again removes it.
    return path.exists() and not path.with_name(path.name + ".partial").exists()


def _record_in_processes(folder: Path, jobs: Sequence[Job], workers: int) -> Generator[list[int]]:
    """Yield the episode lengths of each task as it finishes."""
    # Creating a simulator takes as long as ten episodes, so one process records all episodes of a task.
    tasks = deque(list(group) for _, group in groupby(jobs, key=lambda job: (job.suite, job.task)))
    if not tasks:
        return
    context = multiprocessing.get_context("spawn")
    workers = min(workers, len(tasks))
    with ProcessPoolExecutor(workers, mp_context=context, initializer=end_with_parent) as pool:
        running: set[Future[list[int]]] = set()
        while tasks or running:
            # Submit only what the processes can start at once, as queued calls cannot be cancelled reliably.
            while tasks and len(running) < workers:
                with interrupts_held():
                    running.add(pool.submit(_record_task, folder, tasks.popleft()))
            finished, running = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                yield future.result()


def _record_task(folder: Path, jobs: Sequence[Job]) -> list[int]:
    with closing(_open_simulator(jobs[0])) as simulator:
        return [_write_episode(job, simulator, folder / job.file) for job in jobs]


def _write_episode(job: Job, simulator: Simulator, path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = WShardStreamWriter(
        path,
        job.episode_id,
        simulator.observations,
        action_defs=[simulator.action],
        compression="zstd",
        overwrite=True,  # leftovers of a killed recording are not needed: the seed gives the same steps again
    )
    metadata = {"task": job.task, "seed": job.seed, "action_noise": job.noise, **simulator.metadata}

    def write(step: Step) -> None:
        writer.write_timestep(
            writer.timestep_count,
            step.observations,
            {simulator.action.name: step.action},
            step.reward,
            step.done,
            truncated=step.truncated,
        )

    with writer:
        timebase = TimebaseSpec(type=TimebaseType.TICKS, tick_hz=simulator.tick_hz)
        writer.begin_episode(env_id=job.task, timebase=timebase, metadata=metadata)
        writer.end_episode(metadata=simulator.run(job, write))
    return writer.timestep_count


def _open_simulator(job: Job) -> Simulator:
    os.environ.update(_HEADLESS)
    module, name = _SIMULATORS[job.suite]
    try:
        simulator: Simulator = getattr(importlib.import_module(module), name)(job.task)
    except ImportError as error:
        raise MissingExtraError(
            f"recording {job.file} expects the extra 'demo' ({how_to_install('demo')}), found: {error}"
        ) from error
    return simulator
