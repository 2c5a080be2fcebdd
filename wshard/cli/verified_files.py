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
    visited, unreadable, pending = set[str](), list[Path](), [path]
    while pending:  # links last, so that files are found under their own paths first
        for parent, folders, names in os.walk(
            pending.pop(0), onerror=lambda error: unreadable.append(Path(error.filename))
        ):
            real_path = os.path.realpath(parent)
            if real_path in visited:  # links may lead to the same folder again, or form cycles
                folders.clear()
                continue
            visited.add(real_path)
            folder = Path(parent)
            pending += [folder / name for name in folders if (folder / name).is_symlink()]
            yield from (folder / name for name in names if Path(name).suffix in SUFFIXES)
    yield from unreadable


def check_own(path: Path | str, *, strict: bool) -> dict[str, Any]:
    """Return the report of `verify` on a file of this project, by its path or URI."""
    from wshard.cli.shardpack import check_pack
    from wshard.core.repair.inspect import check_file, is_repairable
    from wshard.training.shardpack.inspect import is_shardpack

    if isinstance(path, Path) and is_shardpack(path):
        return check_pack(path)
    count, problems_by_name = check_file(path, strict=strict)
    problems = [{"block": block, "error": error} for block, error in problems_by_name.items()]
    can_repair = bool(problems_by_name) and isinstance(path, Path) and is_repairable(path)
    repair_command = f"wshard repair {shlex.quote(str(path))}" if can_repair else None
    return {"path": str(path), "blocks": count, "problems": problems, "repair": repair_command}


def print_result(result: dict[str, Any]) -> None:
    """Print the report of `verify` on a file or an episode."""
    from wshard.core.repair.inspect import PARTS

    path, problems = printable(result["path"]), result["problems"]
    blocks = f"{result['blocks']} block(s)" if "blocks" in result else f"{result['records']} record(s)"
    for problem in problems:
        name = problem.get("block") or problem["record"]
        label = name if "record" in problem or name in PARTS else repr(name)
        typer.echo(f"FAIL  {label}: {printable(problem['error'])}")
    if problems:
        typer.echo(f"FAIL  {len(problems)} problem(s) in {blocks}  {path}")
    else:
        typer.echo(f"OK    {blocks} verified  {path}")
    if result["repair"]:
        typer.echo(f"      try: {printable(result['repair'])}")
