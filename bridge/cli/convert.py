"""The verbs `convert`, episodes of any readable format into any that is written, and `formats`, which lists these."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from bridge.cli.options import ChosenCollectionOption, ChosenWhereOption, ReadersOption, SourceFormatOption
from bridge.cli.output import print_files
from catalog.cli.common import ArchiveOption, print_table
from wshard.cli.common import (
    EXIT_FAILED,
    ActionColumnsOption,
    EpisodeColumnOption,
    JsonOption,
    LayoutOption,
    TimeColumnOption,
    local_place,
    option_read,
    print_items,
    print_json,
    printable,
    reading_options,
    reported,
)
from wshard.cli.convert import CompressionOption, format_named
from wshard.core.messages import how_to_install, plural

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Mapping, Sequence

    from bridge.support.progress import Progress
    from wshard.core.episode.protocol import EpisodeSpan
    from wshard.training.conversion.jobs import ConversionJob
    from wshard.training.conversion.location import ConversionReport
    from wshard.training.conversion.target import ConversionTarget

_SHOWN: Final = 20  # failures and losses by name

MapOption = Annotated[
    list[str] | None, typer.Option("--map", metavar="OLD=NEW", help="Rename a lane: 'observation.state=state'.")
]
WithoutOption = Annotated[
    list[str] | None, typer.Option("--without", metavar="LANE", help="Leave a lane out of all episodes: 'reward'.")
]
ModeOption = Annotated[
    Literal["append", "overwrite", "error"] | None,
    typer.Option(help="If OUT has episodes: append missing ones (default, if OUT stores ids), replace all, or fail."),
]
EncodeOption = Annotated[
    str | None,
    typer.Option(help="Encode camera lanes stored as pixels: jpeg, jpeg:QUALITY, png, h264, h264:RATE_FACTOR or av1."),
]


@reported("the target is unchanged, or has complete episode files; run the same command again to continue")
def convert(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="IN... OUT",
            help="Files and folders to read (PATH#KEY or PATH#KEY@START:STOP for a part), then the path to write.",
        ),
    ],
    source_format: SourceFormatOption = None,
    target_format: Annotated[
        str | None, typer.Option("--to", help="Format of OUT (default: from its suffix; wshard for a folder).")
    ] = None,
    layout: LayoutOption = None,
    episode_column: EpisodeColumnOption = None,
    time_column: TimeColumnOption = None,
    actions: ActionColumnsOption = None,
    lane_map: MapOption = None,
    without: WithoutOption = None,
    collection: ChosenCollectionOption = None,
    where: ChosenWhereOption = None,
    archive: ArchiveOption = None,
    mode: ModeOption = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail, and write nothing, if the format of OUT would lose data.")
    ] = False,
    compression: CompressionOption = "none",
    encode: EncodeOption = None,
    workers: ReadersOption = 1,
) -> None:
    """Convert episodes between formats; `wshard formats` lists which can be read and written."""
    from wshard.core.container.codec import Codec
    from wshard.core.episode.camera_encoding import CameraEncoding
    from wshard.formats.lane_map import encode_lane_map
    from wshard.training.conversion.jobs import list_jobs
    from wshard.training.conversion.target import ConversionTarget

    chosen = collection is not None or where is not None
    if len(paths) < (1 if chosen else 2) or (chosen and len(paths) > 1):
        raise typer.BadParameter("expected IN... OUT, or OUT alone with --collection or --where")
    columns = {"episode": episode_column, "time": time_column, "actions": actions}
    how = reading_options(format_named(source_format), layout, columns=columns)
    with option_read():
        renamed = encode_lane_map(lane_map or ())
        Codec.parse(compression)
        if encode is not None:
            CameraEncoding.parse(encode)
        target = ConversionTarget.of(
            local_place(paths[-1]), format_named(target_format) or None, compression=compression, mode=mode
        )
    target = replace(target, encode=encode, lane_map=renamed, without=(*(without or ()),))
    places = chosen_spans(archive, collection, where, to=target.format) if chosen else paths[:-1]
    jobs = list_jobs(places, how, remembered=remembered_in(archive))
    _print_outcome(paths, _run(jobs, target, strict=strict, workers=workers))


def _run(jobs: Sequence[ConversionJob], target: ConversionTarget, *, strict: bool, workers: int) -> ConversionReport:
    """Convert the jobs in processes where the target allows that, else reading ahead in threads."""
    from bridge.support.progress import show_progress
    from bridge.support.workers import workers as start_workers
    from wshard.training.conversion.location import convert_jobs

    with ExitStack() as stack:
        progress = _ShownConversion(stack.enter_context(show_progress()), len(jobs))
        each = stack.enter_context(start_workers(workers)).each if target.is_separable and workers > 1 else None
        return convert_jobs(jobs, target, strict=strict, workers=workers, progress=progress, each=each)


class _ShownConversion:
    """Shows losses and a bar."""

    def __init__(self, progress: Progress, count: int) -> None:
        self._progress = progress
        progress.stage("converting", count)

    def show_losses(self, losses: Counter[str]) -> None:
        """Print the most common ones."""
        for loss, count in losses.most_common(_SHOWN):
            sys.stderr.write(f"lossy: {printable(loss)} ({plural(count, 'episode')})\n")

    def advance(self, count: int) -> None:
        """Move the bar."""
        self._progress.advance(count)


def chosen_spans(archive: str | None, collection: str | None, where: str | None, *, to: str = "") -> list[EpisodeSpan]:
    """Return the episodes and spans of a collection, or those that pass a filter; SourceNotFoundError for none.

    to: the format to write; raises FormatError if it cannot take them together.
    """
    from bridge.episodes.chosen_spans import find_spans
    from catalog.cli.common import open_catalog, report_unknown
    from catalog.location import archive_named
    from wshard.errors import SourceNotFoundError

    with open_catalog(archive_named(archive)) as opened:
        report_unknown(opened, where)
        spans = find_spans(opened, collection=collection, where=where, to=to)
    if not spans:
        chosen = f"passes the filter {where!r}" if collection is None else f"is in the collection {collection!r}"
        raise SourceNotFoundError(f"no episode {chosen}")
    return spans


def remembered_in(archive: str | None) -> Callable[[Sequence[str]], Mapping[str, str]]:
    """Return a function that returns how an archive, if there is one, reads locations: `remembered` of list_jobs."""
    from catalog.cli.common import open_catalog
    from catalog.location import DATABASE, archive_named

    def find(paths: Sequence[str]) -> Mapping[str, str]:
        named = archive_named(archive)
        if archive is None and isinstance(named, Path) and not os.path.isfile(named / DATABASE):  # noqa: PTH113  (Path.is_file can raise)
            return {}
        with open_catalog(named) as opened:
            return opened.episodes.read_as(paths)

    return find


def _print_outcome(paths: Sequence[str], report: ConversionReport) -> None:
    print_files("error", report.reasons, rest="")
    for job in report.renamed[:_SHOWN]:
        typer.echo(f"renamed: {printable(f'{job.span.address}: written as {job.written_as}')}", err=True)
    if report.renamed:
        sys.stderr.write(f"{plural(len(report.renamed), 'episode')} renamed: there is another one with the same id\n")
    counts = [plural(report.converted, "episode"), plural(report.timesteps, "timestep")]
    counts += [f"{report.skipped} already there"] if report.skipped else []
    counts += [f"{len(report.failed)} failed"] if report.failed else []
    named = " ".join(paths[:-1]) or "the archive's episodes"
    typer.echo(
        f"converted  {printable(named)}  ->  {printable(paths[-1])}  ({report.target.format}: {', '.join(counts)})"
    )
    if report.failed:
        raise typer.Exit(EXIT_FAILED)


# ---- which formats there are -----------------------------------------------------------------------------------------


@reported()
def formats(
    name: Annotated[str | None, typer.Argument(help="Show how the fields of this format are mapped.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List the episode formats: which can be read or written, and the packages each requires."""
    from wshard.formats.base import describe_format
    from wshard.formats.table import FORMATS

    rows = [describe_format(one) for one in ([name] if name else FORMATS)]
    if name and as_json:
        print_json(rows[0])
    elif name:
        _print_format(rows[0])
    elif as_json:
        print_items(rows)
    else:
        cells = [[row["format"], _access(row), row["needs"], row["about"]] for row in rows]
        print_table(("format", "", "needs", "what it is"), cells, whole=True)


def _access(row: dict[str, Any]) -> str:
    return ", ".join(access for access in ("read", "written") if row[access])


def _print_format(row: dict[str, Any]) -> None:
    typer.echo(f"{row['format']}: {row['about']} ({_access(row)})")
    if row["needs"]:
        typer.echo(f"needs: {how_to_install(row['needs'])}")
    if row["meaning"]:
        typer.echo("")
        print_table(("field", "becomes"), [list(pair) for pair in row["meaning"]], whole=True)
    for limit in row["cannot_hold"]:
        typer.echo(f"cannot hold: {limit}")
