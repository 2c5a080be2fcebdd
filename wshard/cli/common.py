"""What all verbs share: exit codes, errors in one line, JSON."""

from __future__ import annotations

import contextlib
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wshard.errors import FilterError, UnknownEmbedderError, UnknownIndexError, WShardError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
_USAGE = (FilterError, UnknownEmbedderError, UnknownIndexError)  # what a user wrote is wrong, whatever the data are
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


@contextlib.contextmanager
def reported() -> Iterator[None]:
    """Tell of errors in one line on stderr, without a traceback, and exit; also usable as a decorator of verbs."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        raise typer.Exit(EXIT_INTERRUPTED) from None
    except BrokenPipeError:
        raise  # the reader of our output has seen enough: Typer ends quietly
    except (WShardError, OSError) as error:
        message = "\n".join(printable(line) for line in _in_words(error).split("\n"))
        typer.echo(f"error: {message}", err=True)
        # A mistake in a filter is one of the command line; 1 would say that something was found, to `wshard check` say.
        raise typer.Exit(EXIT_USAGE if isinstance(error, _USAGE) else EXIT_FAILED) from None


@contextlib.contextmanager
def option_read() -> Iterator[None]:
    """Take errors of reading the value of an option for a wrong usage."""
    try:
        yield
    except WShardError as error:
        raise typer.BadParameter(str(error)) from None


def _in_words(error: Exception) -> str:
    from wshard.messages import without_passwords

    text = str(error)
    if isinstance(error, OSError) and error.strerror:  # Python's own text would begin with "[Errno 2]"
        text = error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    return without_passwords(text)  # a URL may be given where a file is expected


def named_path(text: str) -> Path:
    """Return the path that an argument names; an empty one, as of a variable that is not set, names nothing."""
    if not text:
        raise typer.BadParameter("expected a path, found an empty text")
    return Path(text)


def print_json(value: Any) -> None:
    """Print a value as JSON that every program can read: NaN and infinities, which JSON does not know, are null."""
    typer.echo(json.dumps(_finite(value), indent=2, allow_nan=False))


def print_items(items: Iterable[Any], **about: Any) -> None:
    """Print as JSON what a verb lists: an object with its `items`, how many are in `total`, and what is said beside."""
    listed = list(items)
    print_json({"items": listed, "total": len(listed), **about})


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def printable(text: str) -> str:
    """Return text with control characters escaped: names come from files, and a terminal obeys what it is sent."""
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text)


def parse_span(text: str | None) -> tuple[int, int | None]:
    """Read "START:STOP" in timesteps, either side may be left out; raises typer.BadParameter."""
    start, colon, stop = (text or ":").partition(":")
    if not colon or not all(part.isdecimal() or not part for part in (start, stop)):
        raise typer.BadParameter(f"--span: expected START:STOP in timesteps, found {text!r}")
    return int(start or 0), int(stop) if stop else None
