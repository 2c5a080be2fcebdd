"""The verbs that take episodes in: ingest, watch; and the options that they share with search.

Knows: how reports are told. Imports what it needs inside the verbs, so that `--help` is quick.
"""

from __future__ import annotations

import contextlib
import json
import signal
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from bridge.index.cli import IndexOption
from catalog.cli import ArchiveOption, shorten
from wshard.cli import EXIT_FAILED, EXIT_INTERRUPTED, JsonOption, named_path, printable, reported

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bridge.ingest import IngestReport
    from embedders.windows import WindowPlan

_COUNTS = ("new", "changed", "moved", "unchanged", "removed", "embedded")

EmbedderOption = Annotated[str | None, typer.Option("--embedder", help="arcdct, combo, dct, ... or module:attribute.")]
LanesOption = Annotated[
    str | None,
    typer.Option("--lanes", help="Lanes to embed, e.g. state,reward or state=2,reward=1 (default: all small vectors)."),
]

WindowsOption = Annotated[
    list[str] | None,
    typer.Option("--windows", help="What to embed: whole episodes, windows SIZE:STRIDE, or multi; repeatable."),
]
WorkersOption = Annotated[int, typer.Option("--workers", min=1, help="Processes that read and embed.")]


@reported()
def ingest(
    paths: Annotated[
        list[Path],
        typer.Argument(help="Episode files, and folders to search for them.", parser=named_path, metavar="PATHS..."),
    ],
    archive: ArchiveOption = None,
    index: IndexOption = None,
    embedder: EmbedderOption = None,
    lanes: LanesOption = None,
    windows: WindowsOption = None,
    workers: WorkersOption = 1,
    prune: Annotated[
        bool, typer.Option("--prune", help="Forget episodes below the given folders whose files are gone.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Prune although most episodes there are gone.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Put episodes into an archive: catalog, embeddings, search index. Run it again to go on or to update."""
    from bridge.ingest import TrajectoryIngestor
    from bridge.progress import watched
    from catalog.location import DATABASE, archive_folder
    from embedders.registry import DEFAULT_EMBEDDER
    from wshard.errors import SourceNotFoundError

    folder = archive_folder(archive)
    plans = [read_windows(text) for text in windows or ["whole"]]
    known = prune and (folder / DATABASE).exists()
    if missing := [path for path in paths if not (path.exists() or known)]:
        raise SourceNotFoundError(f"no such file or folder: {missing[0]}")  # before an archive is made for nothing
    with TrajectoryIngestor(
        target_of(index, folder), embedder or DEFAULT_EMBEDDER, lanes=read_lanes(lanes), archive=folder
    ) as ingestor:
        forget: bool | Literal["cautiously"] = (yes or "cautiously") if prune else False
        try:
            with watched() as progress:
                report = ingestor.ingest(
                    list(paths), windows=plans, workers_count=workers, prune=forget, progress=progress
                )
        except KeyboardInterrupt:
            typer.echo("interrupted: what was committed stays; run the same command again to go on", err=True)
            raise typer.Exit(EXIT_INTERRUPTED) from None
    if as_json:
        typer.echo(json.dumps(_about(report), indent=2))
    else:
        _tell(report, folder)
    if not report.ok:
        raise typer.Exit(EXIT_FAILED)


@reported()
def watch(
    folders: Annotated[list[Path], typer.Argument(help="Folders.", parser=named_path, metavar="FOLDERS...")],
    archive: ArchiveOption = None,
    index: IndexOption = None,
    embedder: EmbedderOption = None,
    lanes: LanesOption = None,
    windows: WindowsOption = None,
    workers: WorkersOption = 1,
    as_json: JsonOption = False,
) -> None:
    """Ingest what comes into folders as soon as it is finished, until Ctrl-C; --json prints a line per batch."""
    from bridge.ingest import TrajectoryIngestor
    from catalog.location import archive_folder
    from embedders.registry import DEFAULT_EMBEDDER
    from wshard.errors import SourceNotFoundError

    folder, begun, total = archive_folder(archive), time.monotonic(), Counter[str]()
    plans = [read_windows(text) for text in windows or ["whole"]]
    if missing := [path for path in folders if not path.is_dir()]:
        raise SourceNotFoundError(f"no such folder: {missing[0]}")  # before an archive is made for nothing
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # being told to end is how this work ends
    with (
        TrajectoryIngestor(
            target_of(index, folder), embedder or DEFAULT_EMBEDDER, lanes=read_lanes(lanes), archive=folder
        ) as ingestor,
        contextlib.suppress(KeyboardInterrupt),
    ):
        typer.echo(f"watching {', '.join(map(str, folders))}", err=True)
        for report in ingestor.watch(folders, windows=plans, workers_count=workers):
            total.update({name: getattr(report, name) for name in _COUNTS}, failed=len(report.failed))
            if as_json:
                typer.echo(json.dumps(_about(report)))
            else:
                _tell(report, folder)
    typer.echo(f"{_summed(total)} in {time.monotonic() - begun:.0f} s", err=as_json)


def _about(report: IngestReport) -> dict[str, Any]:
    failed = [{"path": failure.path, "error": failure.error} for failure in report.failed]
    counts = {name: getattr(report, name) for name in _COUNTS}
    return {**counts, "failed": failed, "delayed": report.delayed, "seconds": round(report.seconds, 3)}


def _tell(report: IngestReport, folder: Path) -> None:
    for failure in report.failed:
        typer.echo(f"left out: {printable(shorten(failure.path))}: {printable(failure.error)}", err=True)
    if report.delayed is not None:
        typer.echo(f"index delayed: {printable(report.delayed)}", err=True)
        typer.echo("the vectors are safe in the catalog; run the same command again to catch up", err=True)
    counts = {name: getattr(report, name) for name in _COUNTS}
    typer.echo(f"{folder}: {_summed({**counts, 'failed': len(report.failed)})} in {report.seconds:.1f} s")


def _summed(counts: Mapping[str, int]) -> str:
    told = ", ".join(f"{counts[name]} {name}" for name in _COUNTS if counts[name]) or "nothing to do"
    return told + (f", {counts['failed']} left out" if counts["failed"] else "")


def read_lanes(text: str | None) -> list[str] | dict[str, float] | None:
    """Read "state,reward" or "state=2,reward=1"; raises typer.BadParameter."""
    if text is None:
        return None
    named = [name.strip() for name in text.split(",") if name.strip()]
    if not any("=" in name for name in named):
        return named
    pairs = [name.rpartition("=") for name in named]
    try:
        return {name: float(weight) for name, _, weight in pairs}
    except ValueError:
        raise typer.BadParameter(f"expected a weight for each lane, LANE=WEIGHT, found {text!r}") from None


def target_of(index: str | None, folder: Path) -> str | Path:
    """Return what to open: the folder, or the URL of an index; raises UnknownIndexError."""
    from bridge.archive import is_url
    from wshard.errors import UnknownIndexError

    if index is not None and not is_url(index):
        raise UnknownIndexError(f"--index: expected a URL such as http://host:8080, found {index!r}")
    return folder if index is None else index


def read_windows(text: str) -> WindowPlan:
    """Read "whole", "SIZE:STRIDE" or "multi"; raises typer.BadParameter."""
    from embedders.windows import WindowPlan
    from wshard.errors import EmbedderError

    try:
        return WindowPlan.read(text)
    except EmbedderError as error:
        raise typer.BadParameter(str(error)) from None
