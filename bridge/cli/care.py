"""The verbs that maintain an archive: fsck, health, backup, restore."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bridge.cli.options import IndexOption, ReadersOption, open_named
from bridge.cli.output import print_files
from catalog.cli.common import ArchiveOption, open_catalog, print_table, shorten
from wshard.cli.common import EXIT_FAILED, JsonOption, named_path, print_items, printable, reported
from wshard.core.messages import plural

if TYPE_CHECKING:
    from bridge.maintenance.fsck import FsckResult


@reported()
def fsck(
    archive: ArchiveOption = None,
    index: IndexOption = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Repair what can be repaired; no user data is lost.")
    ] = False,
    data: Annotated[bool, typer.Option("--data", help="Read every block and verify its checksum.")] = False,
    workers: ReadersOption = 1,
    as_json: JsonOption = False,
) -> None:
    """Check files, catalog, vectors and index for consistency; exit 1 if problems remain."""
    from bridge.maintenance import fsck as maintenance
    from bridge.support.progress import show_progress

    with open_named(archive, index) as opened, show_progress() as progress:
        result = (maintenance.repair_archive if repair else maintenance.check_archive)(
            opened, data=data, workers_count=workers, progress=progress
        )
    _print_checked(result, as_json)
    if not result.ok:
        raise typer.Exit(EXIT_FAILED)


@reported()
def health(archive: ArchiveOption = None, index: IndexOption = None, as_json: JsonOption = False) -> None:
    """Report stale and duplicate vectors, hubness and search cost, for every Space."""
    from bridge.maintenance.health import examine
    from bridge.present.reports import present_health

    with open_named(archive, index) as opened:
        items = [present_health(health) for health in examine(opened)]
    if as_json:
        print_items(items)
        return
    if not items:
        typer.echo("no vectors: `wshard ingest` makes them", err=True)
    for number, health in enumerate(items):
        if number:
            typer.echo()
        shown = {name: round(value, 4) if isinstance(value, float) else value for name, value in health.items()}
        print_table(("", ""), [(name, str(value)) for name, value in shown.items()])


@reported()
def backup(
    file: Annotated[
        Path, typer.Argument(help="Backup file; replaced if it exists.", parser=named_path, metavar="FILE")
    ],
    archive: ArchiveOption = None,
) -> None:
    """Copy the whole catalog (tags, notes, reviews, vectors) to one file; safe while others write."""
    with open_catalog(archive) as catalog:
        size = catalog.maintenance.back_up(file)
        typer.echo(f"{printable(str(file))}: {plural(catalog.query.count(), 'episode')}, {size} bytes")


@reported()
def restore(
    file: Annotated[Path, typer.Argument(help="Backup file.", parser=named_path, metavar="FILE")],
    archive: ArchiveOption = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing catalog.")] = False,
) -> None:
    """Restore the catalog of an archive from a backup; the search index is rebuilt when needed."""
    from bridge.maintenance.restore import restore_archive
    from catalog.location import archive_named, place_of

    named = archive_named(archive)
    damaged = restore_archive(file, named, force=force)
    if damaged is not None:
        typer.echo(f"the damaged catalog was moved to {printable(str(damaged))}", err=True)
    with open_catalog(named) as catalog:
        typer.echo(f"{printable(place_of(named).name)}: {plural(catalog.query.count(), 'episode')}")


def _print_checked(result: FsckResult, as_json: bool) -> None:
    from bridge.present.findings import group_findings, present_failures, present_finding

    if as_json:
        failed = present_failures(result.report.failed if result.report else ())
        print_items(map(present_finding, result.findings), episodes=result.episodes, done=result.done, failed=failed)
        return
    for line in result.done:
        typer.echo(f"repaired: {printable(line)}")
    if result.findings:
        rows = [(code, shorten(where), message) for code, where, message in group_findings(result.findings)]
        print_table(("what", "/where", "found"), rows)
    print_files("failed", [(str(one.address), one.error) for one in result.report.failed] if result.report else [])
    for code, advice in {one.code: one.advice for one in result.findings}.items():
        typer.echo(f"{code}: {advice}", err=True)
    what = plural(len(result.findings), "finding") if result.findings else "no problems found"
    typer.echo(f"{plural(result.episodes, 'episode')} checked: {what}")
