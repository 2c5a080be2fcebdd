"""The commands `wshard collection ...` and export-list."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catalog.cli.common import (
    ArchiveOption,
    LimitOption,
    WhereOption,
    open_catalog,
    print_table,
    report_unknown,
    shorten,
)
from wshard.cli.common import (
    EXIT_FAILED,
    JsonOption,
    named_path,
    option_read,
    print_items,
    print_json,
    printable,
    reported,
)
from wshard.core.messages import plural
from wshard.errors import CollectionError

if TYPE_CHECKING:
    from catalog.curation.collections import Named, Snapshot

NameArgument = Annotated[str, typer.Argument(help="Name of the collection.")]
RefArgument = Annotated[str, typer.Argument(help="Name of a collection or hash of a snapshot.")]

app = typer.Typer(
    help="Virtual datasets: saved queries and snapshots of (episode, span, weight) picks; no data is copied.",
    no_args_is_help=True,
)


@app.command("ls")
@reported()
def list_(archive: ArchiveOption = None, as_json: JsonOption = False) -> None:
    """List the collections."""
    from catalog.curation.listing import list_named

    with open_catalog(archive) as catalog:
        named, gone = catalog.collections.all(), catalog.collections.gone()
    if as_json:
        print_items(list_named(one, gone) for one in named)
        return
    rows = [
        (
            collection.name,
            "snapshot",
            str(collection.snapshot.picks),
            str(gone.get(collection.name, "")),
            collection.snapshot.hash,
            collection.who,
            collection.at,
        )
        if collection.snapshot is not None
        else (collection.name, "query", "", "", collection.query or "", collection.who, collection.at)
        for collection in named
    ]
    print_table(("name", "kind", ">picks", ">gone", "query or hash", "who", "when"), rows)


@app.command()
@reported()
def save(
    name: NameArgument,
    where: WhereOption = None,
    live: Annotated[bool, typer.Option("--live", help="Save the query itself; it is evaluated on each use.")] = False,
    allow_empty: Annotated[bool, typer.Option("--allow-empty", help="Save a snapshot without episodes, too.")] = False,
    archive: ArchiveOption = None,
) -> None:
    """Save the episodes that match a filter, as an immutable snapshot or as a query (--live)."""
    from catalog.cli.annotate import account

    if where is None:
        raise typer.BadParameter("expected --where ('' for all episodes)")
    with open_catalog(archive) as catalog:
        report_unknown(catalog, where)
        if not (live or allow_empty or catalog.query.count(where)):
            raise CollectionError(f"no episode passes the filter {where!r}: --allow-empty saves a snapshot without any")
        make = catalog.collections.save_query if live else catalog.collections.save_snapshot
        _print_named(make(name, where, who=account()))


@app.command()
@reported()
def show(ref: RefArgument, limit: LimitOption = 10, archive: ArchiveOption = None, as_json: JsonOption = False) -> None:
    """Show a collection: its picks and its lineage."""
    from catalog.curation.listing import list_collection

    with open_catalog(archive) as catalog:
        description = list_collection(catalog.collections, ref)
    if as_json:
        print_json(description)
        return
    missing = f"; {description['gone']} of them removed, changed or read otherwise since" if description["gone"] else ""
    steps = plural(sum(pick["stop"] - pick["start"] for pick in description["items"]), "timestep")
    typer.echo(f"{plural(description['total'], 'pick')}, {steps}{missing}")
    if description["query"] is not None:
        typer.echo(f"query: {printable(description['query'])}")
    print_table(
        ("snapshot", ">picks", "made", "when"),
        [
            (
                snapshot["hash"],
                str(snapshot["picks"]),
                json.dumps(snapshot["origin"], ensure_ascii=False),
                snapshot["made_at"],
            )
            for snapshot in description["lineage"]
        ],
    )
    typer.echo()
    print_table(("episode", "timesteps", ">weight", "/file"), [*map(_pick_cells, description["items"][:limit])])
    if description["total"] > limit:
        typer.echo(f"{limit} of {plural(description['total'], 'pick')}")


def _pick_cells(pick: dict[str, Any]) -> tuple[str, str, str, str]:
    """Return the cells of a pick; of one without its data, its uid."""
    steps, weight = f"{pick['start']}:{pick['stop']}", f"{pick['weight']:g}"
    if pick["episode_id"] is None:
        return pick["uid"], steps, weight, "not as it was"
    return pick["episode_id"], steps, weight, shorten(pick["address"])


@app.command()
@reported()
def union(name: NameArgument, left: RefArgument, right: RefArgument, archive: ArchiveOption = None) -> None:
    """Save the picks of both collections together under a new name."""
    _combine(name, "union", left, right, archive)


@app.command()
@reported()
def intersection(name: NameArgument, left: RefArgument, right: RefArgument, archive: ArchiveOption = None) -> None:
    """Save the picks that are in both collections under a new name."""
    _combine(name, "intersection", left, right, archive)


@app.command()
@reported()
def without(name: NameArgument, left: RefArgument, right: RefArgument, archive: ArchiveOption = None) -> None:
    """Save the picks of the left that are not in the right under a new name."""
    _combine(name, "without", left, right, archive)


@app.command()
@reported()
def split(
    ref: RefArgument,
    fractions: Annotated[str, typer.Option(help="Parts and their fractions.")] = "train=0.8,val=0.1,test=0.1",
    by: Annotated[
        list[str] | None,
        typer.Option(
            "--by", help="Keep episodes with equal values of this field together; may be repeated.", metavar="FIELD"
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    archive: ArchiveOption = None,
) -> None:
    """Split a collection into snapshots NAME/train, NAME/val, ... that share no episode, no equal data and no group.

    Near copies (trimmed, noisy) stay together by the groups that `wshard duplicates --write NAME` saves, with
    --by score.NAME.
    """
    from catalog.cli.annotate import account
    from catalog.curation.split_notes import note_split

    fractions_by_part = _fractions(fractions)
    with open_catalog(archive) as catalog:
        saved = catalog.collections.split(ref, fractions_by_part, by=by or [], seed=seed, who=account())
        notes = note_split(catalog.query, saved, fractions_by_part, by=by or [])
    for named in saved:
        _print_named(named)
    for line in notes:
        typer.echo(printable(line), err=True)
    full = [quote(named.name) for named in saved if named.snapshot is not None and named.snapshot.picks][:2]
    if len(full) > 1 and not any(field.startswith("score.") for field in by or []):
        typer.echo(f"near copies may be in two parts: `wshard leaks {printable(' '.join(full))}` finds them", err=True)


@app.command()
@reported()
def diff(before: RefArgument, after: RefArgument, archive: ArchiveOption = None, as_json: JsonOption = False) -> None:
    """Show the differences between two collections."""
    from catalog.curation.listing import list_difference

    with open_catalog(archive) as catalog:
        difference = list_difference(catalog.collections, before, after)
    if as_json:
        print_json(difference)
        return
    marks = {"added": "+", "removed": "-", "reweighted": "*"}
    for pick in difference["items"]:
        mark = marks[pick["change"]]
        typer.echo(f"{mark} {pick['uid']} {pick['start']}:{pick['stop']} weight {pick['weight']:g}")
    typer.echo(", ".join(f"{difference[name]} {name}" for name in marks))


@app.command()
@reported()
def drop(name: NameArgument, archive: ArchiveOption = None) -> None:
    """Remove the name of a collection; a snapshot stays available by its hash."""
    with open_catalog(archive) as catalog:
        dropped = catalog.collections.drop(name)
        broken = catalog.collections.naming(name)
    typer.echo(f"{printable(name)} removed; it was {_before(dropped)}")
    if broken:
        typer.echo(printable(f"saved queries that name it fail without it: {', '.join(broken)}"), err=True)


@reported()
def export_list(
    ref: RefArgument,
    to: Annotated[
        Path | None,
        typer.Option(
            "--to", help="File (.json, .csv or .parquet; default: JSON on stdout).", parser=named_path, metavar="FILE"
        ),
    ] = None,
    archive: ArchiveOption = None,
) -> None:
    """Write a list of a collection's files, spans and weights; exit 1 if the archive has lost some (see fsck, too)."""
    from catalog.curation.export_list import FORMATS, encode_list
    from wshard.core.container.atomic_write import check_replaceable, publish

    format_name = "json" if to is None else to.suffix.removeprefix(".")
    if format_name not in FORMATS:
        raise typer.BadParameter(f"--to: expected a file of {', '.join(FORMATS)}, found {to}")
    if to is not None:
        check_replaceable(to, "an earlier list", FORMATS[format_name])
    with open_catalog(archive) as catalog:
        picked = catalog.collections.picked(ref)
        gone = catalog.collections.explain_gone(ref)
    data = encode_list(picked, format_name)
    if to is None:
        sys.stdout.buffer.write(data)
    else:
        with publish(to) as file:
            file.write(data)
    if missing := sum(row is None for _, row in picked):
        typer.echo(f"{missing} of {len(picked)} picks have no path: {printable(gone)}", err=True)
        raise typer.Exit(EXIT_FAILED)


