"""From an episode file to what the catalog stores and what embedders take.

Knows: how to read metadata, moments and lanes of one episode in one opening; runs in worker processes.
Does not know: the catalog's tables, the index, which episodes are due.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, replace
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bridge.selection import LaneChoice, choose_lanes, is_summarised, is_vector
from catalog.records import EmbeddingRow, EpisodeRecord, LaneDefinition, LaneRecord, Spread
from embedders.base import embed_by
from embedders.statistics import Moments
from wshard.episode_file import EpisodeFile, open_wshard
from wshard.errors import EmbedderError, IngestError, SourceNotFoundError, WShardError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from catalog.records import EpisodeRow
    from embedders.base import Embedder
    from embedders.space import Space

    _Ready = tuple[EpisodeRow, list[NDArray[Any]]]

_AT_ONCE = 64  # episodes whose windows are embedded in one call


@dataclass(frozen=True)
class Failure:
    """An episode that was left out, and why."""

    path: str
    error: str


def locate(path: str | os.PathLike[str]) -> str:
    """Return the one spelling of a path under which episodes are catalogued: absolute, POSIX, links resolved."""
    return Path(os.path.realpath(path)).as_posix()


def read_record(path: str, wanted: LaneChoice) -> EpisodeRecord:
    """Read what the catalog stores of the episode at `path`: metadata, lanes, moments, reward, digest.

    wanted: the lanes that will be embedded (see choose_lanes); they must exist; vectors must hold finite numbers only.
    Raises IngestError (a ValueError) or FormatError, each naming the file, SourceNotFoundError, OSError.
    """
    status = _status(path)
    with open_wshard(path) as file:
        if file.length < 1:
            raise IngestError(f"{path}: expected at least one timestep, found an empty episode")
        recorded = {name: lane for name, lane in file.lanes().items() if file.has(name)}
        definitions = tuple(LaneDefinition(name, lane.dtype.value, lane.shape) for name, lane in recorded.items())
        chosen = {lane.name for lane in choose_lanes(definitions, wanted, path)}
        lanes = tuple(_lane_record(file, definition, definition.name in chosen) for definition in definitions)
        success = file.metadata.get("success")
        return EpisodeRecord(
            path=path,
            key="",
            episode_id=file.id,
            env_id=file.env_id,
            length=file.length,
            total_reward=file.total_reward(),
            success=success if isinstance(success, bool) else None,
            digest=file.digest(),
            size=status.st_size,
            mtime_ns=status.st_mtime_ns,
            metadata=dict(file.metadata),
            lanes=lanes,
        )


def _status(path: str) -> os.stat_result:
    try:
        status = Path(path).stat()
    except FileNotFoundError:
        raise SourceNotFoundError(f"{path}: no such file") from None
    if not stat.S_ISREG(status.st_mode):  # opening a pipe would wait for ever
        raise IngestError(f"{path}: expected a regular file, found {stat.filemode(status.st_mode)}")
    return status


def _lane_record(file: EpisodeFile, lane: LaneDefinition, chosen: bool) -> LaneRecord:  # noqa: FBT001  (internal)
    record = LaneRecord(lane.name, lane.dtype, tuple(lane.shape), file.length, None)
    if not (is_vector(lane) and (chosen or is_summarised(lane))):
        return record
    try:
        moments = Moments.of(file.lane(lane.name))
    except EmbedderError as error:
        if not chosen:
            return record
        raise IngestError(f"{file.where}: lane {lane.name!r} cannot be embedded: {error}") from error
    return replace(record, moments=moments.to_bytes(), channels=_spreads(moments))


def _spreads(moments: Moments) -> tuple[Spread, ...]:
    std = np.sqrt(moments.m2 / moments.count)
    columns = (moments.low, moments.high, moments.mean, std)
    return tuple(starmap(Spread, zip(*(column.tolist() for column in columns), strict=True)))


def read_lanes(file: EpisodeFile, space: Space) -> NDArray[Any]:
    """Return [T, *window_shape]: the lanes side by side in the Space's order, or the one lane of images as it lies.

    Raises IngestError for NaN and infinities in lanes side by side.
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
            raise IngestError(f"{file.where}: lane {lane.name!r}: expected finite numbers, found {found}")
    return columns[0] if len(columns) == 1 else np.concatenate(columns, axis=1, dtype=np.float64)


@dataclass(frozen=True)
class Embedding:
    """How to embed: what worker processes are given."""

    embedder: Embedder
    space: Space


def embed_episodes(job: Embedding, rows: Sequence[EpisodeRow]) -> tuple[list[EmbeddingRow], list[tuple[int, Failure]]]:
    """Embed the windows of catalogued episodes; returns ledger rows, and (episode id, failure) of those left out."""
    done: list[EmbeddingRow] = []
    failed: list[tuple[int, Failure]] = []
    at_once = _AT_ONCE if len(job.space.window_shape) == 1 else 1  # images of many episodes would fill the memory
    for start in range(0, len(rows), at_once):
        ready: list[_Ready] = []
        for row in rows[start : start + at_once]:
            try:
                ready.append((row, _windows(job.space, row)))
            except (WShardError, OSError) as error:
                failed.append((row.id, Failure(row.path, told(error, row.path))))
        try:
            done += _embed(job, ready)
        except EmbedderError:  # one by one: what one episode breaks must not hold up the others
            for one in ready:
                try:
                    done += _embed(job, [one])
                except EmbedderError as error:
                    failed.append((one[0].id, Failure(one[0].path, str(error))))
    return done, failed


def _embed(job: Embedding, ready: Sequence[_Ready]) -> list[EmbeddingRow]:
    vectors = embed_by(job.embedder, [window for _, windows in ready for window in windows], job.space.scaling)
    stops = np.cumsum([len(windows) for _, windows in ready]).tolist()
    return [
        EmbeddingRow(row.id, row.digest, len(windows), vectors[stop - len(windows) : stop].astype("<f4").tobytes())
        for (row, windows), stop in zip(ready, stops, strict=True)
    ]


def _windows(space: Space, row: EpisodeRow) -> list[NDArray[Any]]:
    _status(row.path)
    with open_wshard(row.path) as file:
        if file.digest() != row.digest:
            raise IngestError(f"{row.path}: changed while it was being ingested: run the command again")
        values = read_lanes(file, space)
    return [values[start:stop] for start, stop in space.windows.spans(len(values)).tolist()]


def told(error: Exception, path: str) -> str:
    """Return an error's message, without the path that a report prints in front of it."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return str(text).removeprefix(f"{path}: ")
