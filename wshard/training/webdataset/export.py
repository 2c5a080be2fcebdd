"""Write episodes as windowed WebDataset shards: read each episode once, then write its samples in a random order."""

from __future__ import annotations

import errno
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

from wshard.core.container.atomic_write import name_place
from wshard.core.container.draft import Draft
from wshard.errors import DatasetError, NoClipsError, WShardError
from wshard.training.conversion.jobs import ConversionJob, OpenSources, check_unchanged, failure_of, list_jobs
from wshard.training.shardpack.tar import TarOutput
from wshard.training.webdataset.config_files import (
    is_own_file,
    write_config,
    write_manifest,
    write_processing,
    write_statistics,
)
from wshard.training.webdataset.fields import FieldMap, find_fields, parse_fields
from wshard.training.webdataset.options import ShardifyOptions
from wshard.training.webdataset.recipe import ShardRecipe
from wshard.training.webdataset.sample import INCOMPLETE, NAN, ShardSample, build_sample
from wshard.training.webdataset.spool import Spool, SpooledEpisode, spool_episode
from wshard.training.webdataset.statistics import SampleStatistics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from wshard.core.container.draft import WriteMode

    Progress = Callable[[str, int, int], None]

_SPOOL: Final = ".spool"
_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # of the disk to write to, not of an episode
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


@dataclass
class ShardifyReport:
    """Result of an export: folder, number of samples per shard, skipped windows by reason, failed episodes."""

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
    checked_options = options or ShardifyOptions()
    jobs = [place for place in places if isinstance(place, ConversionJob)]
    jobs += list_jobs([place for place in places if not isinstance(place, ConversionJob)])
    target = Path(to)
    found = [path.name for path in target.iterdir()] if target.is_dir() else []
    draft_mode = mode if found or not target.is_dir() else "overwrite"
    draft = Draft(target, draft_mode, folder=True, owned=filter(is_own_file, found))
    try:
        export = _Export(jobs, draft.path, checked_options, os.fspath(to), progress or (lambda *_: None))
        with export:
            report = export.run(fields)
        shutil.rmtree(draft.path / _SPOOL)
        draft.publish()
    except BaseException as error:
        draft.discard()
        name_place(error, os.fspath(to))
        raise
    report.folder = draft.target
    return report


