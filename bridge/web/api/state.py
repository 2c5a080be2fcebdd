"""Routes about the archive as a whole: its name, its state, and the current account."""

from __future__ import annotations

from typing import Any, Final

from bridge.web.endpoints import ApiCall, Endpoint


def show_state(call: ApiCall) -> dict[str, Any]:
    """Return the archive's name and state; between two answers with equal `instant` nothing has changed."""
    catalog = call.archive.catalog
    running = [job for job in call.archive.jobs.all() if job.state == "running"]
    running.sort(key=lambda job: job.kind == "watch")  # which runs on and on, beside others
    return {
        "archive": call.archive.archive.place.name,
        "archive_id": catalog.archive_id,
        "instant": "/".join(map(str, catalog.instant())),
        "account": call.account.name,
        "role": call.account.role,
        "episodes": call.archive.remember("episodes", catalog.query.count),
        "running": {name: getattr(running[0], name) for name in ("kind", "what", "done", "total")} if running else None,
        "jobs": sum(job.state in ("waiting", "running") for job in call.archive.jobs.all()),
    }


ENDPOINTS: Final = (
    Endpoint("GET", "/api/state", "The archive's name, whether it has changed, and who is asking", show_state),
)
