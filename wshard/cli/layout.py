"""The commands about layouts, which describe the arrays of files: guess, list, show."""

from __future__ import annotations

from typing import Annotated

import typer

from wshard.cli.common import JsonOption, named_place, print_items, printable, reported

app = typer.Typer(help="Describe how files hold episodes, so that --layout can read them.", no_args_is_help=True)


@app.command()
@reported()
def guess(
    file: Annotated[
        str, typer.Argument(help="File of arrays, or folder of such files.", parser=named_place, metavar="FILE")
    ],
) -> None:
    """Write a description of a file's arrays: what each seems to be, and why, to edit and to give with --layout."""
    from wshard.core.files.schemes import place_of
    from wshard.formats.detect import detect_format
    from wshard.formats.layouts.guessing.describe import describe_guess
    from wshard.formats.layouts.guessing.guess import guess_layout
    from wshard.formats.layouts.guessing.reference import why_unsure
    from wshard.formats.table import OTHER_ARRAYS

    found = guess_layout(file)
    typer.echo(describe_guess(found), nl=False)
    choices, known = found.open_choices(), detect_format(file)
    for choice in choices:
        typer.echo(f"open: {printable(choice)}", err=True)
    if choices:
        typer.echo('the description has to be edited before use: see the lines with "?"', err=True)
    if known and known != OTHER_ARRAYS:
        typer.echo(f"note: {printable(file)} is read as {known!s}, without a description", err=True)
    elif not choices and (why := why_unsure(found, is_given=place_of(file).is_file())):
        typer.echo(f"note: it is read with this description only (--layout): {printable(why)}", err=True)


@app.command("list")
@reported()
def list_layouts(as_json: JsonOption = False) -> None:
    """List the layouts that are known by name: what `--layout NAME` takes."""
    from wshard.formats.layouts.named import shipped_layouts

    layouts = [*shipped_layouts().values()]
    if as_json:
        print_items({"name": one.name, "container": one.container, "about": one.about} for one in layouts)
        return
    width = max(len(one.name) for one in layouts)
    for one in layouts:
        typer.echo(f"{one.name:<{width}}  {one.container:<5}  {one.about}")


@app.command()
@reported()
def show(name: Annotated[str, typer.Argument(help="Name of a layout.", metavar="NAME")]) -> None:
    """Print the description of a layout that is known by name, to copy and edit."""
    from wshard.formats.layouts.named import shipped_text

    typer.echo(shipped_text(name), nl=False)
