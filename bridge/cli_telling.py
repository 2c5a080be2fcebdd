"""What verbs say of files, on stderr: the first of a kind, and how many more there are.

Knows: how many are told. Does not know: what became of the files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import typer

from catalog.cli import shorten
from wshard.cli import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

_TOLD: Final = 20  # of a kind; --json lists all


def tell_files(what: str, found: Sequence[tuple[str, str]]) -> None:
    """Tell of the first of these files, (path, words), what became of them."""
    for path, told in found[:_TOLD]:
        typer.echo(f"{what}: {printable(shorten(path))}: {printable(told)}", err=True)
    if len(found) > _TOLD:
        typer.echo(f"{what}: {len(found) - _TOLD} more (--json lists all)", err=True)
