"""The stages of an ingest, in order; each commits what it has done, so that a later run goes on where one ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from bridge.ingest.fill import fill
from bridge.ingest.frames import describe_frames
from bridge.ingest.neighbours import prepare_searches
from bridge.ingest.register import add_folders, count_missing, register
from bridge.ingest.text import embed_tasks
from bridge.pictures.features import STRIDE
from bridge.spaces.map_command import name_differing_channels, propose_maps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bridge.episodes.locations import Discovery
    from bridge.ingest.report import Run
    from bridge.spaces.lanes import LaneChoice
    from bridge.spaces.statistics import Choice
    from embedders.encoders.local_encoder import LocalEncoder
    from embedders.text.base import TextEncoder
    from wshard.core.quality.thresholds import Thresholds


@dataclass(frozen=True)
class IngestSettings:
    """What an ingest does with the episodes that it finds.

    choices: what to embed, and how. lanes: those that must exist, if they are named. limits: those of the quality
    checks, None for none. prune: as in TrajectoryIngestor.ingest. texts, frames: the encoders of tasks and of camera
    frames, of which one every `stride` seconds is described; None for none.
    """

    choices: Sequence[Choice]
    lanes: LaneChoice
    limits: Thresholds | None
    prune: bool | Literal["cautiously"] = False
    texts: TextEncoder | None = None
    frames: LocalEncoder | None = None
    stride: float = STRIDE


def run_stages(run: Run, discovery: Discovery, settings: IngestSettings) -> None:
    """Register and embed the episodes that were found, update the index, and complete the report of the run."""
    add_folders(run, discovery)
    register(run, discovery, settings.lanes, settings.limits)
    count_missing(run, discovery, prune=settings.prune)
    fill(run, settings.choices, run.present)
    if settings.texts is not None:
        embed_tasks(run, settings.texts)
    describe_frames(run, settings.frames, settings.stride)
    run.index_sync.finish()
    prepare_searches(run)
    _report(run, discovery)


def _report(run: Run, discovery: Discovery) -> None:
    """Complete the report with what is known when all stages are done."""
    report, catalog = run.report, run.archive.catalog
    report.delayed = run.index_sync.delayed
    report.anomalies, report.left_out = run.anomalies.list(), run.left_out.list()
    report.alike = [*propose_maps(catalog), *name_differing_channels(catalog)] if report.embedded else []
    if report.changed or report.removed or report.earlier:
        report.stale = [catalog.collections.explain_gone(name) for name in catalog.collections.gone()]
    report.formats = discovery.count_formats(failure.path for failure in report.failed)
