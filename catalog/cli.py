"""The verbs about what an archive holds.

Knows: how rows are asked for and shown. Does not know: files, vectors. Imports what it needs inside the verbs.
"""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wshard.cli import JsonOption, named_path, print_json, printable, reported

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog.catalog import Catalog
    from catalog.filters import Where
    from catalog.records import EpisodeRow


def _named_place(text: str) -> str:
    named_path(text)  # refuses an empty one
    return text


ArchiveOption = Annotated[
    str | None,
    typer.Option(
        "--archive",
        "-a",
        help="Archive folder or postgresql://... (default: $WSHARD_ARCHIVE or ./.wshard).",
        parser=_named_place,
        metavar="PLACE",
    ),
]
EnvOption = Annotated[
    list[str] | None, typer.Option("--env", "-e", help="Environment; may be repeated.", metavar="NAME")
]
RewardOption = Annotated[str | None, typer.Option("--reward", help="Range of total reward, e.g. 0.8: or 0.8:2 or :2.")]
MinLengthOption = Annotated[int | None, typer.Option("--min-length", help="Fewest timesteps.")]
WhereOption = Annotated[
    str | None, typer.Option("--where", "-w", help="Filter, e.g. 'env:reach-v3 reward:0.8.. -tag:bad \"pick up\"'.")
]
_SORTS = {"reward": "total_reward", "env": "env_id", "episode": "episode_id"}  # as the options are called


def open_catalog(archive: str | Path | None) -> Catalog:
    """Open the catalog of an archive; raises CatalogNotFoundError with the place it looked at."""
    from catalog.location import place_of
    from catalog.opening import open_place

    return open_place(place_of(archive))


def find_episode(opened: Catalog, name: str) -> EpisodeRow:
    """Return the episode of that file, uid or episode id; EntryNotFoundError for none, QueryError for several."""
    from catalog.filters import Compare
    from wshard.errors import EntryNotFoundError, QueryError

    known = opened.known([Path(os.path.realpath(name)).as_posix()])
    if known:
        return opened.get(next(iter(known.values()))[0].id)
    try:
        return opened.get(name)
    except EntryNotFoundError:
        page = opened.select(Compare("episode_id", "eq", name), limit=10)
    if len(page.rows) == 1:
        return page.rows[0]
    if not page.rows:
        raise EntryNotFoundError(f"{name!r} is neither a file nor an episode of this archive")
    places = "\n".join(f"  {row.uid}  {shorten(row.path)}" for row in page.rows)
    raise QueryError(f"several episodes have the id {name!r}; give the uid or the file:\n{places}")


def episode_ids(opened: Catalog, names: list[str], where: str | None) -> list[int]:
    """Return the episodes of these names and those that pass the filter; typer.BadParameter when neither is given."""
    if not names and where is None:
        raise typer.BadParameter("name episodes (id, uid or file), or choose them by --where")
    found = {find_episode(opened, name).id for name in names}
    return sorted(found | set(opened.ids(where) if where is not None else ()))


def parse_range(text: str | None) -> tuple[float | None, float | None] | None:
    """Read "low:high" with either side open; raises typer.BadParameter."""
    if text is None:
        return None
    low, colon, high = text.partition(":")
    try:
        bounds = (float(low) if low else None, float(high) if high else None)
    except ValueError:
        bounds = (None, None)
    if not colon or bounds == (None, None):
        raise typer.BadParameter(f"expected LOW:HIGH with numbers, one may be left out, found {text!r}")
    return bounds


@reported()
def ls(
    archive: ArchiveOption = None,
    env: EnvOption = None,
    reward: RewardOption = None,
    min_length: MinLengthOption = None,
    max_length: Annotated[int | None, typer.Option("--max-length", help="Most timesteps.")] = None,
    success: Annotated[bool | None, typer.Option("--success/--failure", help="Only these.")] = None,
    tag: Annotated[
        list[str] | None, typer.Option("--tag", help="Any of these tags; may be repeated.", metavar="TAG")
    ] = None,
    where: WhereOption = None,
    sort: Annotated[str, typer.Option("--sort", help="Field to sort by; -field for falling order.")] = "episode_id",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="Rows per page.")] = 50,
    after: Annotated[str | None, typer.Option("--after", help="Go on after this cursor.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List the episodes of an archive."""
    from catalog.filters import build_where
    from catalog.form_text import as_where

    wanted = as_where(where) & build_where(
        env_id=env or None,
        min_length=min_length,
        max_length=max_length,
        reward_range=parse_range(reward),
        success=success,
        tag=tag or None,
    )
    order = f"-{_SORTS.get(sort[1:], sort[1:])}" if sort.startswith("-") else _SORTS.get(sort, sort)
    with open_catalog(archive) as catalog:
        page = catalog.select(wanted, order=order, after=after, limit=limit)
        total = catalog.count(wanted)
        if as_json:
            rows = [asdict(row) for row in page.rows]
            print_json({"total": total, "next": page.next, "episodes": rows})
            return
        _table(page.rows)
        typer.echo(f"{len(page.rows)} of {total} episodes{_summary(catalog, wanted)}")
        if page.next is not None:
            typer.echo(f"next page: --after {page.next}")


def _summary(catalog: Catalog, where: Where) -> str:
    environments = catalog.facets(["env_id"], where)["env_id"]
    return f" in {len(environments)} environments" if len(environments) > 1 else ""


def _table(rows: tuple[EpisodeRow, ...]) -> None:
    print_table(
        ("episode", "env", ">length", ">reward", "success", "tags", "file"),
        [
            (
                row.episode_id,
                row.env_id,
                str(row.length),
                number(row.total_reward),
                {True: "yes", False: "no", None: ""}[row.success],
                " ".join(row.tags),
                shorten(row.path),
            )
            for row in rows
        ],
    )


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows below the names of the columns, if any has one; ">x" is aligned right. Nothing is folded or cut."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", show_header=any(columns))
    for name in columns:
        right = name.startswith(">")
        table.add_column(name.removeprefix(">"), justify="right" if right else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(escape(printable(cell)) for cell in row))
    # Lines are as long as they must be: a folded or shortened id could not be copied.
    console = Console(file=sys.stdout, width=10_000)
    with console.capture() as drawn:
        console.print(table)
    for line in drawn.get().splitlines():
        typer.echo(line.rstrip())


def number(value: Any) -> str:
    """Return a reward for people: four significant digits, "" for none."""
    return "" if value is None else f"{value:.4g}"


def shorten(path: str) -> str:
    """Return the path as seen from the current folder where that is shorter."""
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except ValueError:
        return path
