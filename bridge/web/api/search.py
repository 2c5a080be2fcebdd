"""Routes that search: episodes, windows and moments like examples, by the options of the command line."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from bridge.names import EpisodeNames, parse_uid_span
from bridge.present.hits import present_hits
from bridge.results import resolve_span
from bridge.search.query.options import MomentOptions, SearchOptions, options_of
from bridge.web.api.listing import WHERE
from bridge.web.endpoints import ApiCall, Endpoint, Parameter
from bridge.web.guard import UPLOADS
from embedders.space import Space
from wshard.errors import QueryError

if TYPE_CHECKING:
    from bridge.hits import Hits
    from bridge.results import EpisodeRef
    from bridge.search.query.options import CommonOptions, Option


def search_episodes(call: ApiCall) -> dict[str, Any]:
    """Return similar episodes or windows: what `wshard search --json` prints."""
    return _present(call, SearchOptions)


def search_moments(call: ApiCall) -> dict[str, Any]:
    """Return similar spans with their bounds and alignment: what `wshard moments --json` prints."""
    return _present(call, MomentOptions, moments=True)


def _present(call: ApiCall, kind: type[CommonOptions], *, moments: bool = False) -> dict[str, Any]:
    hits = _find(call, kind)
    return present_hits(hits, call.archive.catalog.query.short_names(hits), moments=moments)


def _find(call: ApiCall, kind: type[CommonOptions]) -> Hits:
    archive = call.archive.archive
    if call["embedder"] is not None:  # any other name could be that of code to import
        embedders = {Space.from_json(row.definition).embedder for row in archive.catalog.vectors.spaces()}
        if call["embedder"] not in embedders:
            raise QueryError(f"embedder: expected one of the archive's, {', '.join(sorted(embedders))}")
    query = None if call["query"] is None else _read_query(call, call["query"])
    options = {one.name: call[one.served_as or one.name] for one in options_of(kind) if one.offered}
    options |= {name: [_read_query(call, text) for text in options[name]] for name in ("like", "unlike")}
    find = archive.search if kind is SearchOptions else archive.moments
    if query is not None and query.seen is not None:  # a picture
        options |= {"image": query}
        query = None
        options.pop("alignment", None)  # of timesteps, which a picture has not
    with call.archive.searching:
        return find(
            query, embedder=call["embedder"], lanes=call["lane"] or None, where=call["where"] or None, **options
        )


def _read_query(call: ApiCall, text: str) -> EpisodeRef:
    """Return the episode, the uploaded query, or timesteps of one that a text names."""
    uid, start, stop = parse_uid_span(text)
    uploaded = call.archive.uploads.find(uid)
    if uploaded is None:
        return EpisodeNames(call.archive.catalog).of_uid(text)
    if (start, stop) == (0, None):
        return uploaded
    return replace(uploaded, span=resolve_span(start, stop, uploaded.episode_id, uploaded.metadata["length"]))


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
        Parameter("query", "Query: UID, or UID@START:STOP for timesteps of it."),
        WHERE,
        *(_make_parameter(one) for one in options_of(kind) if one.offered),
        Parameter("embedder", "Embedder, if the archive has several."),
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
