"""The tour: record, catalog, embed, index, search, load and evaluate, by calls that users can make, too."""

from __future__ import annotations

import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bridge.cli.search import print_hits
from bridge.evaluation.metrics import leave_one_out, leave_one_out_by
from bridge.support.progress import show_progress
from catalog.cli.common import print_table
from catalog.filters.where import build_where
from demo.disturb import pause, warp
from demo.picture import draw
from demo.record import record, record_all
from demo.tasks import METAWORLD, Job
from embedders.statistics import Moments, merge, statistics
from embedders.trajectory.blocks import Blocks
from embedders.trajectory.pooled import Mean
from wshard import TrajectoryIngestor, TrajectoryRetriever, load_wshard, open_archive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from bridge.evaluation.metrics import Scores
    from bridge.results import EpisodeRef
    from catalog.records import EpisodeRow
    from embedders.base import Embedder
    from wshard.types import Array


def run(folder: Path, jobs: Sequence[Job], workers: int) -> None:
    """Run all steps in `folder`: episodes/ has the recordings, the rest is the archive. Resumable at any point."""
    start = time.perf_counter()
    episodes = folder / "episodes"
    _record(episodes, jobs, workers)
    _ingest(folder, episodes)
    _overview(folder)
    best = _search(folder, episodes, jobs)
    _load(best, jobs)
    _evaluate(folder)
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


def _ingest(folder: Path, episodes: Path) -> None:
    with (
        _step(f"Catalog, check, embed (whole and in windows of several sizes) and index them -> {folder}"),
        TrajectoryIngestor(folder) as ingestor,
        show_progress() as progress,
    ):
        report = ingestor.ingest(episodes, progress=progress)
    say(f"   {report.new} new, {report.unchanged} unchanged, {report.embedded} embedded, {len(report.failed)} left out")


def _overview(folder: Path) -> None:
    say("\n== What is in the archive (`wshard facets env`, `wshard stats --by env`)")
    with open_archive(folder) as archive:
        environments = archive.catalog.query.facets(["env_id"])["env_id"]
        rows = []
        for env, count in environments:
            page = archive.catalog.query.select(build_where(env_id=str(env)), limit=count).rows
            rewards = [row.total_reward for row in page if row.total_reward is not None]
            succeeded = [row.success for row in page if row.success is not None]
            share = f"{np.mean(succeeded):.0%}" if succeeded else ""
            lengths = f"{min(row.length for row in page)}-{max(row.length for row in page)}"
            rows.append((str(env), str(count), lengths, f"{np.mean(rewards):.4g}", share))
    print_table(("env", ">episodes", ">timesteps", ">mean reward", ">success"), rows)


def _search(folder: Path, episodes: Path, jobs: Sequence[Job]) -> EpisodeRef:
    """Search four times and draw the first answer; returns the best hit that is not the query itself."""
    arm_jobs = [job for job in jobs if job.suite == METAWORLD]
    query_job = next((job for job in arm_jobs if job.task == "drawer-open-v3"), arm_jobs[0])
    query = load_wshard(episodes / query_job.file)
    camera_job = next(job for job in jobs if job.suite != METAWORLD)
    with TrajectoryRetriever(folder) as retriever:
        say(f"\n== Search: episodes like {query_job.episode_id}, anywhere")
        hits = retriever.search_similar_episodes(query, top_k=8)
        print_hits(hits)
        say(f"\n== The same under filters: env {query_job.task}, length >= 50, total reward >= 425")
        print_hits(
            retriever.search_similar_episodes(
                query, top_k=5, env_id=query_job.task, min_length=50, reward_range=(425, None)
            )
        )
        say(f"\n== Search with an array [T, D] from another environment: {camera_job.episode_id}")
        states = load_wshard(episodes / camera_job.file, channels=["state"]).observations["state"].data
        print_hits(retriever.search_similar_episodes(states, top_k=5))
        start, stop = 20, min(60, query.length)
        say(f"\n== Moments like timesteps {start} to {stop} of {query_job.episode_id}, in other episodes")
        moment = (episodes / query_job.file, start, stop)
        print_hits(retriever.search_moments(moment, top_k=5, exclude_self=True), with_span=True)
    picture = folder / "demo.png"
    with _step(f"Picture of the query over its best hits -> {picture}"):
        draw(picture, hits[0], hits[1:6])
    return hits[1]


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


