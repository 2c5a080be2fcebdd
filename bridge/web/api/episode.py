"""Routes about one episode: its facts, history, lanes as series, and pictures."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import FileResponse, Response

from bridge.episodes.events import read_events
from bridge.episodes.pictures import is_camera, order_pictures, picture_axes, read_picture
from bridge.episodes.series import is_plotted, order_lanes, read_residuals, read_series
from bridge.episodes.videos import MAX_PART, find_videos, read_video
from bridge.names import parse_uid_span
from bridge.present.episodes import find_rate, present_details
from bridge.web.endpoints import ApiCall, Endpoint, Parameter, reason_of
from catalog.records import LaneDefinition
from embedders.space import Space
from wshard.errors import QueryError, RequestError, WShardError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from bridge.results import EpisodeRef
    from catalog.catalog import Catalog
    from wshard.core.episode.protocol import EpisodeReader

UID: Final = Parameter("uid", "uid of an episode", required=True)
_POINTS: Final = Parameter(
    "points", "approximate maximum number of timesteps per series", int, default=1000, least=2, most=20_000
)
_RANGE: Final = re.compile(r"bytes=(\d{1,15})-(\d{1,15})?")
_MOST_NUMBERS: Final = 2_000_000  # of one answer


def show_episode(call: ApiCall) -> dict[str, Any]:
    """Return everything the archive knows about an episode: what `wshard show --json` prints, and its lanes."""
    catalog = call.archive.catalog
    row = catalog.episodes.get(call["uid"])
    (details,) = present_details(catalog, [row])
    layout = next(one for one in catalog.query.layouts(f"id:{row.id}") if one.id == row.layout_id)
    kinds = {lane.name: _kind(lane) for lane in layout.lanes}
    rate, clock = find_rate(details["stored_lanes"])
    return {
        **details,
        "name": catalog.query.short_names([row])[0],
        "lane_kinds": kinds,
        "rate": rate,
        "clock": clock,
        "searched_by": _searched_by(catalog, [row.id])[row.id],
    }


def _searched_by(catalog: Catalog, ids: Sequence[int]) -> dict[int, list[str]]:
    """Return the lanes by which searches compare each episode, those of the Space with most channels first."""
    facts = catalog.query.facts(ids, parts={"embedded"})
    rows = catalog.vectors.spaces("active")
    spaces = [(row.fingerprint, space) for row in rows if not (space := Space.from_json(row.definition)).of_text]
    spaces.sort(key=lambda one: -one[1].channels)
    embedded = {number: {one.space for one in about.embedded} for number, about in facts.items()}
    return {
        number: [*dict.fromkeys(lane.name for name, space in spaces if name in own for lane in space.lanes)]
        for number, own in embedded.items()
    }


def _kind(lane: LaneDefinition) -> str:
    """Return how a page shows a lane: "camera", whose frames can be searched, "picture", "numbers", or "other"."""
    if is_camera(lane):
        return "camera"
    if picture_axes(lane.shape):
        return "picture"
    return "numbers" if is_plotted(lane.dtype, lane.shape) else "other"


def show_history(call: ApiCall) -> dict[str, Any]:
    """Return the reviews of an episode and its notes, the oldest first."""
    catalog = call.archive.catalog
    row = catalog.episodes.get(call["uid"])
    notes = catalog.query.facts([row.id], parts={"notes"})[row.id].notes
    items = [{"kind": "review", **asdict(one)} for one in catalog.annotations.audit([row.id])]
    items += [{"kind": "note", **asdict(one)} for one in notes]
    return {"items": sorted(items, key=lambda one: str(one["at"])), "total": len(items)}


def show_series(call: ApiCall) -> dict[str, Any]:
    """Return lanes of spans of episodes; where an episode cannot be read, its error in place of its lanes."""
    spans = [parse_uid_span(text) for text in call["of"]]
    if len(spans) * call["points"] > _MOST_NUMBERS:
        raise RequestError(f"expected at most {_MOST_NUMBERS} numbers: ask for fewer points or episodes", 413)
    catalog = call.archive.catalog
    ids = {uid: catalog.episodes.get(uid).id for uid, *_ in spans if call.archive.uploads.find(uid) is None}
    embedded = _searched_by(catalog, [*ids.values()])
    refs, items = [], []
    for uid, start, stop in spans:
        ref = call.archive.uploads.find(uid) or call.archive.episode(uid)
        span = (start, stop if stop is not None else ref.length)
        try:
            content = _read_lanes(ref, span, call, embedded[ids[uid]] if uid in ids else ref.metadata["lanes"])
        except (WShardError, OSError) as error:
            content = {"lanes": [], "pictures": [], "residuals": [], "events": [], "error": reason_of(error)}
        refs.append(ref)
        items.append({"uid": uid, "episode_id": ref.episode_id, "span": list(span), **content})
    names = catalog.query.short_names(refs)
    return {"items": [{**one, "name": name} for one, name in zip(items, names, strict=True)], "total": len(items)}


def _read_lanes(ref: EpisodeRef, span: tuple[int, int], call: ApiCall, embedded: Collection[str]) -> dict[str, Any]:
    with ref.open() as file:
        lanes = [LaneDefinition(name, lane.dtype.value, lane.shape) for name, lane in file.lanes().items()]
        names = call["lane"] or _choose_lanes(file, call, embedded)
        wanted = call["channel"] or None
        most = max(1, _MOST_NUMBERS // max(1, len(names) * len(call["of"]) * 64))
        points = min(call["points"], max(2, most))
        series = [asdict(read_series(file, name, span, points=points, channels=wanted)) for name in names]
        residuals = [] if call["lane"] else [asdict(one) for one in read_residuals(file, span, points=points)]
        events = [] if call["lane"] else [asdict(one) for one in read_events(file, span)]
    return {"lanes": series, "pictures": order_pictures(lanes), "residuals": residuals, "events": events}


def _choose_lanes(file: EpisodeReader, call: ApiCall, embedded: Collection[str]) -> list[str]:
    """Return the lanes to plot: of those that a search compared if it did, else of all, the embedded ones first."""
    names, compared = order_lanes(file, embedded), [one.partition(" (")[0] for one in call["compared"]]
    return [name for name in names if not compared or name in compared][: call["lanes"]]


def show_picture(call: ApiCall) -> Response:
    """Return one timestep of a lane of images as JPEG, with an ETag for the browser cache."""
    ref = call.archive.episode(call["uid"])
    tag = f'"{ref.digest}-{call["step"]}-{call["width"]}"'
    caching = {"etag": tag, "cache-control": "private, max-age=86400"}
    if call.headers.get("if-none-match") == tag:
        return Response(None, 304, caching)
    with ref.open() as file:
        return Response(read_picture(file, call["lane"], call["step"], width=call["width"]), 200, caching, "image/jpeg")


def send_file(call: ApiCall) -> Response:
    """Return the file of an episode unchanged; none for one in several files, or in a location of several."""
    catalog, ref = call.archive.catalog, call.archive.episode(call["uid"])
    files = catalog.episodes.assets([catalog.episodes.get(call["uid"]).id])
    if ref.key or any(len(ones) != 1 for ones in files.values()):
        raise QueryError("expected an episode that is one file, found one in several files, or in a location of many")
    with ref.open():  # it is there, and the one that was ingested
        name = PurePath(ref.file_path).name
    return FileResponse(ref.file_path, filename=name, media_type="application/octet-stream")


def list_videos(call: ApiCall) -> dict[str, Any]:
    """Return the lanes that are encoded videos, with the time of their first frame."""
    with call.archive.episode(call["uid"]).open() as file:
        items = [asdict(one) for one in find_videos(file)]
    return {"items": items, "total": len(items)}


def show_video(call: ApiCall) -> Response:
    """Return bytes of a lane's video, at most a few megabytes, for range requests of players."""
    byte_range = _RANGE.fullmatch(call.headers.get("range", "bytes=0-").strip())
    if byte_range is None:
        raise RequestError(f"expected a range bytes=FIRST-LAST of at most {MAX_PART} bytes", 416)
    start, last = int(byte_range[1]), int(byte_range[2]) if byte_range[2] else None
    ref = call.archive.episode(call["uid"])
    with ref.open() as file:
        part = read_video(file, call["lane"], start, None if last is None else last + 1)
    if not part.data:
        raise RequestError(f"expected a range within {part.size} bytes", 416)
    headers = {
        "accept-ranges": "bytes",
        "content-range": f"bytes {part.start}-{part.start + len(part.data) - 1}/{part.size}",
        "cache-control": "private, max-age=86400",
        "etag": f'"{ref.digest}"',
    }
    whole = "range" not in call.headers and len(part.data) == part.size
    return Response(part.data, 200 if whole else 206, headers, "video/mp4")


