"""The verbs about other formats: convert and export; and doctor, which tells what is installed.

Knows: what is printed and which exit code follows: 0 fine, 1 an error, 2 a format that is unknown or not implemented.
Does not know: any format. Imports what it needs inside the verbs, so that `--help` is quick.
"""

from __future__ import annotations

import platform
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from wshard.cli import EXIT_FAILED, EXIT_USAGE, printable, reported
from wshard.wording import counted

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
}
_SUFFIXES: Final = {"wshard": ".wshard", "dreamerv3": ".npz"}
_FORMAT_HELP: Final = " or ".join(_SUFFIXES)

CompressionOption = Annotated[str, typer.Option(help="none, zstd, lz4 or zstd:LEVEL; for episode files.")]


@reported()
def convert(
    source: Annotated[Path, typer.Argument(metavar="IN", help="The file to read.")],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="The file to write.")],
    input_format: Annotated[str | None, typer.Option(help=f"{_FORMAT_HELP} (default: as IN tells)")] = None,
    output_format: Annotated[str | None, typer.Option(help=f"{_FORMAT_HELP} (default: as OUT tells)")] = None,
    compression: CompressionOption = "none",
) -> None:
    """Convert an episode from one file format to another."""
    from wshard.convert import detect_format

    formats = [
        detect_format(path) if name is None else _format(name)
        for name, path in ((input_format, source), (output_format, target))
    ]
    target = _written(target, formats[1])
    length = _convert(source, target, formats, compression)
    typer.echo(f"converted  {printable(str(source))}  ->  {printable(str(target))}")
    typer.echo(f"           {formats[0].value}  ->  {formats[1].value}  ({counted(length, 'timestep')})")


@reported()
def export(
    path: Annotated[Path, typer.Argument(help="The file to read.")],
    format_name: Annotated[str, typer.Option("--format", "-f", help=_FORMAT_HELP)],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Default: PATH with the other suffix.")] = None,
    compression: CompressionOption = "none",
) -> None:
    """Write an episode in another format beside its file, or to another place; never over the file itself."""
    from wshard.convert import detect_format

    wanted = _format(format_name)
    named = output or path.with_suffix(_SUFFIXES.get(wanted.value, path.suffix))
    target = _written(named, wanted)
    known = wanted.value in _SUFFIXES
    if known and path.resolve() in (named.resolve(), target.resolve()):
        typer.echo(f"error: {printable(str(path))} would be overwritten by its own export: choose --output", err=True)
        raise typer.Exit(EXIT_FAILED)
    _convert(path, target, [detect_format(path), wanted], compression)
    typer.echo(f"exported  {printable(str(path))}  ->  {printable(str(target))}  ({wanted.value})")


def _written(target: Path, wanted: Format) -> Path:
    """Return the file that is written: an .npz gets its suffix where the name lacks it."""
    from wshard.formats.npz import npz_path

    return Path(npz_path(str(target))) if _SUFFIXES.get(wanted.value) == ".npz" else target


def _format(name: str) -> Format:
    from wshard.types import Format

    if name.lower() not in _FORMATS:
        typer.echo(f"error: unknown format {printable(name)!r}: expected {_FORMAT_HELP}", err=True)
        raise typer.Exit(EXIT_USAGE)
    return Format(_FORMATS[name.lower()])


def _convert(source: Path, target: Path, formats: list[Format], compression: str) -> int:
    """Convert a file and return its number of timesteps; a format that is not implemented is a wrong usage."""
    from wshard.convert import convert as convert_episode
    from wshard.formats.base import OWN_DATA, UNSUPPORTED

    if not formats[0]:
        source.stat()  # what is not there has no format either, and is told as what it is
    for format_, path in zip(formats, (source, target), strict=True):
        if format_.value in UNSUPPORTED:
            told = f"{printable(str(path))}: format {format_.value!r} is not implemented: {OWN_DATA}"
            typer.echo(f"error: {told}", err=True)
            raise typer.Exit(EXIT_USAGE)
    return convert_episode(source, target, *formats, compression=compression).length


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
        told = version(module) if found else otherwise
    except PackageNotFoundError:  # there, but not installed by a package manager
        told = "unknown version"
    typer.echo(f"{module:<16} {told}")
    return found
