"""The verbs about files: inspect, verify, repair, cat, recover.

Exit codes: 0 fine, 1 an error or a failed check, 2 wrong usage, 130 interrupted. Verbs import what they need, so that
`--help` is quick.
"""

from __future__ import annotations

import os
import time
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wshard.cli.common import (
    EXIT_FAILED,
    JsonOption,
    option_read,
    parse_span,
    print_items,
    print_json,
    printable,
    reported,
)
from wshard.errors import StepError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wshard.repair.repair import RepairReport


SUFFIXES = (".wshard", ".shard")
_TELL_SECONDS = 2.0  # between lines of progress


app = typer.Typer(
    help="Look at episode files.", no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False
)


# ---- inspect -------------------------------------------------------------------------------------------------------


@app.command()
@reported()
def inspect(
    path: Annotated[Path, typer.Argument(help="An episode file, or any Shard container.")],
    as_json: JsonOption = False,
) -> None:
    """Show what a file holds: the episode, and the tree of lanes with dtype, shape, codec, size and checksum."""
    from wshard.cli.inspect_text import print_report
    from wshard.repair.inspect import inspect_file

    report = inspect_file(path)
    if as_json:
        print_json(report)
    else:
        print_report(report)


# ---- verify --------------------------------------------------------------------------------------------------------


