"""Routes about many episodes: pages, counts, facets, and the fields that filters may name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bridge.web.endpoints import ApiCall, Endpoint, Parameter
from catalog.filters.fields import ALIASES, FAMILIES, FIELDS, STATISTICS, field_of
from catalog.filters.parse import as_where
from catalog.filters.to_text import where_text
from catalog.filters.where import EVERYTHING, Compare
from catalog.query.columns import columns_of
from catalog.query.listing import list_episodes, list_facets, list_histograms

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from catalog.catalog import Catalog
    from catalog.filters.where import Where
    from catalog.records import EpisodeRow

WHERE: Final = Parameter("where", "filter as text, see docs/catalog.md", default="")
_SAMPLE: Final = 200  # episodes whose metadata give the names of keys
_DEEPEST: Final = 3
_MANY: Final = 100_000  # episodes from which on a sample is enough
_ENOUGH: Final = 20_000  # episodes of a sample, of all
_SAMPLED: Final = frozenset({"env_id", "success", "length", "total_reward", "size"})
"""Fields of which every episode has a value, or none: rare ones of others would be missing in a sample."""


def list_page(call: ApiCall) -> dict[str, Any]:
    """Return a page of episodes: what `wshard ls --json` prints."""
    query, where = call.archive.catalog.query, as_where(call["where"])
    columns = columns_of(call["columns"]) if call["columns"] else None
    page = query.select(where, order=call["sort"], after=call["after"], limit=call["limit"], skip=call["skip"])
    total = {"total": query.count(where)} if call["count"] else {}
    return {"items": list_episodes(query, columns, page.rows), **total, "next": page.next}


def count_episodes(call: ApiCall) -> dict[str, Any]:
    """Return the number of episodes that match a filter, and the parsed filter."""
    where = as_where(call["where"])
    return {"total": call.archive.catalog.query.count(where), "where": where_text(where)}


def count_values(call: ApiCall) -> dict[str, Any]:
    """Return the values of fields: what `wshard facets --json` prints."""
    query = call.archive.catalog.query

    def find() -> dict[str, Any]:
        counted = {field_of(name).root for name in (*call["field"], *call["histogram"])}
        scale, sample_filter = _sample(call) if call["sample"] and counted <= _SAMPLED else (1, EVERYTHING)
        where = as_where(call["where"]) & sample_filter
        histograms = {name: query.histogram(name, where, bins=call["bins"]) for name in call["histogram"]}
        items = list_facets(query.facets(call["field"], where, limit=call["limit"]) if call["field"] else {})
        for values in items:
            values["values"] = [{**one, "episodes": one["episodes"] * scale} for one in values["values"]]
        result = {"items": items, "total": len(items), "histograms": list_histograms(histograms)}
        return result | ({"scale": scale} if call["sample"] else {})

    key = ("facets", call["where"], *call["field"], call["limit"], *call["histogram"], call["bins"], call["sample"])
    result: dict[str, Any] = call.archive.remember(key, find)
    return result


def _sample(call: ApiCall) -> tuple[int, Where]:
    """Return a filter for some of the episodes, evenly by id, where many pass, and how many each stands for."""
    query = call.archive.catalog.query
    if query.count(call["where"]) < _MANY:
        return 1, EVERYTHING
    most = call.archive.remember("last id", lambda: query.select(order="-id", limit=1).rows)[0].id
    every = max(1, most // _ENOUGH)
    return every, Compare("id", "in", tuple(range(1, most + 1, every)))


def list_fields(call: ApiCall) -> dict[str, Any]:
    """Return every field available in filters, with the type of its values and its operators.

    columns: those of a list in which its episodes differ; example: a filter that some pass.
    """
    found: dict[str, Any] = call.archive.remember("fields", lambda: _describe_fields(call.archive.catalog))
    return found


def _describe_fields(catalog: Catalog) -> dict[str, Any]:
    last = catalog.query.select(order="-id", limit=1).rows
    spread = Compare("id", "in", tuple(range(1, last[0].id + 1, max(1, last[0].id // _SAMPLE)))) if last else EVERYTHING
    pages = [catalog.query.select(where, order="id", limit=2 * _SAMPLE).rows for where in (EVERYTHING, spread)]
    some = [*{row.id: row for rows in pages for row in rows}.values()]
    items = [*_fields(catalog, some)]
    about = {"columns": [*_find_columns(catalog, some)], "example": _make_example(some)}
    return {"items": items, "total": len(items), "aliases": dict(ALIASES), "families": [*FAMILIES], **about}


def _find_columns(catalog: Catalog, rows: Sequence[EpisodeRow]) -> Iterator[str]:
    """Yield the columns in which these episodes differ; of annotations, those that any episode of the archive has."""
    values: dict[str, list[Any]] = {
        "env": [row.env_id for row in rows],
        "meta.task": [row.metadata.get("task") for row in rows],
        "format": [row.format for row in rows],
        "root": [row.root for row in rows],
        "path": [row.path for row in rows],
        "success": [row.success for row in rows],
        "reward": [row.total_reward for row in rows],
    }
    count = {name: len({str(one) for one in all_of}) for name, all_of in values.items()}
    if values["meta.task"] == values["env"]:
        count["meta.task"] = 0
    if count["path"] == len(rows):  # each has a file of its own, which tells what its name tells
        count["path"] = 0
    yield from (name for name, different in count.items() if different > 1)
    found = catalog.query.facets(("review", "tag"), limit=2)
    names = {"review": "review", "tag": "tags"}
    yield from (names[field] for field, facet in found.items() if any(value is not None for value, _ in facet))
    yield from (name for name in catalog.query.columns() if name == "score.rating")


def _make_example(rows: Sequence[EpisodeRow]) -> str:
    """Return a filter of an environment or a task of the archive, and a length."""
    if not rows:
        return ""
    length = Compare("length", "ge", sorted(row.length for row in rows)[len(rows) // 2])
    named = [Compare("env_id", "eq", row.env_id) for row in rows if row.env_id]
    tasks = [
        Compare("meta.task", "eq", task) for row in rows if isinstance(task := row.metadata.get("task"), str) and task
    ]
    first = [*named, *tasks][:1]
    return " ".join(where_text(one) for one in (*first, length))


def _fields(catalog: Catalog, rows: Sequence[EpisodeRow]) -> Iterator[dict[str, Any]]:
    names = [*FIELDS]
    names += [name for name in catalog.query.columns() if name.startswith("score.")]
    keys: dict[str, None] = {}
    for row in rows:
        keys |= dict.fromkeys(_keys(row.metadata, "meta"))
    lanes = sorted({lane.name for layout in catalog.query.layouts() for lane in layout.lanes})
    names += [*sorted(keys), *(f"lane.{_quoted(lane)}.{statistic}" for lane in lanes for statistic in STATISTICS)]
    for name in names:
        field = field_of(name)
        kind = None if field.type is None else field.type.__name__
        yield {"name": field.short, "type": kind, "many": field.many, "operators": [*field.operators]}


def _quoted(part: str) -> str:
    return '"' + part.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _keys(values: Mapping[str, Any], prefix: str, depth: int = 1) -> Iterator[str]:
    for key, value in values.items():
        name = f"{prefix}.{_quoted(key)}"
        if isinstance(value, dict) and depth < _DEEPEST:
            yield from _keys(value, name, depth + 1)
        elif isinstance(value, str | int | float):
            yield name


ENDPOINTS: Final = (
    Endpoint(
        "GET",
        "/api/episodes",
        "A page of episodes, as `wshard ls --json`",
        list_page,
        (
            WHERE,
            Parameter("sort", "field to sort by; -FIELD is descending", default="episode_id"),
            Parameter("after", "the cursor `next` of an earlier page"),
            Parameter("skip", "rows to skip", int, default=0, least=0, most=1 << 40),
            Parameter("limit", "maximum number of rows", int, default=50, least=1, most=1000),
            Parameter(
                "columns", "field to return; may be repeated. Default: all fields of an episode's row", many=True
            ),
            Parameter("count", "also count all matches", bool, default=True),
        ),
    ),
    Endpoint(
        "GET", "/api/count", "How many episodes pass a filter, and how it is understood", count_episodes, (WHERE,)
    ),
    Endpoint(
        "GET",
        "/api/facets",
        "Values of fields with the number of episodes, as `wshard facets --json`",
        count_values,
        (
            WHERE,
            Parameter("field", "field to count values of; may be repeated", many=True),
            Parameter("limit", "maximum number of values per field", int, default=20, least=1, most=1000),
            Parameter("histogram", "numeric field for a histogram; may be repeated", many=True),
            Parameter("bins", "number of bins of a histogram", int, default=20, least=1, most=1000),
            Parameter(
                "sample", "estimate from a sample if 100,000 episodes or more match: see `scale`", bool, default=False
            ),
        ),
    ),
    Endpoint("GET", "/api/fields", "The fields that filters may name, with types and operators", list_fields),
)
