"""The command `export`, and helpers shared by commands that convert."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from wshard.cli.common import (
    EXIT_FAILED,
    EXIT_USAGE,
    LayoutOption,
    named_path,
    option_read,
    printable,
    reading_options,
    reported,
)
from wshard.core.messages import plural

_ALIASES: Final = {"shard": "wshard", "dreamer": "dreamerv3", "npz": "dreamerv3"}

CompressionOption = Annotated[str, typer.Option(help="Compression of episode files: none, zstd, lz4 or zstd:LEVEL.")]


def format_named(name: str | None) -> str:
    """Return the canonical name of a format given by name or alias, "" for none."""
    lower = (name or "").lower()
    return _ALIASES.get(lower, lower if ":" not in lower else name or "")


@reported()
def export(
    path: Annotated[Path, typer.Argument(help="File to read.", parser=named_path, metavar="PATH")],
    format_name: Annotated[str, typer.Option("--format", "-f", help="Format to write; see `wshard formats`.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="File or folder to write (default: PATH with the suffix of the format, none for a folder).",
            parser=named_path,
            metavar="PATH",
        ),
    ] = None,
    compression: CompressionOption = "none",
    layout: LayoutOption = None,
) -> None:
    """Write an episode in another format next to its file, or to --output; the file itself is never overwritten."""
    from wshard.core.container.codec import Codec
    from wshard.formats.npz import npz_path
    from wshard.formats.table import FORMATS
    from wshard.training.conversion.jobs import list_jobs
    from wshard.training.conversion.location import convert_jobs
    from wshard.training.conversion.target import ConversionTarget

    with option_read():
        Codec.parse(compression)
        chosen_format = format_named(format_name)
        suffix = FORMATS[chosen_format].suffix if chosen_format in FORMATS else path.suffix
        output_path = output or path.with_suffix(suffix)
        named = npz_path(str(output_path)) if suffix == ".npz" and not output_path.is_dir() else output_path
        target = ConversionTarget.of(named, chosen_format, compression=compression)
    if path.is_dir():
        raise typer.BadParameter(f"expected a file, found a folder: `wshard convert {path} OUT` takes all its episodes")
    if path.exists() and path.resolve() in (output_path.resolve(), Path(target.location).resolve()):
        typer.echo(f"error: {printable(str(path))} would be overwritten by its own export: choose --output", err=True)
        raise typer.Exit(EXIT_USAGE)
    report = convert_jobs(list_jobs([path], reading_options("", layout)), target)
    for _, error in report.failed:
        typer.echo(f"error: {printable(str(error))}", err=True)
    if report.failed:
        raise typer.Exit(EXIT_FAILED)
    count_text = f", {plural(len(report.outcomes), 'episode')}" if len(report.outcomes) > 1 else ""
    typer.echo(f"exported  {printable(str(path))}  ->  {printable(target.location)}  ({chosen_format}{count_text})")
