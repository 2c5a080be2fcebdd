"""Benchmark RB-A through an archive: files are written, ingested and searched as a user would, with the defaults.

Knows: episodes as rows of channels, or as lanes of them. Does not know: how they were recorded or are disturbed, what
is counted.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bridge.ingest.ingestor import TrajectoryIngestor
from bridge.search.retriever import TrajectoryRetriever
from catalog.filters.where import Compare
from embedders.windows import BOTH
from wshard.core.episode.file import save_wshard
from wshard.types import Channel, Episode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from embedders.base import Embedder

    Rows = NDArray[np.float64]
    Names = Mapping[str, tuple[str, ...]]
    Ask = Callable[[list[Rows]], NDArray[np.float64]]


class Source(NamedTuple):
    """Where an episode comes from: the name of its robot, and the folder that it lies in."""

    robot: str = ""
    folder: str = ""


@contextmanager
def searched(episodes: Sequence[Rows], asking: Sequence[int], embedder: Embedder | None = None) -> Iterator[Ask]:
    """Provide the search: it takes the queries of the episodes `asking`, filtered out, and returns scores [Q, N].

    embedder: None for the defaults.
    """
    with tempfile.TemporaryDirectory() as name:
        archive = ingest_rows(episodes, Path(name), embedder)
        with TrajectoryRetriever(archive, embedder) as retriever:
            yield partial(_scores, retriever, list(asking), len(episodes))


def ingest_rows(
    episodes: Sequence[Rows | Mapping[str, Rows] | None],
    folder: Path,
    embedder: Embedder | None = None,
    sources: Sequence[Source] = (),
    called: Mapping[int, Names] | None = None,
) -> Path:
    """Save episodes, numbered, below the folder, ingest them, and return the archive.

    An episode is rows of one lane, or lanes by name, or None: its number is not in the archive. sources: of each
    episode, by default nothing is known. called: names of the channels of lanes of episodes, by their numbers.
    """
    data, archive = folder / "data", folder / "archive"
    data.mkdir()
    for number, rows in enumerate(episodes):
        if rows is not None:
            source, names = sources[number] if sources else Source(), (called or {}).get(number, {})
            save_rows(rows, data, str(number), source, names)
    with TrajectoryIngestor(archive, embedder) as ingestor:
        report = ingestor.ingest(data, windows=BOTH)
    if not report.ok:
        raise SystemExit(f"expected a clean ingest, found {report}")
    return archive


def save_rows(
    rows: Rows | Mapping[str, Rows], folder: Path, name: str, source: Source, called: Names | None = None
) -> Path:
    """Save an episode below the folder and return its file; called: names of the channels of lanes."""
    given, names = rows if isinstance(rows, Mapping) else {"state": rows}, called or {}
    lanes = {lane: Channel.of(lane, own.astype(np.float32), names=names.get(lane, ())) for lane, own in given.items()}
    length = len(next(iter(given.values())))
    metadata = {"robot": source.robot} if source.robot else {}
    path = folder / source.folder / f"{name}.wshard"
    path.parent.mkdir(parents=True, exist_ok=True)
    save_wshard(Episode(name, "rb_a", length, observations=lanes, metadata=metadata), path)
    return path


def _scores(retriever: TrajectoryRetriever, asking: list[int], count: int, queries: list[Rows]) -> NDArray[np.float64]:
    scores = np.full((len(queries), count), -np.inf)
    for number, (query, own) in enumerate(zip(queries, asking, strict=True)):
        for hit in retriever.search_similar_episodes(query, count, where=~Compare("episode_id", "eq", str(own))):
            scores[number, int(hit.episode_id)] = hit.score
    return scores
