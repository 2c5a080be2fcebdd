"""Options, episode names and tables that the commands about an archive share."""

from __future__ import annotations

import shutil
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wshard.cli.common import option_read, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from catalog.catalog import Catalog
    from catalog.filters.where import Where


_MAX_LINE_WIDTH = 10_000  # characters of a line of a table
_MIN_TEXT_WIDTH = 6  # columns of text are not cut below this while numbers can be cut instead
_LARGEST_WHOLE = 1e15
_MIN_PATH_WIDTH = 12  # nor paths while texts can: names of files are at their end
_GAP = 2  # between columns
_ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"


def check_archive(text: str) -> str:
    """Return what names an archive unchanged; an option or argument that cannot is reported."""
    from catalog.location import place_of

    with option_read():
        place_of(text)
    return text


ArchiveOption = Annotated[
    str | None,
    typer.Option(
        "--archive",
        "-a",
        help="Archive folder or postgresql://... (default: $WSHARD_ARCHIVE, or .wshard in this folder or a parent).",
        parser=check_archive,
        metavar="PLACE",
    ),
]
EnvOption = Annotated[
    list[str] | None, typer.Option("--env", "-e", help="Environment id; may be repeated.", metavar="NAME")
]
RewardOption = Annotated[str | None, typer.Option("--reward", help="Range of total reward: 0.8:, 0.8:2 or :2.")]
MinLengthOption = Annotated[int | None, typer.Option("--min-length", help="Minimum number of timesteps.")]
MaxLengthOption = Annotated[int | None, typer.Option("--max-length", help="Maximum number of timesteps.")]
SuccessOption = Annotated[
    bool | None, typer.Option("--success/--failure", help="Only successful or only failed episodes.")
]
TagOption = Annotated[
    list[str] | None, typer.Option("--tag", help="Tag; may be repeated (any of them matches).", metavar="TAG")
]
WhereOption = Annotated[
    str | None, typer.Option("--where", "-w", help="Filter, e.g. 'env:reach-v3 reward:0.8.. -tag:bad \"pick up\"'.")
]
LimitOption = Annotated[
    int, typer.Option("--limit", "-n", min=1, help="Maximum number of rows to print; --json prints all.")
]


@contextmanager
def open_catalog(archive: str | Path | None) -> Iterator[Catalog]:
    """Open the catalog of an archive; raises CatalogNotFoundError with the location that was searched."""
    from catalog.location import place_of
    from catalog.open import open_place
    from catalog.query.suggestions import suggest_keys

    with open_place(place_of(archive)) as opened, suggest_keys(opened.query):
        yield opened


def episode_ids(opened: Catalog, names: list[str], where: str | None) -> list[int]:
    """Return the ids of these episodes and those that match the filter; typer.BadParameter if neither is given."""
    from catalog.names import find_episode

    if not names and where is None:
        raise typer.BadParameter("expected episodes (id, uid or file) or --where")
    ids = {find_episode(opened, name).id for name in names}
    report_unknown(opened, where)
    return sorted(ids | set(opened.query.ids(where) if where is not None else ()))


def report_unknown(opened: Catalog, where: Where | str | None, *, is_empty: bool = False) -> None:
    """Print on stderr what is wrong with the fields and values that a filter names; is_empty: it matches nothing."""
    from catalog.filters.parse import as_where
    from catalog.query.suggestions import suggest_values

    filters = as_where(where)
    for line in suggest_values(opened.query, filters, empty=[filters] if is_empty else ()):
        typer.echo(printable(line), err=True)


