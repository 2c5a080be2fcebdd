"""The verbs about other formats: convert and export; and doctor, which tells what is installed.

Exit codes: 0 fine, 1 an error, 2 a format that is unknown or not implemented. Verbs import what they need, so that
`--help` is quick.
"""

from __future__ import annotations

import platform
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from wshard.cli.common import EXIT_FAILED, EXIT_USAGE, option_read, printable, reported
from wshard.errors import WShardError
from wshard.messages import plural

if TYPE_CHECKING:
    from wshard.types import Format

REQUIRED: Final = (
    "numpy", "xxhash", "crc32c", "zstandard", "lz4", "sqlalchemy", "httpx", "typer", "rich", "threadpoolctl"
)  # fmt: skip
OPTIONAL: Final = (
    "ml_dtypes", "numba", "torch", "onnxruntime", "tokenizers", "psycopg", "watchfiles", "pyarrow", "pandas",
    "huggingface_hub", "datasets", "h5py",
)  # fmt: skip

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
}
_SUFFIXES: Final = {"wshard": ".wshard", "dreamerv3": ".npz"}
_FORMAT_HELP: Final = " or ".join(_SUFFIXES)
_COLLECTION: Final = "collection:"

CompressionOption = Annotated[str, typer.Option(help="none, zstd, lz4 or zstd:LEVEL; for episode files.")]


@reported()
def convert(
    source: Annotated[Path, typer.Argument(metavar="IN", help="The file or folder to read.")],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="The file to write; a folder for several episodes.")],
    input_format: Annotated[str | None, typer.Option(help=f"{_FORMAT_HELP} (default: as IN tells)")] = None,
    output_format: Annotated[str | None, typer.Option(help=f"{_FORMAT_HELP} (default: as OUT tells)")] = None,
    compression: CompressionOption = "none",
) -> None:
    """Convert episodes from one format to another: that of a file, or all of a file or folder into a folder."""
    from wshard.formats.detect import detect_format

    formats = [
        detect_format(path) if name is None else _format(name)
        for name, path in ((input_format, source), (output_format, target))
    ]
    target = _written(source, target, formats[1])
    summary = _convert(source, target, formats, compression)
    typer.echo(f"converted  {printable(str(source))}  ->  {printable(str(target))}")
    typer.echo(f"           {formats[0]}  ->  {formats[1]}  ({summary})")


@reported()
def export(
    path: Annotated[Path, typer.Argument(help="The file to read.")],
    format_name: Annotated[str, typer.Option("--format", "-f", help=_FORMAT_HELP)],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A file or folder. Default: PATH with the other suffix.")
    ] = None,
    compression: CompressionOption = "none",
) -> None:
    """Write an episode in another format beside its file, or to another place; never over the file itself."""
    from wshard.formats.detect import detect_format

    wanted = _format(format_name)
    if path.is_dir():
        raise typer.BadParameter(f"expected a file, found a folder: wshard convert {path} OUT takes all its episodes")
    named = output or path.with_suffix(_SUFFIXES.get(wanted, path.suffix))
    target = _written(path, named, wanted)
    known = wanted in _SUFFIXES
    if known and path.resolve() in (named.resolve(), target.resolve()):
        typer.echo(f"error: {printable(str(path))} would be overwritten by its own export: choose --output", err=True)
        raise typer.Exit(EXIT_USAGE)
    _convert(path, target, [detect_format(path), wanted], compression)
    typer.echo(f"exported  {printable(str(path))}  ->  {printable(str(target))}  ({wanted})")


def _written(source: Path, target: Path, wanted: str) -> Path:
    """Return what is written: a folder as it is, an .npz file with its suffix where the name lacks it."""
    from wshard.formats.npz import npz_path

    if target.is_dir() or source.is_dir():
        return target
    return Path(npz_path(str(target))) if _SUFFIXES.get(wanted) == ".npz" else target


def _format(name: str) -> Format:
    from wshard.types import Format

    if name.lower() not in _FORMATS:
        typer.echo(f"error: unknown format {printable(name)!r}: expected {_FORMAT_HELP}", err=True)
        raise typer.Exit(EXIT_USAGE)
    return Format(_FORMATS[name.lower()])


def _convert(source: Path, target: Path, formats: list[str], compression: str) -> str:
    """Convert all episodes and return how many; formats that are not implemented are a wrong usage."""
    from wshard.container.codec import Codec
    from wshard.formats.base import OWN_DATA, UNSUPPORTED
    from wshard.formats.convert import convert_each

    if str(source).startswith(_COLLECTION) and not source.exists():
        raise typer.BadParameter(
            f"expected a file or folder, found {str(source)!r}: `wshard export-list NAME` writes the files, spans and "
            f"weights of a collection"
        )
    with option_read():
        Codec.parse(compression)
    if not formats[0]:
        source.stat()  # what is not there has no format either, and is told as what it is
    for format_, path in zip(formats, (source, target), strict=True):
        if format_ in UNSUPPORTED:
            summary = f"{printable(str(path))}: format {format_!r} is not implemented: {OWN_DATA}"
            typer.echo(f"error: {summary}", err=True)
            raise typer.Exit(EXIT_USAGE)
    found = dict(convert_each(source, target, *formats, compression=compression))
    failed = {key: error for key, error in found.items() if isinstance(error, WShardError)}
    for key, error in failed.items():
        typer.echo(f"error: {printable(f'{key}: {error}' if key else str(error))}", err=True)
    if failed:
        if len(found) > 1:
            typer.echo(f"{len(found) - len(failed)} of {len(found)} episodes were converted", err=True)
        raise typer.Exit(EXIT_FAILED)
    steps = plural(sum(length for length in found.values() if isinstance(length, int)), "timestep")
    return steps if len(found) == 1 else f"{plural(len(found), 'episode')}, {steps}"


# ---- doctor --------------------------------------------------------------------------------------------------------


@reported()
def doctor() -> None:
    """Tell versions of what is installed; exit 1 if something required is missing."""
    from wshard import __version__

    typer.echo(f"{'wshard':<16} {__version__}")
    typer.echo(f"{'python':<16} {platform.python_version()} on {platform.system()} {platform.machine()}")
    missing = [name for name in REQUIRED if not _tell(name, "MISSING (required)")]
    for name in OPTIONAL:
        _tell(name, "not installed (optional)")
    if missing:
        typer.echo(f"error: missing: {', '.join(missing)}: pip install {' '.join(missing)}", err=True)
        raise typer.Exit(EXIT_FAILED)


def _tell(module: str, otherwise: str) -> bool:
    """Print a module's version, or what its absence means; nothing is imported."""
    from importlib.metadata import PackageNotFoundError, version
    from importlib.util import find_spec

    found = find_spec(module) is not None
    try:
        shown_version = version(module) if found else otherwise
    except PackageNotFoundError:  # there, but not installed by a package manager
        shown_version = "unknown version"
    typer.echo(f"{module:<16} {shown_version}")
    return found
