"""From catalogued episodes to the vectors that they lack; runs in worker processes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from bridge.episodes.open import OpenLocations
from bridge.episodes.read import Failure, attempt, read_lanes
from catalog.vectors.records import EmbeddingRow
from embedders.base import embed_by
from embedders.window_batches import Cuts
from embedders.windows import WindowPlan
from wshard.episode.protocol import Fingerprint
from wshard.errors import EmbedderError, IngestError, NotFiniteError, WShardError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from catalog.records import EpisodeRow
    from embedders.base import Embedder
    from embedders.space import Space

    _Ready = tuple[EpisodeRow, NDArray[Any]]

_AT_ONCE = 64  # episodes whose windows are embedded in one call


@dataclass(frozen=True)
class Embedding:
    """How to embed: what worker processes are given."""

    embedder: Embedder
    space: Space


@dataclass(frozen=True)
class Lacking:
    """An episode, and by number which of several embeddings it lacks."""

    row: EpisodeRow
    numbers: tuple[int, ...]


@dataclass(frozen=True)
class EmbeddingOutcome:
    """Result of one embedding job: ledger rows, and (episode id, failure) of the episodes that failed."""

    rows: list[EmbeddingRow]
    failed: list[tuple[int, Failure]]


def embed_episodes(jobs: Sequence[Embedding], lacking: Sequence[Lacking]) -> list[EmbeddingOutcome]:
    """Compute the missing embeddings of catalogued episodes, opening each file once; all jobs have the same lanes.

    Returns the result of each job, in order.
    """
    found = [EmbeddingOutcome([], []) for _ in jobs]
    at_once = _AT_ONCE if len(jobs[0].space.window_shape) == 1 else 1  # images of many episodes would fill the memory
    with OpenLocations() as locations:
        for start in range(0, len(lacking), at_once):
            ready: list[list[_Ready]] = [[] for _ in jobs]
            for one in lacking[start : start + at_once]:
                values = attempt(partial(_values, jobs[0].space, one.row, locations), one.row.address)
                if isinstance(values, Failure):
                    failure = replace(values, catalogued=isinstance(values.cause, NotFiniteError))
                    for number in one.numbers:
                        found[number].failed.append((one.row.id, failure))
                    continue
                for number in one.numbers:
                    ready[number].append((one.row, values))
            for numbers in _alike(jobs, ready):
                of_these = [found[number] for number in numbers]
                _embed_all([jobs[number] for number in numbers], ready[numbers[0]], of_these)
    return found


def _alike(jobs: Sequence[Embedding], ready: Sequence[Sequence[_Ready]]) -> list[list[int]]:
    """Group the jobs that can be done together: those of images whose Spaces differ only in their windows."""
    groups: dict[object, list[int]] = {}
    for number, (job, episodes) in enumerate(zip(jobs, ready, strict=True)):
        maker = replace(job.space, windows=WindowPlan()).fingerprint if len(job.space.window_shape) > 1 else number
        groups.setdefault((maker, tuple(row.id for row, _ in episodes)), []).append(number)
    return list(groups.values())


def _embed_all(jobs: Sequence[Embedding], ready: Sequence[_Ready], done: Sequence[EmbeddingOutcome]) -> None:
    if not ready:
        return
    found = attempt(partial(_embed, jobs, ready), ready[0][0].address)
    if not isinstance(found, Failure):
        for rows, one in zip(found, done, strict=True):
            one.rows.extend(rows)
    elif len(ready) > 1:  # one by one: what one episode breaks must not hold up the others
        for episode in ready:
            _embed_all(jobs, [episode], done)
    elif isinstance(found.cause, WShardError) and not isinstance(found.cause, EmbedderError):
        raise found.cause  # not the fault of an episode, for example a missing package
    else:
        for one in done:
            one.failed.append((ready[0][0].id, replace(found, cause=None)))


def _embed(jobs: Sequence[Embedding], ready: Sequence[_Ready]) -> list[list[EmbeddingRow]]:
    """Return the ledger rows of each job; windows of all jobs are cut from the same frames."""
    plans = [job.space.windows for job in jobs]
    cuts = Cuts((values, np.concatenate([_spans(plan, len(values)) for plan in plans])) for _, values in ready)
    vectors = embed_by(jobs[0].embedder, jobs[0].space, cuts).astype("<f4", copy=False)
    rows: list[list[EmbeddingRow]] = [[] for _ in jobs]
    stop = 0
    for row, values in ready:
        for plan, of_job in zip(plans, rows, strict=True):
            start, stop = stop, stop + len(_spans(plan, len(values)))
            of_job.append(EmbeddingRow(row.id, row.digest, stop - start, vectors[start:stop].tobytes()))
    return rows


@lru_cache(maxsize=256)  # most episodes of an archive are of a few lengths
def _spans(plan: WindowPlan, length: int) -> NDArray[np.int64]:
    return plan.spans(length)


def _values(space: Space, row: EpisodeRow, locations: OpenLocations) -> NDArray[Any]:
    with locations.open(row.address) as file:
        # In a location of several, compare the fingerprint; the digest would read every lane.
        same = row.key != "" and locations.fingerprint(row.address) == Fingerprint(row.size, row.mtime_ns)
        if not same and file.digest() != row.digest:
            raise IngestError(f"{row.address}: changed while it was being ingested: run the command again")
        return read_lanes(file, space)
