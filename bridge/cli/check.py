"""The verb `check`: quality checks of episodes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bridge.cli.options import LimitsOption, ReadersOption, open_named, read_quality_limits
from catalog.cli.common import ArchiveOption, LimitOption, WhereOption, print_table, report_unknown, shorten
from wshard.cli.common import EXIT_FAILED, JsonOption, named_place, print_items, printable, reported
from wshard.core.messages import plural

if TYPE_CHECKING:
    from bridge.quality.check import Checkup


@reported()
def check(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            help="Files, folders, URIs, episode ids (default: all of the archive).",
            parser=named_place,
            metavar="PATHS...",
        ),
    ] = None,
    where: WhereOption = None,
    limits: LimitsOption = None,
    cameras: Annotated[bool, typer.Option("--cameras", help="Look at up to 120 frames of each camera, too.")] = False,
    every: Annotated[bool, typer.Option("--all", help="List episodes without findings, too.")] = False,
    workers: ReadersOption = 1,
    limit: LimitOption = 50,
    archive: ArchiveOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check episodes for checksum errors, clock errors, NaN, frozen or clipped channels, spikes, stalls and lag.

    Exits 1 if any episode is flagged.
    """
    from bridge.support.progress import show_progress

    if paths and where is not None:
        raise typer.BadParameter("expected either files or --where, found both")
    thresholds = read_quality_limits(limits)
    with open_named(archive) as opened, show_progress() as progress:
        report_unknown(opened.catalog, where)
        done = opened.check(
            paths or (),
            where=where or "",
            limits=thresholds,
            cameras=cameras,
            workers_count=workers,
            progress=progress,
        )
    flagged = [one for one in done if one.findings]
    shown = sorted(done if every else flagged, key=lambda one: (-one.worst, one.path))
    if as_json:
        from bridge.present.findings import present_checkup

        print_items(map(present_checkup, shown), checked=len(done), flagged=len(flagged))
    else:
        rows = [row for one in shown for row in _rows(one)]
        if rows:
            print_table(("episode", "check", ">score", "reason", "/file"), rows[:limit])
        if len(rows) > limit:
            typer.echo(f"{limit} of {len(rows)} rows, worst first (--limit or --json for more)")
        typer.echo(f"{len(flagged)} of {len(done)} episodes flagged")
        if cameras:
            typer.echo(
                f"cameras of {plural(done.seen, 'episode')}: frames of {done.decoded} decoded, others measured before"
            )
    if done.unsaved is not None:
        typer.echo(f"not saved in the archive: {printable(str(done.unsaved))}", err=True)
    if flagged:
        raise typer.Exit(EXIT_FAILED)


def _rows(one: Checkup) -> list[tuple[str, ...]]:
    name, place = one.episode_id or Path(str(one.address)).name, shorten(str(one.address))
    if not one.findings:
        return [(name, "", f"{one.worst:.3g}", "", place)]
    return [(name, found.check, f"{one.scores[found.check]:.3g}", found.reason, place) for found in one.findings]
