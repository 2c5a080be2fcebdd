"""Convert whole locations: what `wshard convert`, `wshard export` and the exports of the app stand on."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final, Protocol

from wshard.core.episode.protocol import EpisodeAddress, EpisodeSpan
from wshard.core.episode.protocol import read_as as options_of
from wshard.errors import FormatError, WShardError
from wshard.formats.lane_map import encode_lane_map
from wshard.training.conversion.jobs import list_jobs
from wshard.training.conversion.run import Conversion
from wshard.training.conversion.target import ConversionTarget

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from wshard.core.container.codec_plan import Compression
    from wshard.core.container.draft import WriteMode
    from wshard.core.episode.encode_cameras import Encode
    from wshard.training.conversion.jobs import ConversionJob

    Place = str | os.PathLike[str] | EpisodeAddress | EpisodeSpan
    Outcome = tuple[ConversionJob, int | WShardError | None]
    Convert = Callable[[Sequence[ConversionJob]], list[Outcome]]
    Each = Callable[[Convert, Iterable[Sequence[ConversionJob]]], Iterable[list[Outcome]]]

_AT_ONCE: Final = 16
_EPISODE: Final = re.compile(r"episode '[^']*': ")  # at the beginning of what a Sink says about one


@dataclass(frozen=True)
class ConversionReport:
    """What became of each episode: its number of timesteps, the reason for a failure, or None if it was there already.

    losses: what the format of the target cannot store, and of how many episodes that are in it.
    """

    target: ConversionTarget
    outcomes: tuple[Outcome, ...]
    losses: Counter[str]

    @property
    def converted(self) -> int:
        """The number of episodes that were written."""
        return sum(isinstance(length, int) for _, length in self.outcomes)

    @property
    def skipped(self) -> int:
        """The number of episodes that the target had already."""
        return sum(length is None for _, length in self.outcomes)

    @property
    def timesteps(self) -> int:
        """The number of timesteps that were written."""
        return sum(length for _, length in self.outcomes if isinstance(length, int))

    @property
    def failed(self) -> list[tuple[ConversionJob, WShardError]]:
        """The episodes that could not be read or written, and why."""
        return [(job, error) for job, error in self.outcomes if isinstance(error, WShardError)]

    @property
    def reasons(self) -> list[tuple[str, str]]:
        """The address of each failed episode, and why: without the names of target and episode, equal if alike."""
        found = []
        for job, error in self.failed:
            address, text = job.span.address, str(error)
            for name in (f"{self.target.location}: ", f"{address}: ", f"{address.uri}: "):
                text = text.removeprefix(name)
            found.append((str(address), text[begin.end() :] if (begin := _EPISODE.match(text)) else text))
        return found

    @property
    def renamed(self) -> list[ConversionJob]:
        """The episodes with another id than their own, as the target had another one of that id."""
        return [job for job, _ in self.outcomes if job.written_as]


class ConversionProgress(Protocol):
    """Shows how a conversion goes on."""

    def show_losses(self, losses: Counter[str]) -> None:
        """Show what the format cannot store; called once: at the end, or before these losses are refused."""

    def advance(self, count: int) -> None:
        """Show that more episodes are done."""


def convert_location(  # noqa: PLR0913  (the options of `wshard convert`)
    places: Place | Iterable[Place],
    to: str | os.PathLike[str],
    *,
    source_format: str = "",
    target_format: str | None = None,
    lane_map: Mapping[str, str] | None = None,
    mode: WriteMode | None = None,
    compression: Compression = "none",
    encode: Encode | None = None,
    without: Iterable[str] = (),
    strict: bool = False,
    workers: int = 1,
) -> ConversionReport:
    """Convert all episodes of one or more places, as `wshard convert` does; resumes after an interruption.

    places: paths, URIs, addresses `PATH#KEY`, spans `PATH#KEY@START:STOP`. target_format: by default that of what is
    there, or of the suffix of `to`; wshard for a folder. lane_map: {old name of a lane: new one}, by the names that an
    address of an archive gives them. mode None: missing episodes are appended. encode: how raw cameras are encoded,
    such as "jpeg:90". without: lanes to leave out, such as "reward"; formats that store the lanes of the first episode
    of all raise FormatError, and write nothing, if only
    some episodes have one. strict: raise FormatError, and write
    nothing, if the format would lose data. workers: threads that read ahead. Failed episodes are in the report.

    Examples:
        >>> len(convert_location("episodes", "all.shardpack").outcomes)
        41
    """
    single = isinstance(places, (str, os.PathLike, EpisodeAddress, EpisodeSpan))
    target = ConversionTarget.of(to, target_format, compression=compression, mode=mode)
    target = replace(target, encode=encode, lane_map=encode_lane_map(lane_map or {}), without=(*without,))
    jobs = list_jobs([places] if single else places, options_of(source_format))  # type: ignore[list-item, arg-type]
    return convert_jobs(jobs, target, strict=strict, workers=workers)


def convert_jobs(
    jobs: Sequence[ConversionJob],
    target: ConversionTarget,
    *,
    strict: bool = False,
    workers: int = 1,
    progress: ConversionProgress | None = None,
    each: Each | None = None,
) -> ConversionReport:
    """Convert the jobs; reads ahead in threads, or converts batches by `each`.

    each: like map, such as that of a pool of processes, for a target that is separable. Raises what convert_location
    raises.
    """
    target.prepare(len(jobs))
    outcomes: list[Outcome] = []
    with Conversion(target, jobs, readers=workers) as conversion:
        survey = conversion.survey()
        survey.check_lanes(f"{target.location}: {target.format}", target.without)
        survey.check_rates(f"{target.location}: {target.format}")
        survey.check_settings(f"{target.location}: {target.format}")
        losses = survey.count_losses(job.span for job in jobs)
        if strict and losses:
            if progress is not None:
                progress.show_losses(losses)
            loss = losses.most_common(1)[0][0]
            raise FormatError(f"{target.location}: strict: {target.format} loses data, nothing was written: {loss}")
        if each is None:
            outcomes += _watch(conversion.run(), progress)
    if each is not None:
        batches = [jobs[start : start + _AT_ONCE] for start in range(0, len(jobs), _AT_ONCE)]
        done = each(partial(_convert_batch, target=target), batches)
        outcomes += _watch(chain.from_iterable(done), progress)
    losses = survey.count_losses(job.span for job, outcome in outcomes if not isinstance(outcome, WShardError))
    if progress is not None:
        progress.show_losses(losses)
    return ConversionReport(target, tuple(outcomes), losses)


def _watch(outcomes: Iterable[Outcome], progress: ConversionProgress | None) -> Iterator[Outcome]:
    for outcome in outcomes:
        yield outcome
        if progress is not None:
            progress.advance(1)


def _convert_batch(jobs: Sequence[ConversionJob], target: ConversionTarget) -> list[Outcome]:
    """Convert a batch of episodes to a folder of one file each; runs in worker processes."""
    with Conversion(target, jobs) as conversion:
        return list(conversion.run())