ENDPOINTS: Final = (
    Endpoint("GET", "/api/episodes/{uid}", "All that the archive knows of an episode", show_episode, (UID,)),
    Endpoint("GET", "/api/episodes/{uid}/history", "Reviews and notes, the oldest first", show_history, (UID,)),
    Endpoint(
        "GET",
        "/api/series",
        "Lanes of episodes, or of spans of them, for plots",
        show_series,
        (
            Parameter("of", "UID or UID@START:STOP; may be repeated", many=True, required=True),
            Parameter("lane", "lane of numbers; may be repeated. Default: all", many=True),
            Parameter(
                "compared",
                "lane that a search compared, as hits say it; may be repeated. Others are left out",
                many=True,
            ),
            Parameter("lanes", "maximum number of lanes if none are named", int, default=100, least=1, most=1000),
            Parameter(
                "channel", "number of a channel; may be repeated. Default: all", int, many=True, least=0, most=512
            ),
            _POINTS,
        ),
    ),
    Endpoint(
        "GET",
        "/api/episodes/{uid}/pictures/{step}/{lane:path}",
        "One timestep of a lane of images, as JPEG",
        show_picture,
        (
            UID,
            Parameter("lane", "lane of images", required=True),
            Parameter("step", "timestep", int, required=True, least=0, most=1 << 40),
            Parameter("width", "width in pixels, about", int, least=8, most=4096),
        ),
        media="image/jpeg",
    ),
    Endpoint(
        "GET",
        "/api/episodes/{uid}/file",
        "The file of an episode, as it is",
        send_file,
        (UID,),
        media="application/octet-stream",
    ),
    Endpoint("GET", "/api/episodes/{uid}/videos", "The lanes that are encoded videos", list_videos, (UID,)),
    Endpoint(
        "GET",
        "/api/episodes/{uid}/videos/{lane:path}",
        "Bytes of a lane's video; takes a Range",
        show_video,
        (UID, Parameter("lane", "lane of encoded video", required=True)),
        media="video/mp4",
    ),
)
