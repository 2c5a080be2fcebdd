"""Registers discovered episodes in the catalog: new, changed, moved, damaged and missing ones."""

from __future__ import annotations

import posixpath
from array import array
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final, Literal

from bridge.episodes.files import find_empty_folder, find_whole_files, lists_nothing
from bridge.episodes.found import ChosenEpisodes, FoundEpisode
from bridge.episodes.locations import EarlierReadings, list_location
from bridge.episodes.open import OpenLocations, known_episodes
from bridge.episodes.read import Failure, lost_failure, read_episodes
from bridge.ingest.moves import find_displaced, match_moved
from bridge.ingest.readings import supersede_readings
from bridge.pictures.unused_files import find_unowned
from bridge.quality.check import Work, check_all
from bridge.quality.judge import INTEGRITY, Checker, Subject
from bridge.support.batches import batches, growing_batches
from bridge.support.id_set import IdSet
from catalog.records import CheckFinding
from wshard.core.episode.protocol import OWN_FORMAT, EpisodeAddress, parse_read_as
from wshard.core.files.schemes import place_of
from wshard.core.quality.measure_vector import VERSION
from wshard.errors import SourceNotFoundError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bridge.episodes.locations import Discovery
    from bridge.episodes.read import Reading
    from bridge.ingest.report import Run
    from bridge.spaces.lanes import LaneChoice
    from catalog.catalog import Catalog
    from catalog.episode_record import EpisodeRecord
    from catalog.records import Known
    from wshard.core.quality.thresholds import Thresholds


_MAX_LISTED: Final = 3  # files in one message


def add_folders(run: Run, discovery: Discovery) -> None:
    """Register the folders as roots; reports missing ones without catalogued episodes, raises if there is nothing else.

    Raises SourceNotFoundError.
    """
    episodes, gone = run.archive.catalog.episodes, list[Failure]()
    for folder in discovery.folders:
        if place_of(folder).is_dir():
            episodes.add_root(folder)
        elif next(episodes.places(folder), None) is None:
            gone.append(Failure(folder, "no such file or folder, and no catalogued episodes below it"))
    if gone and len(gone) == len(discovery.folders) and not discovery.episodes:
        raise SourceNotFoundError(f"{gone[0].error}: {gone[0].path}")
    run.report.add_failures(gone)


def register(run: Run, discovery: Discovery, lanes: LaneChoice, limits: Thresholds | None) -> None:
    """Update the catalog with what was found; limits: those of the quality checks, None to skip them.

    lanes: those that must exist, if they are named. Also reads files that were first taken for chunks of a manifest
    that turned out to be invalid.
    """
    unchanged = array("q", chain(*(ids for _, ids in discovery.unchanged.values())))
    run.free_memory(len(discovery.episodes) + len(unchanged))  # which listing took
    checker = None if limits is None else Checker(run.archive.catalog, limits, run.add_flags, strictly=True)
    remaining: Sequence[FoundEpisode] = discovery.episodes
    seen: set[str] = set()
    while remaining:
        changed = find_new_or_changed(run.archive.catalog, remaining, unchanged)
        chunk_paths = reread(run, changed, lanes, checker) if changed else []
        seen |= {episode.address.uri for episode in remaining} if chunk_paths else set()
        remaining = [FoundEpisode(EpisodeAddress(path)) for path in sorted({*chunk_paths} - seen)]
    run.report.unchanged += len(unchanged)
    run.present.extend(unchanged)
    if checker is not None:
        _check_unchecked(run, unchanged, checker)
        checker.finish()
        run.report.flagged = len(checker.flagged)
    failed = {failure.path for failure in run.report.failed}
    for path, (state, count) in discovery.states.items():
        if path not in failed:
            run.archive.catalog.episodes.save_scan(path, state, count=count)


