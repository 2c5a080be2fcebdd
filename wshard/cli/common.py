"""Helpers shared by all commands: exit codes, one-line errors, JSON output."""

from __future__ import annotations

import contextlib
import json
import warnings
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wshard.cli.interrupts import begin_work
from wshard.errors import (
    FilterError,
    GuessWarning,
    UnknownEmbedderError,
    UnknownFormatError,
    UnknownIndexError,
    WShardError,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
# Errors of usage, not of the data.
_FORMULAS = ("=", "+", "-", "@", "\t", "\r")  # first characters of text that spreadsheets evaluate
_USAGE_ERRORS = (FilterError, UnknownEmbedderError, UnknownFormatError, UnknownIndexError)
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]

LayoutOption = Annotated[
    str | None,
    typer.Option(
        "--layout",
        metavar="NAME|FILE",
        help="Layout of the locations: a name (`wshard layout list`), or the path of a description.",
    ),
]

EpisodeColumnOption = Annotated[
    str | None, typer.Option("--episode-column", help="Column of a table that says which episode a row belongs to.")
]
TimeColumnOption = Annotated[
    str | None,
    typer.Option("--time-column", help="Column of a table with times: dates, or seconds, but for names such as t_ms."),
]
ActionColumnsOption = Annotated[
    list[str] | None, typer.Option("--actions", metavar="A,B", help="Columns of a table that are actions, in order.")
]


@contextlib.contextmanager
def reported(interrupted: str = "") -> Iterator[None]:
    """Print errors on one line on stderr, without a traceback, and exit; also usable as a decorator of commands.

    Warnings are printed on one line, too, each once and without code location, and those of guesses whatever the
    filters of warnings. interrupted: message on Ctrl-C about the state left.
    """
    try:
        begin_work()
        with warnings.catch_warnings():
            warnings.simplefilter("default", GuessWarning)
            warnings.showwarning = partial(_print_warning, set[str]())
            yield
    except KeyboardInterrupt:
        typer.echo(f"interrupted: {interrupted}" if interrupted else "interrupted", err=True)
        raise typer.Exit(EXIT_INTERRUPTED) from None
    except BrokenPipeError:
        raise  # the reader closed the pipe: Typer exits quietly
    except (WShardError, OSError) as error:
        from wshard.core.messages import error_text

        message = "\n".join(printable(line) for line in error_text(error).split("\n"))
        typer.echo(f"error: {message}", err=True)
        # An invalid filter is wrong usage: exit code 1 would mean that e.g. `wshard check` found problems.
        raise typer.Exit(EXIT_USAGE if isinstance(error, _USAGE_ERRORS) else EXIT_FAILED) from None


def _print_warning(printed: set[str], message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning, unless the same one is printed already: a file may be opened more than once."""
    if (text := str(message)) not in printed:
        printed.add(text)
        typer.echo(f"warning: {printable(text)}", err=True)


@contextlib.contextmanager
def option_read() -> Iterator[None]:
    """Report errors in the value of an option as wrong usage."""
    try:
        yield
    except WShardError as error:
        raise typer.BadParameter(str(error)) from None


def reading_options(
    format_name: str,
    layout: str | None,
    lane_map: Iterable[str] | None = None,
    columns: Mapping[str, Any] | None = None,
) -> str:
    """Return how to read locations, of options of the command line; raises LayoutError, typer.BadParameter.

    columns: TableOptions by name, those that are given.
    """
    from wshard.core.episode.protocol import read_as
    from wshard.formats.lane_map import encode_lane_map

    given = {name: value for name, value in (columns or {}).items() if value}
    if (layout is not None) + bool(format_name) + bool(given) > 1:
        raise typer.BadParameter("expected one of --layout, columns of a table, and a format; found two")
    with option_read():
        renamed = encode_lane_map(lane_map or ())
    return read_as(_layout_of(layout, given) if layout is not None or given else format_name, renamed)


def _layout_of(layout: str | None, columns: dict[str, Any]) -> str:
    from wshard.formats.layouts.named import layout_reference, table_reference
    from wshard.formats.layouts.options import TableOptions

    if layout is not None:
        return layout_reference(layout)
    actions = tuple(name.strip() for text in columns.pop("actions", ()) for name in text.split(","))
    return table_reference(TableOptions(**columns, actions=actions))


def as_cell(text: str) -> str:
    """Return text for a CSV cell: after an apostrophe if a spreadsheet would run it as a formula."""
    return f"'{text}" if text.startswith(_FORMULAS) else text


def named_place(text: str) -> str:
    """Return the path or URI that an argument names; an empty text, e.g. of an unset variable, is refused."""
    if not text:
        raise typer.BadParameter("expected a path, found an empty text")
    return text


def local_place(text: str) -> str:
    """Return the path that an argument names, as named_place does; a URL is refused where only a local disk will do."""
    if "://" in named_place(text):
        from wshard.core.messages import public_url

        raise typer.BadParameter(
            f"expected a path on a local disk, found {public_url(text)}: copy it from or to its store with other tools"
        )
    return text


def named_path(text: str) -> Path:
    """Return the path that an argument names, as local_place does."""
    return Path(local_place(text))


def output_option(text: str) -> Any:
    """Return the option --output, a path on a local disk; text: its help."""
    return typer.Option("--output", "-o", help=text, parser=named_path, metavar="FILE")


def print_json(value: Any) -> None:
    """Print a value as strict JSON; NaN and infinities become null."""
    from wshard.core.messages import finite

    typer.echo(json.dumps(finite(value), indent=2, allow_nan=False))


def print_items(items: Iterable[Any], **fields: Any) -> None:
    """Print a JSON object with `items`, their number as `total`, and further fields."""
    item_list = list(items)
    print_json({"items": item_list, "total": len(item_list), **fields})


def printable(text: str) -> str:
    """Return text with control characters escaped, as names from files may contain them."""
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)


def byte_count(text: str) -> int:
    """Read a size such as 4096, 500MB (powers of 1000) or 1.5GiB (of 1024); raises typer.BadParameter."""
    from wshard.core.arguments import parse_size

    size = parse_size(str(text))
    if not size:
        raise typer.BadParameter(f"expected a size such as 4096, 500MB or 1.5GiB, at least a byte, found {text!r}")
    return size


def parse_span(text: str | None) -> tuple[int, int | None]:
    """Read "START:STOP" in timesteps, either may be omitted; raises typer.BadParameter."""
    start, colon, stop = (text or ":").partition(":")
    if not colon or not all(part.isdecimal() or not part for part in (start, stop)):
        raise typer.BadParameter(f"--span: expected START:STOP in timesteps, found {text!r}")
    return int(start or 0), int(stop) if stop else None
