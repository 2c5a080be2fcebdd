"""The report of `wshard inspect` as text: a few lines about the episode, and the tree of blocks."""

from __future__ import annotations

import json
from typing import Any, Final

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from wshard.cli.common import printable
from wshard.core.channel_names import describe_names, shorten_names
from wshard.core.messages import plural
from wshard.core.repair.inspect import tree

_WIDTH: Final = 60  # of the kinds of a lane


def shown_format(name: str) -> str:
    """Return the name of a format, or what a guess takes for what."""
    from wshard.formats.layouts.named import describe_layout, is_guess

    return describe_layout(name) if is_guess(name) else name


def print_report(report: dict[str, Any]) -> None:
    """Print what inspect_file returned."""
    size = (
        {"file size": f"{report['file_size']} bytes"}
        if "file_size" in report
        else {"format": shown_format(report["format"])}
    )
    lines = {"path": report["path"]} | size | {"blocks": len(report["blocks"])}
    if report["episode"]:
        episode = report["episode"]
        rate, length = episode["tick_hz"], episode["length"]
        lines |= {"episode id": episode["episode_id"], "env id": episode["env_id"]}
        clock = f"at {rate:g} Hz ({length / rate:.2f} s)"
        if episode["assumed_rate"]:
            clock = f"({rate:g} Hz is assumed: no rate was given)"
        lines |= {"length": f"{plural(length, 'timestep')} {clock}"}
        lines |= {"metadata": json.dumps(episode["metadata"], ensure_ascii=False)} if episode["metadata"] else {}
        if episode.get("span", [0, length]) != [0, length]:
            lines["span"] = "timesteps {}:{}".format(*episode["span"])
        if episode.get("chunk_index") is not None:
            lines["chunk"] = f"{episode['chunk_index']} of {episode['total_chunks']}"
        if episode.get("not_recorded"):
            lines["filled in"] = f"{', '.join(episode['not_recorded'])} (not recorded)"
    if report["section"]:
        lines["section"] = json.dumps(report["section"], ensure_ascii=False)
    for name, value in lines.items():
        typer.echo(f"{name:<11}: {printable(str(value))}")
    _print_blocks(report["blocks"])


def _print_blocks(blocks: list[dict[str, Any]]) -> None:
    table = Table("block", "dtype", "shape", "codec", box=None, pad_edge=False)
    for heading in ("size", "stored", "ratio", "crc"):
        table.add_column(heading, justify="right")
    named = any("names" in block or "unit" in block for block in blocks)
    if named:
        table.add_column("channels")
    has_kinds = any(_shown_kinds(block) for block in blocks)
    if has_kinds:
        table.add_column("kinds")
    for depth, label, number in tree(block["block"] for block in blocks):
        name = Text("  " * depth + printable(label))
        if number is None:
            table.add_row(name)
            continue
        block = blocks[number]
        shape = "" if block["shape"] is None else "x".join(map(str, block["shape"]))
        stored = block["stored"]
        ratio = f"{stored / block['size']:.0%}" if block["size"] and stored is not None else ""
        state = Text(block["crc"], style="bold red" if block["crc"] == "BAD" else "")
        cells = (block["dtype"] or "", shape, block["codec"], str(block["size"]), "" if stored is None else str(stored))
        further = [printable(describe_names(block.get("names", ()), block.get("unit", "")))] if named else []
        further += [_shown_kinds(block)] if has_kinds else []
        table.add_row(name, *map(Text, (*cells, ratio)), state, *(map(Text, further)))
    console = Console(highlight=False)
    # A pipe has no width; cutting names there would lose them.
    console.print(table, soft_wrap=True) if console.is_terminal else Console(width=1000).print(table)


def _shown_kinds(block: dict[str, Any]) -> str:
    """Return the kinds of the channels of a lane in a line, "" where all are numbers and nothing says so."""
    kinds: list[str] = block.get("kinds", [])
    if not block.get("kinds_declared") and all(kind.endswith(":number") for kind in kinds):
        return ""
    return f"{shorten_names(kinds, _WIDTH)}{' (declared)' if block.get('kinds_declared') else ''}"
