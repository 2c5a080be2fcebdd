"""Convert episodes of any readable format into any that is written."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from wshard.conversion.jobs import OpenSources
from wshard.episode.encode_cameras import encode_cameras
from wshard.errors import WShardError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from wshard.conversion.jobs import ConversionJob
    from wshard.conversion.target import ConversionTarget
    from wshard.formats.base import Source
    from wshard.types import Episode


class Conversion:
    """Reads episodes and writes them to one target; use it as a context manager.

    An exception leaves the target unchanged, or with complete episodes.
    """

    def __init__(self, target: ConversionTarget) -> None:
        self._target = target
        self._sink = target.open()
        self._resumes = target.mode == "append"
        self._stack = ExitStack()
        self._sources = OpenSources()
        self._stack.callback(self._sources.close)

    def __enter__(self) -> Self:
        self._stack.enter_context(self._sink)
        return self

    def __exit__(self, *exc: object) -> bool | None:
        return self._stack.__exit__(*exc)  # type: ignore[arg-type]  # what Python gives

    def find_losses(self, jobs: Iterable[ConversionJob]) -> Counter[str]:
        """Return what the target cannot store, and for how many episodes; decodes no frame.

        Episodes that cannot be described are ignored here; converting them reports the error.
        """
        found: Counter[str] = Counter()
        next_id = getattr(self._sink, "next_id", None)  # of formats that number episodes
        ahead = 0
        for job in jobs:
            try:
                info = self._sources.source_of(job.span.address).info(job.span.address.key)
                found.update(self._sink.losses(info))
            except WShardError:
                continue
            if next_id is not None:
                found["id: becomes the number of the episode"] += job.name_of(info.id) != next_id(ahead)
                ahead += 1
        return +found

    def run(self, jobs: Iterable[ConversionJob]) -> Iterator[tuple[ConversionJob, int | WShardError | None]]:
        """Convert each episode; yield its timesteps, the reason for a failure, or None if it exists already.

        Raises OSError for a full disk.
        """
        for job in jobs:
            try:
                yield job, self._convert(job)
            except WShardError as error:
                yield job, error

    def _convert(self, job: ConversionJob) -> int | None:
        source, key = self._sources.source_of(job.span.address), job.span.address.key
        name = job.name_of(source.info(key).id)
        if self._resumes and self._sink.has(name):
            return None
        ep = encode_cameras(self._load(source, job), self._target.encode)
        self._sink.write(replace(ep, id=name))
        return ep.length

    def _load(self, source: Source, job: ConversionJob) -> Episode:
        key, start, stop = job.span.address.key, job.span.start, job.span.stop
        if (start, stop) == (0, None):
            return source.load(key)
        with source.open(key) as reader:
            return reader.slice(start, reader.length if stop is None else stop)


def convert_batch(
    jobs: Sequence[ConversionJob], target: ConversionTarget
) -> list[tuple[ConversionJob, int | WShardError | None]]:
    """Convert some episodes to a folder of one file each: what worker processes do."""
    with Conversion(target) as conversion:
        return list(conversion.run(jobs))
