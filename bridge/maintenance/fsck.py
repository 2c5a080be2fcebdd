"""Whether an archive is whole: files, catalog, vectors, index; and mending it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from bridge.episodes.open import OpenLocations, known_episodes
from bridge.ingest.index_sync import IndexSync
from bridge.ingest.moves import has_left
from bridge.ingest.report import IngestReport, Run
from bridge.maintenance.check_files import check_files, leftovers, look_around
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
    from wshard.episode.protocol import EpisodeAddress


@dataclass(frozen=True)
class FsckResult:
    """What a check came to: episodes looked at, what is wrong, and what was done about what had been wrong.

    report: what became of files that were read again while mending.
    """

    episodes: int
    findings: tuple[Finding, ...]
    done: tuple[str, ...] = ()
    report: IngestReport | None = None

    @property
    def ok(self) -> bool:
        """True if nothing is wrong (any more)."""
        return not self.findings


def check(
    archive: Archive, *, data: bool = False, workers_count: int = 1, progress: Progress | None = None
) -> FsckResult:
    """Compare files, catalog, ledger and index with one another; nothing is changed.

    data: read every block of every file, every byte of the copies and every table, and compare checksums; else files
    are known by their digests, which stand in their first bytes. A catalog that is damaged is a finding; one that is
    busy or out of reach raises CatalogBusyError or CatalogUnreachableError.
    """
    with workers(workers_count) as crew:
        return _check(archive, crew, progress or Silent(), data=data)


def repair(
    archive: Archive, *, data: bool = False, workers_count: int = 1, progress: Progress | None = None
) -> FsckResult:
    """Check, mend what can be mended, and check again; what is told by checksums of blocks is not read a second time.

    Changed files are read and embedded again, moved ones found, stray vectors dropped, copies for searching made anew,
    what interrupted processes left in the archive removed, and so are temporary files of killed writers beside
    episodes. No file of anybody else is touched, and no tag, note or review is lost. Raises as check().
    """
    watch = progress or Silent()
    with workers(workers_count) as crew:
        before = _check(archive, crew, watch, data=data)
        if before.ok:
            return before
        run = Run(archive, crew, watch, IngestReport(), IndexSync(archive))
        done = tuple(repair_findings(run, before.findings))
        after = _check(archive, crew, watch, data=False)
        known = {finding.where for finding in after.findings}
        left = [one for one in before.findings if one.code in ("corrupt", "database") and one.where not in known]
        return replace(after, findings=(*left, *after.findings), done=done, report=run.report)


def _check(archive: Archive, crew: Workers, watch: Progress, *, data: bool) -> FsckResult:
    try:
        damage = archive.catalog.maintenance.check(full=data)
        if damage:
            return FsckResult(0, tuple(Finding("database", archive.place.name, told) for told in damage))
        episodes = archive.catalog.query.count()
        findings = list(_files(archive, crew, watch, data=data))
        excused = {found.episode for found in findings}  # what stands in their way is told already
        findings += check_ledger(archive.catalog, excused, data=data)
        if all(found.code != "torn" for found in findings):  # no index can take those in
            findings += check_index(archive, data=data)
    except (CatalogBusyError, CatalogUnreachableError):  # says nothing about the database
        raise
    except CatalogError as error:
        return FsckResult(0, (Finding("database", archive.place.name, str(error)),))
    living = [
        Space.from_json(row.definition).fingerprint
        for row in archive.catalog.vectors.spaces()
        if row.state != "retired"
    ]
    return FsckResult(episodes, (*findings, *leftovers(archive, living)))


def _files(archive: Archive, crew: Workers, watch: Progress, *, data: bool) -> Iterator[Finding]:
    watch.stage("checking", archive.catalog.query.count())
    findings: list[Finding] = []
    # One batch of rows is read while others are checked.
    for found, count in crew.each(partial(_counted, data=data), _rows(archive)):
        findings += found
        watch.advance(count)
    codes = {finding.episode: finding.code for finding in findings if finding.code in ("missing", "changed")}
    rows, files = archive.catalog.episodes.rows(codes), archive.catalog.episodes.assets(codes)
    with OpenLocations() as locations:
        absent = {
            id_: row
            for id_, row in rows.items()
            if codes[id_] == "missing" or has_left(row, files.get(id_, ()), locations)
        }
    alike, left = look_around(archive.catalog.episodes.roots(), list(absent.values()))
    for finding in findings:
        row = absent.get(finding.episode)
        place = None if row is None else _new_place(archive, alike.get(row.digest, []))
        if place is None:
            yield finding
        else:
            yield replace(finding, code="moved", told=f"the same data is now at {place}", seen=place)
    yield from left


def _new_place(archive: Archive, alike: list[EpisodeAddress]) -> EpisodeAddress | None:
    """Take the first of these addresses at which no episode is catalogued out of the list, and return it."""
    free = [address for address, known in known_episodes(archive.catalog, alike) if known is None]
    if not free:
        return None
    alike.remove(free[0])
    return free[0]


def _counted(rows: Sequence[tuple[EpisodeRow, tuple[Asset, ...]]], *, data: bool) -> tuple[list[Finding], int]:
    return check_files(rows, data=data), len(rows)


def _rows(archive: Archive) -> Iterator[list[tuple[EpisodeRow, tuple[Asset, ...]]]]:
    """Yield the episodes with their files; of those that were forgotten just now nothing is left to check."""
    after: str | None = None
    while True:
        page = archive.catalog.query.select(order="id", after=after, limit=BATCH)
        files = archive.catalog.episodes.assets(row.id for row in page.rows)
        yield [(row, files[row.id]) for row in page.rows if row.id in files]
        if (after := page.next) is None:
            return