def parse_range(text: str | None) -> tuple[float | None, float | None] | None:
    """Read "low:high", or "low..high" as filters have it, with either side open; raises typer.BadParameter."""
    if text is None:
        return None
    low, colon, high = text.replace("..", ":").partition(":")
    try:
        bounds = (float(low) if low else None, float(high) if high else None)
    except ValueError:
        bounds = (None, None)
    low_bound, high_bound = bounds
    is_reversed = low_bound is not None and high_bound is not None and low_bound > high_bound
    if not colon or bounds == (None, None) or is_reversed:
        raise typer.BadParameter(f"expected LOW:HIGH with numbers, either may be omitted, found {text!r}")
    return bounds


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, whole: bool = False) -> None:
    """Print rows below the names of the columns, if any has one; ">x" is right-aligned, "=x" ids.

    "/x" are paths, "~x" paths whose rows have names, too: they are left out where the others have no room beside them.

    On a terminal each row is one line of its width: paths are truncated first, at the beginning, then the widest other
    cells, in the middle, as many differ only at their end; numbers and ids last. Elsewhere, and with whole=True,
    nothing is.
    """
    from rich.cells import cell_len  # all of rich would take a tenth of a command's time

    heads = [printable(name.lstrip(">/=~")) for name in columns]
    cells = [[printable(_drawable(cell)) for cell in row] for row in rows]
    if not whole and sys.stdout.isatty():
        total = shutil.get_terminal_size().columns
        shown = _find_room(columns, [heads, *cells], total)
        columns, heads, *cells = ([row[index] for index in shown] for row in (columns, heads, *cells))
        widths = _widths(columns, [heads, *cells], total)
        heads = [_shortened(head, width, ">") for head, width in zip(heads, widths, strict=True)]
        cells = [
            [_shortened(cell, width, name[:1]) for cell, width, name in zip(row, widths, columns, strict=True)]
            for row in cells
        ]
    # Rows are never wrapped: a wrapped id could not be copied.
    widths = [max(map(cell_len, column)) for column in zip(heads, *cells, strict=True)]
    for row in (*([heads] if any(columns) else []), *cells):
        parts = []
        for cell, width, name in zip(row, widths, columns, strict=True):
            space = " " * (width - cell_len(cell))
            parts.append(space + cell if name.startswith(">") else cell + space)
        typer.echo((" " * _GAP).join(parts).rstrip())


def _find_room(columns: Sequence[str], rows: Sequence[Sequence[str]], total: int) -> list[int]:
    """Return the places of the columns that are shown in rows of this width."""
    from rich.cells import cell_len

    others = [index for index, name in enumerate(columns) if not name.startswith("~")]
    needed = sum(max(cell_len(row[index]) for row in rows) + _GAP for index in others)
    return others if needed + _MIN_PATH_WIDTH > total else [*range(len(columns))]


def _widths(columns: Sequence[str], rows: Sequence[Sequence[str]], total: int) -> list[int]:
    """Return the width of each column for rows of this width: which cells are truncated says print_table."""
    from rich.cells import cell_len

    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    available = total - _GAP * (len(columns) - 1)
    while sum(widths) > available and max(widths) > 1:
        paths = [
            index
            for index, name in enumerate(columns)
            if name.startswith(("/", "~")) and widths[index] > _MIN_PATH_WIDTH
        ]
        texts = [
            index
            for index, name in enumerate(columns)
            if not name.startswith((">", "=")) and widths[index] > _MIN_TEXT_WIDTH
        ]
        widest = max(paths or texts or range(len(columns)), key=widths.__getitem__)
        widths[widest] -= 1
    return widths


def _shortened(cell: str, width: int, kind: str) -> str:
    """Return what fits of a cell, with an ellipsis: the end of a path, the beginning of a number or id, else both."""
    from rich.cells import cell_len, set_cell_size

    if cell_len(cell) <= width:
        return cell
    tail_width = width - 1 if kind in ("/", "~") else 0 if kind in (">", "=") else (width - 1) // 2
    return set_cell_size(cell, width - 1 - tail_width) + _ELLIPSIS + set_cell_size(cell[::-1], tail_width)[::-1]


def _drawable(cell: str) -> str:
    """Return the printable part of a cell: megabytes take seconds, and are not shown anyway."""
    return cell if len(cell) <= _MAX_LINE_WIDTH else f"{cell[: _MAX_LINE_WIDTH - 1]}{_ELLIPSIS}"


def format_number(value: Any) -> str:
    """Return a number with four significant digits, a whole one with all of up to 15; "" for None."""
    if value is None:
        return ""
    is_whole = float(value).is_integer() and abs(value) < _LARGEST_WHOLE
    return f"{value:.0f}" if is_whole else f"{value:.4g}"


def shorten(path: str) -> str:
    """Return the path relative to the current folder if it is inside it."""
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except ValueError:
        return path
