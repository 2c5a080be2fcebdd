"""The verbs that look after an archive: watch, fsck, backup, restore."""

from __future__ import annotations

import contextlib
import json
import signal
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bridge.cli.check import CheckOption, LimitsOption, limits_of
from bridge.cli.index import IndexOption
from bridge.cli.options import (
    EmbedderOption,
    LanesOption,
    PlansOption,
    SentencesOption,
    WorkersOption,
    index_target,
    parse_lanes,
    parse_plans,
)
from bridge.cli.output import tell_files
from catalog.cli.common import ArchiveOption, open_catalog, print_table, shorten
from wshard.cli.common import EXIT_FAILED, JsonOption, named_path, print_items, printable, reported
from wshard.messages import plural

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bridge.ingest.ingestor import IngestReport
    from bridge.maintenance.fsck import FsckResult

_COUNTS = ("new", "changed", "moved", "unchanged", "embedded", "tasks")


@reported()
def watch(
    folders: Annotated[list[Path], typer.Argument(help="Folders.", parser=named_path, metavar="FOLDERS")],
    archive: ArchiveOption = None,
    index: IndexOption = None,
    embedder: EmbedderOption = None,
    lanes: LanesOption = None,
    windows: PlansOption = None,
    sentences: SentencesOption = None,
    workers: WorkersOption = 1,
    check: CheckOption = True,
    limits: LimitsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ingest what comes into folders as soon as it is finished, until Ctrl-C; --json prints a line per batch."""
    from bridge.ingest.ingestor import TrajectoryIngestor
    from bridge.ingest.text import loaded
    from catalog.location import archive_named
    from wshard.errors import SourceNotFoundError

    named, begun, total = archive_named(archive), time.monotonic(), Counter[str]()
    plans = parse_plans(windows)
    if missing := [path for path in folders if not path.is_dir()]:
        raise SourceNotFoundError(f"no such folder: {missing[0]}")  # before an archive is made for nothing
    encoder, wanted = loaded(sentences), limits_of(limits) if check else None
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # being told to end is how this work ends
    with (
        TrajectoryIngestor(
            index_target(index, named), embedder, lanes=parse_lanes(lanes), archive=named, limits=wanted
        ) as ingestor,
        contextlib.suppress(KeyboardInterrupt),
    ):
        typer.echo(f"watching {', '.join(map(str, folders))}", err=True)
        for report in ingestor.watch(folders, windows=plans, sentences=encoder, workers_count=workers):
            total.update({name: getattr(report, name) for name in _COUNTS}, failed=len(report.failed))
            _tell_batch(report, as_json)
    typer.echo(f"{_summed(total)} in {time.monotonic() - begun:.0f} s", err=as_json)


def _tell_batch(report: IngestReport, as_json: bool) -> None:
    counts = {name: getattr(report, name) for name in _COUNTS}
    if as_json:
        failed = [failure.facts() for failure in report.failed]
        replaced = [asdict(other) for other in report.replaced]
        typer.echo(json.dumps({**counts, "failed": failed, "replaced": replaced, "delayed": report.delayed}))
        return
    tell_files("replaced", [(one.path, str(one)) for one in report.replaced])
    tell_files("left out", [(str(one.address), one.error) for one in report.failed])
    if report.delayed is not None:
        typer.echo(f"index delayed: {printable(report.delayed)}; the vectors are safe in the catalog", err=True)
    typer.echo(_summed({**counts, "failed": len(report.failed)}))


def _summed(counts: Mapping[str, int]) -> str:
    told = ", ".join(f"{counts[name]} {name}" for name in _COUNTS if counts[name]) or "nothing to do"
    return told + (f", {counts['failed']} left out" if counts["failed"] else "")


@reported()
def fsck(
    archive: ArchiveOption = None,
    index: IndexOption = None,
    mend: Annotated[bool, typer.Option("--repair", help="Mend what can be mended; nothing of yours is lost.")] = False,
    data: Annotated[bool, typer.Option("--data", help="Read every block and compare its checksum.")] = False,
    workers: Annotated[int, typer.Option(min=1, help="Processes that read.")] = 1,
    as_json: JsonOption = False,
) -> None:
    """Check files, catalog, vectors and index against one another; exit 1 if something is (still) wrong."""
    from bridge.archive import open_archive
    from bridge.maintenance.fsck import check, repair
    from bridge.support.progress import watched
    from catalog.location import archive_named

    named = archive_named(archive)
    with open_archive(index or named, archive=named) as opened, watched() as progress:
        found = (repair if mend else check)(opened, data=data, workers_count=workers, progress=progress)
    _tell(found, as_json)
    if not found.ok:
        raise typer.Exit(EXIT_FAILED)


@reported()
def backup(
    file: Annotated[
        Path, typer.Argument(help="The backup; an earlier one is replaced.", parser=named_path, metavar="FILE")
    ],
    archive: ArchiveOption = None,
) -> None:
    """Copy the catalog (tags, notes, reviews, vectors, all of it) to one file, while others may go on writing."""
    with open_catalog(archive) as catalog:
        size = catalog.maintenance.back_up(file)
        typer.echo(f"{printable(str(file))}: {plural(catalog.query.count(), 'episode')}, {size} bytes")


@reported()
def restore(
    file: Annotated[Path, typer.Argument(help="A backup.", parser=named_path, metavar="FILE")],
    archive: ArchiveOption = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the catalog that is there.")] = False,
) -> None:
    """Make the catalog of a backup that of an archive; the search index is made again when it is needed."""
    from bridge.archive import restore_archive
    from catalog.location import archive_named, place_of

    named = archive_named(archive)
    kept = restore_archive(file, named, force=force)
    if kept is not None:
        typer.echo(f"the damaged catalog is kept as {printable(str(kept))}", err=True)
    with open_catalog(named) as catalog:
        typer.echo(f"{printable(place_of(named).name)}: {plural(catalog.query.count(), 'episode')}")


def _tell(found: FsckResult, as_json: bool) -> None:
    if as_json:
        findings = [asdict(finding) | {"advice": finding.advice} for finding in found.findings]
        failed = [failure.facts() for failure in found.report.failed] if found.report else []
        print_items(findings, episodes=found.episodes, done=found.done, failed=failed)
        return
    for line in found.done:
        typer.echo(f"mended: {printable(line)}")
    if found.findings:
        print_table(("what", "/where", "found"), [(one.code, shorten(one.where), one.told) for one in found.findings])
    tell_files("left out", [(str(one.address), one.error) for one in found.report.failed] if found.report else [])
    for code, advice in {one.code: one.advice for one in found.findings}.items():
        typer.echo(f"{code}: {advice}", err=True)
    what = plural(len(found.findings), "finding") if found.findings else "nothing is wrong"
    typer.echo(f"{plural(found.episodes, 'episode')} checked: {what}")
