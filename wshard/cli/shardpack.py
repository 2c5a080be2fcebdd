"""The commands `pack` and `unpack`, and the output of `inspect` and `verify` for ShardPack files."""

from __future__ import annotations

import re
import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from wshard.cli.common import (
    EXIT_FAILED,
    JsonOption,
    byte_count,
    local_place,
    named_path,
    option_read,
    print_json,
    printable,
    reported,
)
from wshard.core.messages import error_text, plural

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_REPORT_SECONDS: Final = 2.0  # between lines of progress
_MAX_LISTED: Final = 20  # records of which `inspect` prints the entries


@reported()
def pack(
    to: Annotated[
        str,
        typer.Option(
            "--to",
            "--output",
            help="File to write, or a numbered series such as train-{000000..}.shardpack.",
            parser=local_place,
            metavar="FILE",
        ),
    ],
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SRC...", help="Folders, WebDataset tars, ShardPacks and single files.", parser=local_place
        ),
    ] = None,
    inputs: Annotated[
        list[str] | None, typer.Option("--input", help="Another SRC.", parser=local_place, metavar="SRC")
    ] = None,
    compression: Annotated[
        str, typer.Option(help="Compression of entries: none, gzip, lz4, zstd, or with a level, e.g. zstd:19.")
    ] = "none",
    max_bytes: Annotated[
        int | None, typer.Option(parser=byte_count, metavar="SIZE", help="Maximum size of records per file, as 1GB.")
    ] = None,
    record_size_limit: Annotated[
        int | None, typer.Option(parser=byte_count, metavar="SIZE", help="Refuse larger records, as 1GB.")
    ] = None,
    max_records: Annotated[int | None, typer.Option(help="Maximum number of records per file.")] = None,
    metadata: Annotated[
        list[str] | None, typer.Option("--metadata", metavar="NAME=TEXT...", help="Dataset metadata; may be repeated.")
    ] = None,
    key_table: Annotated[bool, typer.Option(help="Store a table for lookup of records by key.")] = True,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace existing files of that name.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Pack files into ShardPacks; files whose paths agree up to the first dot of the name form one record."""
    from wshard.training.shardpack.codecs import PackCompression
    from wshard.training.shardpack.pack import pack_sources
    from wshard.training.shardpack.shards import ShardNames
    from wshard.training.shardpack.writer import ShardLimits, ShardPackWriter

    with option_read():
        codec, limits = PackCompression.parse(compression), ShardLimits(max_bytes, max_records, record_size_limit)
        names = ShardNames.parse(to)
    if names.first is None and (max_bytes or max_records):
        raise typer.BadParameter("--max-bytes and --max-records: expected --to with a range as {000000..}")
    places, pairs = _split_metadata(sources or [], metadata or [])
    if not (places := [*places, *(inputs or [])]):
        raise typer.BadParameter("expected SRC... or --input")
    user_metadata = _parse_metadata(pairs)
    shard_metadata = {"user": user_metadata} if user_metadata else {}
    with ShardPackWriter(
        to, compression=codec, limits=limits, metadata=shard_metadata, key_table=key_table, overwrite=overwrite
    ) as writer:
        failed = dict[str, Exception]()
        count = pack_sources(places, writer, progress=_Progress(), failed=failed)
        if failed and not count:
            raise next(iter(failed.values()))
        paths = writer.close()
    _print_packed(count, paths, failed, as_json=as_json)


def _print_packed(count: int, paths: Sequence[Path], failed: Mapping[str, Exception], *, as_json: bool) -> None:
    """Print what was packed, and why sources could not be read; exit 1 if there are such."""
    for error in failed.values():
        typer.echo(f"error: {printable(error_text(error))}", err=True)
    size = sum(path.stat().st_size for path in paths)
    if as_json:
        print_json({"records": count, "files": [str(path) for path in paths], "bytes": size, "failed": [*failed]})
    else:
        typer.echo(f"packed    {plural(count, 'record')} into {plural(len(paths), 'file')}, {size} bytes")
        typer.echo(f"          {printable(str(paths[0]))}{' ...' if len(paths) > 1 else ''}")
    if failed:
        raise typer.Exit(EXIT_FAILED)


class _Progress:
    """Prints the number of packed records on stderr every two seconds."""

    def __init__(self) -> None:
        self._last_time = time.monotonic()

    def __call__(self, count: int) -> None:
        if time.monotonic() - self._last_time >= _REPORT_SECONDS:
            self._last_time = time.monotonic()
            typer.echo(f"packed {plural(count, 'record')}", err=True)


def _split_metadata(sources: list[str], metadata: list[str]) -> tuple[list[str], list[str]]:
    """Return sources and metadata, where one --metadata is followed by several NAME=TEXT, which are no files."""
    pairs = [one for one in sources if metadata and re.match(r"[A-Za-z_][\w.-]*=", one) and not Path(one).exists()]
    return [one for one in sources if one not in pairs], metadata + pairs


def _parse_metadata(texts: list[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts]
    for name, equals, value in pairs:
        if not (name and equals):
            raise typer.BadParameter(f"--metadata: expected NAME=TEXT, found {name + value!r}")
    return {name: value for name, _, value in pairs}


@reported()
def unpack(
    source: Annotated[
        str,
        typer.Argument(metavar="FILE", help="ShardPack, or a range of them, e.g. a-{000000..}...", parser=local_place),
    ],
    to: Annotated[
        Path,
        typer.Option("--to", help="New folder, or a .tar file to write.", parser=named_path, metavar="PATH"),
    ],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing .tar file.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Write the entries of ShardPacks as files KEY.NAME of a new folder, or as a WebDataset tar."""
    from wshard.training.shardpack.unpack import unpack_shardpack

    report = unpack_shardpack(source, to, overwrite=overwrite)
    if as_json:
        counts = {"records": report.records, "files": report.files, "without_metadata": report.without_metadata}
        print_json({"path": str(to), **counts})
        return
    typer.echo(f"unpacked  {plural(report.records, 'record')}, {plural(report.files, 'file')}: {printable(str(to))}")
    if report.without_metadata:
        typer.echo(f"note      the metadata of {plural(report.without_metadata, 'record')} cannot be stored there")


