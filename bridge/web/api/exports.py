"""Routes about exports: episodes in any format that is written, as a background job, and their download."""

from __future__ import annotations

import io
import re
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import FileResponse, Response, StreamingResponse

from bridge.episodes.chosen_spans import check_together, find_spans, span_of
from bridge.present.jobs import present_job
from bridge.web.api.annotate import EPISODES, chosen_ids
from bridge.web.endpoints import ApiCall, Endpoint, Parameter
from wshard.errors import EntryNotFoundError, RequestError
from wshard.formats.base import describe_format, sink_class
from wshard.formats.table import FORMATS
from wshard.training.conversion.jobs import list_jobs
from wshard.training.conversion.location import convert_jobs
from wshard.training.conversion.target import ConversionTarget

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator

    from bridge.web.jobs import Job
    from wshard.core.episode.protocol import EpisodeSpan

FOLDER: Final = ".exports"
"""In the folder of the archive; ingest, which may be of a folder around that, leaves hidden folders alone."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_SHOWN: Final = 20
_PIECE: Final = 1 << 20


def list_formats(_call: ApiCall) -> dict[str, Any]:
    """Return the writable formats, as in `wshard formats --json`."""
    items = [describe_format(name) for name, entry in FORMATS.items() if entry.sink]
    return {"items": items, "total": len(items)}


def start_export(call: ApiCall) -> dict[str, Any]:
    """Start to convert episodes into a folder of the archive, like `wshard convert`."""
    archive, name = call.archive, call["name"]
    if not _NAME.fullmatch(name):
        raise RequestError("name: expected up to 100 letters, digits, _ and -")
    one_per_file = sink_class(call["format"]).one_per_file  # what is unknown, or lacks an extra, says so now
    spans = _chosen(call)
    folder = archive.archive.folder / FOLDER
    suffix = "" if one_per_file else FORMATS[call["format"]].suffix
    target = ConversionTarget.of(folder / f"{name}{suffix}", call["format"])
    target = replace(target, without=(*call["without"],))

    def convert(job: Job) -> dict[str, Any]:
        folder.mkdir(exist_ok=True)
        return _convert(job, spans, target)

    who = call.account.name
    with archive.exporting:
        _check_is_own(call, name)
        key = ("export", target.location, who, target.without, *spans)
        return present_job(archive.jobs.start(f"export {name}", convert, key=key, who=who))


def _check_is_own(call: ApiCall, name: str) -> None:
    """Raise RequestError for the name of an export of somebody else, whose episodes would be mixed with these."""
    for job in call.archive.jobs.all():
        if job.kind == f"export {name}" and job.who != call.account.name:
            raise RequestError(f"name: {job.who or 'somebody else'} has an export {name!r}; choose another name", 409)


def _chosen(call: ApiCall) -> list[EpisodeSpan]:
    catalog = call.archive.catalog
    if call["collection"] is not None:
        return find_spans(catalog, collection=call["collection"], where=None, to=call["format"])
    rows = catalog.episodes.rows(chosen_ids(call)).values()
    check_together(rows, call["format"])
    return [span_of(row) for row in rows]


class _JobProgress:
    """Shows the conversion of a job."""

    def __init__(self, job: Job, count: int) -> None:
        self.advance = job.advance
        job.stage("converting", count)

    def show_losses(self, losses: Counter[str]) -> None:
        """Do nothing: they are part of the result."""


def _convert(job: Job, spans: list[EpisodeSpan], target: ConversionTarget) -> dict[str, Any]:
    jobs = list_jobs(spans)
    report = convert_jobs(jobs, target, progress=_JobProgress(job, len(jobs)))
    failed: dict[str, list[str]] = {}
    for address, message in report.reasons:
        failed.setdefault(message, []).append(address)
    return {
        "location": target.location,
        "format": target.format,
        "episodes": report.converted + report.skipped,
        "timesteps": report.timesteps,
        "losses": [{"loss": loss, "episodes": count} for loss, count in report.losses.most_common(_SHOWN)],
        "failed": [
            {"episode": addresses[0], "episodes": len(addresses), "message": message}
            for message, addresses in [*failed.items()][:_SHOWN]
        ],
        "failures": len(report.failed),
    }


def send_export(call: ApiCall) -> Response:
    """Return the result of an export: its file, or a ZIP of its folder."""
    job = call.archive.jobs.get(call["id"])
    if job.state != "done" or not job.kind.startswith("export "):
        raise EntryNotFoundError(f"expected the id of an export that is done, found {call['id']}")
    place = Path(job.result["location"])
    if place.is_file():
        return FileResponse(place, filename=place.name)
    headers = {"content-disposition": f'attachment; filename="{place.name}.zip"'}
    return StreamingResponse(_zipped(place), media_type="application/zip", headers=headers)


class _Written(io.RawIOBase):
    """Takes what a ZIP file writes, until somebody asks for it."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._pieces.append(bytes(data))
        return len(data)

    def take(self) -> bytes:
        data, self._pieces = b"".join(self._pieces), []
        return data


def _zipped(folder: Path) -> Iterator[bytes]:
    """Yield a ZIP file of a folder, piece by piece."""
    written = _Written()
    with zipfile.ZipFile(written, "w", allowZip64=True) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_symlink() or not path.is_file():
                continue
            name = (Path(folder.name) / path.relative_to(folder)).as_posix()
            with path.open("rb") as file, archive.open(name, "w", force_zip64=True) as entry:
                while piece := file.read(_PIECE):
                    entry.write(piece)
                    yield written.take()
    yield written.take()


ENDPOINTS: Final = (
    Endpoint("GET", "/api/formats", "The formats that are written, as `wshard formats --json`", list_formats),
    Endpoint(
        "POST",
        "/api/exports",
        "Begin to convert episodes into the folder `.exports` of the archive, as `wshard convert`",
        start_export,
        (
            *EPISODES,
            Parameter("collection", "collection to export, instead of episodes"),
            Parameter("format", "format to write, see /api/formats", required=True),
            Parameter("without", "lane to leave out of all episodes, such as reward; may be repeated", many=True),
            Parameter("name", "name of the export; missing episodes are added to an existing one", required=True),
        ),
        changes=True,
        body=True,
    ),
    Endpoint(
        "GET",
        "/api/exports/{id}/file",
        "What an export wrote: a file, or a ZIP of its folder",
        send_export,
        (Parameter("id", "id of its job", int, required=True, least=0, most=1 << 40),),
        media="application/octet-stream",
    ),
)
