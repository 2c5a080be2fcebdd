"""The command `wshard`: the verbs of all packages together."""

from __future__ import annotations

import io
import logging
import os
import sys
from importlib import import_module
from typing import Annotated, Any

import typer

from bridge.cli.overview import Overview
from bridge.cli.verbs import EXAMPLES, GROUPS, VERBS
from wshard.cli.common import EXIT_FAILED, EXIT_INTERRUPTED
from wshard.cli.interrupts import end_when_interrupted


def _print_version(wanted: bool) -> None:
    if wanted:
        from wshard import __version__

        typer.echo(f"wshard {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Catalog of, and similarity search over, robot-learning episodes."""


def make_app(word: str | None = None) -> typer.Typer:
    """Return all verbs and groups; if `word` names one of them, only that: importing all takes longer than most run.

    If `word` is an option, such as --help, there are none.
    """
    app = typer.Typer(
        cls=Overview,
        rich_markup_mode=None,  # its tables cut long options at 80 columns, and importing them takes long
        callback=_options,
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
        pretty_exceptions_enable=False,
    )
    verbs = [
        (verb, module) for modules in VERBS.values() for module, verbs in modules.items() for verb in verbs.split()
    ]
    known = {*GROUPS, *(verb for verb, _ in verbs)}
    are_all = word is None or (word not in known and not word.startswith("-"))
    for verb, module in verbs:
        if verb == word or are_all:
            app.command()(getattr(import_module(module), verb.replace("-", "_")))
    for group, (_, module) in GROUPS.items():
        if group == word or are_all:
            app.add_typer(import_module(module).app, name=group, cls=Overview)
    return app


def command(word: str | None = None) -> Any:
    """Return make_app as a command, whose help names every option in full and ends with an example."""
    whole = typer.main.get_command(make_app(word))
    _prepare_help(whole)
    return whole


def _prepare_help(verb: Any, name: str = "", parent: Any = None) -> None:
    context = typer.Context(verb, parent=parent, **verb.context_settings)
    for option in (*verb.params, verb.get_help_option(context)):
        if getattr(option, "is_flag", False):
            option.metavar = ""  # flags take no value
    if name in EXAMPLES:
        verb.epilog = f"Example:\n\n\b\n  wshard {EXAMPLES[name]}"
    for word, inner in getattr(verb, "commands", {}).items():
        _prepare_help(inner, f"{name} {word}".strip(), context)


def main() -> None:
    """Run the command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names that the terminal cannot show must not end a listing
    # A connection that an interrupt finds on its way back is dropped, which the pool would print with its trace.
    logging.getLogger("sqlalchemy.pool").addHandler(logging.NullHandler())
    try:
        word = None if "_WSHARD_COMPLETE" in os.environ else next(iter(sys.argv[1:]), "--help")
        command(word)(prog_name="wshard")
    except KeyboardInterrupt:  # outside of a verb, which handles its own
        typer.echo("interrupted", err=True)
        sys.exit(EXIT_INTERRUPTED)
    except OSError as error:  # likewise: help and version on a full disk
        typer.echo(f"error: {error.strerror or error}", err=True)
        sys.exit(EXIT_FAILED)
    finally:
        end_when_interrupted()