# ---- ShardPacks in inspect and verify -------------------------------------------------------------------------------


def inspect_pack(path: Path, *, as_json: bool) -> None:
    """Print the contents of a ShardPack, or of each in a brace range; as text, its first records only."""
    from wshard.training.shardpack.inspect import inspect_shardpack
    from wshard.training.shardpack.shards import expand_shards

    files = [path] if path.exists() else [*expand_shards(path)]
    if not as_json:
        for number, file in enumerate(files):
            typer.echo("\n" * (number > 0), nl=False)
            _print_pack(inspect_shardpack(file, limit=_MAX_LISTED))
        return
    reports = [report | {"total": report["records"]} for report in map(inspect_shardpack, files)]
    records = sum(report["records"] for report in reports)
    print_json(reports[0] if files == [path] else {"path": str(path), "records": records, "files": reports})


def _print_pack(report: dict[str, Any]) -> None:
    import json

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    key_table = "yes" if report["key_table"] else "no"
    lines = {"path": report["path"], "file size": f"{report['file_size']} bytes", "records": report["records"]}
    lines |= {"key table": key_table} | ({"metadata": json.dumps(report["metadata"])} if report["metadata"] else {})
    for name, value in lines.items():
        typer.echo(f"{name:<11}: {printable(str(value))}")
    entry_table = Table("record", "entry", "type", "codec", box=None, pad_edge=False)
    for heading in ("size", "stored", "crc"):
        entry_table.add_column(heading, justify="right")
    for item in report["items"]:
        entry_table.add_row(Text(printable(item["key"] or f"{item['record']}: {item['error']}")))
        for entry in item["entries"]:
            texts = (entry["name"], entry["content_type"], entry["codec"], str(entry["size"]), str(entry["stored"]))
            state = Text(entry["crc"], style="bold red" if entry["crc"] == "BAD" else "")
            entry_table.add_row("", *(Text(printable(text)) for text in texts), state)
    console = Console(highlight=False)
    console.print(entry_table, soft_wrap=True) if console.is_terminal else Console(width=1000).print(entry_table)
    if report["records"] > _MAX_LISTED:
        typer.echo(f"and {plural(report['records'] - _MAX_LISTED, 'record')} more")


def check_range(path: Path) -> dict[str, Any] | None:
    """Return the report of `verify` on the files of a brace range as a set, None without problems."""
    from wshard.errors import ManifestError, WShardError
    from wshard.training.shardpack.pack_set import ShardPackSet

    try:
        ShardPackSet(path).close()
    except ManifestError as error:
        return {"path": str(path), "records": 0, "problems": [{"record": "set", "error": str(error)}], "repair": None}
    except (WShardError, OSError):
        pass  # an error of one file, which is reported for that file
    return None


def check_pack(path: Path) -> dict[str, Any]:
    """Return the report of `verify` on a ShardPack."""
    from wshard.training.shardpack.verify import verify_shardpack

    check = verify_shardpack(path)
    problems = [{"record": name, "error": error} for name, error in check.problems.items()]
    repair = f"wshard repair {shlex.quote(str(path))}" if problems else None
    return {"path": str(path), "records": check.records, "problems": problems, "repair": repair}
