"""Write episodes as windowed WebDataset shards: read each episode once, then write its samples in a random order."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import numpy as np

from wshard.container.atomic_write import name_place
from wshard.container.draft import Draft
from wshard.conversion.jobs import ConversionJob, OpenSources, list_jobs
from wshard.errors import DatasetError, NoClipsError, WShardError
from wshard.shardpack.tar import TarOutput
from wshard.webdataset.config_files import (
    is_own_file,
    write_config,
    write_manifest,
    write_processing,
    write_statistics,
)
from wshard.webdataset.fields import FieldMap, find_fields, parse_fields
from wshard.webdataset.options import ShardifyOptions
from wshard.webdataset.recipe import ShardRecipe
from wshard.webdataset.sample import INCOMPLETE, NAN, ShardSample, build_sample
from wshard.webdataset.spool import Spool, SpooledEpisode, spool_episode
from wshard.webdataset.statistics import SampleStatistics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from wshard.container.draft import WriteMode

    Progress = Callable[[str, int, int], None]

_SPOOL: Final = ".spool"
_Given = TypeVar("_Given")
_Made = TypeVar("_Made")


@dataclass
class ShardifyReport:
    """Result of an export: the folder, the samples, skipped windows by reason, and failed episodes."""

    folder: Path
    shards: list[int] = field(default_factory=list)
    left_out: dict[str, int] = field(default_factory=dict)
    failed: list[tuple[ConversionJob, WShardError]] = field(default_factory=list)
    episodes: int = 0

    @property
    def samples(self) -> int:
        """The number of samples."""
        return sum(self.shards)


def shardify(
    places: Sequence[Any],
    to: str | os.PathLike[str],
    options: ShardifyOptions | None = None,
    *,
    fields: Sequence[str] = (),
    mode: WriteMode = "error",
    progress: Progress | None = None,
) -> ShardifyReport:
    """Write windows of all episodes of the places as shards into a folder, which appears only when it is complete.

    places: as in list_jobs, or its jobs. fields: see parse_fields; by default find_fields. mode "error" refuses a
    non-empty folder, "overwrite" replaces an earlier export. progress: called with the stage, the amount done, and the
    total. An episode that cannot be read is reported; the others are written.

    Raises DatasetError for invalid options, and for NaN if it is an error; NoClipsError if no window is left;
    FileExistsError, OSError for the disk.
    """
    chosen = options or ShardifyOptions()
    jobs = [place for place in places if isinstance(place, ConversionJob)]
    jobs += list_jobs([place for place in places if not isinstance(place, ConversionJob)])
    target = Path(to)
    empty = target.is_dir() and not any(target.iterdir())
    draft = Draft(target, "overwrite" if empty else mode, folder=True)
    try:
        export = _Export(jobs, draft.path, chosen, os.fspath(to), progress or (lambda *_: None))
        with export:
            report = export.run(fields)
        shutil.rmtree(draft.path / _SPOOL)
        draft.publish(is_own_file)
    except BaseException as error:
        draft.discard()
        name_place(error, os.fspath(to))
        raise
    report.folder = draft.target
    return report


class _Export:
    """One run; use as a context manager."""

    def __init__(
        self, jobs: Sequence[ConversionJob], folder: Path, options: ShardifyOptions, output_dir: str, progress: Progress
    ) -> None:
        self._options, self._folder, self._output_dir, self._progress = options, folder, output_dir, progress
        self._rng = np.random.default_rng(options.seed)
        order = self._rng.permutation(len(jobs))
        most = options.max_episodes_to_process
        self._jobs = [jobs[number] for number in (order if most < 0 else order[:most])]
        (folder / _SPOOL).mkdir()
        self._spool = Spool(folder / _SPOOL)
        self._report = ShardifyReport(folder)
        self._threads, self._sources = threading.local(), list[OpenSources]()
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def run(self, fields: Sequence[str]) -> ShardifyReport:
        """Read all episodes, then write all samples."""
        start, options = time.monotonic(), self._options
        recipe = ShardRecipe(options, self._find_fields(fields))
        cameras = [camera.name for camera in recipe.fields.cameras]
        write_config(self._folder, options, cameras, self._output_dir)
        episodes = self._read_episodes(recipe)
        padded, still = (sum(one.left_out[kind] for one in episodes if one) for kind in range(2))
        counts = {"padding": padded, "still": still, NAN: 0, INCOMPLETE: 0}
        self._report.left_out = counts
        folder = self._folder / _SPOOL
        most = options.stats_reservoir_size
        statistics = SampleStatistics(folder, stride=options.stats_stride, most=most, seed=options.seed)
        self._stack.callback(statistics.close)
        self._write_samples(self._samples(recipe, episodes), statistics)
        if not self._report.samples:
            left = ", ".join(f"{count} for {reason}" for reason, count in counts.items())
            raise NoClipsError(f"expected at least one window, found none; left out: {left}")
        write_manifest(self._folder, self._report.shards)
        write_statistics(self._folder, statistics.finish())
        self._write_processing(time.monotonic() - start)
        self._report.episodes = sum(one is not None for one in episodes)
        return self._report

    def _write_processing(self, seconds: float) -> None:
        counts, options = self._report.left_out, self._options
        processing: dict[str, float] = {"total_samples_created": self._report.samples}
        processing |= {f"{kind}_samples_filtered": counts[kind] for kind in ("padding", "still", NAN)}
        processing["elapsed_seconds"] = round(seconds, 1)
        failed = [str(job.span.address) for job, _ in self._report.failed]
        own: dict[str, Any] = {"seed": options.seed, "masks": options.masks}
        own |= {"samples_without_image": counts[INCOMPLETE], "failed_episodes": failed}
        addresses = [str(job.span.address).replace("#", "/") for job in self._jobs]
        write_processing(self._folder, options.config(self._output_dir), addresses, processing, own)

    # ---- reading -----------------------------------------------------------------------------------------------------

    def _find_fields(self, fields: Sequence[str]) -> FieldMap:
        """Return the field map by the first episode that can be described."""
        sources = OpenSources()
        self._stack.callback(sources.close)
        for job in self._jobs:
            try:
                info = sources.source_of(job.span.address).info(job.span.address.key)
            except WShardError:
                continue
            found = parse_fields(fields, info) if fields else find_fields(info)
            return found.choose_cameras(self._options.camera_names, self._options.camera_name_map)
        return FieldMap(())

    def _read_episodes(self, recipe: ShardRecipe) -> list[SpooledEpisode | None]:
        def read(number: int) -> SpooledEpisode | WShardError:
            job = self._jobs[number]
            try:
                return spool_episode(self._source_of(job), job, recipe, self._spool.base_of(number))
            except WShardError as error:
                return error

        found: list[SpooledEpisode | None] = []
        for number, one in enumerate(_map_bounded(read, range(len(self._jobs)), self._options.num_workers)):
            if isinstance(one, WShardError):
                self._report.failed.append((self._jobs[number], one))
                found.append(None)
            else:
                found.append(one)
            self._progress("reading", number + 1, len(self._jobs))
        if self._jobs and not any(found):
            raise self._report.failed[0][1]
        return _with_unique_names(found)

    def _source_of(self, job: ConversionJob) -> Any:
        if not hasattr(self._threads, "sources"):
            self._threads.sources = OpenSources()
            self._sources.append(self._threads.sources)
            self._stack.callback(self._threads.sources.close)
        return self._threads.sources.source_of(job.span.address)

    # ---- writing -----------------------------------------------------------------------------------------------------

    def _samples(self, recipe: ShardRecipe, episodes: Sequence[SpooledEpisode | None]) -> Iterator[ShardSample]:
        lengths = [0 if one is None else len(one.anchors) for one in episodes]
        ends = np.cumsum(lengths, dtype=np.int64)
        order = self._rng.permutation(int(ends[-1]) if lengths else 0)

        def build(place: int) -> ShardSample:
            number = int(np.searchsorted(ends, place, side="right"))
            about = episodes[number]
            if about is None:
                raise DatasetError(f"episode {number}: expected one that was read")
            anchor = int(about.anchors[place - int(ends[number]) + lengths[number]])
            return build_sample(recipe, about, self._spool.load(number), anchor)

        places = (int(place) for place in order)
        for done, sample in enumerate(_map_bounded(build, places, self._options.num_workers), 1):
            yield sample
            self._progress("writing", done, len(order))

    def _write_samples(self, samples: Iterator[ShardSample], statistics: SampleStatistics) -> None:
        most, shards = max(1, self._options.samples_per_shard), self._report.shards
        with ExitStack() as stack:
            tar: TarOutput | None = None
            for sample in samples:
                if sample.left_out:
                    self._report.left_out[sample.left_out] += 1
                    continue
                if tar is None or shards[-1] >= most:
                    stack.close()
                    path = self._folder / f"shard_{len(shards):06d}.tar"
                    tar = TarOutput(stack.enter_context(path.open("xb")), str(path))
                    stack.callback(tar.close)
                    shards.append(0)
                for name, data in sample.members:
                    tar.append(name, data)
                shards[-1] += 1
                statistics.add(sample.statistics)


def _with_unique_names(episodes: list[SpooledEpisode | None]) -> list[SpooledEpisode | None]:
    """Append numbers to repeated names of episodes, so that keys of samples are unique."""
    seen: dict[str, int] = {}
    found: list[SpooledEpisode | None] = []
    for one in episodes:
        if one is not None:
            seen[one.name] = seen.get(one.name, 0) + 1
            found.append(one if seen[one.name] == 1 else replace(one, name=f"{one.name}~{seen[one.name]}"))
        else:
            found.append(None)
    return found


def _map_bounded(function: Callable[[_Given], _Made], items: Iterable[_Given], workers: int) -> Iterator[_Made]:
    """Yield the results of threads in the order of the items, with at most two items per worker in progress."""
    if workers == 1:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(workers) as pool:
        waiting = deque[Future[_Made]]()
        try:
            for item in items:
                waiting.append(pool.submit(function, item))
                if len(waiting) >= 2 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
