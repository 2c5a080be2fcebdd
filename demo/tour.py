"""The tour: record, catalog, embed, index, search, load and evaluate, by calls that users can make, too."""

from __future__ import annotations

import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import wshard
from bridge.cli.search import print_hits
from bridge.support.progress import show_progress
from catalog.cli.common import print_table
from demo.picture import draw
from demo.record import record, record_all
from demo.scores import evaluate
from demo.tasks import METAWORLD, Job
from wshard import load_wshard

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wshard import Archive, EpisodeRef, Hits


def run(folder: Path, jobs: Sequence[Job], workers: int) -> None:
    """Run all steps in `folder`: episodes/ has the recordings, the rest is the archive. Resumable at any point."""
    start = time.perf_counter()
    episodes = folder / "episodes"
    _record(episodes, jobs, workers)
    with wshard.open_archive(folder, create=True) as lab:
        _ingest(lab, episodes)
        _overview(lab)
        best = _search(lab, episodes, jobs)
        picture = folder / "demo.png"
        with _step(f"Picture of the query over its best hits -> {picture}"):
            draw(picture, best[0], best[1:6])
        _load(best[1], jobs)
        evaluate(lab, say)
    _next_steps(folder, episodes / jobs[0].file)
    say(f"\nDone in {time.perf_counter() - start:.0f} s.")
    say(f"\nOpen it in the browser:\n   .venv/bin/wshard serve {folder}")


def say(text: str) -> None:
    """Print and flush, so that output appears at once also in a pipe."""
    print(text, flush=True)  # noqa: T201  (the demo speaks to a person)


@contextmanager
def _step(title: str) -> Iterator[None]:
    say(f"\n== {title}")
    start = time.perf_counter()
    yield
    say(f"   ({time.perf_counter() - start:.1f} s)")


def _record(episodes: Path, jobs: Sequence[Job], workers: int) -> None:
    arms = sum(job.suite == METAWORLD for job in jobs)
    title = f"Record {len(jobs)} episodes: {arms} of MetaWorld arm tasks, {len(jobs) - arms} with camera frames"
    with _step(f"{title} -> {episodes}"), show_progress() as progress:
        progress.stage("recording", len(jobs))
        advanced = 0

        def advance(finished: int, _total: int, _steps: int) -> None:
            nonlocal advanced
            progress.advance(finished - advanced)
            advanced = finished

        summary = record_all(episodes, jobs, workers=workers, progress=advance)
    say(f"   {summary.recorded} recorded ({summary.steps} timesteps), {summary.skipped} were there already")


def _ingest(lab: Archive, episodes: Path) -> None:
    title = f"Catalog, check, embed (whole and in windows of several sizes) and index them -> {lab.place.name}"
    with _step(title), show_progress() as progress:
        report = lab.ingest(episodes, progress=progress)
    say(f"   {report.new} new, {report.unchanged} unchanged, {report.embedded} embedded, {len(report.failed)} left out")


def _overview(lab: Archive) -> None:
    say("\n== What is in the archive (`wshard facets env`, `wshard stats --by env`)")
    rows = []
    for env, count in lab.catalog.query.facets(["env_id"])["env_id"]:
        found = [episode.metadata for episode in lab.where(wshard.F.env_id == str(env))]
        rewards = [one["total_reward"] for one in found if one["total_reward"] is not None]
        succeeded = [one["success"] for one in found if one["success"] is not None]
        share = f"{np.mean(succeeded):.0%}" if succeeded else ""
        lengths = f"{min(one['length'] for one in found)}-{max(one['length'] for one in found)}"
        rows.append((str(env), str(count), lengths, f"{np.mean(rewards):.4g}", share))
    print_table(("env", ">episodes", ">timesteps", ">mean reward", ">success"), rows)


def _show(lab: Archive, hits: Hits, *, with_span: bool = False) -> None:
    """Print hits by their short names."""
    print_hits(hits, lab.catalog.query.short_names(hits), with_span=with_span)


def _search(lab: Archive, episodes: Path, jobs: Sequence[Job]) -> Hits:
    """Search four times; returns the hits of the first search, which begin with the query itself."""
    arm_jobs = [job for job in jobs if job.suite == METAWORLD]
    query_job = next((job for job in arm_jobs if job.task == "drawer-open-v3"), arm_jobs[0])
    query = load_wshard(episodes / query_job.file)
    camera_job = next(job for job in jobs if job.suite != METAWORLD)
    say(f"\n== Search: episodes like {query_job.episode_id}, anywhere")
    hits = lab.search(query, 8)
    _show(lab, hits)
    say(f"\n== The same under filters: env {query_job.task}, length >= 50, total reward >= 425")
    _show(lab, lab.search(query, 5, env_id=query_job.task, min_length=50, reward_range=(425, None)))
    say(f"\n== Search with an array [T, D] from another environment: {camera_job.episode_id}")
    states = load_wshard(episodes / camera_job.file, channels=["state"])["state"]
    _show(lab, lab.search(states, 5))
    start, stop = 20, min(60, query.length)
    say(f"\n== Moments like timesteps {start} to {stop} of {query_job.episode_id}, in other episodes")
    moment = (episodes / query_job.file, start, stop)
    _show(lab, lab.moments(moment, 5, exclude_self=True), with_span=True)
    return hits


def _load(best: EpisodeRef, jobs: Sequence[Job]) -> None:
    with _step(f"Load the best hit straight from its file: {best.episode_id}"):
        episode = best.load(channels=["state", "ctrl"])
        state, rewards = episode.observations["state"].data, episode.rewards
        job = next(job for job in jobs if job.episode_id == best.episode_id)
        with tempfile.TemporaryDirectory() as scratch:
            rerun = load_wshard(record(job, Path(scratch)))
        is_equal = np.array_equal(state, rerun.observations["state"].data) and np.array_equal(rewards, rerun.rewards)
        if not is_equal:
            raise SystemExit(f"{best.file_path}: differs from a fresh run of its simulator with its seed")
        say(f"   state {state.dtype}{list(state.shape)}, checksums verified; a fresh simulation with its seed gives")
        say(f"   the same {state.size} state values and {len(rerun.rewards)} rewards, bit for bit")


def _next_steps(folder: Path, example: Path) -> None:
    command = ".venv/bin/wshard"
    say("\n== Try next")
    say(f"   export WSHARD_ARCHIVE={folder}")
    say(f"   {command} ls --sort -reward --limit 10")
    say(f"   {command} search {example} --env reach-v3 --env push-v3 --top 5")
    say(f"   {command} moments {example} --from 20 --to 60 --exclude-self")
    say(f"   {command} inspect {example}")
    say(f"   {command} ingest YOUR/EPISODES --archive my-archive")
