"""Check episodes: read every byte, measure and judge them, and store the results in the catalog."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from bridge.episodes.discover import discover
from bridge.episodes.locations import EarlierReadings
from bridge.episodes.open import OpenLocations, known_episodes
from bridge.episodes.read import Failure, attempt
from bridge.names import EpisodeNames
from bridge.quality.cameras import CameraChecker
from bridge.quality.examine import Examined, examine
from bridge.quality.judge import INTEGRITY, Checker, Subject, findings_of
from bridge.support.batches import batches
from bridge.support.progress import Silent
from bridge.support.workers import workers
from catalog.records import CheckFinding
from wshard.core.episode.protocol import EpisodeAddress
from wshard.core.quality.thresholds import DEFAULT_THRESHOLDS
from wshard.errors import WShardError
from wshard.formats.layouts.guessing.reference import warn_of_guesses, warn_of_unread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from bridge.archive import Archive
    from bridge.support.progress import Progress
    from bridge.support.workers import Workers
    from catalog.catalog import Catalog
    from catalog.filters.where import Where
    from catalog.records import EpisodeRow, Known
    from wshard.core.quality.checks import Verdict
    from wshard.core.quality.thresholds import Thresholds
    from wshard.errors import CatalogWriteError

    _Target = tuple[EpisodeAddress, str | None]


@dataclass(frozen=True)
class Checkup:
    """Result of the quality checks of one episode; uid is None if it is not catalogued or its data have changed since.

    path, key: its address. episode_id: "" if it cannot be read and is not catalogued. scores: by check, 0 or more, and
    flagged from 1 on. findings: the reasons, as text. compared: with what is usual in at least 8 episodes alike;
    if not, only what is certain by itself was checked.
    """

    path: str
    episode_id: str
    uid: str | None
    scores: Mapping[str, float]
    findings: tuple[CheckFinding, ...]
    key: str = ""
    compared: bool = False

    @property
    def address(self) -> EpisodeAddress:
        """The address of the episode."""
        return EpisodeAddress(self.path, self.key)

    @property
    def worst(self) -> float:
        """The highest score."""
        return max(self.scores.values(), default=0.0)


class Checkups(list[Checkup]):
    """The checkups of several files.

    unsaved: why the catalog does not store the results, None if it does. seen, decoded: the episodes whose cameras were
    looked at, and those of them whose frames had to be decoded for that. unread: why files below the given folders are
    not read, by path.
    """

    unread: Mapping[str, str] = MappingProxyType({})
    unsaved: CatalogWriteError | None = None
    seen: int = 0
    decoded: int = 0

    @property
    def alone(self) -> list[Checkup]:
        """Those that were read, but had too few episodes alike to be compared with."""
        return [one for one in self if not one.compared and INTEGRITY not in one.scores]


@dataclass(frozen=True)
class Work:
    """What a check works with; camera_folder: that of the archive, where measures of cameras are stored."""

    catalog: Catalog
    checker: Checker
    pool: Workers
    watch: Progress
    cameras: CameraChecker | None = None
    camera_folder: Path | None = None


@dataclass(frozen=True, eq=False)
class _Checkups:
    """The checkups of files, completed as verdicts arrive; measures are released with the verdict of their episode."""

    done: Checkups = field(default_factory=Checkups)
    _waiting: dict[Subject, int] = field(default_factory=dict)

    def add(self, one: Checkup, subject: Subject | None = None) -> None:
        """Add a checkup; that of a subject is completed later."""
        if subject is not None:
            self._waiting[subject] = len(self.done)
        self.done.append(one)

    def complete(self, subject: Subject, verdict: Verdict) -> None:
        """Add the verdict on a subject to its checkup."""
        self.extend(self._waiting.pop(subject), verdict)

    def extend(self, place: int, verdict: Verdict) -> None:
        """Add a verdict to the checkup at a place."""
        earlier = self.done[place]
        findings = (*earlier.findings, *findings_of(verdict))
        scores, compared = {**earlier.scores, **verdict.scores}, earlier.compared or verdict.compared
        self.done[place] = replace(earlier, scores=scores, findings=findings, compared=compared)


def check_episodes(  # noqa: PLR0913  (options of one check)
    archive: Archive,
    paths: Sequence[str | os.PathLike[str]] = (),
    *,
    where: Where | str = "",
    limits: Thresholds = DEFAULT_THRESHOLDS,
    cameras: bool = False,
    workers_count: int = 1,
    progress: Progress | None = None,
) -> Checkups:
    """Check the given files, folders and catalogued episodes, or else the catalogued ones that match the filter.

    cameras: look at up to 120 frames of each camera, too, and compare them with those of the same environment among
    the checked episodes. Frames that were measured before, as when they were described, are not decoded again.

    Findings of catalogued episodes replace earlier ones; if the catalog cannot be written, `unsaved` of the result says
    why. A path that cannot be read, or names nothing, has a finding of its own; if all are such, the first error is
    raised: EntryNotFoundError, SourceNotFoundError. Raises FilterError.
    """
    unreadable: Sequence[Failure] = ()
    catalog, checkups = archive.catalog, _Checkups()
    if paths:
        places, wrong = _find_places(catalog, paths)
        discovery = discover(places, earlier=EarlierReadings(catalog), progress=progress)
        warn_of_guesses(discovery.guessed)
        warn_of_unread(discovery.unread)
        checkups.done.unread = discovery.unread
        addresses, unreadable = [one.address for one in discovery.episodes], [*wrong, *discovery.unreadable]
    else:
        addresses = [row.address for row in catalog.episodes.rows(catalog.query.ids(where)).values()]
    with workers(workers_count) as pool:
        checker = Checker(catalog, limits, checkups.complete, strictly=False)
        watching = CameraChecker(catalog, limits, checkups.extend) if cameras else None
        work = Work(catalog, checker, pool, progress or Silent(), watching, archive.folder if cameras else None)
        check_all(work, addresses, every_byte=True, found=checkups)
        checker.finish()
        if watching is not None:
            watching.finish()
    for failure in unreadable:
        checkups.add(_failed(failure, None))
    checkups.done.unsaved = checker.unsaved or (None if watching is None else watching.unsaved)
    return checkups.done


def _find_places(
    catalog: Catalog, paths: Sequence[str | os.PathLike[str]]
) -> tuple[list[str | os.PathLike[str] | EpisodeAddress], list[Failure]]:
    """Return where the named files, folders and episodes are, and the failures of other names; raises if all fail."""
    names, places, errors = EpisodeNames(catalog), list[Any](), dict[str, WShardError]()
    for path in paths:
        try:
            places.append(path if os.path.lexists(path) else names.place(os.fspath(path)))
        except WShardError as error:
            errors[os.fspath(path)] = error
    if errors and not places:
        raise next(iter(errors.values()))
    return places, [Failure.of(error, EpisodeAddress(path)) for path, error in errors.items()]


def check_all(
    work: Work, addresses: Sequence[EpisodeAddress], *, every_byte: bool, found: _Checkups | None = None
) -> None:
    """Give what can be read to the checker and flag the rest; found gets a checkup of each episode."""
    work.watch.stage("checking", len(addresses))
    add = found.add if found is not None else lambda *_: None
    for outcome in work.pool.each(
        partial(_examine, every_byte=every_byte, cameras=work.camera_folder), _targets(work, addresses)
    ):
        known = dict(known_episodes(work.catalog, [one.address for one in outcome]))
        ids = [one.id for one in known.values() if one is not None]
        rows = work.catalog.episodes.rows(ids)
        subjects, damaged = [], []
        for one in (one for one in outcome if isinstance(one, Examined)):
            id_ = _id_of(known[one.address], one.digest)
            kept_id = None if one.damage else id_  # a flagged one has no results of other checks
            subjects.append(Subject(kept_id, one.digest, one.env_id, one.measured, one.address))
            checkup = Checkup(one.address.uri, one.episode_id, rows[id_].uid if id_ in rows else None, {}, ())
            checkup = replace(checkup, key=one.address.key, **_integrity(one.damage))
            add(checkup, subjects[-1])
            damaged += [(id_, checkup.findings)] if one.damage and id_ is not None else []
            if found is not None and work.cameras is not None and one.cameras is not None:
                work.cameras.take(len(found.done) - 1, subjects[-1], one.cameras)
                found.done.seen += bool(one.cameras.measures)
                found.done.decoded += one.cameras.is_decoded
        work.checker.take(subjects)
        for failure in (one for one in outcome if isinstance(one, Failure)):
            entry = known[failure.address]
            checkup = _failed(failure, None if entry is None else rows.get(entry.id))
            damaged += [(entry.id, checkup.findings)] if entry is not None else []
            add(checkup)
        for id_, findings in damaged:
            work.checker.flag(id_, *findings)
        work.watch.advance(len(outcome))


def _failed(failure: Failure, row: EpisodeRow | None) -> Checkup:
    id_, uid = ("", None) if row is None else (row.episode_id, row.uid)
    return replace(Checkup(failure.path, id_, uid, {}, (), failure.key), **_integrity(failure))


def _integrity(damage: Failure | None) -> dict[str, Any]:
    """Return the scores and findings of data that cannot be read."""
    findings = () if damage is None else (CheckFinding(INTEGRITY, damage.error),)
    return {"scores": {one.check: 1.0 for one in findings}, "findings": findings}


def _id_of(known: Known | None, digest: str) -> int | None:
    return known.id if known is not None and known.digest == digest else None


def _targets(work: Work, addresses: Sequence[EpisodeAddress]) -> Iterator[list[_Target]]:
    """Yield addresses in batches, with the uids of catalogued ones where cameras are looked at."""
    for batch in batches(addresses):
        known = dict(known_episodes(work.catalog, batch)) if work.camera_folder is not None else {}
        rows = work.catalog.episodes.rows([entry.id for entry in known.values() if entry is not None])
        entries = [(one, known.get(one)) for one in batch]
        yield [(one, rows[entry.id].uid if entry and entry.id in rows else None) for one, entry in entries]


def _examine(targets: Sequence[_Target], *, every_byte: bool, cameras: Path | None) -> list[Examined | Failure]:
    with OpenLocations() as locations:
        look = partial(examine, locations=locations, every_byte=every_byte, cameras=cameras)
        found = [(one, attempt(partial(look, one, uid=uid), one)) for one, uid in targets]
        measure = partial(examine, locations=locations, every_byte=False, cameras=None)
        is_all = every_byte or cameras is not None
        return [_measure_rest(measure, at, one) if is_all and isinstance(one, Failure) else one for at, one in found]


def _measure_rest(
    measure: Callable[[EpisodeAddress], Examined], address: EpisodeAddress, failure: Failure
) -> Examined | Failure:
    """Return the measures of an episode some of whose data cannot be read, or else the failure."""
    rest = attempt(partial(measure, address), address)
    return failure if isinstance(rest, Failure) else replace(rest, damage=failure)
