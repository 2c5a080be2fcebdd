"""The verbs about files: inspect, verify, recover; and how a command tells of errors.

Knows: what is printed, and the exit code: 0 fine, 1 an error or a failed check, 2 wrong usage, 130 interrupted.
Does not know: other packages' verbs (bridge/cli.py assembles them). Imports what it needs inside the verbs, so that
`--help` is quick.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wshard.errors import FormatError, WShardError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wshard.container import ShardReader
    from wshard.episode_file import EpisodeFile
    from wshard.layout import IndexEntry

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
SUFFIXES = (".wshard", ".shard")
_PARTS = (_HEADER, _META) = ("header", "meta")  # where a problem lies that is no single block's

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]

app = typer.Typer(
    help="Look at episode files.", no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False
)


@contextlib.contextmanager
def reported() -> Iterator[None]:
    """Tell of errors in one line on stderr, without a traceback, and exit; also usable as a decorator of verbs."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        raise typer.Exit(EXIT_INTERRUPTED) from None
    except BrokenPipeError:
        raise  # the reader of our output has seen enough: Typer ends quietly
    except (WShardError, OSError) as error:
        typer.echo(f"error: {printable(str(error))}", err=True)
        raise typer.Exit(EXIT_FAILED) from None


def printable(text: str) -> str:
    """Return text with control characters escaped: names come from files, and a terminal obeys what it is sent."""
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text)


# ---- inspect -------------------------------------------------------------------------------------------------------


@app.command()
@reported()
def inspect(
    path: Annotated[Path, typer.Argument(help="An episode file, or any Shard container.")],
    as_json: JsonOption = False,
) -> None:
    """Show what a file holds: the episode, and every block with its dtype, shape, codec, size and checksum."""
    from wshard.container import ShardReader
    from wshard.episode_file import EpisodeFile
    from wshard.layout import ROLE_WSHARD

    with contextlib.ExitStack() as stack:
        reader = stack.enter_context(ShardReader(path))
        episode = stack.enter_context(EpisodeFile(path)) if reader.header.role == ROLE_WSHARD else None
        report = _report(path, reader, episode)
    if as_json:
        typer.echo(json.dumps(report, indent=2))
    else:
        _print_report(report)


def _report(path: Path, reader: ShardReader, episode: EpisodeFile | None) -> dict[str, Any]:
    lanes = episode.lanes() if episode else {}
    blocks = []
    for number, entry in enumerate(reader.entries):
        lane = lanes.get(entry.name)
        shape = [episode.length, *lane.shape] if episode and lane else None
        blocks.append(_block_report(reader, number, entry) | {"dtype": lane and lane.dtype.value, "shape": shape})
    return {
        "path": str(path),
        "file_size": reader.header.total_file_size,
        "role": reader.header.role,
        "digest": reader.digest(),
        "episode": _episode_report(episode) if episode else None,
        "blocks": blocks,
    }


def _block_report(reader: ShardReader, number: int, entry: IndexEntry) -> dict[str, Any]:
    from wshard.layout import CODEC_LZ4, CODEC_ZSTD, ENTRY_LZ4, ENTRY_ZSTD

    default = {CODEC_ZSTD: "zstd", CODEC_LZ4: "lz4"}.get(reader.header.compression_default, "unknown")
    named = "zstd" if entry.flags & ENTRY_ZSTD else "lz4" if entry.flags & ENTRY_LZ4 else default
    try:
        reader.block(number)
        state = "ok" if entry.checksum or not entry.orig_size else "none"
    except FormatError:
        state = "BAD"
    return {
        "block": entry.name,
        "codec": named if entry.compressed else "none",
        "size": entry.orig_size,
        "stored": entry.disk_size,
        "crc": state,
    }


def _episode_report(episode: EpisodeFile) -> dict[str, Any]:
    about = episode.description
    return {
        "episode_id": about.episode_id,
        "env_id": about.env_id,
        "length": episode.length,
        "tick_hz": about.timebase.tick_hz,
        "timebase": about.timebase.type.value,
        "epoch_ns": about.timebase.epoch_ns,
        "chunk_index": about.chunk_index,
        "total_chunks": about.total_chunks,
        "timestep_range": about.timestep_range,
        "metadata": dict(about.metadata),
        "not_recorded": sorted(about.synthesized),
    }