def _evaluate(folder: Path) -> None:
    say("\n== How good is it? Leave one out over the MetaWorld episodes: do the most similar others share the task?")
    with open_archive(folder) as archive:
        rows = archive.catalog.query.select(limit=10_000).rows
    arm_rows = [row for row in rows if "goal_seed" in row.metadata]
    episodes = [load_wshard(row.path, channels=["state", "ctrl"]) for row in arm_rows]
    labels = [row.env_id for row in arm_rows]
    states = [episode.observations["state"].data for episode in episodes]
    motions = [
        np.hstack([episode.observations["state"].data[:, :4], episode.actions["ctrl"].data]) for episode in episodes
    ]
    table = [
        ("whole state", "wshard search", *_evaluate_search(folder, arm_rows, states)),
        *_evaluate_embedders("whole state", states, labels),
        *_evaluate_embedders("hand and action", motions, labels),
    ]
    print_table(("lanes", "ranked by", ">P@1", ">mAP", ">mAP, other speed", ">mAP, 40 % pause"), table)
    say("   The whole state gives the task away by its objects' places; hand and action is the behaviour alone.")
    say("   A search ranks by windows, too, and expands its query; the other rows compare one vector per episode.")


def _evaluate_search(folder: Path, rows: Sequence[EpisodeRow], windows: list[Array]) -> tuple[str, ...]:
    """Return the scores of the default search with up to 100 of the windows [T, D], one per episode, as queries."""
    number_of = {row.uid: number for number, row in enumerate(rows)}
    queries = np.arange(0, len(rows), -(-len(rows) // 100))

    def score(change: Callable[[Array, int], Array]) -> Scores:
        def compare(query_numbers: NDArray[np.int64]) -> NDArray[np.float64]:
            similarities = np.full((len(query_numbers), len(rows)), -np.inf)
            for row, number in zip(similarities, query_numbers.tolist(), strict=True):
                query = change(windows[number], number)
                hits = retriever.search_similar_episodes(query, len(rows), where="meta.goal_seed:*")
                row[[number_of[hit.uid] for hit in hits]] = [hit.score for hit in hits]
            return similarities

        return leave_one_out_by(compare, [row.env_id for row in rows], queries)

    with TrajectoryRetriever(folder) as retriever:
        return _format_scores(*map(score, (lambda window, _: window, warp, pause)))


def _evaluate_embedders(lanes: str, windows: list[Array], labels: list[str]) -> Iterator[tuple[str, ...]]:
    """Yield a row for the default embedder and one for the mean over time, on the same windows [T, D]."""
    scaling = statistics([merge(map(Moments.of, windows))])
    disturbed = [[change(window, seed) for seed, window in enumerate(windows)] for change in (warp, pause)]
    embedders: tuple[tuple[str, Embedder], ...] = (("blocks (default)", Blocks()), ("mean (baseline)", Mean()))
    for name, embedder in embedders:
        vectors = embedder.embed(windows, scaling)
        query_vectors = [embedder.embed(queries, scaling) for queries in disturbed]
        disturbed_scores = [leave_one_out(vectors, labels, queries=queries) for queries in query_vectors]
        yield lanes, name, *_format_scores(leave_one_out(vectors, labels), *disturbed_scores)


def _format_scores(clean: Scores, *disturbed: Scores) -> tuple[str, ...]:
    means = (scores.mean_average_precision for scores in (clean, *disturbed))
    return tuple(f"{value:.3f}" for value in (clean.precision_at_1, *means))


def _next_steps(folder: Path, example: Path) -> None:
    wshard = ".venv/bin/wshard"
    say("\n== Try next")
    say(f"   export WSHARD_ARCHIVE={folder}")
    say(f"   {wshard} ls --sort -reward --limit 10")
    say(f"   {wshard} search {example} --env reach-v3 --env push-v3 --top 5")
    say(f"   {wshard} moments {example} --from 20 --to 60 --exclude-self")
    say(f"   {wshard} inspect {example}")
    say(f"   {wshard} ingest YOUR/EPISODES --archive my-archive")
