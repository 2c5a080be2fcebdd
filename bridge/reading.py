"""From an episode file to what the catalog stores and what embedders take.

Knows: how to read metadata, moments and lanes of one episode in one opening; runs in worker processes.
Does not know: the catalog's tables, the index, which episodes are due.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import starmap
from typing import TYPE_CHECKING, Any

import numpy as np

from bridge.assets import assets_of, status_of
from bridge.measuring import Measured, measure_file
from bridge.selection import LaneChoice, choose_lanes, is_summarised, is_vector
from catalog.records import EmbeddingRow, EpisodeRecord, LaneDefinition, LaneRecord, Spread, Storage
from embedders.base import embed_by
from embedders.statistics import Moments
from wshard.errors import EmbedderError, IngestError, NoLaneError, NotFiniteError, WShardError
from wshard.manifest import MANIFEST_SUFFIX
from wshard.opening import open_episode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from catalog.records import EpisodeRow
    from embedders.base import Embedder
    from embedders.space import Space
    from wshard.meta import Declaration
    from wshard.opening import OpenEpisode

    _Ready = tuple[EpisodeRow, list[NDArray[Any]]]

_AT_ONCE = 64  # episodes whose windows are embedded in one call


@dataclass(frozen=True)
class Failure:
    """An episode that was left out, and why. kept: the catalog has it all the same, and only a vector is missing."""

    path: str
    error: str
    kept: bool = False


@dataclass(frozen=True)
class Reading:
    """What one opening of a file gives: what the catalog stores, and what quality checks judge by, if they will."""

    record: EpisodeRecord
    measured: Measured | None


def read_episode(path: str, wanted: LaneChoice, *, measuring: bool = True) -> Reading:
    """Read what the catalog stores of the episode at `path`: metadata, lanes, moments, reward, digest; and measure it.

    The chunks of a chunked episode are compared with their hashes here; later its digest, which stands in few bytes of
    each, says that they are the same.

    measuring: whether quality checks will ask for measures, which take a third of the time.
    wanted: the lanes that will be embedded (see choose_lanes); those that are named must exist. A lane with numbers
    that are not finite is catalogued without moments. Every lane is read once.
    Raises IngestError (a ValueError) or FormatError, each naming the file, SourceNotFoundError, OSError.
    """
    status = status_of(path)
    with open_episode(path) as file:
        _check_whole(file)
        assets = assets_of(file, status)
        declared = {name: lane for name, lane in file.lanes().items() if file.has(name)}
        definitions = tuple(LaneDefinition(name, lane.dtype.value, lane.shape) for name, lane in declared.items())
        chosen = _chosen(definitions, wanted, path)
        wanted_lanes = [
            lane for lane in definitions if is_vector(lane) and (lane.name in chosen or is_summarised(lane))
        ]
        arrays = {lane.name: file.lane(lane.name) for lane in wanted_lanes}
        lanes = tuple(_lane_record(lane, arrays.get(name), file) for name, lane in declared.items())
        success = file.metadata.get("success")
        record = EpisodeRecord(
            path=path,
            key="",
            episode_id=file.id,
            env_id=file.env_id,
            length=file.length,
            total_reward=file.total_reward(),
            success=success if isinstance(success, bool) else None,
            digest=file.digest(),
            size=sum(asset.size for asset in assets) or status.st_size,
            mtime_ns=max((asset.mtime_ns for asset in assets), default=status.st_mtime_ns),
            metadata=dict(file.metadata),
            lanes=lanes,
            assets=assets,
        )
        return Reading(record, measure_file(file, arrays) if measuring else None)


def _check_whole(file: OpenEpisode) -> None:
    if file.is_chunk:
        raise IngestError(
            f"{file.where}: expected a whole episode, found a chunk of {file.id!r}: ingest the manifest that lists it, "
            f"a file that ends in {MANIFEST_SUFFIX}"
        )
    if file.length < 1:
        raise IngestError(f"{file.where}: expected at least one timestep, found an empty episode")


def _chosen(definitions: Sequence[LaneDefinition], wanted: LaneChoice, path: str) -> frozenset[str]:
    """Return the names of the lanes to embed; none where the rule of selection.py finds none."""
    try:
        return frozenset(lane.name for lane in choose_lanes(definitions, wanted, path))
    except NoLaneError:
        if wanted.names is not None:
            raise
        return frozenset()


def _lane_record(lane: Declaration, values: NDArray[Any] | None, file: OpenEpisode) -> LaneRecord:
    rate, storage = lane.sampling_rate_hz or file.timebase.tick_hz, Storage(*file.stored(lane.block))
    record = LaneRecord(lane.block, lane.dtype.value, tuple(lane.shape), file.length, None, rate=rate, storage=storage)
    if values is None:
        return record
    try:
        moments = Moments.of(values)
    except EmbedderError:  # numbers that are none: a check finds them, and embedding says so
        return record
    return replace(record, moments=moments.to_bytes(), channels=_spreads(moments))


def _spreads(moments: Moments) -> tuple[Spread, ...]:
    std = np.sqrt(moments.m2 / moments.count)
    columns = (moments.low, moments.high, moments.mean, std)
    return tuple(starmap(Spread, zip(*(column.tolist() for column in columns), strict=True)))


def read_lanes(file: OpenEpisode, space: Space) -> NDArray[Any]:
    """Return [T, *window_shape]: the lanes side by side in the Space's order, or the one lane of images as it lies.

    Raises NotFiniteError for NaN and infinities in lanes side by side.
    """
    lanes = space.lanes
    if len(space.window_shape) > 1:
        return file.lane(lanes[0].name)
    columns = [file.lane(lane.name).reshape(file.length, lane.channels) for lane in lanes]
    for lane, values in zip(lanes, columns, strict=True):
        finite = np.isfinite(values)
        if not finite.all():
            step, channel = np.argwhere(~finite)[0].tolist()
            found = f"{values[step, channel]} at timestep {step}, channel {channel}"
            raise NotFiniteError(f"{file.where}: lane {lane.name!r}: expected finite numbers, found {found}")
    return columns[0] if len(columns) == 1 else np.concatenate(columns, axis=1, dtype=np.float64)


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
            try:
                values = _values(jobs[0].space, one.row)
            except (WShardError, OSError) as error:
                failure = Failure(one.row.path, told(error, one.row.path), isinstance(error, NotFiniteError))
                for number in one.numbers:
                    found[number].failed.append((one.row.id, failure))
                continue
            for number in one.numbers:
                ready[number].append((one.row, _windows(jobs[number].space, values)))
        for job, episodes, done in zip(jobs, ready, found, strict=True):
            _embed_all(job, episodes, done)
    return found


def _embed_all(job: Embedding, ready: Sequence[_Ready], done: Embedded) -> None:
    if not ready:
        return
    try:
        done.rows.extend(_embed(job, ready))
    except EmbedderError:  # one by one: what one episode breaks must not hold up the others
        for one in ready:
            try:
                done.rows.extend(_embed(job, [one]))
            except EmbedderError as error:
                done.failed.append((one[0].id, Failure(one[0].path, str(error))))


def _embed(job: Embedding, ready: Sequence[_Ready]) -> list[EmbeddingRow]:
    vectors = embed_by(job.embedder, [window for _, windows in ready for window in windows], job.space.scaling)
    stops = np.cumsum([len(windows) for _, windows in ready]).tolist()
    return [
        EmbeddingRow(row.id, row.digest, len(windows), vectors[stop - len(windows) : stop].astype("<f4").tobytes())
        for (row, windows), stop in zip(ready, stops, strict=True)
    ]


def _values(space: Space, row: EpisodeRow) -> NDArray[Any]:
    status_of(row.path)
    with open_episode(row.path, hashed=False) as file:
        if file.digest() != row.digest:
            raise IngestError(f"{row.path}: changed while it was being ingested: run the command again")
        return read_lanes(file, space)


def _windows(space: Space, values: NDArray[Any]) -> list[NDArray[Any]]:
    return [values[start:stop] for start, stop in space.windows.spans(len(values)).tolist()]


def told(error: Exception, path: str) -> str:
    """Return an error's message, without the path that a report prints in front of it."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return str(text).removeprefix(f"{path}: ")