def _combine(name: str, operation: Any, left: str, right: str, archive: str | None) -> None:
    from catalog.cli.annotate import account

    with open_catalog(archive) as catalog:
        _print_named(catalog.collections.combine(name, operation, left, right, who=account()))


def _print_named(named: Named) -> None:
    description = "a saved query" if named.snapshot is None else _snapshot_text(named.snapshot)
    typer.echo(f"{printable(named.name)}: {description}")
    for line in replaced_lines(named):
        typer.echo(line, err=True)


def replaced_lines(named: Named) -> list[str]:
    """Return lines about the collection that had the name before (hash or query text), so that it can be restored."""
    return [] if named.replaced is None else [f"{printable(named.name)} replaced {_before(named.replaced)}"]


def _before(named: Named) -> str:
    return printable(f"the query {named.query}") if named.snapshot is None else _snapshot_text(named.snapshot)


def _snapshot_text(snapshot: Snapshot) -> str:
    return f"{plural(snapshot.picks, 'pick')}, {snapshot.hash}"


def _fractions(text: str) -> dict[str, float]:
    from catalog.curation.selection import checked_fractions

    try:
        pairs = [part.split("=") for part in text.split(",")]
        fractions = {name.strip(): float(fraction) for name, fraction in pairs}
        with option_read():
            return checked_fractions(fractions)
    except ValueError as error:
        raise typer.BadParameter(f"expected NAME=SHARE,NAME=SHARE, found {text!r}") from error
