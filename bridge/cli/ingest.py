"""The verbs that bring episodes into an archive: ingest, watch."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections import Counter
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from bridge.cli import options
from bridge.cli.output import print_files
from catalog.cli.common import ArchiveOption
from wshard.cli.common import (
    EXIT_FAILED,
    ActionColumnsOption,
    EpisodeColumnOption,
    JsonOption,
    LayoutOption,
    TimeColumnOption,
    named_path,
    named_place,
    print_json,
    printable,
    reading_options,
    reported,
)
from wshard.core.episode.protocol import OWN_FORMAT, EpisodeAddress
from wshard.core.messages import plural

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bridge.ingest.report import IngestReport

_SUFFIXES: Final = 5  # listed by name
_WATCHED: Final = ("new", "changed", "moved", "unchanged", "embedded", "tasks")


@reported("committed work is kept; run the same command again to resume")
def ingest(
    paths: Annotated[
        list[str],
        typer.Argument(
            help="Episode files, locations of other formats (PATH, or PATH#KEY for one episode), folders to search.",
            parser=named_place,
            metavar="PATHS",
        ),
    ],
    archive: ArchiveOption = None,
    format_name: Annotated[
        str, typer.Option("--format", help="Format of the locations, if it is ambiguous; see `wshard formats`.")
    ] = "",
    layout: LayoutOption = None,
    episode_column: EpisodeColumnOption = None,
    time_column: TimeColumnOption = None,
    actions: ActionColumnsOption = None,
    lane_map: Annotated[
        list[str] | None,
        typer.Option(
            "--map", metavar="OLD=NEW", help="Rename a lane: 'observation.state=state'. Applies to later runs, too."
        ),
    ] = None,
    index: options.IndexOption = None,
    embedder: options.EmbedderOption = None,
    lanes: options.LanesOption = None,
    windows: options.PlansOption = None,
    text_encoder: options.TextEncoderOption = None,
    workers: options.WorkersOption = 1,
    executor: options.ExecutorOption = "processes",
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove episodes below the given folders whose files are gone.")
    ] = False,
    check: options.CheckOption = True,
    limits: options.LimitsOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Prune even if a disk seems to be missing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Add episodes to an archive: catalog, embeddings, search index. Run it again to resume or update."""
    from bridge.support.progress import show_progress
    from catalog.location import DATABASE, archive_named, place_of

    named = archive_named(archive)
    plans = options.parse_plans(windows)
    exists = prune if isinstance(named, str) else os.path.exists(named / DATABASE)  # noqa: PTH110  (Path.exists can raise)
    columns = {"episode": episode_column, "time": time_column, "actions": actions}
    how = reading_options(format_name, layout, lane_map, columns)
    with show_progress() as progress:  # before what takes a second to import
        from bridge.ingest.ingestor import TrajectoryIngestor
        from bridge.ingest.text import load_text_encoder

        places = _read_places(paths, format_name, how, may_be_gone=exists)
        encoder = load_text_encoder(text_encoder)
        thresholds = options.read_quality_limits(limits) if check else None
        target, names = options.index_target(index, named), options.parse_lanes(lanes)
        with TrajectoryIngestor(target, embedder, lanes=names, archive=named, limits=thresholds) as ingestor:
            forget: bool | Literal["cautiously"] = (yes or "cautiously") if prune else False
            how_to: dict[str, Any] = {
                "windows": plans,
                "text_encoder": encoder,
                "workers_count": workers,
                "executor": executor,
            }
            report = ingestor.ingest(places, prune=forget, progress=progress, **how_to)
    if as_json:
        from bridge.present.reports import present_ingest

        print_json(present_ingest(report))
    else:
        _print_report(report, place_of(named).name)
    if not report.ok:
        raise typer.Exit(EXIT_FAILED)