def reread(run: Run, episodes: Sequence[FoundEpisode], wanted: LaneChoice, checker: Checker | None = None) -> list[str]:
    """Register the episodes, including those that seem unchanged.

    Returns the episodes that are listed as chunks by manifests that are not episodes.
    """
    catalog, report = run.archive.catalog, run.report
    run.watch.stage("reading", len(episodes))
    read = partial(read_episodes, wanted=wanted, measuring=checker is not None, cache=run.cache)
    chunk_paths: list[str] = []
    displaced_by: dict[int, EpisodeRecord] = {}
    for readings, failed in run.pool.each(
        read, growing_batches(episodes, run.pool.sharing), lambda found: ([], [lost_failure(found.address)])
    ):
        records = match_moved(catalog, [found.record for found in readings])
        displaced_by |= {record.displaces: record for record in records if record.displaces is not None}
        registrations = catalog.episodes.register(records)
        for found in readings:
            run.anomalies.add(found.record.address, found.anomalies)
            run.left_out.add(found.record)
        for registered in registrations:
            name = registered.outcome
            setattr(report, name, getattr(report, name) + 1)
        superseded = [id_ for registered in registrations for id_ in registered.superseded]
        report.removed += len(superseded)
        run.index_sync.delete(superseded)
        run.present.extend(registered.id for registered in registrations)
        run.newly_cataloged.extend(
            registered.id for registered in registrations if registered.outcome in {"new", "changed"}
        )
        if checker is not None:
            _check(run, checker, readings, [registered.id for registered in registrations])
        listed = [[] if failure.key else find_whole_files(failure.path) for failure in failed]
        failures = [_name_whole_files(*one) for one in zip(failed, listed, strict=True)]
        chunk_paths += [path for paths in listed for path in paths]
        _withdraw(run, failures)
        report.add_failures(failures)
        run.watch.advance(len(readings) + len(failures))
    report.replaced += find_displaced(catalog, displaced_by)
    return chunk_paths


def _check(run: Run, checker: Checker, readings: Sequence[Reading], ids: Sequence[int]) -> None:
    """Check the episodes that were read, except for moved and unchanged data that was checked before."""
    unchecked = set(run.archive.catalog.checks.unchecked(VERSION, ids))
    subjects = [
        Subject(id_, found.record.digest, found.record.env_id, found.measured, found.record.address)
        for found, id_ in zip(readings, ids, strict=True)
        if id_ in unchecked and found.measured is not None
    ]
    checker.take(subjects)


def count_missing(run: Run, discovery: Discovery, *, prune: bool | Literal["cautiously"]) -> None:
    """Count the missing episodes in what was searched, or remove them; those of the run are present.

    cautiously: do not remove any if most are missing, or if one of their folders is empty (an unmounted disk). Episodes
    displaced in this run are kept, since a later run may find their data. Those of locations that the run read
    otherwise are replaced. Reports locations that were not found as such any more because they are damaged.
    """
    reported = {failure.path for failure in run.report.failed}
    others = _Unfound({path: how for path, how in discovery.episodes.read_whole().items() if path not in reported})
    missing = {one.id for one in run.report.replaced if prune}
    catalog, ignored = run.archive.catalog, IdSet(chain(run.present, missing))
    for folder in (*discovery.folders, *discovery.locations):
        if lists_nothing(folder):
            text = "the store lists no object here: nothing counts as deleted; check its name and your rights"
            run.report.add_failures([Failure(folder, text)])
            continue
        absent: dict[int, str] = {}
        with OpenLocations() as locations:
            for id_, address in catalog.episodes.places(folder, ignoring=ignored):
                if others.is_absent(id_, address, locations):
                    absent[id_] = address.uri
        empty = find_empty_folder(absent.values()) if prune == "cautiously" else ""
        count = sum(1 for _ in catalog.episodes.places(folder)) if prune == "cautiously" and absent else 0
        if prune == "cautiously" and (empty or 2 * len(absent) > count):
            text = f"{len(absent)} of {count} episodes that are catalogued here are gone"
            text += f", and {empty} is empty" if empty else ""
            advice = "nothing was pruned; is a disk missing? If not, prune with --yes"
            run.report.add_failures([Failure(folder, f"{text}: {advice}")])
        elif prune:
            run.report.removed += catalog.episodes.remove([*absent])
            run.index_sync.delete([*absent])
            continue
        missing.update(absent)
        ignored.update(absent)
    missing.update(supersede_readings(run, others.earlier))
    if run.report.removed or others.earlier:
        for file in find_unowned(run.archive.folder, catalog):
            file.unlink(missing_ok=True)
    run.report.missing = len(missing)
    reported = {failure.path for failure in run.report.failed}
    listed = [list_location(path, how) for path, how in others.unlisted.items() if path not in reported]
    run.report.add_failures([one for one in listed if isinstance(one, Failure)])


