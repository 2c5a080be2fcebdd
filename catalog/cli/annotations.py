"""The commands that export annotations to a file and import them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from catalog.cli.common import ArchiveOption, WhereOption, open_catalog, report_unknown
from wshard.cli.common import EXIT_FAILED, JsonOption, named_path, print_json, printable, reported
from wshard.core.messages import plural
from wshard.errors import FilterError

_BEGINNING: Final = b'{\n "version":'  # of every export

app = typer.Typer(
    help="Export or import tags, notes, reviews, scores and collections as a JSON file.", no_args_is_help=True
)


@app.command("export")
@reported()
def export_file(
    file: Annotated[
        Path,
        typer.Argument(help="File to write; replaces an earlier export.", parser=named_path, metavar="FILE"),
    ],
    where: WhereOption = None,
    archive: ArchiveOption = None,
) -> None:
    """Write the annotations of episodes and all collections to a JSON file."""
    from wshard.core.container.atomic_write import check_replaceable, publish

    check_replaceable(file, "an earlier export", _BEGINNING)
    with open_catalog(archive) as catalog:
        report_unknown(catalog, where)
        text = catalog.annotations.export_json(where)
    with publish(file) as opened:
        opened.write(text.encode())
    typer.echo(f"wrote {printable(str(file))}")


@app.command("import")
@reported()
def import_file(
    file: Annotated[
        Path,
        typer.Argument(help="File that `wshard annotations export` wrote.", parser=named_path, metavar="FILE"),
    ],
    archive: ArchiveOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add the annotations of an exported file to the same episodes; exit 1 if any were skipped."""
    text = file.read_bytes()
    with open_catalog(archive) as catalog:
        try:
            report = catalog.annotations.import_json(text)
        except FilterError as error:
            raise FilterError(f"{file}: {error}") from error
    unmatched = [{"path": path, "episode_id": name} for path, name in report.unmatched]
    if as_json:
        counts = {"matched": report.matched, "added": report.added}
        print_json({**counts, "unmatched": unmatched, "skipped": list(report.skipped)})
    else:
        for path, name in report.unmatched:
            typer.echo(printable(f"left out: no episode here is {path} ({name})"), err=True)
        for skipped in report.skipped:
            typer.echo(printable(f"left out: {skipped}"), err=True)
        typer.echo(f"{plural(report.added, 'annotation')} added to {plural(report.matched, 'episode')}")
    if report.unmatched or report.skipped:
        raise typer.Exit(EXIT_FAILED)
