"""The verbs `convert` and `export`: episodes from one format to another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from wshard.cli.common import EXIT_FAILED, EXIT_USAGE, option_read, printable, reported
from wshard.errors import WShardError
from wshard.messages import plural

_FORMATS: Final = {
    "wshard": "wshard",
    "shard": "wshard",
    "dreamer": "dreamerv3",
    "dreamerv3": "dreamerv3",
    "npz": "dreamerv3",
    "tdmpc2": "tdmpc2",
    "tdmpc": "tdmpc2",
    "minari": "minari",
    "d4rl": "d4rl",
    "robomimic": "robomimic",
    "hdf5": "hdf5",
    "shardpack": "shardpack",
}
_SUFFIXES: Final = {"wshard": ".wshard", "dreamerv3": ".npz", "shardpack": ".shardpack"}
_FORMAT_HELP: Final = " or ".join(_SUFFIXES)
_COLLECTION: Final = "collection:"

CompressionOption = Annotated[str, typer.Option(help="Compression of episode files: none, zstd, lz4 or zstd:LEVEL.")]


@reported()
def convert(
    source: Annotated[Path, typer.Argument(readable=False, metavar="IN", help="File or folder to read.")],
    target: Annotated[
        Path, typer.Argument(readable=False, metavar="OUT", help="File to write, or a folder for several episodes.")
    ],
    input_format: Annotated[str | None, typer.Option(help=f"{_FORMAT_HELP} (default: detected from IN)")] = None,
    output_format: Annotated[str | None, typer.Option(help=f"{_FORMAT_HELP} (default: from the suffix of OUT)")] = None,
    compression: CompressionOption = "none",
    encode: Annotated[
        str | None, typer.Option(help="Encode camera lanes: jpeg, jpeg:QUALITY, png, mp4 or mp4:RATE_FACTOR.")
    ] = None,
) -> None:
    """Convert the episodes of a file or folder from one format to another."""
    from wshard.formats.detect import detect_format

    formats = [
        detect_format(path) if name is None else _format(name)
        for name, path in ((input_format, source), (output_format, target))
    ]
    target = _written(source, target, formats[1])
    count = _convert(source, target, formats, compression, encode)
    typer.echo(f"converted  {printable(str(source))}  ->  {printable(str(target))}")
    typer.echo(f"           {formats[0]}  ->  {formats[1]}  ({count})")


@reported()
def export(
    path: Annotated[Path, typer.Argument(readable=False, help="File to read.")],
    format_name: Annotated[str, typer.Option("--format", "-f", help=_FORMAT_HELP)],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File or folder to write (default: PATH with the suffix of the format)."),
    ] = None,
    compression: CompressionOption = "none",
) -> None:
    """Write an episode in another format next to its file, or to --output; the file itself is never overwritten."""
    from wshard.formats.detect import detect_format

    wanted = _format(format_name)
    if path.is_dir():
        raise typer.BadParameter(
            f"expected a file, found a folder: use `wshard convert {path} OUT` for all its episodes"
        )
    named = output or path.with_suffix(_SUFFIXES.get(wanted, path.suffix))
    target = _written(path, named, wanted)
    known = wanted in _SUFFIXES
    if known and path.resolve() in (named.resolve(), target.resolve()):
        typer.echo(f"error: {printable(str(path))} would be overwritten by its own export: choose --output", err=True)
        raise typer.Exit(EXIT_USAGE)
    _convert(path, target, [detect_format(path), wanted], compression)
    typer.echo(f"exported  {printable(str(path))}  ->  {printable(str(target))}  ({wanted})")


def _written(source: Path, target: Path, wanted: str) -> Path:
    """Return the path to write: a folder as it is, an .npz file with its suffix added if missing."""
    from wshard.formats.npz import npz_path

    if target.is_dir() or source.is_dir():
        return target
    return Path(npz_path(str(target))) if _SUFFIXES.get(wanted) == ".npz" else target


def _format(name: str) -> str:
    if name.lower() not in _FORMATS:
        typer.echo(f"error: unknown format {printable(name)!r}: expected {_FORMAT_HELP}", err=True)
        raise typer.Exit(EXIT_USAGE)
    return _FORMATS[name.lower()]


def _convert(source: Path, target: Path, formats: list[str], compression: str, encode: str | None = None) -> str:
    """Convert all episodes and return their number as text; formats that are not implemented are wrong usage."""
    from wshard.container.codec import Codec
    from wshard.episode.encode_cameras import CameraEncoding
    from wshard.formats.base import OWN_DATA, UNSUPPORTED
    from wshard.formats.convert import convert_each

    if str(source).startswith(_COLLECTION) and not source.exists():
        raise typer.BadParameter(
            f"expected a file or folder, found {str(source)!r}: `wshard export-list NAME` writes the files, spans and "
            f"weights of a collection"
        )
    with option_read():
        Codec.parse(compression)
        if encode is not None:
            CameraEncoding.parse(encode)
    if not formats[0]:
        source.stat()  # a missing file has no format either; report that it is missing
    for format_, path in zip(formats, (source, target), strict=True):
        if format_ in UNSUPPORTED:
            message = f"{printable(str(path))}: format {str(format_)!r} is not implemented: {OWN_DATA}"
            typer.echo(f"error: {message}", err=True)
            raise typer.Exit(EXIT_USAGE)
    found = dict(convert_each(source, target, *formats, compression=compression, encode=encode))
    failed = {key: error for key, error in found.items() if isinstance(error, WShardError)}
    for key, error in failed.items():
        typer.echo(f"error: {printable(f'{key}: {error}' if key else str(error))}", err=True)
    if failed:
        if len(found) > 1:
            typer.echo(f"{len(found) - len(failed)} of {len(found)} episodes were converted", err=True)
        raise typer.Exit(EXIT_FAILED)
    steps = plural(sum(length for length in found.values() if isinstance(length, int)), "timestep")
    return steps if len(found) == 1 else f"{plural(len(found), 'episode')}, {steps}"
