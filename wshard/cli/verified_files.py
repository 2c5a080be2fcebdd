"""Find this project's files below a path for `verify`, and report on them."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from wshard.cli.common import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

SUFFIXES: Final = (".wshard", ".shard", ".shardpack")


def find_files(path: Path) -> Iterator[Path]:
    """Yield the files to verify below a path; also unreadable folders, and links and pipes, which then fail."""
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


def check_own(path: Path, *, strict: bool) -> dict[str, Any]:
    """Return what `verify` reports of a file of this project."""
    from wshard.cli.shardpack import check_pack
    from wshard.repair.inspect import check_file, is_repairable
    from wshard.shardpack.inspect import is_shardpack

    if is_shardpack(path):
        return check_pack(path)
    count, found = check_file(path, strict=strict)
    problems = [{"block": block, "error": error} for block, error in found.items()]
    help_ = f"wshard repair {shlex.quote(str(path))}" if found and is_repairable(path) else None
    return {"path": str(path), "blocks": count, "problems": problems, "repair": help_}


def print_result(result: dict[str, Any]) -> None:
    """Print what `verify` found in a file or an episode."""
    from wshard.repair.inspect import PARTS

    path, problems = printable(result["path"]), result["problems"]
    blocks = f"{result['blocks']} block(s)" if "blocks" in result else f"{result['records']} record(s)"
    for problem in problems:
        name = problem.get("block") or problem["record"]
        shown = name if "record" in problem or name in PARTS else repr(name)
        typer.echo(f"FAIL  {shown}: {printable(problem['error'])}")
    if problems:
        typer.echo(f"FAIL  {len(problems)} problem(s) in {blocks}  {path}")
    else:
        typer.echo(f"OK    {blocks} verified  {path}")
    if result["repair"]:
        typer.echo(f"      try: {printable(result['repair'])}")
