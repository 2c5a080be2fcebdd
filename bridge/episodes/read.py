"""Reads episodes: the records for the catalog."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from traceback import walk_tb
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from bridge.episodes.files import assets_of
from bridge.episodes.measure import Measured, Numbers, Summary, check_length, numbers_of, summarise
from bridge.episodes.open import OpenLocations
from bridge.spaces.lanes import LaneChoice, choose_lanes, is_summarised, is_vector
from bridge.support.episode_cache import NO_CACHE
from bridge.support.interrupts import raise_interrupt
from catalog.episode_record import EpisodeRecord
from catalog.records import LaneDefinition, LaneRecord
from wshard.core.channel_names import channel_labels
from wshard.core.chunks.manifest import MANIFEST_SUFFIX
from wshard.core.episode.lanes import TIMESTAMPS
from wshard.core.episode.protocol import OWN_FORMAT, EpisodeAddress, parse_read_as
from wshard.errors import IngestError, NoLaneError, WShardError
from wshard.formats.layouts.guessing.clock import rate_of_clock
from wshard.formats.layouts.step_values import rate_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bridge.episodes.anomalies import Anomalies
    from bridge.episodes.found import FoundEpisode
    from bridge.support.episode_cache import EpisodeCache
    from wshard.core.episode.meta_reader import Declaration
    from wshard.core.episode.protocol import EpisodeReader, StoredLane

_Lane: TypeAlias = "tuple[str, str, tuple[int, ...], int, float | None, StoredLane]"
"""The fields of a LaneRecord before its spread."""

Result = TypeVar("Result")
_BATCH_SIZE = 1 << 16  # numbers summarised at once: few calls, while they fit in the CPU cache


@dataclass(frozen=True)
class Failure:
    """A failed episode, with the reason. catalogued: it is in the catalog nevertheless, and only a vector is missing.

    path, key: its address; a path alone may be that of a location, a folder or an archive. cause: the exception, if it
    was one of this project or of the system; any other one is unexpected, and reported as such.
    """

    path: str
    error: str
    catalogued: bool = False
    cause: Exception | None = field(default=None, compare=False, repr=False)
    key: str = ""

    @property
    def address(self) -> EpisodeAddress:
        """The address of the episode."""
        return EpisodeAddress(self.path, self.key)

    @staticmethod
    def of(error: Exception, address: EpisodeAddress, *, catalogued: bool = False) -> Failure:
        """Return the failure of the episode at an address for an error."""
        text = describe_error(error, address)
        is_expected = isinstance(error, WShardError | OSError)  # others may not be picklable
        cause = error.with_traceback(None) if is_expected else None  # frames would keep arrays alive
        return Failure(address.uri, text, catalogued, cause, address.key)


def lost_failure(address: EpisodeAddress) -> Failure:
    """Return the failure of an episode that ended every worker process that opened it."""
    return Failure(address.uri, "each worker that opened it ended: does it need more memory?", key=address.key)


@dataclass(frozen=True)
class Reading:
    """Result of reading an episode: its record for the catalog; its measures and what is odd in it, if requested."""

    record: EpisodeRecord
    measured: Measured | None
    anomalies: Anomalies


class _Lanes(NamedTuple):
    """The lanes of an episode, mostly reused for the next one, and the names of those to read, and to embed."""

    recorded: Mapping[str, Declaration]
    definitions: tuple[LaneDefinition, ...]
    summarised: list[str]
    embedded: list[str]


class _OpenedEpisode(NamedTuple):
    """Contents of an open file, before anything is computed from its numbers."""

    address: EpisodeAddress
    fields: dict[str, Any]  # as the EpisodeRecord has it
    kind: _Lanes
    lanes: tuple[_Lane, ...]
    numbers: Numbers


def read_episodes(
    episodes: Sequence[FoundEpisode], wanted: LaneChoice, *, measuring: bool = True, cache: EpisodeCache = NO_CACHE
) -> tuple[list[Reading], list[Failure]]:
    """Read what the catalog stores about episodes: metadata, lanes, moments, reward, digest; and measure them.

    measuring: compute the measures of quality checks. wanted: the lanes to embed (see choose_lanes); named ones must
    exist. A lane with NaN or infinities in many timesteps is catalogued without moments. Every lane is read once.
    cache: takes the lanes to embed.
    The chunks of a chunked episode are compared with their hashes here; later only their digests, which need few bytes
    of each, are compared.

    Returns results and failures, each in order; causes are IngestErrors (ValueErrors), FormatErrors,
    SourceNotFoundErrors and OSErrors.
    """
    readings: list[Reading] = []
    failures: list[Failure] = []
    opened, size = [], 0
    kind: _Lanes | None = None
    with OpenLocations() as locations:
        for found in episodes:
            episode = attempt(partial(_open_episode, found, wanted, locations, kind, cache), found.address)
            if isinstance(episode, Failure):
                failures.append(episode)
                continue
            opened.append(episode)
            kind = episode.kind
            size += episode.numbers.size
            if size >= _BATCH_SIZE:
                _finish(opened, readings, failures, measuring=measuring)
                opened, size = [], 0
    _finish(opened, readings, failures, measuring=measuring)
    return readings, failures


def _finish(
    opened: Sequence[_OpenedEpisode], readings: list[Reading], failures: list[Failure], *, measuring: bool
) -> None:
    """Summarise the collected episodes, and add the results."""

    def summarised() -> list[Reading]:
        summaries = summarise([episode.numbers for episode in opened], measuring=measuring)
        return [
            Reading(_record(episode, summary), summary.measured, summary.anomalies)
            for episode, summary in zip(opened, summaries, strict=True)
        ]

    results = attempt(summarised, opened[0].address) if opened else []
    if not isinstance(results, Failure):
        readings += results
    elif len(opened) > 1:  # one by one, since one may have a value that the catalog cannot store
        for episode in opened:
            _finish([episode], readings, failures, measuring=measuring)
    else:
        failures.append(results)


def _open_episode(
    found: FoundEpisode,
    wanted: LaneChoice,
    locations: OpenLocations,
    previous: _Lanes | None,
    cache: EpisodeCache,
) -> _OpenedEpisode:
    address = found.address
    fingerprint = found.fingerprint or locations.fingerprint(address)
    with locations.open(address, hashed=True) as file:
        _check_whole(file)
        check_length(file)
        assets = () if address.key else assets_of(file, fingerprint)
        recorded = {name: lane for name, lane in file.lanes().items() if file.has(name)}
        kind = previous
        if kind is None or kind.recorded != recorded or [*kind.recorded] != [*recorded]:
            kind = _kind_of(recorded, wanted, str(address))
        success = file.metadata.get("success")
        format_name, lane_map = parse_read_as(address.read_as)
        fields = {
            "path": address.uri,
            "key": address.key,
            "episode_id": file.id,
            "env_id": file.env_id,
            "length": file.length,
            "total_reward": file.total_reward(),
            "success": success if isinstance(success, bool) else None,
            "digest": (digest := file.digest()),
            "size": sum(asset.size for asset in assets) or fingerprint.size,
            "mtime_ns": max((asset.mtime_ns for asset in assets), default=fingerprint.mtime_ns),
            "metadata": dict(file.metadata),
            "assets": assets,
            "format": format_name or OWN_FORMAT,
            "lane_map": lane_map,
        }
        arrays = {name: file.lane(name) for name in kind.summarised}
        cache.add(address, digest, file, {name: arrays[name] for name in kind.embedded})
        numbers = numbers_of(file, arrays)
        rate = _find_rate(file, numbers) if file.timebase.assumed else file.timebase.tick_hz
        lanes = tuple(
            (*definition[:3], file.length, lane.sampling_rate_hz or rate, file.stored(lane.block))
            for definition, lane in zip(kind.definitions, recorded.values(), strict=True)
        )
        return _OpenedEpisode(address, fields, kind, lanes, numbers)


def _find_rate(file: EpisodeReader, numbers: Numbers) -> float | None:
    """Return the rate of the clock of an episode that states none; None without a clock, and for an irregular one."""
    if file.has(TIMESTAMPS):
        return None if numbers.times is None else rate_of(numbers.times.astype(np.int64))
    columns = {name: rows.reshape(-1)[: numbers.used] for name, rows in numbers.lanes.items() if rows[:1].size == 1}
    rates = {rate_of_clock(name, rows) for name, rows in columns.items() if name.startswith("signal/")} - {None}
    return rates.pop() if len(rates) == 1 else None


def _record(episode: _OpenedEpisode, summary: Summary) -> EpisodeRecord:
    lanes = tuple(
        LaneRecord(*lane, summary.spreads.get(lane[0]), definition.names)
        for lane, definition in zip(episode.lanes, episode.kind.definitions, strict=True)
    )
    return EpisodeRecord(**episode.fields, lanes=lanes)


def _check_whole(file: EpisodeReader) -> None:
    if file.is_chunk:
        raise IngestError(
            f"{file.where}: expected a whole episode, found a chunk of {file.id!r}: ingest the manifest that lists it, "
            f"a file that ends in {MANIFEST_SUFFIX}"
        )


def _kind_of(recorded: Mapping[str, Declaration], wanted: LaneChoice, path: str) -> _Lanes:
    definitions = tuple(
        LaneDefinition(lane.block, lane.dtype.value, lane.shape, channel_labels(lane) if len(lane.shape) == 1 else ())
        for lane in recorded.values()
    )
    chosen = _chosen(definitions, wanted, path)
    read = [lane.name for lane in definitions if is_vector(lane) and (lane.name in chosen or is_summarised(lane))]
    return _Lanes(recorded, definitions, read, [name for name in read if name in chosen])


def _chosen(definitions: Sequence[LaneDefinition], wanted: LaneChoice, path: str) -> frozenset[str]:
    """Return the names of the lanes to embed; none if the default rule finds none."""
    try:
        return frozenset(lane.name for lane in choose_lanes(definitions, wanted, path))
    except NoLaneError:
        if wanted.names is not None:
            raise
        return frozenset()


def attempt(read: Callable[[], Result], address: EpisodeAddress) -> Result | Failure:
    """Return the result of reading one episode, or its failure: no error of one episode stops the others.

    This includes unexpected errors and a lack of memory, but not interrupts.
    """
    try:
        return read()
    except Exception as error:  # noqa: BLE001  (see above)
        raise_interrupt(error)
        return Failure.of(error, address)


def describe_error(error: Exception, address: EpisodeAddress) -> str:
    """Return an error's message, without the address that a report prints before it; non-text is escaped.

    An unexpected error is reported with its type and the line that raised it.
    """
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    bare = str(text).removeprefix(f"{address}: ").removeprefix(f"{address.uri}: ").removesuffix(f": {address.uri}")
    if isinstance(error, OSError) and error.strerror and error.filename not in (None, address.uri):
        bare = f"{bare}: {os.fsdecode(error.filename)}"
    if not isinstance(error, WShardError | OSError):
        *_, last = (None, *walk_tb(error.__traceback__))
        place = "" if last is None else f" ({Path(last[0].f_code.co_filename).name}, line {last[1]})"
        bare = f"unexpected {type(error).__name__}{place}: {bare or 'no message'}"
    return bare.encode(errors="backslashreplace").decode().replace("\0", "\\0")