class _Export:
    """One run of shardify; use it as a context manager."""

    def __init__(
        self, jobs: Sequence[ConversionJob], folder: Path, options: ShardifyOptions, output_dir: str, progress: Progress
    ) -> None:
        self._options, self._folder, self._output_dir, self._progress = options, folder, output_dir, progress
        self._rng = np.random.default_rng(options.seed)
        order = self._rng.permutation(len(jobs))
        max_count = options.max_episodes_to_process
        self._jobs = [jobs[number] for number in (order if max_count < 0 else order[:max_count])]
        (folder / _SPOOL).mkdir()
        self._spool = Spool(folder / _SPOOL)
        self._report = ShardifyReport(folder)
        self._thread_local, self._sources = threading.local(), list[OpenSources]()
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def run(self, fields: Sequence[str]) -> ShardifyReport:
        """Read all episodes, then write all samples."""
        start, options = time.monotonic(), self._options
        recipe = ShardRecipe(options, self._choose_fields(fields))
        cameras = [camera.name for camera in recipe.fields.cameras]
        write_config(self._folder, options, cameras, self._output_dir)
        episodes = self._read_episodes(recipe)
        padded, still = (sum(ep.left_out[kind] for ep in episodes if ep) for kind in range(2))
        counts = {"padding": padded, "still": still, NAN: 0, INCOMPLETE: 0}
        self._report.left_out = counts
        folder = self._folder / _SPOOL
        reservoir_size = options.stats_reservoir_size
        statistics = SampleStatistics(
            folder, stride=options.stats_stride, reservoir_size=reservoir_size, seed=options.seed
        )
        self._stack.callback(statistics.close)
        self._write_samples(self._samples(recipe, episodes), statistics)
        if not self._report.samples:
            left_out = ", ".join(f"{count} for {reason}" for reason, count in counts.items())
            raise NoClipsError(f"expected at least one window, found none; left out: {left_out}")
        write_manifest(self._folder, self._report.shards)
        write_statistics(self._folder, statistics.finish())
        self._write_processing(time.monotonic() - start)
        self._report.episodes = sum(episode is not None for episode in episodes)
        return self._report

    def _write_processing(self, seconds: float) -> None:
        counts, options = self._report.left_out, self._options
        processing: dict[str, float] = {"total_samples_created": self._report.samples}
        processing |= {f"{kind}_samples_filtered": counts[kind] for kind in ("padding", "still", NAN)}
        processing["elapsed_seconds"] = round(seconds, 1)
        failed = [str(job.span.address) for job, _ in self._report.failed]
        additions: dict[str, Any] = {"seed": options.seed, "masks": options.masks}
        additions |= {"samples_without_image": counts[INCOMPLETE], "failed_episodes": failed}
        addresses = [str(job.span.address).replace("#", "/") for job in self._jobs]
        write_processing(self._folder, options.config(self._output_dir), addresses, processing, additions)

    # ---- reading -----------------------------------------------------------------------------------------------------

    def _choose_fields(self, fields: Sequence[str]) -> FieldMap:
        """Return the field map, determined by the first episode that can be described."""
        sources = OpenSources()
        self._stack.callback(sources.close)
        for job in self._jobs:
            try:
                info = sources.source_of(job.span.address).info(job.span.address.key)
            except Exception:  # noqa: BLE001, S112  (reading it reports the error)
                continue
            field_map = parse_fields(fields, info) if fields else find_fields(info)
            return field_map.choose_cameras(self._options.camera_names, self._options.camera_name_map)
        return FieldMap(())

    def _read_episodes(self, recipe: ShardRecipe) -> list[SpooledEpisode | None]:
        def read(number: int) -> SpooledEpisode | WShardError:
            job = self._jobs[number]
            try:
                source = self._source_of(job)
                check_unchanged(job.span, source)
                return spool_episode(source, job, recipe, self._spool.base_of(number))
            except Exception as error:
                if isinstance(error, OSError) and error.errno in _FULL:
                    raise
                return failure_of(error, job.span.address)

        episodes: list[SpooledEpisode | None] = []
        for number, result in enumerate(_map_bounded(read, range(len(self._jobs)), self._options.num_workers)):
            if isinstance(result, WShardError):
                self._report.failed.append((self._jobs[number], result))
                episodes.append(None)
            else:
                episodes.append(result)
            self._progress("reading", number + 1, len(self._jobs))
        if self._jobs and not any(episodes):
            raise self._report.failed[0][1]
        return _with_unique_names(episodes)

    def _source_of(self, job: ConversionJob) -> Any:
        if not hasattr(self._thread_local, "sources"):
            self._thread_local.sources = OpenSources()
            self._sources.append(self._thread_local.sources)
            self._stack.callback(self._thread_local.sources.close)
        return self._thread_local.sources.source_of(job.span.address)

    # ---- writing -----------------------------------------------------------------------------------------------------

    def _samples(self, recipe: ShardRecipe, episodes: Sequence[SpooledEpisode | None]) -> Iterator[ShardSample]:
        lengths = [0 if episode is None else len(episode.anchors) for episode in episodes]
        ends = np.cumsum(lengths, dtype=np.int64)
        order = self._rng.permutation(int(ends[-1]) if lengths else 0)

        def build(position: int) -> ShardSample:
            number = int(np.searchsorted(ends, position, side="right"))
            episode = episodes[number]
            if episode is None:
                raise DatasetError(f"episode {number}: expected one that was read")
            anchor = int(episode.anchors[position - int(ends[number]) + lengths[number]])
            return build_sample(recipe, episode, self._spool.load(number), anchor)

        positions = (int(position) for position in order)
        for done, sample in enumerate(_map_bounded(build, positions, self._options.num_workers), 1):
            yield sample
            self._progress("writing", done, len(order))

    def _write_samples(self, samples: Iterator[ShardSample], statistics: SampleStatistics) -> None:
        max_count, shards = max(1, self._options.samples_per_shard), self._report.shards
        with ExitStack() as stack:
            tar: TarOutput | None = None
            for sample in samples:
                if sample.left_out:
                    self._report.left_out[sample.left_out] += 1
                    continue
                if tar is None or shards[-1] >= max_count:
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
    counts: dict[str, int] = {}
    renamed: list[SpooledEpisode | None] = []
    for episode in episodes:
        if episode is not None:
            counts[episode.name] = counts.get(episode.name, 0) + 1
            count = counts[episode.name]
            renamed.append(episode if count == 1 else replace(episode, name=f"{episode.name}~{count}"))
        else:
            renamed.append(None)
    return renamed


def _map_bounded(function: Callable[[_Item], _Result], items: Iterable[_Item], workers: int) -> Iterator[_Result]:
    """Yield the results of threads in the order of the items, with at most two items per worker in progress."""
    if workers == 1:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(workers) as pool:
        pending = deque[Future[_Result]]()
        try:
            for item in items:
                pending.append(pool.submit(function, item))
                if len(pending) >= 2 * workers:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()
