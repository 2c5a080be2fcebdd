"""The verb `check`: quality checks of episodes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bridge.cli.options import LimitsOption, ReadersOption, open_named, read_quality_limits
from catalog.cli.common import ArchiveOption, LimitOption, WhereOption, print_table, report_unknown, shorten
from wshard.cli.common import EXIT_FAILED, JsonOption, named_place, print_items, printable, reported
from wshard.core.messages import plural
from wshard.core.quality.baseline import MIN_EPISODES
from wshard.core.quality.checks import CHECKS

if TYPE_CHECKING:
    from bridge.archive import Archive
    from bridge.quality.check import Checkup, Checkups


CheckedArgument = Annotated[
    list[str] | None,
    typer.Argument(
        help="Files, folders, URIs, episode ids (default: all of the archive).", parser=named_place, metavar="PATHS..."
    ),
]


@reported()
def check(
    paths: CheckedArgument = None,
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
        skipped = not cameras and _has_cameras(opened)
    flagged = [one for one in done if one.findings]
    shown = sorted(done if every else flagged, key=lambda one: (-one.worst, one.path))
    if as_json:
        from bridge.present.findings import present_checkup

        compared = len(done) - len(done.alone)
        counts = {"checked": len(done), "compared": compared, "flagged": len(flagged)}
        print_items(map(present_checkup, shown), **counts, unread=dict(done.unread))
    else:
        rows = [row for one in shown for row in _rows(one)]
        if rows:
            print_table(("episode", "check", ">score", "reason", "~file"), rows[:limit])
        if len(rows) > limit:
            typer.echo(f"{limit} of {len(rows)} rows, worst first (--limit or --json for more)")
        typer.echo(_summary(done, len(flagged)))
        if cameras:
            typer.echo(
                f"cameras of {plural(done.seen, 'episode')}: frames of {done.decoded} decoded, others measured before"
            )
    if skipped and not as_json:
        typer.echo("cameras were not checked: --cameras does", err=True)
    if done.unsaved is not None:
        typer.echo(f"not saved in the archive: {printable(str(done.unsaved))}", err=True)
    if flagged:
        raise typer.Exit(EXIT_FAILED)


def _has_cameras(opened: Archive) -> bool:
    from bridge.episodes.pictures import is_camera

    return any(is_camera(lane) for layout in opened.catalog.query.layouts() for lane in layout.lanes)


def _summary(done: Checkups, flagged: int) -> str:
    """Return how many are flagged, and where few are alike by what they were checked, and by what not."""
    alone = done.alone
    if not alone:
        return f"{flagged} of {len(done)} episodes flagged"
    ran = [name for name in CHECKS if any(name in one.scores for one in alone)]
    others = ", ".join(name for name in CHECKS if name not in ran)
    found = f"{flagged} of {len(done)} episodes flagged" if flagged else "nothing found that is certain"
    few = f"{plural(len(alone), 'episode')} with fewer than {MIN_EPISODES} alike"
    return f"{found}\n{few}: checked for what is certain of {', '.join(ran)}; not checked: {others}"


def _rows(one: Checkup) -> list[tuple[str, ...]]:
    name, place = one.episode_id or Path(str(one.address)).name, shorten(str(one.address))
    if not one.findings:
        return [(name, "", f"{one.worst:.3g}", "", place)]
    return [(name, found.check, f"{one.scores[found.check]:.3g}", found.reason, place) for found in one.findings]
