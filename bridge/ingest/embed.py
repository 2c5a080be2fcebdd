"""Computes missing vectors of catalogued episodes; runs in worker processes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from bridge.episodes.open import OpenLocations
from bridge.episodes.read import Failure, attempt, lost_failure
from bridge.episodes.rows import read_bridged
from bridge.pictures.features import FeatureFiles
from bridge.search.moments.lane_rows import prepare_rows
from bridge.search.moments.scan import describe
from catalog.vectors.records import EmbeddingRow
from embedders.base import embed_by
from embedders.image.frame_encoder import Pooled, frame_pooler_of
from embedders.window_batches import Cuts
from embedders.windows import WindowPlan, cut_padding, without_padding
from wshard.core.array_fields import DType
from wshard.errors import EmbedderError, IngestError, NotFiniteError, WShardError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from bridge.index.array_files import Part
    from bridge.pictures.features import Features
    from bridge.support.episode_cache import EpisodeCache
    from catalog.records import EpisodeRow
    from embedders.base import Embedder
    from embedders.image.frame_encoder import FramePooler
    from embedders.space import Space, Statistics

    _Ready = tuple[EpisodeRow, NDArray[Any]]

DESCRIBED: Final = 5
"""Arrays of a part of timesteps: the digests of its episodes, and those of `scan.describe`."""

_BATCH_EPISODES = 64  # episodes whose windows are embedded in one call


@dataclass(frozen=True)
class Embedding:
    """How to embed: embedder and Space, as sent to worker processes; folder: that of the archive.

    cache: of episodes that need not be opened, which takes others that are read. scaling: of the timesteps that are
    returned with the vectors, None for none.
    """

    embedder: Embedder
    space: Space
    folder: Path
    cache: EpisodeCache
    scaling: Statistics | None = None

    @cached_property
    def pooler(self) -> FramePooler | None:
        """The embedder, if it pools features of camera frames."""
        return frame_pooler_of(self.embedder) if len(self.space.window_shape) > 1 else None

    @cached_property
    def maker(self) -> str:
        """The same for Spaces that differ only in their windows."""
        return replace(self.space, windows=WindowPlan()).fingerprint


@dataclass(frozen=True)
class MissingEmbeddings:
    """An episode, and the numbers of the embeddings that it lacks."""

    row: EpisodeRow
    numbers: tuple[int, ...]


@dataclass(frozen=True)
class EmbeddingOutcome:
    """Result of one embedding job: ledger rows, and (episode id, failure) of the episodes that failed.

    bridged: ids of the episodes with gaps that were bridged. timesteps: of those in `rows`, if they are to be stored:
    the digests of some episodes, and what is scanned of these.
    """

    rows: list[EmbeddingRow]
    failed: list[tuple[int, Failure]]
    bridged: set[int]
    timesteps: list[Part] = field(default_factory=list)


def embed_episodes(jobs: Sequence[Embedding], lacking: Sequence[MissingEmbeddings]) -> list[EmbeddingOutcome]:
    """Compute the missing embeddings of catalogued episodes; all jobs have the same lanes.

    The file of each is opened once, and not at all if its lanes are cached, or the features of its frames stored.

    Returns the result of each job, in order.
    """
    outcomes = [EmbeddingOutcome([], [], set()) for _ in jobs]
    batch_size = (
        _BATCH_EPISODES if len(jobs[0].space.window_shape) == 1 else 1
    )  # images of many episodes would not fit into memory
    with OpenLocations() as locations:
        for start in range(0, len(lacking), batch_size):
            ready: list[list[_Ready]] = [[] for _ in jobs]
            for episode in lacking[start : start + batch_size]:
                own = [jobs[number] for number in episode.numbers]
                read = attempt(partial(_read_values, own, episode.row, locations), episode.row.address)
                if isinstance(read, Failure):
                    failure = replace(read, catalogued=isinstance(read.cause, NotFiniteError))
                    for number in episode.numbers:
                        outcomes[number].failed.append((episode.row.id, failure))
                    continue
                values, bridged = read
                for number in episode.numbers:
                    ready[number].append((episode.row, values))
                    outcomes[number].bridged.update([episode.row.id] if bridged else [])
            for numbers in _group_jobs(jobs, ready):
                selected = [outcomes[number] for number in numbers]
                _embed_all([jobs[number] for number in numbers], ready[numbers[0]], selected)
    return outcomes


def lost_outcomes(jobs: int, lacking: MissingEmbeddings) -> list[EmbeddingOutcome]:
    """Return the result of each job for an episode that ended every worker process that it was given to."""
    failed = [(lacking.row.id, replace(lost_failure(lacking.row.address), catalogued=True))]
    return [EmbeddingOutcome([], failed if number in lacking.numbers else [], set()) for number in range(jobs)]


def _group_jobs(jobs: Sequence[Embedding], ready: Sequence[Sequence[_Ready]]) -> list[list[int]]:
    """Group jobs that can be done together: those of images whose Spaces differ only in their windows."""
    groups: dict[object, list[int]] = {}
    for number, (job, episodes) in enumerate(zip(jobs, ready, strict=True)):
        made = job.maker if len(job.space.window_shape) > 1 else number
        groups.setdefault((made, tuple(row.id for row, _ in episodes)), []).append(number)
    return list(groups.values())


def _embed_all(jobs: Sequence[Embedding], ready: Sequence[_Ready], outcomes: Sequence[EmbeddingOutcome]) -> None:
    if not ready:
        return
    rows_by_job = attempt(partial(_embed, jobs, ready), ready[0][0].address)
    if not isinstance(rows_by_job, Failure):
        for job, rows, outcome in zip(jobs, rows_by_job, outcomes, strict=True):
            outcome.rows.extend(rows)
            if job.scaling is not None:
                described = attempt(partial(_describe, ready, job.scaling), ready[0][0].address)
                outcome.timesteps.extend([] if isinstance(described, Failure) else [described])
    elif len(ready) > 1:  # one by one, so that an episode that fails does not affect the others
        for episode in ready:
            _embed_all(jobs, [episode], outcomes)
    elif isinstance(rows_by_job.cause, WShardError) and not isinstance(rows_by_job.cause, EmbedderError):
        raise rows_by_job.cause  # not the fault of an episode, for example a missing package
    else:
        for outcome in outcomes:
            outcome.failed.append((ready[0][0].id, replace(rows_by_job, cause=None)))


def _embed(jobs: Sequence[Embedding], ready: Sequence[_Ready]) -> list[list[EmbeddingRow]]:
    """Return the ledger rows of each job; windows of all jobs are cut from the same frames."""
    plans = [job.space.windows for job in jobs]
    cuts = Cuts((values, _used_spans(plans, values)) for _, values in ready)
    pooler = jobs[0].pooler if ready[0][1].shape[1:2] == (1,) else None  # no image is so flat
    embedder = jobs[0].embedder if pooler is None else Pooled(pooler)
    vectors = embed_by(embedder, jobs[0].space, cuts).astype("<f4", copy=False)
    rows: list[list[EmbeddingRow]] = [[] for _ in jobs]
    stop = 0
    for row, values in ready:
        for plan, of_job in zip(plans, rows, strict=True):
            start, stop = stop, stop + len(_spans(plan, len(values)))
            of_job.append(EmbeddingRow(row.id, row.digest, stop - start, vectors[start:stop].tobytes()))
    return rows


def _describe(ready: Sequence[_Ready], scaling: Statistics) -> Part:
    """Return the digests of episodes, and what is scanned of them."""
    rows = prepare_rows([values for _, values in ready], scaling)
    scanned = describe({row.id: one.rows for (row, _), one in zip(ready, rows, strict=True)})
    return [np.array([row.digest for row, _ in ready]), *scanned]


def _used_spans(plans: Sequence[WindowPlan], values: NDArray[Any]) -> NDArray[np.int64]:
    spans, used = np.concatenate([_spans(plan, len(values)) for plan in plans]), len(cut_padding(values))
    return spans if used == len(values) else without_padding(spans, used)


@lru_cache(maxsize=256)  # most episodes of an archive have one of a few lengths
def _spans(plan: WindowPlan, length: int) -> NDArray[np.int64]:
    return plan.spans(length)


def _read_values(jobs: Sequence[Embedding], row: EpisodeRow, locations: OpenLocations) -> tuple[NDArray[Any], bool]:
    """Return the values of the lanes, or the features [T, 1, D] of a camera's frames; and whether gaps were bridged."""
    space, cache, names = jobs[0].space, jobs[0].cache, [lane.name for lane in jobs[0].space.lanes]
    if (known := cache.find(row, names)) is not None:
        return read_bridged(known, space, row.address)
    poolers = {job.pooler.fingerprint: job.pooler for job in jobs if job.pooler is not None}
    pooler = next(iter(poolers.values())) if len(poolers) == 1 and all(job.pooler for job in jobs) else None
    if pooler is not None:
        files, steps = FeatureFiles(jobs[0].folder, pooler), _used_steps(jobs, row.length, pooler)
        if (found := files.find(row, names[0], steps)) is not None:
            return _spread(found, row.length), False
    with locations.open(row.address) as file:
        if not locations.is_as_ingested(file, row):
            raise IngestError(f"{row.address}: changed while it was being ingested: run the command again")
        if len(space.window_shape) == 1:
            return read_bridged(cache.read(file, row, names), space, row.address)
        if pooler is None or file.lanes()[names[0]].dtype is not DType.UINT8:
            return read_bridged(file, space, row.address)
        return _spread(files.describe(file, row, names[0], steps), row.length), False


def _used_steps(jobs: Sequence[Embedding], length: int, pooler: FramePooler) -> NDArray[np.int64]:
    """Return the timesteps of an episode that any window of the jobs uses."""
    is_used = np.zeros(length, np.bool_)
    spans = np.concatenate([_spans(job.space.windows, length) for job in jobs])
    sizes = spans[:, 1] - spans[:, 0]
    for size in np.unique(sizes).tolist():
        is_used[spans[sizes == size, :1] + pooler.steps(size)] = True
    return np.flatnonzero(is_used)


def _spread(found: Features, length: int) -> NDArray[np.float16]:
    """Return features as those of all timesteps [length, 1, D]; those that are not used repeat the ones before."""
    return found.rows[np.searchsorted(found.steps, np.arange(length), side="right") - 1, None]
