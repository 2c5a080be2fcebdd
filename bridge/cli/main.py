"""The command `wshard`: the verbs about ingest and search, and the assembly of every package's verbs."""

from __future__ import annotations

import io
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import bridge.cli.care
import bridge.cli.check
import bridge.cli.curate
import bridge.cli.index
import bridge.cli.labels
import bridge.cli.moments
import bridge.cli.search
import bridge.cli.train
import catalog.cli.annotate
import catalog.cli.collection
import catalog.cli.explore
import catalog.cli.ls
import catalog.cli.show
import wshard.cli.convert
import wshard.cli.files
from bridge.cli.check import CheckOption, LimitsOption, limits_of
from bridge.cli.index import IndexOption
from bridge.cli.options import (
    EmbedderOption,
    LanesOption,
    PlansOption,
    SentencesOption,
    WorkersOption,
    index_target,
    parse_lanes,
    parse_plans,
)
from bridge.cli.output import tell_files
from catalog.cli.common import ArchiveOption, print_table
from wshard.cli.common import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    JsonOption,
    named_path,
    print_items,
    print_json,
    printable,
    reported,
)
from wshard.cli.interrupts import interrupt_once, interrupts_over

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bridge.ingest.ingestor import IngestReport
_SUFFIXES_TOLD = 5

