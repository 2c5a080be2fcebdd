"""The verbs `wshard index ...`: Spaces, and the indexes that hold copies of their vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from bridge.cli.options import IndexOption, open_named
from catalog.cli.common import ArchiveOption, print_table
from wshard.cli.common import EXIT_FAILED, JsonOption, print_items, reported
from wshard.core.messages import plural

if TYPE_CHECKING:
    from bridge.maintenance.indexes import State

app = typer.Typer(help="Manage Spaces and vector indexes: list, audit, rebuild, copy, drop.", no_args_is_help=True)


def spaces(archive: ArchiveOption = None, as_json: JsonOption = False) -> None:
    """List the Spaces of the archive: embedder, lanes, windows, size."""
    from bridge.maintenance import indexes
    from bridge.present.reports import present_space

    with open_named(archive) as opened:
        summaries = indexes.list_spaces(opened)
    rows = [present_space(one) for one in summaries]
    if as_json:
        print_items(rows)
        return
    named = ["embedder", "lanes", "rates"] + ["state"] * any(row["state"] != "active" for row in rows)
    shown = []
    for row, one in zip(rows, summaries, strict=True):
        plan, vectors = one.space.windows, f"{row['vectors']} x {row['dim']}"
        windows = "whole" if plan.whole else ",".join(map(str, plan.scales or [f"{plan.size}:{plan.stride}"]))
        cells = [_cell(row[name]) for name in named]
        shown.append((row["space"][:12], *cells, windows, str(row["episodes"]), vectors))
    print_table(("=space", *named, "windows", ">episodes", ">vectors"), shown)


def drop(
    space: Annotated[str, typer.Argument(help="Fingerprint prefix of the Space (see `wshard index spaces`).")],
    archive: ArchiveOption = None,
    index: IndexOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Confirm.")] = False,
) -> None:
    """Remove the vectors of a Space from archive and index. The episodes stay and can be embedded again."""
    from bridge.maintenance import indexes
    from bridge.spaces.identity import describe

    with open_named(archive, index) as opened:
        summary = indexes.find(opened, space)
        about = f"{plural(summary.vectors, 'vector')} of {plural(summary.episodes, 'episode')}, {summary.size} bytes"
        about = f"{about}: {describe(summary.space)}"
        if not yes:
            typer.echo(f"would remove {about}\nuse --yes to confirm", err=True)
            raise typer.Exit(EXIT_FAILED)
        indexes.drop(opened, summary.space)
    typer.echo(f"removed {about}")


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_cell, value))
    return "-" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def audit(
    archive: ArchiveOption = None,
    index: IndexOption = None,
    full: Annotated[bool, typer.Option("--full", help="Compare every document instead of a sample.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Compare an index with the catalog; exit 1 if they differ."""
    from bridge.maintenance import indexes

    with open_named(archive, index) as opened:
        _print_states(indexes.audit(opened, full=full), as_json)


def rebuild(archive: ArchiveOption = None, index: IndexOption = None, as_json: JsonOption = False) -> None:
    """Rebuild this archive's part of an index from the catalog, without embedding again."""
    from bridge.maintenance import indexes

    with open_named(archive, index) as opened:
        _print_states(indexes.rebuild(opened), as_json)


def copy(
    to: Annotated[str, typer.Option("--to", help="URL of the index to fill, or embedded:.")],
    archive: ArchiveOption = None,
    source: Annotated[str, typer.Option("--from", help="URL of the index to read.")] = "embedded:",
    as_json: JsonOption = False,
) -> None:
    """Copy the vectors of one index to another, without embedding again."""
    from bridge.maintenance import indexes
    from bridge.spaces.identity import describe

    with open_named(archive, source) as opened, open_named(archive, to) as target:
        copied = indexes.copy(opened, target.index)
    if as_json:
        print_items({"space": describe(space), "read": read, "vectors": count} for space, read, count in copied)
    else:
        table = [(str(read), str(count), describe(space)) for space, read, count in copied]
        print_table((">read", ">vectors", "space"), table)


def _print_states(states: list[State], as_json: bool) -> None:
    from bridge.present.reports import present_index_state
    from bridge.spaces.identity import describe

    if as_json:
        print_items(map(present_index_state, states))
    else:
        rows = []
        for state in states:
            counts = (state.indexed, state.ledger, state.finding.documents)
            rows.append((state.finding.state, *map(str, counts), describe(state.space)))
        print_table(("state", ">vectors", ">catalog", ">documents", "space"), rows)
        for state in states:
            if state.finding.reason:
                typer.echo(f"{state.space.fingerprint[:12]}: {state.finding.reason}", err=True)
    if not all(state.ok for state in states):
        for advice in dict.fromkeys(_advice(state) for state in states if not state.ok):
            typer.echo(f"the catalog has all vectors: {advice}", err=True)
        raise typer.Exit(EXIT_FAILED)


def _advice(state: State) -> str:
    match state.finding.state:
        case "more":
            return "`wshard fsck --repair` with the same --index removes the surplus"
        case "foreign":
            return "`wshard index rebuild` replaces an older copy of this archive; otherwise choose another prefix"
    return "ingest again to catch up, or `wshard index rebuild`"


for _verb in (spaces, audit, rebuild, copy, drop):
    app.command()(reported()(_verb))
