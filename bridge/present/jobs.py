"""Background jobs as JSON-able dicts."""

from __future__ import annotations

from dataclasses import asdict, is_dataclass
from typing import Any


def present_job(job: Any) -> dict[str, Any]:
    """Return the progress of a job, and its result."""
    names = ("id", "kind", "who", "state", "what", "done", "total", "begun", "ended", "error")
    result = asdict(job.result) if is_dataclass(job.result) and not isinstance(job.result, type) else job.result
    return {**{name: getattr(job, name) for name in names}, "result": result}