def _read_places(paths: Sequence[str], format_name: str, how: str, *, may_be_gone: bool) -> list[EpisodeAddress]:
    """Return what to ingest; raises the errors that every path would have before an archive is made for nothing."""
    from bridge.episodes.discover import expect_episodes
    from wshard.formats.base import source_class

    if format_name:
        source_class(format_name)
    places = [replace(EpisodeAddress.parse(path), read_as=how) for path in paths]
    if not may_be_gone:
        expect_episodes(places)
    return places


@reported()
def watch(
    folders: Annotated[list[Path], typer.Argument(help="Folders.", parser=named_path, metavar="FOLDERS")],
    archive: ArchiveOption = None,
    index: options.IndexOption = None,
    embedder: options.EmbedderOption = None,
    lanes: options.LanesOption = None,
    windows: options.PlansOption = None,
    text_encoder: options.TextEncoderOption = None,
    workers: options.WorkersOption = 1,
    check: options.CheckOption = True,
    limits: options.LimitsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ingest new files in folders as soon as they are complete, until Ctrl-C; --json prints one line per batch."""
    from bridge.ingest.ingestor import TrajectoryIngestor
    from bridge.ingest.text import load_text_encoder
    from catalog.location import archive_named
    from wshard.errors import SourceNotFoundError

    named, begun, total = archive_named(archive), time.monotonic(), Counter[str]()
    plans = options.parse_plans(windows)
    if missing := [path for path in folders if not path.is_dir()]:
        raise SourceNotFoundError(f"no such folder: {missing[0]}")  # before an archive is created for nothing
    encoder, thresholds = load_text_encoder(text_encoder), options.read_quality_limits(limits) if check else None
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a service manager ends it like Ctrl-C does
    target, names = options.index_target(index, named), options.parse_lanes(lanes)
    with (
        TrajectoryIngestor(target, embedder, lanes=names, archive=named, limits=thresholds) as ingestor,
        contextlib.suppress(KeyboardInterrupt),
    ):
        typer.echo(f"watching {', '.join(map(str, folders))}", err=True)
        for report in ingestor.watch(folders, windows=plans, text_encoder=encoder, workers_count=workers):
            total.update({name: getattr(report, name) for name in _WATCHED}, failed=len(report.failed))
            _print_batch(report, as_json)
    typer.echo(f"{_summary(total)} in {time.monotonic() - begun:.0f} s", err=as_json)


def _print_batch(report: IngestReport, as_json: bool) -> None:
    if as_json:
        from bridge.present.reports import present_ingest

        typer.echo(json.dumps(present_ingest(report)))
        return
    print_files("replaced", [(one.path, str(one)) for one in report.replaced])
    print_files("failed", [(str(one.address), one.error) for one in report.failed])
    if report.delayed is not None:
        typer.echo(f"index delayed: {printable(report.delayed)}; the vectors are safe in the catalog", err=True)
    counts = {name: getattr(report, name) for name in _WATCHED}
    typer.echo(_summary({**counts, "failed": len(report.failed)}))


def _print_anomalies(report: IngestReport) -> None:
    """Print a line for each location with odd numbers."""
    for path, found in groupby(report.anomalies, key=lambda one: one.path):
        listed = "; ".join(map(str, found))
        typer.echo(printable(f"odd numbers, read as they are: {path}: {listed}"), err=True)


def _print_report(report: IngestReport, place: str) -> None:
    from bridge.present.reports import COUNTS
    from wshard.formats.base import OWN_DATA

    is_news = bool(report.new or report.changed or report.embedded)  # else it was said before
    if is_news:
        print_files("catalogued, not embedded", [(str(one.address), one.error) for one in report.unembedded])
    print_files("replaced", [(one.path, str(one)) for one in report.replaced])
    print_files("failed", [(str(one.address), one.error) for one in report.failed])
    _print_anomalies(report)
    if {*report.formats} - {OWN_FORMAT}:
        typer.echo(f"read as: {printable(_by_format(report.formats))}", err=True)
    if len(report.spaces) > 1 or report.unembedded:
        _print_compared(report)
    for line in report.picked if is_news else ():
        typer.echo(printable(line), err=True)
    for alike in report.alike if is_news else ():
        named = f"{alike.rare} and {alike.frequent} have one shape and scale, and no episode has both"
        typer.echo(printable(f"{named}: ingest with {alike} to compare them, if they mean the same"), err=True)
    _print_unread(report.unread)
    if report.skipped:
        typer.echo(f"skipped: {_by_suffix(report.skipped)}: unrecognized format; {OWN_DATA}", err=True)
    if report.delayed is not None:
        typer.echo(f"index delayed: {printable(report.delayed)}", err=True)
        typer.echo("the vectors are safe in the catalog; run the same command again to catch up", err=True)
    if report.unprepared is not None:
        typer.echo(
            f"neighbours or timesteps not stored yet, searches do so: {printable(report.unprepared)}",
            err=True,
        )
    if report.missing:
        typer.echo(
            "missing: catalogued files not found; `wshard fsck` lists them, --prune removes their episodes", err=True
        )
    counts = {name: getattr(report, name) for name in COUNTS}
    typer.echo(f"{printable(place)}: {_summary({**counts, 'failed': len(report.failed)})} in {report.seconds:.1f} s")


def _summary(counts: Mapping[str, int]) -> str:
    """Return "3 new, 3 embedded, 1 failed"; "nothing to do" where nothing but failures is counted."""
    counted = ", ".join(f"{count} {name}" for name, count in counts.items() if count and name != "failed")
    return (counted or "nothing to do") + (f", {counts['failed']} failed" if counts["failed"] else "")


def _print_unread(unread: Mapping[str, str]) -> None:
    """Print files of arrays and tables that nothing says how to read, or that need a library that is not installed."""
    from bridge.episodes.discover import NO_LAYOUT
    from wshard.formats.table import how_to_describe

    needing = Counter((Path(file).suffix.lower(), why) for file, why in unread.items() if why != NO_LAYOUT)
    for (suffix, why), count in needing.items():
        typer.echo(printable(f"{plural(count, f'{suffix} file')} not read: {why}"), err=True)
    if files := [file for file, why in unread.items() if why == NO_LAYOUT]:
        named = ", ".join(files[:_SUFFIXES]) + (", ..." if len(files) > _SUFFIXES else "")
        advice = printable(f"{named}; {how_to_describe(files[0])}")
        typer.echo(f"not read: {plural(len(files), 'file')} {NO_LAYOUT}: {advice}", err=True)


def _print_compared(report: IngestReport) -> None:
    """Print by which lanes how many episodes are compared, and how many by nothing."""
    parts = [f"{lanes}: {plural(count, 'episode')}" for lanes, count in report.spaces.items()]
    if report.unembedded:
        parts.append(f"nothing: {plural(len(report.unembedded), 'episode')} (wshard ls --where '-vectors:1..')")
    typer.echo(f"compared by {printable('; '.join(parts))}", err=True)
    if len(report.spaces) > 1:
        typer.echo("searches compare two episodes by the lanes that both have", err=True)


def _by_format(formats: Mapping[str, tuple[int, int]]) -> str:
    """Return "lerobot: 312 episodes of 3 locations; layout 'sb3-expert': 100 episodes of 1 location"."""
    from wshard.formats.layouts.named import describe_layout

    return "; ".join(
        f"{describe_layout(name)}: {plural(episodes, 'episode')} of {plural(locations, 'location')}"
        for name, (locations, episodes) in formats.items()
    )


def _by_suffix(skipped: Mapping[str, int]) -> str:
    """Return "12 .json, 3 .mp4", the most frequent first; all but the first few suffixes as one number."""
    named = [f"{count} {suffix or 'without suffix'}" for suffix, count in [*skipped.items()][:_SUFFIXES]]
    rest_count = sum([*skipped.values()][_SUFFIXES:])
    return printable(", ".join([*named, *([f"{rest_count} others"] if rest_count else [])]))
