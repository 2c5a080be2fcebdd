"""Computes missing vectors of catalogued episodes; runs in worker processes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from bridge.episodes.open import OpenLocations
from bridge.episodes.read import Failure, attempt, lost_failure, read_bridged
from bridge.pictures.features import FeatureFiles
from catalog.vectors.records import EmbeddingRow
from embedders.base import embed_by
from embedders.image.frame_encoder import Pooled, frame_pooler_of
from embedders.window_batches import Cuts
from embedders.windows import WindowPlan, cut_padding, without_padding
from wshard.core.array_fields import DType
from wshard.core.episode.protocol import Fingerprint
from wshard.errors import EmbedderError, IngestError, NotFiniteError, WShardError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from catalog.records import EpisodeRow
    from embedders.base import Embedder
    from embedders.space import Space

    _Ready = tuple[EpisodeRow, NDArray[Any]]

_BATCH_EPISODES = 64  # episodes whose windows are embedded in one call


@dataclass(frozen=True)
class Embedding:
    """How to embed: embedder and Space, as sent to worker processes; folder: that of the archive."""

    embedder: Embedder
    space: Space
    folder: Path


@dataclass(frozen=True)
class MissingEmbeddings:
    """An episode, and the numbers of the embeddings that it lacks."""

    row: EpisodeRow
    numbers: tuple[int, ...]


@dataclass(frozen=True)
class EmbeddingOutcome:
    """Result of one embedding job: ledger rows, and (episode id, failure) of the episodes that failed.

    bridged: ids of the episodes with gaps that were bridged.
    """

    rows: list[EmbeddingRow]
    failed: list[tuple[int, Failure]]
    bridged: set[int]


def embed_episodes(jobs: Sequence[Embedding], lacking: Sequence[MissingEmbeddings]) -> list[EmbeddingOutcome]:
    """Compute the missing embeddings of catalogued episodes, opening each file once; all jobs have the same lanes.

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
        maker = replace(job.space, windows=WindowPlan()).fingerprint if len(job.space.window_shape) > 1 else number
        groups.setdefault((maker, tuple(row.id for row, _ in episodes)), []).append(number)
    return list(groups.values())


def _embed_all(jobs: Sequence[Embedding], ready: Sequence[_Ready], outcomes: Sequence[EmbeddingOutcome]) -> None:
    if not ready:
        return
    rows_by_job = attempt(partial(_embed, jobs, ready), ready[0][0].address)
    if not isinstance(rows_by_job, Failure):
        for rows, outcome in zip(rows_by_job, outcomes, strict=True):
            outcome.rows.extend(rows)
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
    embedder, space = jobs[0].embedder, jobs[0].space
    pooler = frame_pooler_of(embedder) if ready[0][1].shape[1:2] == (1,) else None  # no image is so flat
    vectors = embed_by(embedder if pooler is None else Pooled(pooler), space, cuts).astype("<f4", copy=False)
    rows: list[list[EmbeddingRow]] = [[] for _ in jobs]
    stop = 0
    for row, values in ready:
        for plan, of_job in zip(plans, rows, strict=True):
            start, stop = stop, stop + len(_spans(plan, len(values)))
            of_job.append(EmbeddingRow(row.id, row.digest, stop - start, vectors[start:stop].tobytes()))
    return rows


def _used_spans(plans: Sequence[WindowPlan], values: NDArray[Any]) -> NDArray[np.int64]:
    spans, used = np.concatenate([_spans(plan, len(values)) for plan in plans]), len(cut_padding(values))
    return spans if used == len(values) else without_padding(spans, used)


@lru_cache(maxsize=256)  # most episodes of an archive have one of a few lengths
def _spans(plan: WindowPlan, length: int) -> NDArray[np.int64]:
    return plan.spans(length)


def _read_values(jobs: Sequence[Embedding], row: EpisodeRow, locations: OpenLocations) -> tuple[NDArray[Any], bool]:
    """Return the values of the lanes, or the features [T, 1, D] of a camera's frames; and whether gaps were bridged."""
    space, lane = jobs[0].space, jobs[0].space.lanes[0].name
    with locations.open(row.address) as file:
        # In a location of several, compare the fingerprint; the digest would read every lane.
        is_unchanged = row.key != "" and locations.fingerprint(row.address) == Fingerprint(row.size, row.mtime_ns)
        if not is_unchanged and file.digest() != row.digest:
            raise IngestError(f"{row.address}: changed while it was being ingested: run the command again")
        poolers = {pooler.fingerprint: pooler for job in jobs if (pooler := frame_pooler_of(job.embedder))}
        is_camera = len(space.window_shape) > 1 and file.lanes()[lane].dtype is DType.UINT8
        if not is_camera or len(poolers) != 1 or not all(frame_pooler_of(job.embedder) for job in jobs):
            return read_bridged(file, space, row.address)
        (pooler,) = poolers.values()
        spans = np.concatenate([_spans(job.space.windows, file.length) for job in jobs]).tolist()
        steps = np.unique(np.concatenate([np.arange(start, stop, pooler.stride) for start, stop in spans]))
        described = FeatureFiles(jobs[0].folder, pooler).describe(file, row, lane, steps).rows
        features = np.zeros((file.length, 1, described.shape[1]), described.dtype)
        features[steps, 0] = described
        return features, False
