"""Listed episodes and counted values as JSON-able dicts, for the command line and for web pages."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from catalog.filters.evaluate import NO_FACTS
from catalog.query.columns import parts_needed
from wshard.errors import WShardError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from catalog.query.api import Queries
    from catalog.query.columns import Column
    from catalog.query.summary_records import Facet, Histogram
    from catalog.records import EpisodeRow


def read_cells(query: Queries, columns: Sequence[Column], rows: Sequence[EpisodeRow]) -> list[list[Any]]:
    """Return the values of each row by column."""
    parts = parts_needed(columns)
    facts = query.facts([row.id for row in rows], parts=parts) if parts else {}
    known = ((row, facts.get(row.id, NO_FACTS)) for row in rows)
    cells = [[column.value(row, about) for column in columns] for row, about in known]
    for place in [place for place, column in enumerate(columns) if column.name == "name"]:
        for values, name in zip(cells, query.short_names(rows), strict=True):
            values[place] = name
    return cells


def list_episodes(query: Queries, columns: Sequence[Column] | None, rows: Sequence[EpisodeRow]) -> list[dict[str, Any]]:
    """Return each row with the values of the columns, by default with all fields of an episode's row."""
    if columns is None:
        return [
            {("file_path" if name == "path" else name): value for name, value in row._asdict().items()} for row in rows
        ]
    names = [column.name for column in columns]
    return [dict(zip(names, cells, strict=True)) for cells in read_cells(query, columns, rows)]


def list_facets(facets: Mapping[str, Facet]) -> list[dict[str, Any]]:
    """Return each field with its values and the number of episodes of each; text: how people read a value."""
    return [
        {"field": name, "values": [_list_value(name, value) | {"episodes": count} for value, count in values]}
        for name, values in facets.items()
    ]


def _list_value(field: str, value: Any) -> dict[str, Any]:
    text = read_value(field, value)
    return {"value": value} | ({} if text == value else {"text": text})


def read_value(field: str, value: Any) -> Any:
    """Return a value as people read it: of a format that is a layout with options, what it takes for what."""
    if field != "format" or not isinstance(value, str) or "?" not in value:
        return value
    from wshard.formats.layouts.named import describe_layout  # noqa: PLC0415  (few archives have one)

    try:
        return describe_layout(value)
    except WShardError:  # of another version
        return value


def list_histograms(histograms: Mapping[str, Histogram]) -> list[dict[str, Any]]:
    """Return each field with its edges and counts."""
    return [{"field": name, **asdict(shape)} for name, shape in histograms.items()]
