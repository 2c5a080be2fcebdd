"""The command `wshard`: the verbs of all packages together."""

from __future__ import annotations

import io
import logging
import sys
from copy import copy
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.main import get_command_name

from bridge.cli import care, check, curate, index, ingest, labels, search, serve, shardify, show, train
from bridge.cli import convert as convert_any
from bridge.cli.examples import EXAMPLES
from catalog.cli import annotate, collection, explore, ls
from catalog.cli.annotations import app as annotations_app
from wshard.cli import convert, doctor, files, layout, shardpack
from wshard.cli.common import EXIT_INTERRUPTED
from wshard.cli.interrupts import interrupt_once, restore_interrupts

if TYPE_CHECKING:
    from collections.abc import Callable

    from typer.models import CommandInfo

app = typer.Typer(
    help="Catalog of, and similarity search over, robot-learning episodes.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from wshard import __version__

        typer.echo(f"wshard {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Catalog of, and similarity search over, robot-learning episodes."""


_VERBS: dict[str, tuple[Callable[..., None], ...]] = {
    "Archive": (
        *(ingest.ingest, ingest.watch, ls.ls, show.show, show.plot, serve.serve),
        *(explore.facets, explore.stats, explore.sql),
    ),
    "Search": (search.search, search.moments, labels.probe, labels.evaluate, train.train_embedder),
    "Curate": (
        *(check.check, *curate.VERBS, labels.mislabeled),
        *(annotate.tag, annotate.note, annotate.review, collection.export_list),
    ),
    "Maintenance": (care.fsck, care.health, care.backup, care.restore),
    "Files": (
        *(files.inspect, files.verify, files.repair, files.recover, files.cat),
        *(convert_any.convert, convert_any.formats, convert.export, shardify.shardify),
        *(shardpack.pack, shardpack.unpack, doctor.doctor),
    ),
}
for _panel, _verbs in _VERBS.items():
    for _verb in _verbs:
        app.command(rich_help_panel=_panel)(_verb)
app.add_typer(collection.app, name="collection", rich_help_panel="Curate")
app.add_typer(annotations_app, name="annotations", rich_help_panel="Curate")
app.add_typer(index.app, name="index", rich_help_panel="Maintenance")
app.add_typer(layout.app, name="layout", rich_help_panel="Files")


def command(word: str | None = None) -> Any:
    """Return the command with all its verbs, whose help names every option in full and ends with an example.

    If `word` names a command or a group, only that is built: building all takes longer than most commands run.
    """
    partial_app = copy(app)
    partial_app.registered_commands = [
        registered for registered in app.registered_commands if get_command_name(_name_of(registered)) == word
    ]
    partial_app.registered_groups = [registered for registered in app.registered_groups if registered.name == word]
    command = typer.main.get_command(
        partial_app if partial_app.registered_commands or partial_app.registered_groups else app
    )
    _prepare_help(command)
    return command


def _name_of(verb: CommandInfo) -> str:
    return str(verb.name or getattr(verb.callback, "__name__", ""))


def _prepare_help(verb: Any, name: str = "", parent: Any = None) -> None:
    context = typer.Context(verb, parent=parent, **verb.context_settings)
    for option in (*verb.params, verb.get_help_option(context)):
        if getattr(option, "is_flag", False):
            option.metavar = ""  # flags take no value
    if name in EXAMPLES:
        verb.rich_markup_mode = None  # its tables cut long options at 80 columns
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
        interrupt_once()
        command(sys.argv[1] if len(sys.argv) > 1 else None)(prog_name="wshard")
    except KeyboardInterrupt:  # outside of a verb, which handles its own
        typer.echo("interrupted", err=True)
        sys.exit(EXIT_INTERRUPTED)
    finally:
        restore_interrupts()
