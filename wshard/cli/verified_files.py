"""Find the files that `verify` and `repair` are given, and report on them."""

from __future__ import annotations

import os
import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import typer

from wshard.cli.common import printable
from wshard.core.files.schemes import scheme_of
from wshard.errors import FormatError, WShardError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Report: TypeAlias = dict[str, Any]
    Check: TypeAlias = Callable[..., Report]

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


def list_checks(locations: Sequence[str], how: str, unread: dict[str, str]) -> tuple[list[Report], list[Check]]:
    """Return reports of the arguments of `verify` that cannot be read, and a check of each file and episode of others.

    how: reading options. unread: takes why files below folders are not read, by path. Raises the error of the only one.
    """
    reports: list[Report] = []
    checks: list[Check] = []
    own: set[Path] = set()
    for location in locations:
        try:
            wrong, files, others = _list_checks_of(location, how, unread)
        except (OSError, WShardError) as error:
            if len(locations) == 1:
                raise
            wrong, files, others = [_report_unread(location, error)], [], []
        reports += wrong
        own.update(files)
        checks += others
    return reports, [*(partial(check_own, file) for file in sorted(own)), *checks]


def _list_checks_of(location: str, how: str, unread: dict[str, str]) -> tuple[list[Report], list[Path], list[Check]]:
    """Return reports of what is missing, files of this project, and the checks of all else that an argument names."""
    from wshard.cli.episodes import check_episode, is_parent, list_foreign, list_objects, path_of_argument
    from wshard.cli.shardpack import check_range
    from wshard.training.shardpack.shards import expand_shards

    if scheme_of(location):
        jobs = list_objects(location, how, unread)
        own_object: list[Check] = [partial(check_own, location)] if jobs is None else []
        return [], [], own_object + [partial(check_episode, job) for job in jobs or ()]
    path = Path(location)
    if not path.exists() and "{" in path.name:
        missing = check_range(path)
        return [missing] if missing else [], [*expand_shards(path)], []
    (path if path.exists() else path_of_argument(path)).stat()  # raises the error of a missing file
    jobs = list_foreign(path, how, unread)
    files = [*find_files(path)] if is_parent(path, jobs) else []
    if not (jobs or files):
        kinds = f"no {' or '.join(SUFFIXES)} files found"
        raise FormatError(f"{path}: nothing to verify: {kinds}; give other formats by their own paths")
    own = {os.path.realpath(file) for file in files}  # such as a ShardPack, whose episodes are in a location, too
    others = [job for job in jobs or () if os.path.realpath(job.span.address.uri) not in own]
    return [], files, [partial(check_episode, job) for job in others]


def _report_unread(location: str, error: Exception) -> Report:
    from wshard.core.messages import error_text
    from wshard.core.repair.inspect import HEADER

    text = error_text(error).removeprefix(f"{location}: ")
    return {"path": location, "blocks": 0, "problems": [{"block": HEADER, "error": text}], "repair": None}


def check_repairable(path: Path) -> None:
    """Raise FormatError for what `repair` does not accept: the address of an episode, a file of another format."""
    from wshard.cli.episodes import is_of_others, path_of_argument
    from wshard.formats.detect import detect_format

    if not path.exists() and path_of_argument(path) != path and path_of_argument(path).exists():
        raise FormatError(
            f"{path}: repair: expected a file, found the address of an episode in {path_of_argument(path)}"
        )
    name = str(detect_format(path)) if path.exists() else ""
    if name not in ("", "wshard", "shardpack") or (not name and is_of_others(path)):
        place = shlex.quote(str(path))
        raise FormatError(
            f"{path}: repair: expected a file {', '.join(SUFFIXES)}, found another format: `wshard verify {place}` "
            f"says what is damaged, `wshard convert {place} FOLDER` takes the episodes that can be read"
        )


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
