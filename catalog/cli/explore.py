"""The commands that summarise an archive: facets, stats, sql."""

from __future__ import annotations

from dataclasses import asdict
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catalog.cli.common import ArchiveOption, WhereOption, format_number, open_catalog, print_table, report_unknown
from wshard.cli.common import JsonOption, print_items, printable, reported
from wshard.core.messages import plural

if TYPE_CHECKING:
    from catalog.catalog import Catalog
    from catalog.query.summary_records import Facet

_BAR = 40
_NAMED = 10  # further fields
_MANY = 100_000  # episodes of whose metadata each key takes seconds to count


@reported()
def facets(
    fields: Annotated[
        list[str] | None,
        typer.Argument(help="Fields (default: those that tell episodes apart)."),
    ] = None,
    where: WhereOption = None,
    histogram: Annotated[
        list[str] | None,
        typer.Option("--histogram", help="Show a histogram of this numeric field; may be repeated.", metavar="FIELD"),
    ] = None,
    bins: Annotated[int, typer.Option("--bins", min=1, max=1000, help="Number of histogram bins.")] = 10,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Maximum number of values per field.")] = 20,
    archive: ArchiveOption = None,
    as_json: JsonOption = False,
) -> None:
    """Count episodes by field value, and show histograms of numeric fields."""
    from catalog.query.listing import list_facets, list_histograms

    with open_catalog(archive) as catalog:
        report_unknown(catalog, where)
        names, others = (fields or [], []) if fields or histogram else _find_fields(catalog)
        counts = catalog.query.facets(names, where or "", limit=limit + 1)  # one more shows that there are more
        if not fields:  # what no episode has a value of tells nothing
            counts = {
                name: values for name, values in counts.items() if any(value not in (None, "") for value, _ in values)
            }
        limited = {name: values[:limit] for name, values in counts.items()}
        histograms = {name: catalog.query.histogram(name, where or "", bins=bins) for name in histogram or ()}
        tables = {} if as_json else {name: _rows(catalog, name, where, values) for name, values in limited.items()}
    if as_json:
        print_items(list_facets(limited), histograms=list_histograms(histograms))
        return
    for name, rows in tables.items():
        print_table((f"/{name}" if name in ("folder", "path") else name, ">episodes"), rows)
        layouts = [str(value) for value, _ in limited[name] if name == "format" and "?" in str(value)]
        if layouts:
            beginnings = dict.fromkeys(f"format:{value.partition('?')[0]}?*" for value in layouts)
            typer.echo(f"in filters: {printable(' '.join(beginnings))}; --json has them in full")
        typer.echo("more values: increase --limit\n" if len(counts[name]) > limit else "")
    for name, shape in histograms.items():
        highest = max(shape.counts, default=0)
        bars = [
            (f"{low:.4g}", f"{high:.4g}", str(count), "#" * round(_BAR * count / highest) if highest else "")
            for low, high, count in zip(shape.edges, shape.edges[1:], shape.counts, strict=False)
        ]
        print_table((f">{name} from", ">to", ">episodes", ""), bars)
        typer.echo(f"{shape.missing} without a value\n")
    if others:
        rest = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
        typer.echo(f"further fields: {' '.join(printable(quote(name)) for name in others[:_NAMED])}{rest}")


def _find_fields(catalog: Catalog) -> tuple[list[str], list[str]]:
    """Return the fields that tell episodes apart, and others; metadata of many episodes are among the others."""
    from catalog.query.differences import find_differences
    from catalog.query.sampling import sample_episodes

    found = find_differences(catalog.query, sample_episodes(catalog.query))
    slow = [name for name in found.facets if name.startswith("meta.") and catalog.query.count() >= _MANY]
    return [name for name in found.facets if name not in slow], [*slow, *found.more_facets]


def _rows(catalog: Catalog, name: str, where: str | None, values: Facet) -> list[tuple[str, str]]:
    """Return the rows of a facet; lists and objects in metadata are counted apart from missing values."""
    from catalog.filters.parse import as_where
    from catalog.filters.where import Compare, negation
    from catalog.query.listing import read_value

    rows = []
    plain = {_text(value) for value, _ in values if not isinstance(value, str)}
    for value, count in values:
        missing = count
        if value is None and name.startswith("meta."):
            missing = catalog.query.count(as_where(where) & negation(Compare(name, "exists")))
            rows += [("(lists, objects)", str(count - missing))] if missing < count else []
        written = f'"{value}"' if isinstance(value, str) and value in plain else _value(read_value(name, value))
        rows += [(written, str(missing))] if missing else []
    return rows


@reported()
def stats(
    fields: Annotated[list[str] | None, typer.Argument(help="Numeric fields (default: reward length).")] = None,
    by: Annotated[
        list[str] | None, typer.Option("--by", help="Group by this field; may be repeated.", metavar="FIELD")
    ] = None,
    where: WhereOption = None,
    archive: ArchiveOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show count, mean, standard deviation and range of numeric fields, optionally by group."""
    from catalog.query.listing import read_value

    names, keys = fields or ["reward", "length"], by or []
    with open_catalog(archive) as catalog:
        report_unknown(catalog, where)
        groups = catalog.query.statistics(names, where or "", by=keys)
    if as_json:
        print_items(map(asdict, groups))
        return
    rows = [
        (
            *(_value(read_value(key, value)) for key, value in zip(keys, group.key, strict=True)),
            str(group.episodes),
            name,
            str(s.count),
            *map(format_number, (s.mean, s.std, s.min, s.max)),
        )
        for group in groups
        for name, s in group.values.items()
    ]
    print_table((*keys, ">episodes", "field", ">values", ">mean", ">std", ">min", ">max"), rows)


@reported()
def sql(
    statement: Annotated[str, typer.Argument(help="SELECT statement; tables are listed in catalog/SCHEMA.md.")],
    seconds: Annotated[float, typer.Option(min=0.01, help="Time limit in seconds.")] = 5.0,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Maximum number of rows.")] = 1000,
    archive: ArchiveOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run a read-only SQL query on the catalog database."""
    with open_catalog(archive) as catalog:
        answer = catalog.query.sql(statement, seconds=seconds, limit=limit)
    rows = [[f"<{len(one)} bytes>" if isinstance(one, bytes) else one for one in row] for row in answer.rows]
    if as_json:
        print_items(rows, columns=answer.columns, more=answer.more)
        return
    print_table(answer.columns, [tuple(_text(value) for value in row) for row in rows])
    typer.echo(f"{plural(len(rows), 'row')}{' (more available: --limit)' if answer.more else ''}")


def _value(value: Any) -> str:
    """Return "-" for a missing value; the texts "-" and "" are quoted to distinguish them."""
    return "-" if value is None else f'"{value}"' if value in ("", "-") else _text(value)


def _text(value: Any) -> str:
    return "" if value is None else {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
