"""From files to catalog rows: new, changed, moved, broken and gone files."""

from __future__ import annotations

import posixpath
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from bridge.episodes.files import are_unchanged, freed
from bridge.episodes.read import Failure, read_episodes
from bridge.ingest.moves import lost, settled
from bridge.quality.check import Work, check_files
from bridge.quality.judge import INTEGRITY, Checker, Subject
from bridge.support.batches import batches
from catalog.records import CheckFinding
from wshard.quality.measure_vector import VERSION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bridge.episodes.read import Reading
    from bridge.ingest.report import Run
    from bridge.spaces.lanes import LaneChoice
    from catalog.catalog import Catalog
    from catalog.episode_record import EpisodeRecord
    from catalog.records import Known
    from wshard.quality.thresholds import Thresholds


def check_unchecked(run: Run, files: Sequence[str], checker: Checker) -> None:
    """Check what is catalogued of these files but was never checked: an earlier ingest was killed, or was older."""
    catalog = run.archive.catalog
    rest = []
    for batch in batches(files):
        ids = [episode.id for known in catalog.episodes.known(batch).values() for episode in known]
        rest += [row.path for row in catalog.episodes.rows(catalog.checks.unchecked(VERSION, ids)).values()]
    if rest:
        check_files(Work(catalog, checker, run.crew, run.watch), rest, every_byte=False)


_NAMED: Final = 3  # files in one message


def register(run: Run, files: Sequence[str], wanted: LaneChoice, limits: Thresholds | None) -> list[str]:
    """Bring the catalog up to date with the files; limits: those of the quality checks, None to check nothing.

    wanted: the lanes that must be there, where they are named. Returns the files, and after them those for which one of
    them stood that is no manifest of theirs.
    """
    taken, rest = [*files], [*files]
    seen: list[str] = []
    checker = None if limits is None else Checker(run.archive.catalog, limits)
    while rest:
        due = unseen(run.archive.catalog, rest)
        run.report.unchanged += len(rest) - len(due)
        read = set(due)
        seen += [path for path in rest if path not in read]
        more = read_again(run, due, wanted, checker) if due else []
        rest = sorted({*more} - {*taken}) if more else []
        taken += rest
    if checker is not None:
        check_unchecked(run, seen, checker)
        checker.finish()
        run.report.flagged = len(checker.flagged)
    return taken


def read_again(run: Run, files: Sequence[str], wanted: LaneChoice, checker: Checker | None = None) -> list[str]:
    """Register the files, also those that look as the catalog saw them.

    Returns the episodes that are listed as chunks by manifests that are no episodes.
    """
    catalog, report = run.archive.catalog, run.report
    run.watch.stage("reading", len(files))
    read = partial(read_episodes, wanted=wanted, measuring=checker is not None)
    more: list[str] = []
    aside: dict[int, EpisodeRecord] = {}
    for readings, failed in run.crew.each(read, batches(files)):
        records = settled(catalog, [found.record for found in readings])
        aside |= {record.displaces: record for record in records if record.displaces is not None}
        done = catalog.episodes.register(records)
        for registered in done:
            name = registered.outcome
            setattr(report, name, getattr(report, name) + 1)
        superseded = [id_ for registered in done for id_ in registered.superseded]
        report.removed += len(superseded)
        run.follower.delete(superseded)
        run.brought.extend(registered.id for registered in done if registered.outcome in {"new", "changed"})
        if checker is not None:
            _check(run, checker, readings, [registered.id for registered in done])
        listed = [freed(failure.path) for failure in failed]
        failures = [_told(*one) for one in zip(failed, listed, strict=True)]
        more += [path for paths in listed for path in paths]
        _withdraw(run, failures)
        report.leave_out(failures)
        run.watch.advance(len(readings) + len(failures))
    report.replaced += lost(catalog, aside)
    return more


def _check(run: Run, checker: Checker, readings: Sequence[Reading], ids: Sequence[int]) -> None:
    """Judge what was read, but not again what these checks have judged already: moved and unchanged data."""
    new = set(run.archive.catalog.checks.unchecked(VERSION, ids))
    subjects = [
        Subject(id_, found.record.digest, found.record.env_id, found.measured)
        for found, id_ in zip(readings, ids, strict=True)
        if id_ in new and found.measured is not None
    ]
    checker.take(subjects)


def take_stock(run: Run, folders: Sequence[str], files: Sequence[str], *, prune: bool | Literal["cautiously"]) -> None:
    """Count the episodes below these folders whose files are gone, or forget them; cautiously: unless most are gone.

    files: those that were found there. What lost its file in this run is kept: its data may be where a later one looks.
    """
    catalog, found, missing = run.archive.catalog, set(files), {one.id for one in run.report.replaced if prune}
    for folder in folders:
        there = 0
        gone: list[int] = []
        for id_, path in catalog.episodes.places(folder):
            there += 1
            if path not in found and id_ not in missing and not Path(path).exists():
                gone.append(id_)
        if prune == "cautiously" and 2 * len(gone) > there:
            text = f"{len(gone)} of {there} episodes that are catalogued here are gone: nothing was pruned"
            run.report.leave_out([Failure(folder, f"{text}; is a disk missing? If not, prune with --yes")])
        elif prune:
            run.report.removed += catalog.episodes.remove(gone)
            run.follower.delete(gone)
            continue
        missing.update(gone)
    run.report.missing = len(missing)


def unseen(catalog: Catalog, paths: Sequence[str]) -> list[str]:
    """Return those of the files that the catalog does not know as they are now, by size and modification time.

    Of a chunked episode that is those of every chunk, too. New places come first: what moved there leaves its old place
    to whatever is there now.
    """
    new: list[str] = []
    other: list[str] = []
    for batch in batches(paths):
        known = catalog.episodes.known(batch)
        new += [path for path in batch if path not in known]
        other += [path for path in batch if path in known and not _same_file(path, known[path][0])]
    return new + other


def _same_file(path: str, known: Known) -> bool:
    if known.assets:
        return are_unchanged(known.assets)
    try:
        status = Path(path).stat()
    except OSError:
        return False  # reading it will tell what is wrong
    return (status.st_size, status.st_mtime_ns) == (known.size, known.mtime_ns)


def _told(failure: Failure, listed: Sequence[str]) -> Failure:
    """Say of a manifest that is none which of its chunks are none either."""
    if not listed:
        return failure
    names = ", ".join(posixpath.relpath(path, posixpath.dirname(failure.path)) for path in listed[:_NAMED])
    text = f"{len(listed)} of the files that it lists are no chunks, and count by themselves: {names}"
    return replace(failure, error=f"{failure.error}; {text}{', ...' if len(listed) > _NAMED else ''}")


def _withdraw(run: Run, failures: Sequence[Failure]) -> None:
    """Bury the vectors of catalogued episodes whose files can no longer be read, and flag them.

    The vectors describe other data; checks cannot say anything about it.
    """
    known = run.archive.catalog.episodes.known([failure.path for failure in failures])
    ids = [episode.id for episodes in known.values() for episode in episodes]
    if ids:
        run.archive.catalog.episodes.withdraw(ids)
        run.follower.delete(ids)
    for failure in failures:
        broken = [episode.id for episode in known.get(failure.path, ())]
        if broken:
            run.archive.catalog.checks.flag(broken, CheckFinding(INTEGRITY, failure.error))
