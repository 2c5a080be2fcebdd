"""Messages that several verbs print."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import typer

from catalog.cli.common import shorten
from wshard.cli.common import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_PRINTED: Final = 20  # of a kind; --json lists all


def print_files(what: str, found: Sequence[tuple[str, str]]) -> None:
    """Print the first of these files, (path, message), on stderr, and how many more there are."""
    for path, message in found[:_PRINTED]:
        typer.echo(f"{what}: {printable(shorten(path))}: {printable(message)}", err=True)
    if len(found) > _PRINTED:
        typer.echo(f"{what}: {len(found) - _PRINTED} more (--json lists all)", err=True)


def print_lines(lines: Iterable[str]) -> None:
    """Print lines of text that contain names from files and users."""
    for line in lines:
        typer.echo(printable(line))