def _print_report(report: dict[str, Any]) -> None:
    lines = {"path": report["path"], "file size": f"{report['file_size']} bytes", "blocks": len(report["blocks"])}
    if report["episode"]:
        episode = report["episode"]
        rate, length = episode["tick_hz"], episode["length"]
        lines |= {"episode id": episode["episode_id"], "env id": episode["env_id"]}
        lines |= {"length": f"{length} timesteps at {rate:g} Hz ({length / rate:.2f} s)"}
        lines |= {"metadata": json.dumps(episode["metadata"], ensure_ascii=False)} if episode["metadata"] else {}
        if episode["chunk_index"] is not None:
            lines["chunk"] = f"{episode['chunk_index']} of {episode['total_chunks']}"
        if episode["not_recorded"]:
            lines["filled in"] = f"{', '.join(episode['not_recorded'])} (not recorded)"
    for name, value in lines.items():
        typer.echo(f"{name:<11}: {printable(str(value))}")
    _print_blocks(report["blocks"])


def _print_blocks(blocks: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("block", "dtype", "shape", "codec", box=None, pad_edge=False)
    for heading in ("size", "stored", "ratio", "crc"):
        table.add_column(heading, justify="right")
    for block in blocks:
        shape = "" if block["shape"] is None else "x".join(map(str, block["shape"]))
        ratio = f"{block['stored'] / block['size']:.0%}" if block["size"] else ""
        state = Text(block["crc"], style="bold red" if block["crc"] == "BAD" else "")
        cells = (printable(block["block"]), block["dtype"] or "", shape, block["codec"])
        table.add_row(*map(Text, cells), str(block["size"]), str(block["stored"]), ratio, state)
    console = Console(highlight=False)
    # A pipe has no width; cutting names there would lose them.
    console.print(table, soft_wrap=True) if console.is_terminal else Console(width=1000).print(table)


# ---- verify --------------------------------------------------------------------------------------------------------


@app.command()
@reported()
def verify(
    paths: Annotated[list[Path], typer.Argument(help="Files, and folders to search for them.", exists=True)],
    as_json: JsonOption = False,
) -> None:
    """Check every block of every file: checksums, codecs, and that each lane has its declared dtype and length."""
    files = sorted({file for path in paths for file in _files(path)})
    if not files:
        typer.echo(f"error: nothing to check: no {' or '.join(SUFFIXES)} file there", err=True)
        raise typer.Exit(EXIT_USAGE)
    results = []
    for file in files:
        blocks, problems = _check(file)
        results.append({"path": str(file), "blocks": blocks, "problems": problems})
        if not as_json:
            _print_result(file, blocks, problems)
    failed = sum(bool(result["problems"]) for result in results)
    if as_json:
        typer.echo(json.dumps(results, indent=2))
    elif len(files) > 1:
        typer.echo(f"{len(files) - failed} of {len(files)} file(s) are fine")
    if failed:
        raise typer.Exit(EXIT_FAILED)


def _files(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from (child for child in path.rglob("*") if child.suffix in SUFFIXES and child.is_file())
    else:
        yield path


def _check(path: Path) -> tuple[int, list[dict[str, str]]]:
    """Return the number of blocks and what is wrong with which of them."""
    from wshard.container import ShardReader
    from wshard.layout import ROLE_WSHARD

    try:
        with ShardReader(path) as reader:
            count = len(reader)
            found = {entry.name: str(error) for entry, error in reader.verify() if error}
            if reader.header.role == ROLE_WSHARD:
                found = _check_lanes(path) | found
    except (FormatError, OSError) as error:
        return 0, [{"block": _HEADER, "error": str(error)}]
    return count, [{"block": block, "error": error} for block, error in sorted(found.items())]


def _check_lanes(path: Path) -> dict[str, str]:
    from wshard.episode_file import EpisodeFile

    found = {}
    try:
        with EpisodeFile(path) as episode:
            for name in episode.lanes():
                try:
                    episode.lane(name)
                except FormatError as error:
                    found[name] = str(error)
    except FormatError as error:
        found[_META] = str(error)
    return found


def _print_result(path: Path, blocks: int, problems: list[dict[str, str]]) -> None:
    for problem in problems:
        name = problem["block"]
        typer.echo(f"FAIL  {name if name in _PARTS else repr(name)}: {printable(problem['error'])}")
    if problems:
        typer.echo(f"FAIL  {len(problems)} problem(s) in {blocks} block(s)  {printable(str(path))}")
    else:
        typer.echo(f"OK    {blocks} block(s) verified  {printable(str(path))}")


# ---- recover -------------------------------------------------------------------------------------------------------


@app.command()
@reported()
def recover(
    partial: Annotated[Path, typer.Argument(help="The .partial file of a recording that was killed.")],
    compression: Annotated[str, typer.Option(help="none, zstd, lz4 or zstd:LEVEL.")] = "none",
) -> None:
    """Turn what a killed recording left behind into an episode file of all its flushed timesteps."""
    from wshard.episode_file import EpisodeFile
    from wshard.streaming import recover as recover_partial

    path = recover_partial(partial, compression=compression)
    with EpisodeFile(path) as episode:
        typer.echo(f"recovered  {printable(str(path))}  ({episode.length} timesteps)")
