"""Routes of maintenance: Spaces, storage, jobs, and the checks and repairs that run as jobs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bridge.ingest.ingestor import TrajectoryIngestor
from bridge.maintenance import fsck, health, indexes
from bridge.present.findings import present_failures, present_finding
from bridge.present.jobs import present_job
from bridge.present.reports import COUNTS, present_health, present_ingest, present_space
from bridge.web.endpoints import ApiCall, Endpoint, Parameter
from wshard.errors import RequestError

if TYPE_CHECKING:
    from bridge.episodes.read import Failure
    from bridge.maintenance.fsck import FsckResult
    from bridge.support.progress import Progress
    from bridge.web.jobs import Job
    from bridge.web.served import ServedArchive


def list_spaces(call: ApiCall) -> dict[str, Any]:
    """Return the Spaces: what `wshard index spaces --json` prints."""
    items = [present_space(one) for one in indexes.list_spaces(call.archive.archive)]
    return {"items": items, "total": len(items)}


def show_storage(call: ApiCall) -> dict[str, Any]:
    """Return how much the archive holds: episodes, timesteps and bytes by environment, bytes of all, and its roots."""
    catalog = call.archive.catalog
    groups, sizes = catalog.query.statistics(["length"], by=["env_id"]), catalog.query.file_bytes(by=["env_id"])
    items = [
        {
            "env_id": group.key[0],
            "episodes": group.episodes,
            "timesteps": round((group.values["length"].mean or 0.0) * group.episodes),
            "bytes": sizes.get(group.key, 0),
        }
        for group in groups
    ]
    return {
        "items": items,
        "total": len(items),
        "bytes": catalog.query.file_bytes().get((), 0),
        "roots": catalog.episodes.roots(),
        "vector_bytes": sum(one.size for one in indexes.list_spaces(call.archive.archive)),
    }


def list_jobs(call: ApiCall) -> dict[str, Any]:
    """Return the jobs, the newest first."""
    items = [present_job(one) for one in call.archive.jobs.all()]
    return {"items": items, "total": len(items)}


def show_job(call: ApiCall) -> dict[str, Any]:
    """Return one job."""
    return present_job(call.archive.jobs.get(call["id"]))


def stop_job(call: ApiCall) -> dict[str, Any]:
    """Stop a job at its next step."""
    job = call.archive.jobs.get(call["id"])
    job.stopped.set()
    return present_job(job)


def start_job(call: ApiCall) -> dict[str, Any]:
    """Start a check, a repair, or an ingest of the known folders, once or of all that comes."""
    work = _JOBS.get(call["kind"])
    if work is None:
        raise RequestError(f"expected a job among {', '.join(_JOBS)}, found {call['kind']!r}")
    archive, kind = call.archive, call["kind"]
    job = archive.jobs.start(kind, lambda job: work(archive, job), who=call.account.name, lasting=kind == "watch")
    return present_job(job)


def _present_check(result: FsckResult) -> dict[str, Any]:
    failed = present_failures(result.report.failed if result.report else ())
    items = [present_finding(one) for one in result.findings]
    return {"items": items, "total": len(items), "episodes": result.episodes, "done": [*result.done], "failed": failed}


def _ingest(archive: ServedArchive, progress: Progress) -> dict[str, Any]:
    return present_ingest(archive.archive.ingest(archive.catalog.episodes.roots(), progress=progress))


def _watch(archive: ServedArchive, job: Job) -> None:
    """Ingest what comes into the known folders until the job is stopped; its result has counts and last failures."""
    counts = Counter[str]()
    failed: list[Failure] = []
    folders = [root for root in archive.catalog.episodes.roots() if Path(root).is_dir()]
    job.stage(f"{len(folders)} folders", 0)
    with TrajectoryIngestor(archive.archive) as ingestor:
        for report in ingestor.watch(folders, stop=job.stopped):
            counts.update({name: getattr(report, name) for name in COUNTS})
            failed = [*failed, *report.failed][-_LAST_FAILURES:]
            job.result = {**{name: counts[name] for name in COUNTS}, "failed": present_failures(failed)}
    job.check_stopped()


def _health(archive: ServedArchive, _progress: Progress) -> dict[str, Any]:
    items = [present_health(one) for one in health.examine(archive.archive)]
    return {"items": items, "total": len(items)}


_JOBS: Final = {
    "fsck": lambda archive, progress: _present_check(fsck.check_archive(archive.archive, progress=progress)),
    "repair": lambda archive, progress: _present_check(fsck.repair_archive(archive.archive, progress=progress)),
    "health": _health,
    "ingest": _ingest,
    "watch": _watch,
}
_LAST_FAILURES: Final = 20
_ID: Final = Parameter("id", "id of the job", int, required=True, least=0, most=1 << 40)

ENDPOINTS: Final = (
    Endpoint("GET", "/api/spaces", "The Spaces of the archive, as `wshard index spaces --json`", list_spaces),
    Endpoint("GET", "/api/storage", "Episodes, timesteps and bytes by environment", show_storage),
    Endpoint("GET", "/api/jobs", "Background jobs, the newest first", list_jobs),
    Endpoint("GET", "/api/jobs/{id}", "One background job", show_job, (_ID,)),
    Endpoint("DELETE", "/api/jobs/{id}", "Stop a background job", stop_job, (_ID,), changes=True),
    Endpoint(
        "POST",
        "/api/jobs",
        "Begin a background job: fsck, repair, health, ingest of the known folders, or watch them until it is stopped",
        start_job,
        (Parameter("kind", "fsck, repair, health, ingest or watch", required=True),),
        changes=True,
        body=True,
    ),
)