@dataclass
class _Unfound:
    """Catalogued episodes that a run did not find, though their locations are there.

    read: how the run read the locations. earlier: ids of episodes that were read otherwise, by location; unlisted: how
    other locations were read.
    """

    read: Mapping[str, str]
    earlier: dict[str, set[int]] = field(default_factory=dict)
    unlisted: dict[str, str] = field(default_factory=dict)

    def is_absent(self, id_: int, address: EpisodeAddress, locations: OpenLocations) -> bool:
        """Return True if the episode is not there; takes it otherwise."""
        if self.read.get(address.uri, address.read_as) != address.read_as:
            self.earlier.setdefault(address.uri, set()).add(id_)
            return False
        if not locations.exists(address):
            return True
        if address.read_as:
            self.unlisted[address.uri] = address.read_as
        return False


def find_new_or_changed(
    catalog: Catalog, episodes: Sequence[FoundEpisode], unchanged: array[int] | None = None
) -> Sequence[FoundEpisode]:
    """Return the episodes that are new or changed, by size and modification time; unchanged: takes the others' ids.

    For a chunked episode, those of every chunk count. New paths come first, so that moved episodes are recognised
    before their old paths are reused.
    """
    new, changed, others = array("q"), array("q"), array("q") if unchanged is None else unchanged
    mapped: dict[int, str] = {}  # how files are read for which a map was given before, or is no longer
    earlier, positions = EarlierReadings(catalog), dict[str, int]()
    with OpenLocations() as locations:
        entries = known_episodes(catalog, (episode.address for episode in episodes))
        for position, (found, (_, known)) in enumerate(zip(episodes, entries, strict=True)):
            if known is not None and _is_unchanged(found, known, locations):
                others.append(known.id)
                continue
            (new if known is None else changed).append(position)
            stated, before = found.address.read_as, "" if known is None else known.read_as
            if stated == OWN_FORMAT:
                mapped[position] = ""
            elif not stated and parse_read_as(before)[0] == OWN_FORMAT:
                mapped[position] = before
            elif not stated and known is None and earlier.has_maps(OWN_FORMAT):
                positions[found.address.uri] = position
    moved = earlier.of_moved(dict.fromkeys(positions, OWN_FORMAT))
    mapped |= {positions[path]: how for path, how in moved.items()}
    return ChosenEpisodes(episodes, new + changed, mapped)


def _is_unchanged(found: FoundEpisode, known: Known, locations: OpenLocations) -> bool:
    address = found.address
    if address.read_as not in ("", known.read_as or OWN_FORMAT):
        return False
    if known.assets:
        return locations.are_unchanged(known.assets)
    plain = replace(address, read_as="") if address.read_as == OWN_FORMAT else address
    return locations.is_unchanged(plain, known, found.fingerprint)


def _name_whole_files(failure: Failure, listed: Sequence[str]) -> Failure:
    """Name the chunks of an invalid manifest that are invalid, too."""
    if not listed:
        return failure
    names = ", ".join(posixpath.relpath(path, posixpath.dirname(failure.path)) for path in listed[:_MAX_LISTED])
    text = f"{len(listed)} of the files that it lists are not chunks, and are ingested as episodes: {names}"
    return replace(failure, error=f"{failure.error}; {text}{', ...' if len(listed) > _MAX_LISTED else ''}")


def _withdraw(run: Run, failures: Sequence[Failure]) -> None:
    """Delete the vectors of catalogued episodes that can no longer be read, and flag them.

    The vectors describe older data, and the quality checks cannot read the episode. What another program is writing
    stays until the next run.
    """
    failures = [failure for failure in failures if not isinstance(failure.cause, BlockingIOError)]
    entries = known_episodes(run.archive.catalog, [failure.address for failure in failures])
    ids = {address: one.id for address, one in entries if one is not None}
    if ids:
        run.archive.catalog.episodes.withdraw([*ids.values()])
        run.index_sync.delete([*ids.values()])
    for failure in failures:
        if failure.address in ids:
            run.archive.catalog.checks.flag([ids[failure.address]], CheckFinding(INTEGRITY, failure.error))


def _check_unchecked(run: Run, ids: Sequence[int], checker: Checker) -> None:
    """Check catalogued episodes that were never checked, as an earlier ingest was killed or of an older version."""
    catalog, present = run.archive.catalog, IdSet(ids)
    pending = [id_ for id_ in catalog.checks.all_unchecked(VERSION) if id_ in present]
    unchecked = [row.address for batch in batches(pending) for row in catalog.episodes.rows(batch).values()]
    if unchecked:
        check_all(Work(catalog, checker, run.pool, run.watch), unchecked, every_byte=False)