@app.command()
@reported()
def verify(
    paths: Annotated[list[Path], typer.Argument(help="Files, and folders to search for them.")],
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Fail, too, where a defect was read around, or a block has no checksum."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check every file whole.

    That is: header and index against the file; that every block decodes to its size and has its checksum; names
    against their hashes; that each lane of an episode has its declared dtype and length; the JSON section; and the
    chunks and files that a manifest names.
    """
    for path in paths:
        path.stat()  # one that is not there is told before others are read
    files = sorted({file for path in paths for file in _files(path)})
    if not files:
        typer.echo(f"error: nothing to check: no {' or '.join(SUFFIXES)} file there", err=True)
        raise typer.Exit(EXIT_FAILED)
    results, reported_at = [], time.monotonic()
    for number, file in enumerate(files, 1):
        results.append(_check(file, strict=strict))
        if not as_json:
            _print_result(results[-1])
        if time.monotonic() - reported_at >= _TELL_SECONDS:
            reported_at = time.monotonic()
            typer.echo(f"checked {number} of {len(files)} files", err=True)
    failed = sum(bool(result["problems"]) for result in results)
    if as_json:
        print_items(results, failed=failed)
    elif len(files) > 1:
        typer.echo(f"{len(files) - failed} of {len(files)} file(s) are fine")
    if failed:
        raise typer.Exit(EXIT_FAILED)


def _files(path: Path) -> Iterator[Path]:
    """Yield the files to check below a path; folders that cannot be read too, and links and pipes that are no files."""
    if not path.is_dir():
        yield path
        return
    seen, unread, left = set[str](), list[Path](), [path]
    while left:  # links last, so that files have their own names
        for place, folders, names in os.walk(left.pop(0), onerror=lambda error: unread.append(Path(error.filename))):
            real = os.path.realpath(place)
            if real in seen:  # links lead to a folder again, or round in circles
                folders.clear()
                continue
            seen.add(real)
            inside = Path(place)
            left += [inside / name for name in folders if (inside / name).is_symlink()]
            yield from (inside / name for name in names if Path(name).suffix in SUFFIXES)
    yield from unread


def _check(path: Path, *, strict: bool) -> dict[str, Any]:
    import shlex

    from wshard.repair.inspect import check_file, is_repairable

    count, found = check_file(path, strict=strict)
    problems = [{"block": block, "error": error} for block, error in found.items()]
    help_ = f"wshard repair {shlex.quote(str(path))}" if found and is_repairable(path) else None
    return {"path": str(path), "blocks": count, "problems": problems, "repair": help_}


def _print_result(result: dict[str, Any]) -> None:
    from wshard.repair.inspect import PARTS

    path, blocks, problems = printable(result["path"]), result["blocks"], result["problems"]
    for problem in problems:
        name = problem["block"]
        typer.echo(f"FAIL  {name if name in PARTS else repr(name)}: {printable(problem['error'])}")
    if problems:
        typer.echo(f"FAIL  {len(problems)} problem(s) in {blocks} block(s)  {path}")
    else:
        typer.echo(f"OK    {blocks} block(s) verified  {path}")
    if result["repair"]:
        typer.echo(f"      try: {printable(result['repair'])}")


# ---- repair --------------------------------------------------------------------------------------------------------


@app.command()
@reported()
def repair(
    path: Annotated[Path, typer.Argument(help="A damaged file.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Default: NAME.repaired.SUFFIX.")] = None,
    in_place: Annotated[bool, typer.Option("--in-place", help="Replace the file; it stays as FILE.bak.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Restore an interleaved stream exactly, or save every block of a damaged file that is proved whole."""
    from wshard.repair.repair import repair as repair_file

    if output is not None and in_place:
        raise typer.BadParameter("expected --output or --in-place, not both")
    report = repair_file(path, output, in_place=in_place)
    if as_json:
        print_json(asdict(report))
    else:
        _print_repair(report)
    if not report.complete:
        raise typer.Exit(EXIT_FAILED)


def _print_repair(report: RepairReport) -> None:
    if report.output is None:
        typer.echo(f"intact     {printable(report.path)}: nothing to repair")
        return
    for name, reason in report.lost.items():
        typer.echo(f"LOST       {name!r}: {printable(reason)}")
    for note in report.notes:
        typer.echo(f"note       {printable(note)}")
    for name in report.unchecked:
        typer.echo(f"unchecked  {name!r} has no checksum")
    if report.damage == "interleaved":
        how = "an interleaved stream, restored exactly"
    else:
        how = f"{len(report.kept)} block(s) kept, {len(report.lost)} lost"
    typer.echo(f"repaired   {printable(report.output)}  ({how})")
    if report.backup:
        typer.echo(f"backup     {printable(report.backup)}")


# ---- cat -----------------------------------------------------------------------------------------------------------


class LaneFormat(StrEnum):
    """How `wshard cat` writes a lane."""

    NPY = "npy"
    CSV = "csv"
    JSON = "json"


@app.command()
@reported()
def cat(
    path: Annotated[Path, typer.Argument(help="An episode file, a manifest of chunks, or PATH#KEY.")],
    lane: Annotated[str, typer.Argument(help="A lane: the block's name, or an observation's id.")],
    span: Annotated[str | None, typer.Option(help="Only timesteps START:STOP.")] = None,
    form: Annotated[
        LaneFormat | None, typer.Option("--format", "-f", help="npy, csv or json; default: as --output tells, or csv.")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A file instead of stdout.")] = None,
) -> None:
    """Write a lane, or some timesteps of it, as .npy, CSV or JSON."""
    from wshard.cli.lane_output import as_csv, as_json, as_npy
    from wshard.container.atomic_write import publish
    from wshard.open import open_episode

    start, stop = parse_span(span)
    if output is not None and output.resolve() == path.resolve():
        raise typer.BadParameter(f"--output: expected another file than {output}, which is read")
    form = form or _lane_format(output)
    with open_episode(str(path)) as file:
        if not start <= (file.length if stop is None else stop) <= file.length:
            raise StepError(f"{path}: --span: expected timesteps within 0:{file.length}, found {span}")
        array = file.lane_view(lane, verify=True)[start:stop]
        if form is LaneFormat.NPY:
            data = as_npy(array)
        elif form is LaneFormat.CSV:
            data = as_csv(array, start).encode()
        else:
            about = {"lane": lane, "dtype": str(array.dtype), "span": [start, start + len(array)]}
            data = as_json(array, about).encode()
    if output is None:
        typer.echo(data, nl=False)
    else:
        with publish(output) as target:
            target.write(data)


def _lane_format(output: Path | None) -> LaneFormat:
    """Return the format that a file's suffix tells, CSV for none; raises typer.BadParameter for any other suffix."""
    suffix = "" if output is None else output.suffix.removeprefix(".").lower()
    if suffix in ("", "txt"):
        return LaneFormat.CSV
    if suffix not in list(LaneFormat):
        raise typer.BadParameter(f"--output: expected a .npy, .csv or .json file, or --format, found {output}")
    return LaneFormat(suffix)


# ---- recover -------------------------------------------------------------------------------------------------------


@app.command()
@reported()
def recover(
    partial: Annotated[Path, typer.Argument(help="The .partial file of a recording that was killed.")],
    compression: Annotated[str, typer.Option(help="none, zstd, lz4 or zstd:LEVEL.")] = "none",
) -> None:
    """Turn what a killed recording left behind into an episode file of all its flushed timesteps."""
    from wshard.container.codec import Codec
    from wshard.episode.file import EpisodeFile
    from wshard.messages import plural
    from wshard.recording.recover import recover as recover_partial

    with option_read():
        Codec.parse(compression)
    path = recover_partial(partial, compression=compression)
    with EpisodeFile(path) as episode:
        typer.echo(f"recovered  {printable(str(path))}  ({plural(episode.length, 'timestep')})")
