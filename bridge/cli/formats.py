"""The verb `formats`: what is read and written, what that needs, and what the fields of a format become."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from catalog.cli.common import print_table
from wshard.cli.common import JsonOption, print_items, print_json, reported
from wshard.messages import how_to_install


@reported()
def formats(
    name: Annotated[str | None, typer.Argument(help="Show what the fields of this format become.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List the formats of episodes: what is read, what is written, and what each needs."""
    from wshard.formats.base import describe_format
    from wshard.formats.table import FORMATS

    rows = [describe_format(one) for one in ([name] if name else FORMATS)]
    if name and as_json:
        print_json(rows[0])
    elif name:
        _print_format(rows[0])
    elif as_json:
        print_items(rows)
    else:
        cells = [[row["format"], _access(row), row["needs"], row["about"]] for row in rows]
        print_table(("format", "", "needs", "what it is"), cells, whole=True)


def _access(row: dict[str, Any]) -> str:
    return ", ".join(access for access in ("read", "written") if row[access])


def _print_format(row: dict[str, Any]) -> None:
    typer.echo(f"{row['format']}: {row['about']} ({_access(row)})")
    if row["needs"]:
        typer.echo(f"needs: {how_to_install(row['needs'])}")
    if row["meaning"]:
        typer.echo("")
        print_table(("field", "becomes"), [list(pair) for pair in row["meaning"]], whole=True)
    for limit in row["cannot_hold"]:
        typer.echo(f"cannot hold: {limit}")
