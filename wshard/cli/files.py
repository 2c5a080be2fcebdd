"""The commands for files: inspect, verify, repair, cat, recover."""

from __future__ import annotations

import time
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wshard.cli.common import (
    EXIT_FAILED,
    JsonOption,
    LayoutOption,
    named_path,
    named_place,
    option_read,
    output_option,
    parse_span,
    print_items,
    print_json,
    printable,
    reading_options,
    reported,
)

if TYPE_CHECKING:
    from wshard.core.repair.report import RepairReport


_REPORT_SECONDS = 2.0  # between lines of progress


LocationsArgument = Annotated[
    list[str],
    typer.Argument(
        help="Files, folders, locations of any format, PATH#KEY, URIs.", parser=named_place, metavar="PATHS..."
    ),
]

app = typer.Typer(
    help="Inspect, verify and repair episode files.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


@app.command()
@reported()
def inspect(
    location: Annotated[
        str,
        typer.Argument(help="File, location of any format, PATH#KEY, or a URI.", parser=named_place, metavar="PATH"),
    ],
    layout: LayoutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the contents of a file: the episode, and its lanes with dtype, shape, codec, size and checksum.

    Lists the episodes of a location that has several, and the locations below any other folder; PATH#KEY or
    PATH#KEY@START:STOP selects one.
    """
    from wshard.cli.episodes import inspect_episodes, list_foreign, list_objects
    from wshard.cli.inspect_text import print_report
    from wshard.cli.shardpack import inspect_pack
    from wshard.core.files.schemes import scheme_of
    from wshard.core.repair.inspect import inspect_file
    from wshard.training.conversion.jobs import list_jobs
    from wshard.training.shardpack.inspect import is_shardpack
    from wshard.training.shardpack.shards import ShardNames

    path, is_uri = Path(location), bool(scheme_of(location))
    if not is_uri and (is_shardpack(path) or (not path.exists() and ShardNames.parse(path).first is not None)):
        inspect_pack(path, as_json=as_json)
        return
    how, unread = reading_options("", layout), dict[str, str]()
    if is_uri:
        jobs = list_objects(location, how, unread)
    else:
        jobs = list_jobs([path], how, unread=unread) if how or path.is_dir() else list_foreign(path)
    if jobs is not None:
        inspect_episodes(location, jobs, unread if as_json else None, is_stated=bool(how))
        return
    report = inspect_file(location)
    if as_json:
        print_json(report)
    else:
        print_report(report)


@app.command()
@reported()
def verify(
    locations: LocationsArgument,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Also fail on tolerated defects and on blocks without a checksum."),
    ] = False,
    layout: LayoutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Verify the integrity of files; exit 1 if any fails.

    Checks header and index, size and checksum of every block, hashes of block names, declared dtype and length of
    every lane, the JSON section, and the chunks and files that a manifest lists. Episodes in other
    formats are read and decoded completely. What cannot be read stops no other file.
    """
    from wshard.cli.verified_files import list_checks, print_result

    how, unread = reading_options("", layout), dict[str, str]()
    results, checks = list_checks(locations, how, unread)
    reported_at = time.monotonic()
    for result in [] if as_json else results:
        print_result(result)
    for number, check in enumerate(checks, 1):
        results.append(check(strict=strict))
        if not as_json:
            print_result(results[-1])
        if time.monotonic() - reported_at >= _REPORT_SECONDS:
            reported_at = time.monotonic()
            typer.echo(f"checked {number} of {len(checks)} files", err=True)
    failed = sum(bool(result["problems"]) for result in results)
    if as_json:
        print_items(results, failed=failed, unread=unread)
    elif len(results) > 1:
        what = "episodes" if any("#" in result["path"] for result in results) else "files"
        typer.echo(f"{len(results) - failed} of {len(results)} {what} OK")
    if failed:
        raise typer.Exit(EXIT_FAILED)


@app.command()
@reported()
def repair(
    path: Annotated[Path, typer.Argument(help="Damaged file.", parser=named_path, metavar="PATH")],
    output: Annotated[Path | None, output_option("File to write (default: NAME.repaired.SUFFIX).")] = None,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Replace the file; the original is kept as FILE.bak.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Restore an interleaved stream exactly, or recover every intact block or record of a damaged .wshard file."""
    from wshard.cli.verified_files import check_repairable
    from wshard.core.repair.repair import repair_file
    from wshard.training.shardpack.inspect import is_shardpack
    from wshard.training.shardpack.repair import repair_shardpack

    if output is not None and in_place:
        raise typer.BadParameter("expected --output or --in-place, not both")
    check_repairable(path)
    report = (repair_shardpack if is_shardpack(path) else repair_file)(path, output, in_place=in_place)
    if as_json:
        print_json(asdict(report))
    else:
        _print_repair(report)
    if not report.complete:
        raise typer.Exit(EXIT_FAILED)


def _print_repair(report: RepairReport) -> None:
    from wshard.training.shardpack.inspect import is_shardpack

    if report.output is None:
        typer.echo(f"intact     {printable(report.path)}: nothing to repair")
        return
    for name, reason in report.unrecovered.items():
        typer.echo(f"LOST       {name!r}: {printable(reason)}")
    for note in report.notes:
        typer.echo(f"note       {printable(note)}")
    for name in report.unchecked:
        typer.echo(f"unchecked  {name!r} has no checksum")
    if report.damage == "interleaved":
        result = "an interleaved stream, restored exactly"
    else:
        unit = "record" if is_shardpack(Path(report.path)) else "block"
        result = f"{len(report.recovered)} {unit}(s) recovered, {len(report.unrecovered)} lost"
    typer.echo(f"repaired   {printable(report.output)}  ({result})")
    if report.backup:
        typer.echo(f"backup     {printable(report.backup)}")


class LaneFormat(StrEnum):
    """The output formats of `wshard cat`."""

    NPY = "npy"
    CSV = "csv"
    JSON = "json"


@app.command()
@reported()
def cat(
    path: Annotated[
        str,
        typer.Argument(
            help="Episode file, manifest of chunks, PATH#KEY[@START:STOP], URI.", parser=named_place, metavar="PATH"
        ),
    ],
    lane: Annotated[str, typer.Argument(help="Lane: block name or observation id.")],
    span: Annotated[str | None, typer.Option(help="Timesteps START:STOP.")] = None,
    form: Annotated[
        LaneFormat | None,
        typer.Option("--format", "-f", help="Format (default: from the suffix of --output, else csv)."),
    ] = None,
    output: Annotated[Path | None, output_option("File to write (default: stdout).")] = None,
    layout: LayoutOption = None,
) -> None:
    """Write a lane, or a span of it, as .npy, CSV or JSON."""
    from wshard.cli.episodes import resolve_steps
    from wshard.cli.lane_output import FIRST_BYTES, as_csv, as_json, as_npy
    from wshard.core.channel_names import channel_labels
    from wshard.core.container.atomic_write import check_replaceable, publish
    from wshard.core.episode.protocol import EpisodeSpan
    from wshard.formats.open import open_episode

    episode_span = EpisodeSpan.parse(path)
    if span is not None:
        if (episode_span.start, episode_span.stop) != (0, None):
            raise typer.BadParameter("expected --span or @START:STOP, not both")
        episode_span = EpisodeSpan(episode_span.address, *parse_span(span))
    if output is not None and output.resolve() == Path(episode_span.address.uri).resolve():
        raise typer.BadParameter(f"--output: {output} is the file that is read; choose another one")
    form = form or _lane_format(output)
    if output is not None:
        check_replaceable(output, f"an earlier lane as {form}", FIRST_BYTES[form])
    with open_episode(episode_span.address, format_name=reading_options("", layout)) as episode:
        start, stop = resolve_steps(episode_span, episode.length)
        view = episode.lane_view(lane, verify=True)
        array = view[start:stop]
        if form is LaneFormat.NPY:
            data = as_npy(array)
        elif form is LaneFormat.CSV:
            data = as_csv(array, start, channel_labels(view.declaration)).encode()
        else:
            metadata = {"lane": lane, "dtype": str(array.dtype), "span": [start, start + len(array)]}
            data = as_json(array, metadata).encode()
    if output is None:
        typer.echo(data, nl=False)
    else:
        with publish(output) as target:
            target.write(data)


def _lane_format(output: Path | None) -> LaneFormat:
    """Return the format for a file's suffix, CSV for none; raises typer.BadParameter for any other suffix."""
    suffix = "" if output is None else output.suffix.removeprefix(".").lower()
    if suffix in ("", "txt"):
        return LaneFormat.CSV
    if suffix not in list(LaneFormat):
        raise typer.BadParameter(f"--output: expected a .npy, .csv or .json file, or --format, found {output}")
    return LaneFormat(suffix)


@app.command()
@reported()
def recover(
    partial: Annotated[
        Path,
        typer.Argument(help="The .partial file of an interrupted recording.", parser=named_path, metavar="PARTIAL"),
    ],
    compression: Annotated[str, typer.Option(help="Compression: none, zstd, lz4 or zstd:LEVEL.")] = "none",
) -> None:
    """Recover an episode file with all flushed timesteps from an interrupted recording."""
    from wshard.core.container.codec import Codec
    from wshard.core.episode.file import EpisodeFile
    from wshard.core.messages import plural
    from wshard.core.recording.recover import recover as recover_partial

    with option_read():
        Codec.parse(compression)
    path = recover_partial(partial, compression=compression)
    with EpisodeFile(path) as episode:
        typer.echo(f"recovered  {printable(str(path))}  ({plural(episode.length, 'timestep')})")
