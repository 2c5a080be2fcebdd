"""The command `ls`: episodes as a table, JSON or CSV."""

from __future__ import annotations

import csv
import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catalog.cli.common import (
    ArchiveOption,
    EnvOption,
    MaxLengthOption,
    MinLengthOption,
    RewardOption,
    SuccessOption,
    TagOption,
    WhereOption,
    format_number,
    open_catalog,
    parse_range,
    print_table,
    report_unknown,
    shorten,
)
from wshard.cli.common import JsonOption, as_cell, print_items, printable, reported

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from catalog.catalog import Catalog
    from catalog.filters.where import Where
    from catalog.query.columns import Column
    from catalog.records import EpisodeRow, Page

_PAGE = 50
_BATCH_SIZE = 1000


@reported()
def ls(
    archive: ArchiveOption = None,
    env: EnvOption = None,
    reward: RewardOption = None,
    min_length: MinLengthOption = None,
    max_length: MaxLengthOption = None,
    success: SuccessOption = None,
    tag: TagOption = None,
    where: WhereOption = None,
    columns: Annotated[
        str | None,
        typer.Option(help="Columns to print, e.g. 'episode,meta.task,score.quality.spike,tags'.", metavar="FIELD,..."),
    ] = None,
    sort: Annotated[str, typer.Option("--sort", help="Field to sort by; -FIELD for descending order.")] = "episode_id",
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-n", min=1, max=10_000, help=f"Rows per page (default: {_PAGE}; --csv: all)."),
    ] = None,
    after: Annotated[
        str | None, typer.Option("--after", help="Continue after this cursor (printed below a page).")
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV of all columns, or of --columns.")] = False,
    as_json: JsonOption = False,
) -> None:
    """List the episodes of an archive."""
    from catalog.filters.parse import as_where
    from catalog.filters.where import build_where
    from catalog.query.columns import columns_of, split_names
    from catalog.query.listing import list_episodes

    if as_csv and as_json:
        raise typer.BadParameter("expected --csv or --json, not both")
    filters = build_where(
        env_id=env or None,
        min_length=min_length,
        max_length=max_length,
        reward_range=parse_range(reward),
        success=success,
        tag=tag or None,
    )
    with open_catalog(archive) as catalog:
        combined = as_where(where) & filters
        selected = None if columns is None else columns_of(split_names(columns))
        if as_csv:
            report_unknown(catalog, combined)
            pages = _pages(catalog, combined, order=sort, after=after, limit=limit)
            _print_csv(catalog, selected or columns_of(catalog.query.columns()), pages)
            return
        page = catalog.query.select(combined, order=sort, after=after, limit=limit or _PAGE)
        report_unknown(catalog, combined, is_empty=not (page.rows or after))
        total = catalog.query.count(combined) if after or page.next else len(page.rows)
        if as_json:
            print_items(list_episodes(catalog.query, selected, page.rows), total=total, next=page.next)
            return
        _print(catalog, selected, page.rows)
        typer.echo(f"{len(page.rows)} of {total} episodes{_summary(catalog, combined)}")
        if page.next is not None:
            typer.echo(f"next page: --after {page.next}")


def _pages(
    catalog: Catalog, where: Where, *, order: str, after: str | None, limit: int | None
) -> Iterator[Sequence[EpisodeRow]]:
    """Yield the rows of each page: of one page if there is a limit, else of all."""
    page: Page | None = None
    while page is None or (page.next is not None and limit is None):
        page = catalog.query.select(where, order=order, after=after, limit=limit or _BATCH_SIZE)
        yield page.rows
        after = page.next


def _print_csv(catalog: Catalog, columns: Sequence[Column], pages: Iterator[Sequence[EpisodeRow]]) -> None:
    from catalog.query.listing import read_cells

    shown = printable if sys.stdout.isatty() else str  # programs get every value unchanged
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([shown(column.name) for column in columns])
    for rows in pages:
        page_cells = read_cells(catalog.query, columns, rows)
        writer.writerows([[shown(_csv_cell(value)) for value in cells] for cells in page_cells])


def _csv_cell(value: Any) -> str:
    """Return a value as text of a cell: JSON, but plain text unquoted and nothing for a missing value."""
    return "" if value is None else as_cell(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _print(catalog: Catalog, columns: Sequence[Column] | None, rows: Sequence[EpisodeRow]) -> None:
    if columns is None:
        _table(catalog, rows)
        return
    from catalog.query.listing import read_cells, read_value

    names = [column.name for column in columns]
    cells = [[*map(read_value, names, row)] for row in read_cells(catalog.query, columns, rows)]
    heads = [
        f">{column.name}" if column.type in (int, float) and not column.listed else column.name for column in columns
    ]
    print_table(heads, [list(map(_cell, row_cells)) for row_cells in cells])


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return format_number(value)
    return " ".join(map(_cell, value)) if isinstance(value, list) else "" if value is None else str(value)


def _summary(catalog: Catalog, where: Where) -> str:
    environments = catalog.query.facets(["env_id"], where)["env_id"]
    return f" in {len(environments)} environments" if len(environments) > 1 else ""


def _table(catalog: Catalog, rows: Sequence[EpisodeRow]) -> None:
    tasks = [(_cell(row.metadata.get("task")),) for row in rows]
    has_tasks = any(task for (task,) in tasks)
    print_table(
        ("episode", "env", *(("task",) if has_tasks else ()), ">length", ">reward", "success", "tags", "/file"),
        [
            (
                name,
                row.env_id,
                *(task if has_tasks else ()),
                str(row.length),
                format_number(row.total_reward),
                {True: "yes", False: "no", None: ""}[row.success],
                " ".join(row.tags),
                shorten(str(row.address)),
            )
            for row, task, name in zip(rows, tasks, catalog.query.short_names(rows), strict=True)
        ],
    )
