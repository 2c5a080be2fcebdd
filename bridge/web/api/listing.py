"""Routes about many episodes: pages, counts, facets, and the fields that filters may name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bridge.web.api.sample import EpisodeSample, choose_sample, count_passing, exact_filter
from bridge.web.endpoints import ApiCall, Endpoint, Parameter
from catalog.filters.fields import ALIASES, FAMILIES, FIELDS, STATISTICS, field_of, quoted
from catalog.filters.parse import as_where
from catalog.filters.to_text import where_text
from catalog.filters.where import Compare
from catalog.query.columns import columns_of
from catalog.query.differences import find_differences
from catalog.query.listing import list_episodes, list_facets, list_histograms
from catalog.query.sampling import sample_episodes
from catalog.query.suggestions import suggest_values

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from catalog.catalog import Catalog
    from catalog.records import EpisodeRow

WHERE: Final = Parameter("where", "filter as text, see docs/catalog.md", default="")
_SAMPLED: Final = frozenset({"env_id", "success", "length", "total_reward", "size", "folder", "path", "meta"})
"""Fields that are not counted fast, or have no rare values; those of what people write are counted exactly."""


def list_page(call: ApiCall) -> dict[str, Any]:
    """Return a page of episodes: what `wshard ls --json` prints."""
    query, where = call.archive.catalog.query, as_where(call["where"])
    columns = columns_of(call["columns"]) if call["columns"] else None
    page = query.select(where, order=call["sort"], after=call["after"], limit=call["limit"], skip=call["skip"])
    total = {"total": query.count(where)} if call["count"] else {}
    return {"items": list_episodes(query, columns, page.rows), **total, "next": page.next}


def count_episodes(call: ApiCall) -> dict[str, Any]:
    """Return the number of episodes that match a filter, the parsed filter, and what may be meant where none does."""
    total, where = count_passing(call), as_where(call["where"])
    hints = [] if total else suggest_values(call.archive.catalog.query, where, empty=[where])
    return {"total": total, "where": where_text(where), "hints": hints}


def count_values(call: ApiCall) -> dict[str, Any]:
    """Return the values of fields: what `wshard facets --json` prints.

    With `sample`: how many episodes each that was counted stands for, and how many were; rare values may be missing.
    """
    query = call.archive.catalog.query

    def find() -> dict[str, Any]:
        counted = {field_of(name).root for name in (*call["field"], *call["histogram"])}
        sample = choose_sample(call) if call["sample"] and counted <= _SAMPLED else EpisodeSample(exact_filter(call))
        where, scale = sample.where, sample.scale
        histograms = {name: query.histogram(name, where, bins=call["bins"]) for name in call["histogram"]}
        items = list_facets(query.facets(call["field"], where, limit=call["limit"]) if call["field"] else {})
        for values in items:
            values["values"] = [{**one, "episodes": round(one["episodes"] * scale)} for one in values["values"]]
        result = {"items": items, "total": len(items), "histograms": list_histograms(histograms)}
        return result | ({"scale": scale, "counted": sample.episodes} if call["sample"] else {})

    key = ("facets", call["where"], *call["field"], call["limit"], *call["histogram"], call["bins"], call["sample"])
    result: dict[str, Any] = call.archive.remember(key, find)
    return result


def list_fields(call: ApiCall) -> dict[str, Any]:
    """Return every field available in filters, with the type of its values and its operators.

    columns: those of a list in which its episodes differ, the most telling first; facets, more_facets: fields to count
    the values of, and others that may be; labels: texts that say what an episode is; example: a filter that some pass.
    """
    found: dict[str, Any] = call.archive.remember("fields", lambda: _describe_fields(call.archive.catalog))
    return found


def _describe_fields(catalog: Catalog) -> dict[str, Any]:
    some = sample_episodes(catalog.query)
    found = find_differences(catalog.query, some)
    items = [*_fields(catalog, found.keys)]
    about = {name: getattr(found, name) for name in ("columns", "facets", "more_facets", "labels")}
    return {
        "items": items,
        "total": len(items),
        "aliases": dict(ALIASES),
        "families": [*FAMILIES],
        "example": _make_example(some),
        **about,
    }


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


def _fields(catalog: Catalog, keys: Sequence[str]) -> Iterator[dict[str, Any]]:
    names = [*FIELDS]
    names += [name for name in catalog.query.columns() if name.startswith("score.")]
    lanes = sorted({lane.name for layout in catalog.query.layouts() for lane in layout.lanes})
    names += [*keys, *(f"lane.{quoted(lane)}.{statistic}" for lane in lanes for statistic in STATISTICS)]
    for name in names:
        field = field_of(name)
        kind = None if field.type is None else field.type.__name__
        yield {"name": field.short, "type": kind, "many": field.many, "operators": [*field.operators]}


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
                "sample",
                "estimate from a sample if 100,000 episodes or more match: see `scale`, `counted`",
                bool,
                default=False,
            ),
        ),
    ),
    Endpoint("GET", "/api/fields", "The fields that filters may name, with types and operators", list_fields),
)
