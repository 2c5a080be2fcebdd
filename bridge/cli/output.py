"""Messages that several verbs print."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import typer

from catalog.cli.common import shorten
from wshard.cli.common import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_PRINTED: Final = 8  # lines of a kind; --json lists all
_NAMED: Final = 3  # files with the same message
_MANY: Final = 8  # files of which those of one cause take one line
_PARTICULAR: Final = re.compile(r"'[^']*'|0x[0-9a-f]+|\d+(?:\.\d+)?")
"""What tells messages of one cause apart: names and numbers."""


def print_files(
    what: str, failures: Sequence[tuple[str, str]], *, rest: str = " (--json lists all)", most_lines: int = _NAMED
) -> None:
    """Print the first of these files, (path, message), on stderr, and how many more there are.

    More than most_lines files with the same message take one line; of many, those of one cause do, whose messages
    differ in names and numbers: the first is then an example. rest: what is said where not all are shown.
    """
    groups: dict[str, list[tuple[str, str]]] = {}
    is_long = len(failures) > _MANY
    for path, message in failures:
        cause = _PARTICULAR.sub("#", message) if is_long else message
        groups.setdefault(cause, []).append((printable(shorten(path)), printable(message)))
    least = 1 if is_long else most_lines
    lines = [
        part for group in groups.values() for part in ([group] if len(group) > least else [[one] for one in group])
    ]
    for group in lines[:_PRINTED]:
        names = ", ".join(path for path, _ in group[:_NAMED])
        more = f" and {len(group) - _NAMED} more{rest}" if len(group) > _NAMED else ""
        example = "e.g. " if len({message for _, message in group}) > 1 else ""
        typer.echo(f"{what}: {names}{more}: {example}{group[0][1]}", err=True)
    if left := sum(map(len, lines[_PRINTED:])):
        typer.echo(f"{what}: {left} more{rest}", err=True)


def print_notes(notes: Sequence[str]) -> None:
    """Print the first of these lines on stderr, and how many more there are."""
    for line in notes[:_PRINTED]:
        typer.echo(printable(line), err=True)
    if len(notes) > _PRINTED:
        typer.echo(f"{len(notes) - _PRINTED} more such lines (--json lists all)", err=True)


def print_lines(lines: Iterable[str]) -> None:
    """Print lines of text that contain names from files and users."""
    for line in lines:
        typer.echo(printable(line))
