"""Messages that several verbs print."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import typer

from catalog.cli.common import shorten
from wshard.cli.common import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_PRINTED: Final = 20  # of a kind; --json lists all
_NAMED: Final = 3  # files with the same message


def print_files(
    what: str, failures: Sequence[tuple[str, str]], *, rest: str = " (--json lists all)", most_lines: int = _NAMED
) -> None:
    """Print the first of these files, (path, message), on stderr, and how many more there are.

    More than most_lines files with the same message take one line. rest: what is said where not all are shown.
    """
    groups: dict[str, list[str]] = {}
    for path, message in failures:
        groups.setdefault(message, []).append(printable(shorten(path)))
    lines = [
        (message, names)
        for message, paths in groups.items()
        for names in ([paths] if len(paths) > most_lines else [[path] for path in paths])
    ]
    for message, names in lines[:_PRINTED]:
        more = f" and {len(names) - _NAMED} more{rest}" if len(names) > _NAMED else ""
        typer.echo(f"{what}: {', '.join(names[:_NAMED])}{more}: {printable(message)}", err=True)
    if left := sum(len(names) for _, names in lines[_PRINTED:]):
        typer.echo(f"{what}: {left} more{rest}", err=True)


def print_lines(lines: Iterable[str]) -> None:
    """Print lines of text that contain names from files and users."""
    for line in lines:
        typer.echo(printable(line))
