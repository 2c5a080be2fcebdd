"""Routes about collections: list, save, look into, compare, drop."""

from __future__ import annotations

from typing import Any, Final

from starlette.responses import Response

from bridge.web.api.annotate import EPISODES, chosen_ids
from bridge.web.endpoints import ApiCall, Endpoint, Parameter
from catalog.curation.export_list import encode_list
from catalog.curation.listing import list_collection, list_difference, list_named
from catalog.curation.selection import Pick
from catalog.curation.split_notes import note_split
from wshard.errors import RequestError

_REF: Final = Parameter("ref", "name of a collection, or hash of a snapshot", required=True)


def list_collections(call: ApiCall) -> dict[str, Any]:
    """Return the collections: what `wshard collection ls --json` prints."""
    collections = call.archive.catalog.collections
    gone = collections.gone()
    items = [list_named(one, gone) for one in collections.all()]
    return {"items": items, "total": len(items)}


def show_collection(call: ApiCall) -> dict[str, Any]:
    """Return a collection: what `wshard collection show --json` prints."""
    return list_collection(call.archive.catalog.collections, call["ref"])


def export_collection(call: ApiCall) -> Response:
    """Return the files, spans and weights of a collection: what `wshard export-list` writes."""
    form = call["form"]
    data = encode_list(call.archive.catalog.collections.picked(call["ref"]), form)
    kind = {"json": "application/json", "csv": "text/csv"}.get(form, "application/octet-stream")
    return Response(data, headers={"content-disposition": "attachment"}, media_type=kind)


def compare_collections(call: ApiCall) -> dict[str, Any]:
    """Return the differences of two collections: what `wshard collection diff --json` prints."""
    return list_difference(call.archive.catalog.collections, call["before"], call["after"])


def save_collection(call: ApiCall) -> dict[str, Any]:
    """Save episodes, spans of them, or a filter, as a collection."""
    collections, who = call.archive.catalog.collections, call.account.name
    if call["live"]:
        if call["where"] is None:
            raise RequestError("expected a filter (where) for a live collection")
        return list_named(collections.save_query(call["name"], call["where"], who=who))
    rows = call.archive.catalog.episodes.rows(chosen_ids(call))
    picks = [Pick(row.uid, row.digest, 0, row.length) for row in rows.values()]
    return list_named(collections.save_snapshot(call["name"], picks, who=who))


def split_collection(call: ApiCall) -> dict[str, Any]:
    """Split a collection into parts without leaks; notes: what one may not expect of their sizes."""
    fractions, catalog = call["fractions"], call.archive.catalog
    made = catalog.collections.split(call["ref"], fractions, by=call["by"], seed=call["seed"], who=call.account.name)
    notes = note_split(catalog.query, made, fractions, by=call["by"])
    return {"items": [list_named(one) for one in made], "total": len(made), "notes": notes}


def drop_collection(call: ApiCall) -> dict[str, Any]:
    """Remove a collection's name; a snapshot stays, by its hash."""
    return list_named(call.archive.catalog.collections.drop(call["ref"]))


ENDPOINTS: Final = (
    Endpoint("GET", "/api/collections", "All collections, as `wshard collection ls --json`", list_collections),
    Endpoint(
        "POST",
        "/api/collections",
        "Save episodes as a snapshot, or a filter as a query",
        save_collection,
        (
            *EPISODES,
            Parameter("name", "its name", required=True),
            Parameter("live", "save the filter itself; it is evaluated on each use", bool, default=False),
        ),
        changes=True,
        body=True,
    ),
    Endpoint(
        "GET",
        "/api/collections/diff",
        "How two collections differ, as `wshard collection diff --json`",
        compare_collections,
        (
            Parameter("before", "a collection", required=True),
            Parameter("after", "another collection", required=True),
        ),
    ),
    Endpoint(
        "GET",
        "/api/collection-lists/{ref:path}",
        "The files, spans and weights of a collection, as `wshard export-list` writes them",
        export_collection,
        (_REF, Parameter("form", "json, csv or parquet", default="json")),
        media="application/octet-stream",
    ),
    Endpoint(
        "GET",
        "/api/collections/{ref:path}",
        "A collection with its picks, as `wshard collection show --json`",
        show_collection,
        (_REF,),
    ),
    Endpoint(
        "DELETE", "/api/collections/{ref:path}", "Take a collection's name away", drop_collection, (_REF,), changes=True
    ),
    Endpoint(
        "POST",
        "/api/collection-splits",
        "Divide a collection into parts without leaks",
        split_collection,
        (
            _REF,
            Parameter("fractions", "parts and their fractions, such as train: 0.8", dict, required=True),
            Parameter("by", "keep episodes with equal values of this field together; may be repeated", many=True),
            Parameter("seed", "random seed", int, default=0, least=0, most=1 << 31),
        ),
        changes=True,
        body=True,
    ),
)
