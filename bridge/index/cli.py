"""The verbs `wshard index ...`: looking after the copy of the vectors that searches use.

Knows: how states are told. Imports what it needs inside the verbs, so that `--help` is quick.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from catalog.cli import ArchiveOption, print_table
from wshard.cli import EXIT_FAILED, JsonOption, reported

if TYPE_CHECKING:
    from bridge.index.care import State

IndexOption = Annotated[str | None, typer.Option("--index", help="URL of a vector index (default: embedded).")]

app = typer.Typer(help="Look after the vector index: audit, rebuild, copy.", no_args_is_help=True)


def audit(
    archive: ArchiveOption = None,
    index: IndexOption = None,
    full: Annotated[bool, typer.Option("--full", help="Ask for every document, not for a sample.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Compare an index with the archive's ledger; exit 1 if anything is missing."""
    from bridge.archive import open_archive
    from bridge.index import care
    from catalog.location import archive_named

    named = archive_named(archive)
    with open_archive(index or named, archive=named) as opened:
        _tell(care.audit(opened, full=full), as_json)


def rebuild(archive: ArchiveOption = None, index: IndexOption = None, as_json: JsonOption = False) -> None:
    """Drop what an index holds of this archive and fill it again from the ledger; nothing is embedded again."""
    from bridge.archive import open_archive
    from bridge.index import care
    from catalog.location import archive_named

    named = archive_named(archive)
    with open_archive(index or named, archive=named) as opened:
        _tell(care.rebuild(opened, opened.place.index), as_json)


def copy(
    to: Annotated[str, typer.Option("--to", help="URL of the index to fill, or embedded:")],
    archive: ArchiveOption = None,
    source: Annotated[str, typer.Option("--from", help="URL of the index to read.")] = "embedded:",
    as_json: JsonOption = False,
) -> None:
    """Fill one index from another without embedding again."""
    from bridge.archive import open_archive
    from bridge.index import care
    from bridge.query import describe
    from catalog.location import archive_named

    named = archive_named(archive)
    with open_archive(source, archive=named) as opened, open_archive(to, archive=named) as target:
        copied = care.copy(opened, target.index)
    rows = [{"space": describe(space), "read": read, "held": held} for space, read, held in copied]
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
    else:
        table = [(str(read), str(held), describe(space)) for space, read, held in copied]
        print_table((">read", ">held", "space"), list(table))


def _tell(states: list[State], as_json: bool) -> None:
    from bridge.query import describe

    if as_json:
        found = [
            {
                "space": describe(state.space),
                "ok": state.ok,
                "state": state.finding.state,
                "held": state.held,
                "ledger": state.ledger,
                "documents": state.finding.documents,
                "expected": state.finding.expected,
                "missing": len(state.finding.missing),
                "told": state.finding.told,
            }
            for state in states
        ]
        typer.echo(json.dumps(found, indent=2))
    else:
        rows: list[tuple[str, ...]] = [
            (
                state.finding.state,
                str(state.held),
                str(state.ledger),
                str(state.finding.documents),
                describe(state.space),
            )
            for state in states
        ]
        print_table(("state", ">held", ">ledger", ">documents", "space"), rows)
        for state in states:
            if state.finding.told:
                typer.echo(f"{state.space.fingerprint[:12]}: {state.finding.told}", err=True)
    if not all(state.ok for state in states):
        typer.echo("the ledger has everything: ingest again to catch up, or `wshard index rebuild`", err=True)
        raise typer.Exit(EXIT_FAILED)


for _verb in (audit, rebuild, copy):
    app.command()(reported()(_verb))
