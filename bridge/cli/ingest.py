"""The verbs that bring episodes into an archive: ingest, watch."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from bridge.cli import options
from bridge.cli.ingest_output import WATCHED, print_batch, print_report, summarise_counts
from catalog.cli.common import ArchiveOption, open_catalog
from wshard.cli.common import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    ActionColumnsOption,
    EpisodeColumnOption,
    JsonOption,
    LayoutOption,
    TimeColumnOption,
    named_path,
    named_place,
    reading_options,
    reported,
)
from wshard.core.episode.protocol import EpisodeAddress
from wshard.core.messages import plural
from wshard.errors import CatalogNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


IngestedArgument = Annotated[
    list[str],
    typer.Argument(
        help="Episode files, locations of other formats (PATH, or PATH#KEY for one episode), folders to search.",
        parser=named_place,
        metavar="PATHS",
    ),
]
FormatOption = Annotated[
    str, typer.Option("--format", help="Format of the locations, if it is ambiguous; see `wshard formats`.")
]
PruneOption = Annotated[
    bool, typer.Option("--prune", help="Remove episodes below the given folders whose files are gone.")
]
LastingMapOption = Annotated[
    list[str] | None,
    typer.Option(
        "--map",
        metavar="OLD=NEW",
        help="Rename a lane of these files: 'observation.state=state'. Later runs do so, too, but for new files.",
    ),
]


@reported()
def ingest(
    paths: IngestedArgument,
    archive: ArchiveOption = None,
    format_name: FormatOption = "",
    layout: LayoutOption = None,
    episode_column: EpisodeColumnOption = None,
    time_column: TimeColumnOption = None,
    actions: ActionColumnsOption = None,
    lane_map: LastingMapOption = None,
    no_map: Annotated[
        bool, typer.Option("--no-map", help="Give the lanes of these files their own names again, without --map.")
    ] = False,
    index: options.IndexOption = None,
    embedder: options.EmbedderOption = None,
    lanes: options.LanesOption = None,
    windows: options.PlansOption = None,
    text_encoder: options.TextEncoderOption = None,
    encoder: options.EncoderOption = None,
    stride: options.StrideOption = None,
    workers: options.WorkersOption = 1,
    executor: options.ExecutorOption = "processes",
    prune: PruneOption = False,
    check: options.CheckOption = True,
    limits: options.LimitsOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Prune even if a disk seems to be missing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Add episodes to an archive: catalog, embeddings, search index. Run it again to resume or update."""
    from bridge.support.progress import show_progress
    from catalog.location import DATABASE, archive_named, place_of

    named = archive_named(archive)
    exists = prune if isinstance(named, str) else os.path.exists(named / DATABASE)  # noqa: PTH110  (Path.exists can raise)
    columns = {"episode": episode_column, "time": time_column, "actions": actions}
    how = reading_options(format_name, layout, lane_map, columns)
    if no_map and lane_map:
        raise typer.BadParameter("expected --map or --no-map, found both")
    forget: bool | Literal["cautiously"] = (yes or "cautiously") if prune else False
    how_to: dict[str, Any] = {
        "windows": options.parse_plans(windows),
        "encoder": encoder,
        "stride": stride,
        "workers_count": workers,
        "executor": executor,
        "lane_map": {} if no_map else None,
    }
    with _resumable(archive), show_progress() as progress:  # before what takes a second to import
        from bridge.ingest.ingestor import TrajectoryIngestor
        from bridge.ingest.text import load_text_encoder

        places = _read_places(paths, format_name, how, may_be_gone=exists)
        texts = load_text_encoder(text_encoder)
        thresholds = options.read_quality_limits(limits) if check else None
        target, names = options.index_target(index, named), options.parse_lanes(lanes)
        with TrajectoryIngestor(target, embedder, lanes=names, archive=named, limits=thresholds) as ingestor:
            report = ingestor.ingest(places, prune=forget, progress=progress, text_encoder=texts, **how_to)
    print_report(report, place_of(named).name, as_json=as_json)
    if not report.ok:
        raise typer.Exit(EXIT_FAILED)


@contextlib.contextmanager
def _resumable(archive: str | None) -> Iterator[None]:
    """Print how many episodes an interrupted ingest leaves in the archive, and how it is resumed."""
    try:
        yield
    except KeyboardInterrupt:
        count = 0
        with contextlib.suppress(CatalogNotFoundError), open_catalog(archive) as catalog:
            count = catalog.query.count()
        left = f"the archive has {plural(count, 'episode')}, which stay" if count else "the archive has no episodes yet"
        typer.echo(f"interrupted: {left}; run the same command again to resume", err=True)
        raise typer.Exit(EXIT_INTERRUPTED) from None


def _read_places(paths: Sequence[str], format_name: str, how: str, *, may_be_gone: bool) -> list[EpisodeAddress]:
    """Return what to ingest; raises the errors that every path would have before an archive is made for nothing."""
    from bridge.episodes.discover import expect_episodes
    from wshard.formats.base import source_class

    if format_name:
        source_class(format_name)
    places = [replace(EpisodeAddress.parse(path), read_as=how) for path in paths]
    if not may_be_gone:
        expect_episodes(places)
    return places


@reported()
def watch(
    folders: Annotated[list[Path], typer.Argument(help="Folders.", parser=named_path, metavar="FOLDERS")],
    archive: ArchiveOption = None,
    index: options.IndexOption = None,
    embedder: options.EmbedderOption = None,
    lanes: options.LanesOption = None,
    windows: options.PlansOption = None,
    text_encoder: options.TextEncoderOption = None,
    encoder: options.EncoderOption = None,
    stride: options.StrideOption = None,
    workers: options.WorkersOption = 1,
    check: options.CheckOption = True,
    limits: options.LimitsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ingest new files in folders as soon as they are complete, until Ctrl-C; --json prints one line per batch."""
    from bridge.ingest.ingestor import TrajectoryIngestor
    from bridge.ingest.text import load_text_encoder
    from catalog.location import archive_named
    from wshard.errors import SourceNotFoundError

    named, begun, total = archive_named(archive), time.monotonic(), Counter[str]()
    plans = options.parse_plans(windows)
    if missing := [path for path in folders if not path.is_dir()]:
        raise SourceNotFoundError(f"no such folder: {missing[0]}")  # before an archive is created for nothing
    thresholds = options.read_quality_limits(limits) if check else None
    how_to: dict[str, Any] = {"text_encoder": load_text_encoder(text_encoder), "encoder": encoder, "stride": stride}
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a service manager ends it like Ctrl-C does
    target, names = options.index_target(index, named), options.parse_lanes(lanes)
    with (
        TrajectoryIngestor(target, embedder, lanes=names, archive=named, limits=thresholds) as ingestor,
        contextlib.suppress(KeyboardInterrupt),
    ):
        typer.echo(f"watching {', '.join(map(str, folders))}", err=True)
        for report in ingestor.watch(folders, windows=plans, workers_count=workers, **how_to):
            total.update({name: getattr(report, name) for name in WATCHED}, failed=len(report.failed))
            print_batch(report, as_json=as_json)
    typer.echo(f"{summarise_counts(total)} in {time.monotonic() - begun:.0f} s", err=as_json)
