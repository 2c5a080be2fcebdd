"""The command `wshard`: the verbs of all packages together."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

import bridge.cli.care
import bridge.cli.check
import bridge.cli.convert
import bridge.cli.curate
import bridge.cli.index
import bridge.cli.ingest
import bridge.cli.labels
import bridge.cli.moments
import bridge.cli.plot
import bridge.cli.probe
import bridge.cli.search
import bridge.cli.serve
import bridge.cli.shardify
import bridge.cli.show
import bridge.cli.train
import catalog.cli.annotate
import catalog.cli.annotations
import catalog.cli.collection
import catalog.cli.explore
import catalog.cli.ls
import wshard.cli.convert
import wshard.cli.doctor
import wshard.cli.files
import wshard.cli.shardpack
from wshard.cli.common import EXIT_INTERRUPTED
from wshard.cli.interrupts import interrupt_once, restore_interrupts

if TYPE_CHECKING:
    from collections.abc import Callable

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
        *(bridge.cli.ingest.ingest, bridge.cli.ingest.watch, catalog.cli.ls.ls, bridge.cli.show.show),
        bridge.cli.plot.plot,
        bridge.cli.serve.serve,
        *(catalog.cli.explore.facets, catalog.cli.explore.stats, catalog.cli.explore.sql),
    ),
    "Search": (
        *(bridge.cli.search.search, bridge.cli.moments.moments, bridge.cli.probe.probe),
        *(bridge.cli.labels.evaluate, bridge.cli.train.train_embedder),
    ),
    "Curate": (
        *(bridge.cli.check.check, *bridge.cli.curate.VERBS, bridge.cli.labels.mislabeled),
        *(
            catalog.cli.annotate.tag,
            catalog.cli.annotate.note,
            catalog.cli.annotate.review,
            catalog.cli.collection.export_list,
        ),
    ),
    "Care": (bridge.cli.care.fsck, bridge.cli.care.health, bridge.cli.care.backup, bridge.cli.care.restore),
    "Files": (
        *(
            wshard.cli.files.inspect,
            wshard.cli.files.verify,
            wshard.cli.files.repair,
            wshard.cli.files.recover,
            wshard.cli.files.cat,
        ),
        *(bridge.cli.convert.convert, bridge.cli.convert.formats, wshard.cli.convert.export),
        bridge.cli.shardify.shardify,
        *(wshard.cli.shardpack.pack, wshard.cli.shardpack.unpack, wshard.cli.doctor.doctor),
    ),
}
for _panel, _verbs in _VERBS.items():
    for _verb in _verbs:
        app.command(rich_help_panel=_panel)(_verb)
app.add_typer(catalog.cli.collection.app, name="collection", rich_help_panel="Curate")
app.add_typer(catalog.cli.annotations.app, name="annotations", rich_help_panel="Curate")
app.add_typer(bridge.cli.index.app, name="index", rich_help_panel="Care")


def command() -> Any:
    """Return the command with all its verbs; the help of flags shows no type, as they take no value."""
    whole = typer.main.get_command(app)
    _without_types(whole)
    return whole


def _without_types(verb: Any, parent: Any = None) -> None:
    context = typer.Context(verb, parent=parent, **verb.context_settings)
    for option in (*verb.params, verb.get_help_option(context)):
        if getattr(option, "is_flag", False):
            option.metavar = ""
    for inner in getattr(verb, "commands", {}).values():
        _without_types(inner, context)


def main() -> None:
    """Run the command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names that the terminal cannot show must not end a listing
    try:
        interrupt_once()
        command()(prog_name="wshard")
    except KeyboardInterrupt:  # outside of a verb, which handles its own
        typer.echo("interrupted", err=True)
        sys.exit(EXIT_INTERRUPTED)
    finally:
        restore_interrupts()
