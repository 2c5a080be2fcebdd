"""Convert episodes of any readable format into any that is written."""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from dataclasses import astuple, replace
from sys import intern
from typing import TYPE_CHECKING, Any, Self

from wshard.core.episode.encode_cameras import encode_cameras
from wshard.errors import EpisodeError, FormatError, WShardError
from wshard.formats.lane_map import leave_out
from wshard.training.conversion.existing import ExistingEpisodes
from wshard.training.conversion.jobs import OpenSources, check_unchanged, failure_of, list_ids, name_error
from wshard.training.conversion.staging import StagedParts
from wshard.training.conversion.survey import Survey

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    from wshard.core.episode.protocol import EpisodeSpan, Fingerprint
    from wshard.core.types import Episode
    from wshard.training.conversion.jobs import ConversionJob
    from wshard.training.conversion.target import ConversionTarget


class Conversion:
    """Reads the episodes of the jobs and writes them to one target; use it as a context manager.

    An exception leaves the target unchanged, or with complete episodes. Complete parts of a location of many episodes
    are kept beside it, and the same conversion resumes after them. readers: number of threads that read ahead.
    in_parts False: without parts. A subclass for other episodes than those of Sources has its own _fingerprint, _id_of,
    _choose_id and _read_episode.
    """

    def __init__(
        self, target: ConversionTarget, jobs: Sequence[ConversionJob], *, readers: int = 1, in_parts: bool = True
    ) -> None:
        self._target, self._jobs, self._readers = target, jobs, readers
        self._resumes = target.mode == "append"
        self._replaces = target.mode == "overwrite" and target.has_content
        self._opened: list[OpenSources] = []
        self._existing = ExistingEpisodes(target)
        self._written: dict[str, EpisodeSpan] = {}
        self._local = threading.local()
        self._outcomes: list[int | str | None] = []
        self._parts: StagedParts | None = None
        try:
            if in_parts and not target.takes_one_per_file:
                self._parts = StagedParts(target, [*self._identify()])
                self._outcomes = [*self._parts.outcomes]
            self._sink = target.open() if self._parts is None else self._parts.open_sink()
        except BaseException:
            self._abandon()
            raise

    def _identify(self) -> Iterator[object]:
        """Yield what identifies a conversion: options, and the jobs with their fingerprints."""
        target = self._target
        options = (target.format, target.compression, target.mode, target.encode, target.options)
        yield from map(repr, (*options, target.lane_map, target.without))
        for job in self._jobs:
            try:
                fingerprint: object = astuple(self._fingerprint(job))
            except Exception as error:  # noqa: BLE001  (reading the episode reports it)
                fingerprint = str(error)
            yield [repr(job), fingerprint]

    def _fingerprint(self, job: ConversionJob) -> Fingerprint:
        return self._sources.source_of(job.span.address).fingerprint(job.span.address.key)

    @property
    def _sources(self) -> OpenSources:
        """The open locations of this thread."""
        if not hasattr(self._local, "sources"):
            self._local.sources = OpenSources(self._target.without, lane_map=self._target.lane_map)
            self._opened.append(self._local.sources)
        sources: OpenSources = self._local.sources
        return sources

    def _close(self) -> None:
        self._existing.close()
        while self._opened:
            self._opened.pop().close()

    def _abandon(self) -> None:
        self._close()
        if self._parts is not None:
            self._parts.abandon()

    def __enter__(self) -> Self:
        try:
            with self._naming_target():
                self._sink.__enter__()
        except BaseException:
            self._abandon()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        refusal = self._keep_existing() if exc[:1] == (None,) else None
        if refusal is not None:
            self._end(type(refusal), refusal, None)
            raise refusal
        self._end(*exc)

    def _end(self, *exc: object) -> None:
        with ExitStack() as stack:
            stack.callback(self._close)
            failed = exc[:1] != (None,)
            try:
                with self._naming_target():
                    self._sink.__exit__(*exc)
                if self._parts is not None and not failed:
                    self._parts.publish(self._outcomes)
            except BaseException:
                failed = True
                raise
            finally:
                if self._parts is not None and failed:
                    self._parts.abandon()

    def _keep_existing(self) -> FormatError | None:
        """Return why existing episodes are not replaced: some of the new ones failed."""
        reasons = [outcome for outcome in self._outcomes if isinstance(outcome, str)]
        if not reasons or not self._replaces:
            return None
        return FormatError(
            f"{self._target.location}: expected no failure, as mode 'overwrite' replaces a data set by a complete one "
            f"only, found {len(reasons)} in {len(self._outcomes)} episodes, and kept what was there: mend or leave out "
            f"those episodes, or write to another path; the first: {reasons[0]}"
        )

    def _naming_target(self) -> AbstractContextManager[None]:
        return nullcontext() if self._parts is None else self._parts.named_as_target()

    def survey(self) -> Survey:
        """Return what the target cannot store, and which lanes the episodes have; decodes no frame.

        Episodes that cannot be described are ignored here; converting them reports the error.
        """
        survey = Survey()
        offset = -sum(isinstance(outcome, int) for outcome in self._outcomes)  # written already
        for job in self._jobs:
            try:
                whole = self._sources.whole_source_of(job.span.address).info(job.span.address.key)
                info = leave_out(whole, self._target.without)
                survey.names |= dict.fromkeys(whole.lanes)
                losses = [*self._sink.losses(info)]
                survey.add_lanes(self._sink.shared_lanes(info), info, job.span.address)
                survey.add_rate(self._sink.shared_rate(info), info, job.span.address)
                survey.add_settings(self._sink.shared_settings(info), job.span.address)
            except Exception:  # noqa: BLE001, S112
                continue
            if self._sink.numbers_episodes:
                changes = job.name_of(info.id) != self._sink.next_id(offset)
                losses += ["id: becomes the number of the episode"] if changes else []
                offset += 1
            survey.losses[job.span] = (*map(intern, losses),)
        return survey

    def run(self) -> Iterator[tuple[ConversionJob, int | WShardError | None]]:
        """Convert each episode; yield its number of timesteps, the reason for a failure, or None if it exists already.

        Raises OSError for a full disk.
        """
        for job, outcome in zip(self._jobs, self._outcomes, strict=False):  # of the run that is resumed
            if isinstance(outcome, int):
                self._written[next(id_ for id_ in self._ids_of(job) if id_ not in self._written)] = job.span
            yield job, FormatError(outcome) if isinstance(outcome, str) else None
        for job, loaded in self._read(self._jobs[len(self._outcomes) :]):
            result: int | WShardError | None
            try:
                result = self._write(loaded, job) if not isinstance(loaded, WShardError) else loaded
            except WShardError as error:
                result = error
            self._outcomes.append(str(result) if isinstance(result, WShardError) else result)
            if isinstance(result, int) and self._parts is not None and self._parts.is_complete:
                self._begin_part(self._parts)
            yield self._note_id(job) if isinstance(result, int) else job, result

    def _begin_part(self, parts: StagedParts) -> None:
        with parts.named_as_target():
            self._sink.__exit__(None, None, None)
        parts.commit(self._outcomes)
        self._sink = parts.open_sink()
        with parts.named_as_target():
            self._sink.__enter__()

    def _choose_id(self, job: ConversionJob) -> str | None:
        """Return the id to write an episode with, None if the target has the episode already.

        Raises EpisodeError where that cannot be told.
        """
        for id_ in self._ids_of(job):
            if not self._sink.has(id_):
                return id_
            span = self._written.get(id_)
            was_there = self._resumes and span is None
            source = self._sources.source_of(job.span.address)
            if job.span == span or (was_there and self._existing.has_same(id_, job, source)):
                return None
        return None

    def _ids_of(self, job: ConversionJob) -> Iterator[str]:
        return list_ids(job, self._id_of(job))

    def _id_of(self, job: ConversionJob) -> str:
        return self._sources.source_of(job.span.address).info(job.span.address.key).id

    def _note_id(self, job: ConversionJob) -> ConversionJob:
        """Return the job that was written last with its id, if that is another one than its own."""
        id_ = next(reversed(self._written))
        return job if id_ == next(self._ids_of(job)) else replace(job, written_as=id_)

    def _write(self, episode: Episode | None, job: ConversionJob) -> int | None:
        if episode is not None and self._sink.has(episode.id):  # written since it was read
            id_ = self._choose_id(job)
            episode = None if id_ is None else replace(episode, id=id_)
        if episode is None:
            return None
        self._written[episode.id] = job.span  # before a reader can see the episode in the target
        try:
            with self._naming_target():
                self._store(episode, job)
        except BaseException as error:
            del self._written[episode.id]
            if isinstance(error, (WShardError, OSError, MemoryError)) or not isinstance(error, Exception):
                raise
            raise EpisodeError(f"episode {episode.id!r}: {name_error(error)}") from error
        if self._parts is not None:
            self._parts.count(episode)
        return episode.length

    def _store(self, episode: Episode, _job: ConversionJob) -> None:
        self._sink.write(episode)

    # ---- reading -------------------------------------------------------------------------------------------------

    def _read(self, jobs: Sequence[ConversionJob]) -> Iterator[tuple[ConversionJob, Episode | WShardError | None]]:
        """Yield the episode of each job, None if it exists already, in order; some are read ahead in threads."""
        if self._readers == 1:
            yield from ((job, self._load(job)) for job in jobs)
            return
        with ThreadPoolExecutor(self._readers) as pool:
            pending: deque[Any] = deque()
            try:
                for job in jobs:
                    pending.append((job, pool.submit(self._load, job)))
                    if len(pending) > 2 * self._readers:
                        pending_job, future = pending.popleft()
                        yield pending_job, future.result()
                while pending:
                    pending_job, future = pending.popleft()
                    yield pending_job, future.result()
            finally:
                pool.shutdown(cancel_futures=True)

    def _load(self, job: ConversionJob) -> Episode | WShardError | None:
        try:
            id_ = self._choose_id(job)
            if id_ is None:
                return None
            return replace(encode_cameras(self._read_episode(job), self._target.encode), id=id_)
        except Exception as error:  # noqa: BLE001  (of a library, for data that it did not expect)
            return failure_of(error, job.span.address)

    def _read_episode(self, job: ConversionJob) -> Episode:
        source = self._sources.source_of(job.span.address)
        check_unchanged(job.span, source)
        key, start, stop = job.span.address.key, job.span.start, job.span.stop
        if (start, stop) == (0, None):
            return source.load(key)
        with source.open(key) as reader:
            return reader.slice(start, reader.length if stop is None else stop)
