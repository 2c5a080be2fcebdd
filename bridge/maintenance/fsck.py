"""Checks and repairs an archive: files, catalog, vectors, index."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from bridge.episodes.open import OpenLocations, known_episodes
from bridge.ingest.index_sync import IndexSync
from bridge.ingest.moves import has_left
from bridge.ingest.report import IngestReport, Run
from bridge.maintenance.check_files import check_files, leftovers, scan_folders
from bridge.maintenance.check_vectors import check_index, check_ledger
from bridge.maintenance.findings import Finding
from bridge.maintenance.repair import repair_findings
from bridge.support.batches import BATCH
from bridge.support.progress import Progress, Silent
from bridge.support.workers import workers
from embedders.space import Space
from wshard.errors import CatalogBusyError, CatalogError, CatalogUnreachableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bridge.archive import Archive
    from bridge.support.workers import Workers
    from catalog.records import Asset, EpisodeRow
    from wshard.core.episode.protocol import EpisodeAddress


@dataclass(frozen=True)
class FsckResult:
    """Result of a check: number of episodes checked, remaining findings, and repairs done.

    report: the result of reading changed files again during a repair.
    """

    episodes: int
    findings: tuple[Finding, ...]
    done: tuple[str, ...] = ()
    report: IngestReport | None = None

    @property
    def ok(self) -> bool:
        """True if there are no (remaining) findings."""
        return not self.findings


def check_archive(
    archive: Archive, *, data: bool = False, workers_count: int = 1, progress: Progress | None = None
) -> FsckResult:
    """Compare files, catalog, ledger and index with one another; nothing is changed.

    data: read every block of every file, every byte of the copies and every table, and verify checksums; otherwise
    files are compared by their digests, which cover header and index. A damaged catalog is a finding; a busy or
    unreachable one raises CatalogBusyError or CatalogUnreachableError.

    Examples:
        >>> check_archive(lab).findings
        ()
    """
    with workers(workers_count) as pool:
        return _check(archive, pool, progress or Silent(), data=data)


def repair_archive(
    archive: Archive, *, data: bool = False, workers_count: int = 1, progress: Progress | None = None
) -> FsckResult:
    """Check, repair what can be repaired, and check again; checksums of blocks are not verified a second time.

    Changed files are read and embedded again, moved files are relocated, stray vectors are dropped, search copies are
    rebuilt, and leftovers of interrupted processes are removed from the archive, as are temporary files of killed
    writers beside episodes. No other file is touched, and no tag, note or review is lost. Raises like check.

    Examples:
        >>> repair_archive(lab).done
        ()
    """
    watch = progress or Silent()
    with workers(workers_count) as pool:
        before = _check(archive, pool, watch, data=data)
        if before.ok:
            return before
        run = Run(archive, pool, watch, IngestReport(), IndexSync(archive))
        done = tuple(repair_findings(run, before.findings))
        after = _check(archive, pool, watch, data=False)
        remaining = {finding.where for finding in after.findings}
        unverified = [
            one for one in before.findings if one.code in ("corrupt", "database") and one.where not in remaining
        ]
        return replace(after, findings=(*unverified, *after.findings), done=done, report=run.report)


def _check(archive: Archive, pool: Workers, watch: Progress, *, data: bool) -> FsckResult:
    try:
        damage = archive.catalog.maintenance.check(full=data)
        if damage:
            return FsckResult(0, tuple(Finding("database", archive.place.name, message) for message in damage))
        episodes = archive.catalog.query.count()
        findings = list(_files(archive, pool, watch, data=data))
        excused = {finding.episode for finding in findings}  # already reported
        findings += check_ledger(archive.catalog, excused, data=data)
        if all(finding.code != "torn" for finding in findings):  # they cannot be indexed
            findings += check_index(archive, data=data)
    except (CatalogBusyError, CatalogUnreachableError):  # not about the database
        raise
    except CatalogError as error:
        return FsckResult(0, (Finding("database", archive.place.name, str(error)),))
    living = [Space.from_json(row.definition).fingerprint for row in archive.catalog.vectors.live_spaces()]
    return FsckResult(episodes, (*findings, *leftovers(archive, living)))


def _files(archive: Archive, pool: Workers, watch: Progress, *, data: bool) -> Iterator[Finding]:
    watch.stage("checking", archive.catalog.query.count())
    findings: list[Finding] = []
    # One batch of rows is read while others are checked.
    for batch_findings, count in pool.each(partial(_counted, data=data), _rows(archive)):
        findings += batch_findings
        watch.advance(count)
    codes = {finding.episode: finding.code for finding in findings if finding.code in ("missing", "changed")}
    rows, files = archive.catalog.episodes.rows(codes), archive.catalog.episodes.assets(codes)
    with OpenLocations() as locations:
        missing = {
            id_: row
            for id_, row in rows.items()
            if codes[id_] == "missing" or has_left(row, files.get(id_, ()), locations)
        }
    addresses, unfinished = scan_folders(archive.catalog.episodes.roots(), list(missing.values()))
    for finding in findings:
        row = missing.get(finding.episode)
        place = None if row is None else _new_place(archive, addresses.get(row.digest, []))
        if place is None:
            yield finding
        else:
            yield replace(finding, code="moved", message=f"the same data is now at {place}", seen=place)
    yield from unfinished


def _new_place(archive: Archive, addresses: list[EpisodeAddress]) -> EpisodeAddress | None:
    """Take the first of these addresses at which no episode is catalogued out of the list, and return it."""
    uncatalogued = [address for address, entry in known_episodes(archive.catalog, addresses) if entry is None]
    if not uncatalogued:
        return None
    addresses.remove(uncatalogued[0])
    return uncatalogued[0]


def _counted(rows: Sequence[tuple[EpisodeRow, tuple[Asset, ...]]], *, data: bool) -> tuple[list[Finding], int]:
    return check_files(rows, data=data), len(rows)


def _rows(archive: Archive) -> Iterator[list[tuple[EpisodeRow, tuple[Asset, ...]]]]:
    """Yield the episodes with their files, without those that were removed meanwhile."""
    after: str | None = None
    while True:
        page = archive.catalog.query.select(order="id", after=after, limit=BATCH)
        files = archive.catalog.episodes.assets(row.id for row in page.rows)
        yield [(row, files[row.id]) for row in page.rows if row.id in files]
        if (after := page.next) is None:
            return
