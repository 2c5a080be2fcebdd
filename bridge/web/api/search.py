"""Routes that search: episodes, windows and moments like examples, by the options of the command line."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from bridge.names import EpisodeNames, parse_uid_span
from bridge.pictures.question import find_frames
from bridge.present.hits import present_hits
from bridge.present.jobs import present_job
from bridge.results import resolve_span
from bridge.search.query.options import MomentOptions, SearchOptions, options_of
from bridge.search.retriever import TrajectoryRetriever
from bridge.web.api.listing import WHERE
from bridge.web.endpoints import ApiCall, Endpoint, Parameter
from bridge.web.guard import UPLOADS
from catalog.filters.parse import as_where
from embedders.space import Space
from wshard.errors import QueryError

if TYPE_CHECKING:
    from bridge.results import EpisodeRef
    from bridge.search.query.options import CommonOptions, Option
    from bridge.support.progress import Progress
    from bridge.web.jobs import Job


def search_episodes(call: ApiCall) -> dict[str, Any]:
    """Return similar episodes or windows: what `wshard search --json` prints."""
    return _present(call, SearchOptions)


def search_moments(call: ApiCall) -> dict[str, Any]:
    """Return similar spans with their bounds and alignment: what `wshard moments --json` prints."""
    return _present(call, MomentOptions, moments=True)


def _present(call: ApiCall, kind: type[CommonOptions], *, moments: bool = False) -> dict[str, Any]:
    query, options = _read_request(call, kind)
    of_cameras = options.get("image") is not None or options.get("words") is not None
    if of_cameras and call["background"] and (job := _read_frames(call)) is not None:
        return {"job": present_job(job)}
    find = call.archive.archive.moments if moments else call.archive.archive.search
    with call.archive.searching:
        hits = find(
            query, embedder=call["embedder"], lanes=call["lane"] or None, where=call["where"] or None, **options
        )
    return present_hits(hits, call.archive.catalog.query.short_names(hits), moments=moments)


def _read_request(call: ApiCall, kind: type[CommonOptions]) -> tuple[EpisodeRef | None, dict[str, Any]]:
    """Return the query and the options of a search; of pictures, the first one is the option image."""
    if call["embedder"] is not None:  # any other name could be that of code to import
        embedders = {Space.from_json(row.definition).embedder for row in call.archive.catalog.vectors.spaces()}
        if call["embedder"] not in embedders:
            raise QueryError(f"embedder: expected one of the archive's, {', '.join(sorted(embedders))}")
    query = [] if call["query"] is None else _read_query(call, call["query"])
    options = {one.name: call[one.served_as or one.name] for one in options_of(kind) if one.offered}
    options |= {name: [ref for text in options[name] for ref in _read_query(call, text)] for name in ("like", "unlike")}
    if pictures := [ref for ref in (*query, *options["like"]) if ref.seen]:  # of a file, or frames of episodes
        options |= {"image": pictures[0], "like": pictures[1:] + [ref for ref in options["like"] if not ref.seen]}
        options.pop("alignment", None)  # of timesteps, which a picture has not
        query = [ref for ref in query if not ref.seen]
    return (query[0] if query else None), options


def _read_frames(call: ApiCall) -> Job | None:
    """Return the job that reads the camera frames a picture is compared with; None once it was done."""
    archive, embedder, lanes = call.archive, call["embedder"], call["lane"] or None
    name = ("frames", call["where"], call["stride"], embedder, *call["lane"])
    if call.account.role != "editor" or archive.frames_read.get(name) == archive.catalog.instant():
        return None

    def work(progress: Progress) -> None:
        instant, stride = archive.catalog.instant(), call["stride"]
        with TrajectoryRetriever(archive.archive, embedder, lanes=lanes) as retriever:
            retriever.pictures.describe(as_where(call["where"]), progress, stride=stride)
        archive.frames_read[name] = instant

    return archive.jobs.start("cameras", work, key=name, who=call.account.name)


def _read_query(call: ApiCall, text: str) -> list[EpisodeRef]:
    """Return the episode, the uploaded query, or timesteps of one that a text names, or the frames of a camera."""
    if (frames := find_frames(call.archive.catalog, text)) is not None:
        return frames
    uid, start, stop = parse_uid_span(text)
    uploaded = call.archive.uploads.find(uid)
    if uploaded is None:
        return [EpisodeNames(call.archive.catalog).of_uid(text)]
    if (start, stop) == (0, None):
        return [uploaded]
    return [replace(uploaded, span=resolve_span(start, stop, uploaded.episode_id, uploaded.length))]


def upload_query(call: ApiCall) -> dict[str, Any]:
    """Keep a file as a query for searches."""
    return _present_upload(call.archive.uploads.add(call.archive.catalog, call["name"], call.content))


def show_query(call: ApiCall) -> dict[str, Any]:
    """Return what is known of an uploaded query."""
    uploaded = call.archive.uploads.find(call["uid"])
    if uploaded is None:
        raise QueryError("expected the uid of an uploaded query")
    return _present_upload(uploaded)


def _present_upload(ref: EpisodeRef) -> dict[str, Any]:
    return {"uid": ref.uid, "episode_id": ref.episode_id, **ref.metadata}


def _make_parameter(option: Option) -> Parameter:
    most = min(option.most, option.most_served)
    default = None if option.many else option.default
    return Parameter(
        option.served_as or option.name,
        option.help,
        option.kind,
        many=option.many,
        default=default,
        least=option.least,
        most=most,
    )


def _make_parameters(kind: type[CommonOptions]) -> tuple[Parameter, ...]:
    return (
        Parameter(
            "query", "Query: UID, UID@START:STOP for timesteps of it, or UID#CAMERA@FRAME, UID#CAMERA@START:STOP."
        ),
        WHERE,
        *(_make_parameter(one) for one in options_of(kind) if one.offered),
        Parameter("embedder", "Embedder, if the archive has several."),
        Parameter("background", "For cameras: return the job that reads frames, if any are new.", bool, default=False),
        Parameter("lane", "Compare only these lanes; may be repeated.", many=True),
    )


ENDPOINTS: Final = (
    Endpoint(
        "POST",
        UPLOADS,
        "Keeps a file as a query: .wshard, .npz, .npy, .csv, or a picture. It stays outside of the archive",
        upload_query,
        (Parameter("name", "name of the file", required=True),),
        takes_file=True,
    ),
    Endpoint(
        "GET",
        f"{UPLOADS}/{{uid}}",
        "Length and lanes of an uploaded query",
        show_query,
        (Parameter("uid", "uid of the uploaded query", required=True),),
    ),
    Endpoint(
        "GET",
        "/api/search",
        "Episodes or windows like examples, or by words, as `wshard search --json`",
        search_episodes,
        _make_parameters(SearchOptions),
    ),
    Endpoint(
        "GET",
        "/api/moments",
        "Spans like examples, with their bounds and alignment, as `wshard moments --json`",
        search_moments,
        _make_parameters(MomentOptions),
    ),
)