app = typer.Typer(
    help="The episode archive you can search.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


@reported()
def ingest(
    paths: Annotated[
        list[Path],
        typer.Argument(help="Episode files, and folders to search for them.", parser=named_path, metavar="PATHS"),
    ],
    archive: ArchiveOption = None,
    index: IndexOption = None,
    embedder: EmbedderOption = None,
    lanes: LanesOption = None,
    windows: PlansOption = None,
    sentences: SentencesOption = None,
    workers: WorkersOption = 1,
    prune: Annotated[
        bool, typer.Option("--prune", help="Forget episodes below the given folders whose files are gone.")
    ] = False,
    check: CheckOption = True,
    limits: LimitsOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Prune although most episodes there are gone.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Put episodes into an archive: catalog, embeddings, search index. Run it again to go on or to update."""
    from bridge.episodes.discover import expect_episodes
    from bridge.ingest.ingestor import TrajectoryIngestor
    from bridge.ingest.text import loaded
    from bridge.support.progress import watched
    from catalog.location import DATABASE, archive_named, place_of

    named = archive_named(archive)
    plans = parse_plans(windows)
    known = prune and (isinstance(named, str) or (named / DATABASE).exists())
    if not known:
        expect_episodes(paths)  # before an archive is made for nothing
    encoder = loaded(sentences)
    wanted = limits_of(limits) if check else None
    with TrajectoryIngestor(
        index_target(index, named), embedder, lanes=parse_lanes(lanes), archive=named, limits=wanted
    ) as ingestor:
        forget: bool | Literal["cautiously"] = (yes or "cautiously") if prune else False
        try:
            with watched() as progress:
                how: dict[str, Any] = {"windows": plans, "sentences": encoder, "workers_count": workers}
                report = ingestor.ingest(list(paths), prune=forget, progress=progress, **how)
        except KeyboardInterrupt:
            typer.echo("interrupted: what was committed stays; run the same command again to go on", err=True)
            raise typer.Exit(EXIT_INTERRUPTED) from None
    _tell(report, place_of(named).name, as_json)
    if not report.ok:
        raise typer.Exit(EXIT_FAILED)


def _tell(report: IngestReport, place: str, as_json: bool) -> None:
    from bridge.episodes.discover import is_episode
    from wshard.errors import HeaderError
    from wshard.formats.base import OWN_DATA

    counts = {
        name: getattr(report, name)
        for name in ("new", "changed", "moved", "unchanged", "removed", "missing", "embedded", "tasks", "flagged")
    }
    if as_json:
        failed = [{"path": str(failure.address), "error": failure.error} for failure in report.failed]
        unembedded = [{"path": str(failure.address), "error": failure.error} for failure in report.unembedded]
        about = {
            **counts,
            "failed": failed,
            "unembedded": unembedded,
            "replaced": [asdict(other) for other in report.replaced],
            "delayed": report.delayed,
            "skipped": dict(report.skipped),
            "seconds": round(report.seconds, 3),
        }
        print_json(about)
        return
    tell_files("catalogued, not embedded", [(str(one.address), one.error) for one in report.unembedded])
    tell_files("replaced", [(one.path, str(one)) for one in report.replaced])
    tell_files("left out", [(str(one.address), one.error) for one in report.failed])
    if any(isinstance(failure.cause, HeaderError) and not is_episode(failure.path) for failure in report.failed):
        typer.echo(f"only episode files are ingested: {OWN_DATA}", err=True)
    if report.skipped:
        typer.echo(f"skipped: {_by_suffix(report.skipped)}: no episode files; {OWN_DATA}", err=True)
    if report.delayed is not None:
        typer.echo(f"index delayed: {printable(report.delayed)}", err=True)
        typer.echo("the vectors are safe in the catalog; run the same command again to catch up", err=True)
    if report.missing:
        typer.echo("missing: no file where they are catalogued; wshard fsck lists them, --prune forgets them", err=True)
    told = ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "nothing to do"
    failed_count = f", {len(report.failed)} left out" if report.failed else ""
    typer.echo(f"{place}: {told}{failed_count} in {report.seconds:.1f} s")


def _by_suffix(skipped: Mapping[str, int]) -> str:
    """Return "12 .json, 3 .mp4", the most first; of many suffixes the others as one number."""
    named = [f"{count} {suffix or 'without suffix'}" for suffix, count in [*skipped.items()][:_SUFFIXES_TOLD]]
    others = sum([*skipped.values()][_SUFFIXES_TOLD:])
    return printable(", ".join([*named, *([f"{others} others"] if others else [])]))


@reported()
def health(archive: ArchiveOption = None, index: IndexOption = None, as_json: JsonOption = False) -> None:
    """Say how healthy the vectors are: stale ones, duplicates, hubs, and how searches fare."""
    from bridge.archive import open_archive
    from bridge.maintenance.health import examine
    from bridge.spaces.identity import describe
    from catalog.location import archive_named

    named = archive_named(archive)
    with open_archive(index_target(index, named), archive=named) as opened:
        found = [vars(one) | {"space": describe(one.space)} for one in examine(opened)]
    if as_json:
        print_items(found)
        return
    for number, one in enumerate(found):
        if number:
            typer.echo()
        shown = {name: round(value, 4) if isinstance(value, float) else value for name, value in one.items()}
        print_table(("", ""), [(name, str(value)) for name, value in shown.items()])


def _print_version(asked: bool) -> None:
    if asked:
        from wshard import __version__

        typer.echo(f"wshard {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print it.")
    ] = False,
) -> None:
    """The episode archive you can search."""  # noqa: D401  (what `wshard --help` says first)


_VERBS: dict[str, tuple[Callable[..., None], ...]] = {
    "Archive": (
        *(ingest, bridge.cli.care.watch, catalog.cli.ls.ls, catalog.cli.show.show),
        *(catalog.cli.explore.facets, catalog.cli.explore.stats, catalog.cli.explore.sql),
    ),
    "Search": (
        *(bridge.cli.search.search, bridge.cli.moments.moments),
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
    "Care": (bridge.cli.care.fsck, health, bridge.cli.care.backup, bridge.cli.care.restore),
    "Files": (
        *(
            wshard.cli.files.inspect,
            wshard.cli.files.verify,
            wshard.cli.files.repair,
            wshard.cli.files.recover,
            wshard.cli.files.cat,
        ),
        *(wshard.cli.convert.convert, wshard.cli.convert.export, wshard.cli.convert.doctor),
    ),
}
for _panel, _verbs in _VERBS.items():
    for _verb in _verbs:
        app.command(rich_help_panel=_panel)(_verb)
app.add_typer(catalog.cli.collection.app, name="collection", rich_help_panel="Curate")
app.add_typer(bridge.cli.index.app, name="index", rich_help_panel="Care")


def command() -> Any:
    """Return the command with all its verbs; the help of a flag names no type, as it takes no value."""
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
            stream.reconfigure(errors="backslashreplace")  # a name that the terminal cannot show must not end a list
    try:
        interrupt_once()
        command()(prog_name="wshard")
    except KeyboardInterrupt:  # between two verbs' own answers to it
        typer.echo("interrupted", err=True)
        sys.exit(EXIT_INTERRUPTED)
    finally:
        interrupts_over()
