"""Reports of long work, of Spaces and of indexes as JSON-able dicts."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from bridge.present.findings import present_failures
from bridge.spaces.identity import describe

if TYPE_CHECKING:
    from bridge.episodes.anomalies import Anomaly
    from bridge.evaluation.compare import Evaluated
    from bridge.ingest.report import IngestReport, Replaced
    from bridge.maintenance.health import Health
    from bridge.maintenance.indexes import SpaceSummary, State
    from bridge.training.train_encoder import AdaptReport, Learnt
    from bridge.training.train_frames import FramesReport

_EMBEDDED: Final = ("embedded", "bridged", "tasks")
COUNTS: Final = ("new", "changed", "moved", "unchanged", "removed", "missing", *_EMBEDDED, "flagged")
"""What an ingest counts, in episodes."""


def present_ingest(report: IngestReport) -> dict[str, Any]:
    """Return what one run, or one batch of watched files, did."""
    return {
        **{name: getattr(report, name) for name in COUNTS},
        "failed": present_failures(report.failed),
        "unembedded": present_failures(report.unembedded),
        "replaced": [_present_replaced(one) for one in report.replaced],
        "earlier": None if report.earlier is None else vars(report.earlier),
        "stale": report.stale,
        "delayed": report.delayed,
        "unprepared": report.unprepared,
        "skipped": dict(report.skipped),
        "unread": dict(report.unread),
        "spaces": dict(report.spaces),
        "formats": {name: {"locations": one, "episodes": count} for name, (one, count) in report.formats.items()},
        "anomalies": [_present_anomaly(one) for one in report.anomalies],
        "left_out": [asdict(one) for one in report.left_out],
        "picked": [*report.picked],
        "alike": [*report.alike],
        "seconds": round(report.seconds, 3),
    }


def _present_anomaly(one: Anomaly) -> dict[str, Any]:
    counted = {"episodes": one.episodes, "channels": list(one.channels)}
    return {"file_path": one.path, "kind": one.kind, "flag": one.flag, **counted}


def _present_replaced(one: Replaced) -> dict[str, Any]:
    return {"id": one.id, "file_path": one.path, "before": one.before, "now": one.now}


def present_health(one: Health) -> dict[str, Any]:
    """Return how healthy the vectors of one Space are."""
    return {**vars(one), "space": describe(one.space)}


def present_space(summary: SpaceSummary) -> dict[str, Any]:
    """Return one Space of the archive: what made it, and how much it holds."""
    space = summary.space
    return {
        "space": space.fingerprint,
        "state": summary.state,
        "embedder": f"{space.embedder} {space.version}",
        "lanes": [lane.name for lane in space.lanes],
        "rates": list(space.rates or [None] * len(space.lanes)),
        "windows": str(space.windows),
        "metric": space.metric,
        "dim": space.dim,
        "episodes": summary.episodes,
        "vectors": summary.vectors,
        "bytes": summary.size,
    }


def present_index_state(state: State) -> dict[str, Any]:
    """Return how one Space in an index compares with the ledger."""
    return {
        "space": describe(state.space),
        "ok": state.ok,
        "state": state.finding.state,
        "vectors": state.indexed,
        "ledger": state.ledger,
        "documents": state.finding.documents,
        "expected": state.finding.expected,
        "missing": len(state.finding.missing),
        "message": state.finding.reason,
    }


def present_evaluation(one: Evaluated) -> dict[str, Any]:
    """Return how well one ranking finds episodes of the same label, over all and label by label."""
    scores = asdict(one.scores)
    labels = [{**of.pop("figures"), **of} for of in scores.pop("of_labels")]
    about = {"space": None if one.space is None else one.space.fingerprint, "about": name_ranking(one)}
    return {**about, "episodes": one.episodes, "labels": one.labels, **scores, "of_labels": labels}


def name_ranking(one: Evaluated) -> str:
    """Return what was evaluated: one Space, or the default ranking of the search."""
    return "search, default ranking" if one.space is None else describe(one.space)


def present_training(result: Learnt | AdaptReport | FramesReport) -> dict[str, Any]:
    """Return how the training of an embedder went."""
    return vars(result) | {"left_out": present_failures(result.left_out)}
