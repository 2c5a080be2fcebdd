"""The command that copies an archive to another place."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from catalog.cli.common import check_archive, open_catalog
from wshard.cli.common import JsonOption, print_json, printable, reported
from wshard.core.messages import plural

app = typer.Typer(help="Copy an archive between a folder and a PostgreSQL server.", no_args_is_help=True)


def _place(about: str) -> Any:
    return typer.Argument(help=about, parser=check_archive, metavar="PLACE")


@app.callback()
def _group() -> None:
    """Copy an archive between a folder and a PostgreSQL server."""


@app.command("copy")
@reported()
def copy_archive(
    source: Annotated[str, _place("Archive folder or postgresql://... to copy.")],
    target: Annotated[str, _place("Folder without an archive, or postgresql://... of an empty database.")],
    as_json: JsonOption = False,
) -> None:
    """Copy a whole archive (tags, notes, reviews, collections, vectors) to an empty place; safe while others write."""
    from catalog.location import place_of

    place = place_of(target)
    with open_catalog(source) as catalog:
        counts = catalog.copy_to(place.database)
    if as_json:
        print_json(counts)
        return
    rows = plural(sum(counts.values()), "row")
    typer.echo(f"{printable(place.name)}: {plural(counts['episode'], 'episode')}, {rows}")
