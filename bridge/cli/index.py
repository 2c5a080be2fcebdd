"""The verbs `wshard index ...`: the Spaces of an archive, and the copies of their vectors that searches use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from bridge.cli.options import index_target
from catalog.cli.common import ArchiveOption, print_table
from wshard.cli.common import EXIT_FAILED, JsonOption, print_items, reported
from wshard.messages import plural

if TYPE_CHECKING:
    from bridge.maintenance.indexes import Holding, State

IndexOption = Annotated[str | None, typer.Option("--index", help="URL of a vector index (default: embedded).")]

app = typer.Typer(help="Look after vectors and their index: spaces, audit, rebuild, copy.", no_args_is_help=True)


def spaces(archive: ArchiveOption = None, as_json: JsonOption = False) -> None:
    """List what the archive's episodes were embedded as."""
    from bridge.archive import open_archive
    from bridge.maintenance import indexes
    from catalog.location import archive_named

    with open_archive(archive_named(archive)) as opened:
        rows = [_about(one) for one in indexes.holdings(opened)]
    if as_json:
        print_items(rows)
        return
    columns = ("space", "state", "embedder", "lanes", "rates", "windows", ">dim", ">episodes", ">vectors", ">bytes")
    shown = [[_cell(row[name.lstrip(">")]) for name in columns] for row in rows]
    print_table(columns, [(space[:12], *others) for space, *others in shown])


def drop(
    space: Annotated[str, typer.Argument(help="The beginning of its fingerprint; `wshard index spaces` lists them.")],
    archive: ArchiveOption = None,
    index: IndexOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do it.")] = False,
) -> None:
    """Remove a Space: its vectors, and the index's copy of them. Episodes stay, and can be embedded again."""
    from bridge.archive import open_archive
    from bridge.maintenance import indexes
    from bridge.spaces.identity import describe
    from catalog.location import archive_named

    named = archive_named(archive)
    with open_archive(index_target(index, named), archive=named) as opened:
        found = indexes.find(opened, space)
        told = f"{plural(found.vectors, 'vector')} of {plural(found.episodes, 'episode')}, {found.size} bytes"
        told = f"{told}: {describe(found.space)}"
        if not yes:
            typer.echo(f"would remove {told}\nsay --yes to do it", err=True)
            raise typer.Exit(EXIT_FAILED)
        indexes.drop(opened, found.space)
    typer.echo(f"removed {told}")


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_cell, value))
    return "-" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _about(one: Holding) -> dict[str, Any]:
    space = one.space
    return {
        "space": space.fingerprint,
        "state": one.state,
        "embedder": f"{space.embedder} {space.version}",
        "lanes": [lane.name for lane in space.lanes],
        "rates": list(space.rates or [None] * len(space.lanes)),
        "windows": str(space.windows),
        "metric": space.metric,
        "dim": space.dim,
        "episodes": one.episodes,
        "vectors": one.vectors,
        "bytes": one.size,
    }


def audit(
    archive: ArchiveOption = None,
    index: IndexOption = None,
    full: Annotated[bool, typer.Option("--full", help="Ask for every document, not for a sample.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Compare an index with the archive's ledger; exit 1 unless it holds just that."""
    from bridge.archive import open_archive
    from bridge.maintenance import indexes
    from catalog.location import archive_named

    named = archive_named(archive)
    with open_archive(index_target(index, named), archive=named) as opened:
        _tell(indexes.audit(opened, full=full), as_json)


def rebuild(archive: ArchiveOption = None, index: IndexOption = None, as_json: JsonOption = False) -> None:
    """Drop what an index holds of this archive and fill it again from the ledger; nothing is embedded again."""
    from bridge.archive import open_archive
    from bridge.maintenance import indexes
    from catalog.location import archive_named

    named = archive_named(archive)
    with open_archive(index_target(index, named), archive=named) as opened:
        _tell(indexes.rebuild(opened), as_json)


def copy(
    to: Annotated[str, typer.Option("--to", help="URL of the index to fill, or embedded:")],
    archive: ArchiveOption = None,
    source: Annotated[str, typer.Option("--from", help="URL of the index to read.")] = "embedded:",
    as_json: JsonOption = False,
) -> None:
    """Fill one index from another without embedding again."""
    from bridge.archive import open_archive
    from bridge.maintenance import indexes
    from bridge.spaces.identity import describe
    from catalog.location import archive_named

    named = archive_named(archive)
    with (
        open_archive(index_target(source, named), archive=named) as opened,
        open_archive(index_target(to, named), archive=named) as target,
    ):
        copied = indexes.copy(opened, target.index)
    if as_json:
        print_items({"space": describe(space), "read": read, "held": held} for space, read, held in copied)
    else:
        table = [(str(read), str(held), describe(space)) for space, read, held in copied]
        print_table((">read", ">held", "space"), list(table))


def _tell(states: list[State], as_json: bool) -> None:
    from bridge.spaces.identity import describe

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
                "told": state.finding.reason,
            }
            for state in states
        ]
        print_items(found)
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
            if state.finding.reason:
                typer.echo(f"{state.space.fingerprint[:12]}: {state.finding.reason}", err=True)
    if not all(state.ok for state in states):
        for advice in dict.fromkeys(_advice(state) for state in states if not state.ok):
            typer.echo(f"the ledger has everything: {advice}", err=True)
        raise typer.Exit(EXIT_FAILED)


def _advice(state: State) -> str:
    match state.finding.state:
        case "more":
            return "`wshard fsck --repair` with the same --index removes what is too much"
        case "foreign":
            return "`wshard index rebuild` replaces an older copy of this archive; else name another prefix"
    return "ingest again to catch up, or `wshard index rebuild`"


for _verb in (spaces, audit, rebuild, copy, drop):
    app.command()(reported()(_verb))
