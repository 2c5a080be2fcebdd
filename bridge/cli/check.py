"""The verb that checks episodes: check."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bridge.cli.output import LimitOption
from catalog.cli.common import ArchiveOption, WhereOption, open_catalog, print_table, shorten
from wshard.cli.common import EXIT_FAILED, JsonOption, print_items, printable, reported

if TYPE_CHECKING:
    from wshard.quality.thresholds import Limits

LimitsOption = Annotated[
    Path | None, typer.Option("--limits", help="TOML or JSON with limits of the checks, e.g. spike = 8.")
]
CheckOption = Annotated[bool, typer.Option("--check/--no-check", help="Run quality checks (`wshard check`).")]


def limits_of(path: Path | None) -> Limits:
    """Return the limits of the checks that a file gives, or those that are usual."""
    from wshard.quality.thresholds import DEFAULT_LIMITS, read_limits

    return DEFAULT_LIMITS if path is None else read_limits(path)


@reported()
def check(
    paths: Annotated[list[Path] | None, typer.Argument(help="Files and folders (default: the whole archive).")] = None,
    where: WhereOption = None,
    limits: LimitsOption = None,
    every: Annotated[bool, typer.Option("--all", help="List the episodes without findings too.")] = False,
    workers: Annotated[int, typer.Option(min=1, help="Processes that read.")] = 1,
    limit: LimitOption = 50,
    archive: ArchiveOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check episodes: checksums, clock, NaN, frozen and clipped channels, spikes, stalls, lag; 1 if any is flagged."""
    from bridge.quality.check import check_episodes
    from bridge.support.progress import watched

    if paths and where is not None:
        raise typer.BadParameter("name files, or choose catalogued episodes by --where")
    wanted = limits_of(limits)
    with open_catalog(archive) as catalog, watched() as progress:
        done = check_episodes(
            catalog, paths or (), where=where or "", limits=wanted, workers_count=workers, progress=progress
        )
    flagged = [one for one in done if one.findings]
    shown = sorted(done if every else flagged, key=lambda one: (-one.worst, one.path))
    if as_json:
        print_items(map(_as_json, shown), checked=len(done), flagged=len(flagged))
    else:
        rows = [row for one in shown for row in _as_rows(one)]
        if rows:
            print_table(("episode", "check", ">score", "reason", "/file"), rows[:limit])
        if len(rows) > limit:
            typer.echo(f"{limit} of {len(rows)} rows, the worst first; --limit and --json show more")
        typer.echo(f"{len(flagged)} of {len(done)} episodes flagged")
    if done.unkept is not None:
        typer.echo(f"not kept in the archive: {printable(str(done.unkept))}", err=True)
    if flagged:
        raise typer.Exit(EXIT_FAILED)


def _as_rows(one: Any) -> list[tuple[str, ...]]:
    name, place = one.episode_id or Path(one.path).name, shorten(str(one.address))
    if not one.findings:
        return [(name, "", f"{one.worst:.3g}", "", place)]
    return [(name, found.check, f"{one.scores[found.check]:.3g}", found.reason, place) for found in one.findings]


def _as_json(one: Any) -> dict[str, Any]:
    findings = [{"check": found.check, "reason": found.reason} for found in one.findings]
    return {
        "path": one.path,
        "key": one.key,
        "address": str(one.address),
        "episode_id": one.episode_id,
        "uid": one.uid,
        "scores": dict(one.scores),
        "findings": findings,
    }
