"""From catalogued episodes to the vectors that they lack; runs in worker processes.

Knows: that a file is opened once for all of its vectors, and that it may have changed since it was catalogued.
Does not know: which episodes lack vectors, the ledger, the index.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from bridge.assets import status_of
from bridge.reading import Failure, attempt, read_lanes
from catalog.records import EmbeddingRow
from embedders.base import embed_by
from embedders.cuts import Cuts
from wshard.errors import EmbedderError, IngestError, NotFiniteError, WShardError
from wshard.opening import open_episode

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
class Embedded:
    """What came of one embedding: ledger rows, and (episode id, failure) of the episodes that were left out."""

    rows: list[EmbeddingRow]
    failed: list[tuple[int, Failure]]


def embed_episodes(jobs: Sequence[Embedding], lacking: Sequence[Lacking]) -> list[Embedded]:
    """Embed what catalogued episodes lack, opening each file once; the jobs are of the same lanes.

    Returns what came of each job, in their order.
    """
    found = [Embedded([], []) for _ in jobs]
    at_once = _AT_ONCE if len(jobs[0].space.window_shape) == 1 else 1  # images of many episodes would fill the memory
    for start in range(0, len(lacking), at_once):
        ready: list[list[_Ready]] = [[] for _ in jobs]
        for one in lacking[start : start + at_once]:
            values = attempt(partial(_values, jobs[0].space, one.row), one.row.path)
            if isinstance(values, Failure):
                failure = replace(values, kept=isinstance(values.cause, NotFiniteError))
                for number in one.numbers:
                    found[number].failed.append((one.row.id, failure))
                continue
            for number in one.numbers:
                ready[number].append((one.row, values))
        for job, episodes, done in zip(jobs, ready, found, strict=True):
            _embed_all(job, episodes, done)
    return found


def _embed_all(job: Embedding, ready: Sequence[_Ready], done: Embedded) -> None:
    if not ready:
        return
    rows = attempt(partial(_embed, job, ready), ready[0][0].path)
    if not isinstance(rows, Failure):
        done.rows.extend(rows)
    elif len(ready) > 1:  # one by one: what one episode breaks must not hold up the others
        for one in ready:
            _embed_all(job, [one], done)
    elif isinstance(rows.cause, WShardError) and not isinstance(rows.cause, EmbedderError):
        raise rows.cause  # nothing that an episode could do anything about: something is not installed, say
    else:
        done.failed.append((ready[0][0].id, replace(rows, cause=None)))


def _embed(job: Embedding, ready: Sequence[_Ready]) -> list[EmbeddingRow]:
    spans = [job.space.windows.spans(len(values)) for _, values in ready]
    cuts = Cuts((values, cut) for (_, values), cut in zip(ready, spans, strict=True))
    vectors = embed_by(job.embedder, job.space, cuts).astype("<f4", copy=False)
    stops = np.cumsum([len(cut) for cut in spans]).tolist()
    return [
        EmbeddingRow(row.id, row.digest, len(cut), vectors[stop - len(cut) : stop].tobytes())
        for (row, _), cut, stop in zip(ready, spans, stops, strict=True)
    ]


def _values(space: Space, row: EpisodeRow) -> NDArray[Any]:
    status_of(row.path)
    with open_episode(row.path, hashed=False) as file:
        if file.digest() != row.digest:
            raise IngestError(f"{row.path}: changed while it was being ingested: run the command again")
        return read_lanes(file, space)
