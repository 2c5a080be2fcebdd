"""The verbs about collections: `wshard collection ...`, and export-list."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catalog.cli.common import ArchiveOption, WhereOption, open_catalog, print_table, tell_unknown
from wshard.cli.common import EXIT_FAILED, JsonOption, option_read, print_items, printable, reported
from wshard.messages import plural

if TYPE_CHECKING:
    from catalog.curation.collections import Named, Snapshot

NameArgument = Annotated[str, typer.Argument(help="Name of the collection.")]
RefArgument = Annotated[str, typer.Argument(help="Name of a collection, or hash of a snapshot.")]

app = typer.Typer(
    help="Virtual datasets: saved queries and snapshots of (episode, span, weight) picks; no data is copied.",
    no_args_is_help=True,
)


@app.command("ls")
@reported()
def list_(archive: ArchiveOption = None, as_json: JsonOption = False) -> None:
    """List the collections."""
    with open_catalog(archive) as catalog:
        named = catalog.collections.all()
    if as_json:
        print_items({key: value for key, value in asdict(found).items() if key != "replaced"} for found in named)
        return
    rows = [
        (found.name, "snapshot", str(found.snapshot.picks), found.snapshot.hash, found.who, found.at)
        if found.snapshot is not None
        else (found.name, "query", "", found.query or "", found.who, found.at)
        for found in named
    ]
    print_table(("name", "kind", ">picks", "query or hash", "who", "when"), rows)


@app.command()
@reported()
def save(
    name: NameArgument,
    where: WhereOption = None,
    live: Annotated[bool, typer.Option("--live", help="Keep the query instead: asked anew each time.")] = False,
    archive: ArchiveOption = None,
) -> None:
    """Keep what passes a filter, as a snapshot that never changes, or as a saved query (--live)."""
    from catalog.cli.annotate import account

    if where is None:
        raise typer.BadParameter("choose the episodes by --where ('' for all)")
    with open_catalog(archive) as catalog:
        tell_unknown(catalog, where)
        make = catalog.collections.save_query if live else catalog.collections.save_snapshot
        _print_named(make(name, where, who=account()))


@app.command()
@reported()
def show(ref: RefArgument, archive: ArchiveOption = None, as_json: JsonOption = False) -> None:
    """Show a collection, and what it was made from."""
    with open_catalog(archive) as catalog:
        picked = catalog.collections.picked(ref)
        ancestors = catalog.collections.ancestors(ref)
        query = next((found.query for found in catalog.collections.all() if found.name == ref), None)
    picks, gone = [pick for pick, _ in picked], sum(row is None for _, row in picked)
    if as_json:
        print_items(map(asdict, picks), gone=gone, query=query, lineage=list(map(asdict, ancestors)))
        return
    told = f"; {gone} of them gone or of other data by now" if gone else ""
    steps = plural(sum(pick.stop - pick.start for pick in picks), "timestep")
    typer.echo(f"{plural(len(picks), 'pick')}, {steps}{told}")
    if query is not None:
        typer.echo(f"query: {printable(query)}")
    print_table(
        ("snapshot", ">picks", "made", "when"),
        [(a.hash, str(a.picks), json.dumps(a.origin, ensure_ascii=False), a.made_at) for a in ancestors],
    )


@app.command()
@reported()
def union(name: NameArgument, left: RefArgument, right: RefArgument, archive: ArchiveOption = None) -> None:
    """Keep the picks of either collection under a new name."""
    _combine(name, "union", left, right, archive)


@app.command()
@reported()
def intersection(name: NameArgument, left: RefArgument, right: RefArgument, archive: ArchiveOption = None) -> None:
    """Keep the picks of both collections under a new name."""
    _combine(name, "intersection", left, right, archive)


@app.command()
@reported()
def without(name: NameArgument, left: RefArgument, right: RefArgument, archive: ArchiveOption = None) -> None:
    """Keep the picks of the left that the right does not have under a new name."""
    _combine(name, "without", left, right, archive)


@app.command()
@reported()
def split(
    ref: RefArgument,
    fractions: Annotated[str, typer.Option(help="Parts and their shares.")] = "train=0.8,val=0.1,test=0.1",
    by: Annotated[
        list[str] | None,
        typer.Option("--by", help="Field whose values stay together; may be repeated.", metavar="FIELD"),
    ] = None,
    seed: Annotated[int, typer.Option(help="Another seed, another split.")] = 0,
    archive: ArchiveOption = None,
) -> None:
    """Divide a collection into snapshots NAME/train, NAME/val, ... that share no episode, no copy, no group."""
    from catalog.cli.annotate import account

    shares = _fractions(fractions)
    with open_catalog(archive) as catalog:
        made = catalog.collections.split(ref, shares, by=by or [], seed=seed, who=account())
    for named in made:
        _print_named(named)
    sizes = [named.snapshot.picks for named in made if named.snapshot is not None]
    empty = [named.name for named, size, share in zip(made, sizes, shares.values(), strict=True) if share and not size]
    if empty and any(sizes):
        typer.echo(f"empty: {printable(', '.join(empty))}: what must stay together leaves nothing for it", err=True)


@app.command()
@reported()
def diff(before: RefArgument, after: RefArgument, archive: ArchiveOption = None, as_json: JsonOption = False) -> None:
    """Show what leads from one collection to another."""
    with open_catalog(archive) as catalog:
        found = asdict(catalog.collections.compare(before, after))
    if as_json:
        counts = {name: len(picks) for name, picks in found.items()}
        print_items(({"change": name, **pick} for name, picks in found.items() for pick in picks), **counts)
        return
    for sign, name in (("+", "added"), ("-", "removed"), ("*", "reweighted")):
        for pick in found[name]:
            typer.echo(f"{sign} {pick['uid']} {pick['start']}:{pick['stop']} weight {pick['weight']:g}")
    typer.echo(", ".join(f"{len(picks)} {name}" for name, picks in found.items()))


@app.command()
@reported()
def drop(name: NameArgument, archive: ArchiveOption = None) -> None:
    """Take a name away; a snapshot can still be found by its hash."""
    with open_catalog(archive) as catalog:
        dropped = catalog.collections.drop(name)
    typer.echo(f"{printable(name)} is no name of a collection any more; it was {_before(dropped)}")


@reported()
def export_list(
    ref: RefArgument,
    to: Annotated[
        Path | None, typer.Option("--to", help="File .json, .csv or .parquet (default: JSON, shown).")
    ] = None,
    archive: ArchiveOption = None,
) -> None:
    """Write a collection as a list of files, spans and weights, for other programs; 1 if any episode is gone."""
    from catalog.curation.export_list import FORMATS, encode_list
    from wshard.container.atomic_write import publish

    form = "json" if to is None else to.suffix.removeprefix(".")
    if form not in FORMATS:
        raise typer.BadParameter(f"--to: expected a file of {', '.join(FORMATS)}, found {to}")
    with open_catalog(archive) as catalog:
        picked = catalog.collections.picked(ref)
    data = encode_list(picked, form)
    if to is None:
        sys.stdout.buffer.write(data)
    else:
        with publish(to) as file:
            file.write(data)
    if gone := sum(row is None for _, row in picked):
        told = "without a path: their episodes are gone from the catalog or hold other data by now"
        typer.echo(f"{gone} of {len(picked)} picks {told}", err=True)
        raise typer.Exit(EXIT_FAILED)


def _combine(name: str, operation: Any, left: str, right: str, archive: str | None) -> None:
    from catalog.cli.annotate import account

    with open_catalog(archive) as catalog:
        _print_named(catalog.collections.combine(name, operation, left, right, who=account()))


def _print_named(named: Named) -> None:
    about = "a saved query" if named.snapshot is None else _snapshot_text(named.snapshot)
    typer.echo(f"{printable(named.name)}: {about}")
    for line in replaced_lines(named):
        typer.echo(line, err=True)


def replaced_lines(named: Named) -> list[str]:
    """Say from what the name was taken, so that it can be had again: a snapshot by its hash, a query by its text."""
    return [] if named.replaced is None else [f"{printable(named.name)} was {_before(named.replaced)} until now"]


def _before(named: Named) -> str:
    return printable(f"the query {named.query}") if named.snapshot is None else _snapshot_text(named.snapshot)


def _snapshot_text(kept: Snapshot) -> str:
    return f"{plural(kept.picks, 'pick')}, {kept.hash}"


def _fractions(text: str) -> dict[str, float]:
    from catalog.curation.selection import checked_fractions

    try:
        pairs = [part.split("=") for part in text.split(",")]
        shares = {name.strip(): float(share) for name, share in pairs}
        with option_read():
            return checked_fractions(shares)
    except ValueError as error:
        raise typer.BadParameter(f"expected NAME=SHARE,NAME=SHARE, found {text!r}") from error
