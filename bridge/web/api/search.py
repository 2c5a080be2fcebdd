"""Routes that search: episodes, windows and moments like examples, by the words of the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bridge.present.hits import present_hits
from bridge.search.query.names import EpisodeNames
from bridge.web.api.listing import WHERE
from bridge.web.endpoints import ApiCall, Endpoint, Parameter
from embedders.space import Space
from wshard.errors import QueryError

if TYPE_CHECKING:
    from bridge.results import EpisodeRef, Hits
    from bridge.search.retriever import TrajectoryRetriever


def search_episodes(call: ApiCall) -> dict[str, Any]:
    """Return similar episodes or windows: what `wshard search --json` prints."""
    options = {
        name: call[name]
        for name in ("text", "expand", "plain", "least", "min_score", "diversity", "contributions", "alignment")
    }
    options |= {"exclude_self": call["exclude_self"], "explain": call["explain"]}
    windows = {"windows": call["windows"], "distinct": call["distinct"]}

    def find(retriever: TrajectoryRetriever, query: EpisodeRef | None, examples: dict[str, Any]) -> Hits:
        if call["windows"] is not None or call["of_windows"]:
            return retriever.search_similar_timesteps(query, call["top"], **examples, **options, **windows)
        return retriever.search_similar_episodes(query, call["top"], **examples, **options)

    return present_hits(_find(call, find))


def search_moments(call: ApiCall) -> dict[str, Any]:
    """Return similar spans with their bounds and alignment: what `wshard moments --json` prints."""
    options = {
        name: call[name]
        for name in ("windows", "refine", "max_overlap", "per_episode", "min_score", "exclude_self", "explain")
    }

    def find(retriever: TrajectoryRetriever, query: EpisodeRef | None, examples: dict[str, Any]) -> Hits:
        return retriever.search_moments(query, call["top"], **examples, **options)

    return present_hits(_find(call, find), moments=True)


def _find(call: ApiCall, find: Any) -> Hits:
    archive = call.archive
    read = EpisodeNames(archive.catalog).of_uid
    query = None if call["query"] is None else read(call["query"])
    examples = {name: [read(text) for text in call[name]] for name in ("like", "unlike")}
    if call["embedder"] is not None:  # any other name could be that of code to import
        embedders = {Space.from_json(row.definition).embedder for row in archive.catalog.vectors.spaces()}
        if call["embedder"] not in embedders:
            raise QueryError(f"embedder: expected one of the archive's, {', '.join(sorted(embedders))}")
    retriever = archive.retriever(call["embedder"], tuple(call["lane"]))
    with archive.searching:
        hits: Hits = find(retriever, query, {**examples, "where": call["where"] or None})
    return hits


_SPAN: Final = "UID, or UID@START:STOP for timesteps of it"
_COMMON: Final = (
    Parameter("query", f"query: {_SPAN}"),
    Parameter("like", f"additional example: {_SPAN}; may be repeated", many=True),
    Parameter("unlike", f"counter-example: {_SPAN}; may be repeated", many=True),
    WHERE,
    Parameter("top", "number of hits", int, default=10, least=1, most=1000),
    Parameter("min_score", "minimum score of a hit", float),
    Parameter("exclude_self", "exclude the episodes of query and examples", bool, default=False),
    Parameter("windows", "window plan to search, such as 32:16, if there are several"),
    Parameter("embedder", "embedder, if the archive has several"),
    Parameter("lane", "search Spaces of exactly these lanes; may be repeated", many=True),
    Parameter("explain", "report how the index found the hits", bool, default=False),
)

ENDPOINTS: Final = (
    Endpoint(
        "GET",
        "/api/search",
        "Episodes or windows like examples, or by words, as `wshard search --json`",
        search_episodes,
        (
            *_COMMON,
            Parameter("text", "text of the task or of notes; alone, or combined with examples"),
            Parameter("of_windows", "search windows instead of episodes", bool, default=False),
            Parameter("distinct", "with windows: at most one hit per episode", bool, default=False),
            Parameter("expand", "query expansion: number of best hits to add to the query", int, least=0, most=1000),
            Parameter("plain", "rank only by the cosine of whole episodes", bool, default=False),
            Parameter("least", "rank the least similar first", bool, default=False),
            Parameter(
                "diversity", "0 to 1: how unlike one another hits should be", float, default=0.0, least=0, most=1
            ),
            Parameter("contributions", "report how much each lane contributes to the score", bool, default=False),
            Parameter("alignment", "report the timestep alignment", bool, default=False),
        ),
    ),
    Endpoint(
        "GET",
        "/api/moments",
        "Spans like examples, with their bounds and alignment, as `wshard moments --json`",
        search_moments,
        (
            *_COMMON,
            Parameter("refine", "align with the files' lanes, for exact bounds", bool, default=True),
            Parameter(
                "max_overlap",
                "maximum overlap of two moments of one episode, as a share",
                float,
                default=0.3,
                least=0,
                most=1,
            ),
            Parameter("per_episode", "maximum number of moments per episode", int, least=1, most=1000),
        ),
    ),
)
