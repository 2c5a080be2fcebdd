"""The messages to and from a DeepData server, and their validation."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.errors import IndexDamagedError, QueryError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bridge.index.base import Vectors

FIELD: Final = "embedding"
"""The one vector field of a collection: a second one leaves ghosts behind when an insert fails."""

_ROUNDING: Final = 1e-5  # float32 distances that should ascend


@dataclass(frozen=True)
class Document:
    """One vector as it is sent: numbers that float32 holds, and flat metadata."""

    vector: Sequence[float]
    metadata: Mapping[str, str | int | float]

    def body(self) -> dict[str, Any]:
        """Return the document as it is sent."""
        return {"vectors": {FIELD: list(self.vector)}, "metadata": dict(self.metadata)}


@dataclass(frozen=True)
class Ask:
    """One search for numbers that float32 holds. filters: see filters.py; offset: only where batches are known, too."""

    query: Sequence[float]
    top_k: int
    filters: Mapping[str, Any] | None = None
    ef_search: int | None = None
    offset: int = 0
    include_vectors: bool = False

    def body(self, collection: str | None = None) -> bytes:
        """Return the search request, with the collection if the path does not name it.

        Nine digits distinguish all float32 numbers, and are written in a third of the time that json takes for the
        seventeen of a float64. Raises QueryError for a number that JSON does not have.
        """
        if not all(map(math.isfinite, self.query)):
            raise QueryError("expected a query of finite numbers, found NaN or infinity")
        numbers = ",".join(["%.9g"] * len(self.query)) % tuple(self.query)
        optional = {
            "collection": collection,
            "filters": self.filters,
            "ef_search": self.ef_search,
            "offset": self.offset or None,
            "include_vectors": self.include_vectors or None,
        }
        rest = {"top_k": self.top_k} | {name: value for name, value in optional.items() if value is not None}
        return f'{{"queries": {{"{FIELD}": [{numbers}]}}, {json.dumps(rest, allow_nan=False)[1:]}'.encode()


@dataclass(frozen=True, eq=False)
class Stored:
    """One document of an answer. distance: 1 - cosine, None when it was not searched for."""

    id: int
    ref: str | None
    distance: float | None
    metadata: Mapping[str, Any]
    vector: Vectors | None


@dataclass(frozen=True)
class Found:
    """Result of a search, nearest first; documents excludes ghosts.

    returned: number of documents including ghosts; reach: distance of the last one, -1 if there were none.
    """

    documents: tuple[Stored, ...]
    returned: int
    reach: float
    examined: int


@dataclass(frozen=True)
class Collection:
    """Server's description of a collection; dim is None unless it has exactly one dense hnsw field of our name."""

    name: str
    dim: int | None
    metadata: Mapping[str, Any]
    documents: int


def schema(name: str, dim: int, description: str, metadata: Mapping[str, str]) -> dict[str, Any]:
    """Return the schema of a collection: hnsw, which implies cosine, with the parameters measured in WIRE.md."""
    index = {"type": "hnsw", "params": {"m": 16, "ef_construction": 200}}
    fields = [{"name": FIELD, "type": "dense", "dim": dim, "index": index}]
    return {"name": name, "fields": fields, "description": description, "metadata": dict(metadata)}


def read_collection(answer: Mapping[str, Any], where: str) -> Collection:
    """Read the answer to a request for one collection."""
    try:
        description = answer["collection"]
        fields = description["Fields"]
        is_ours = len(fields) == 1 and fields[0]["name"] == FIELD and fields[0]["index"]["type"] == "hnsw"
        metadata = description["Metadata"] or {}
        return Collection(
            description["Name"], fields[0]["dim"] if is_ours else None, metadata, int(description["DocCount"])
        )
    except (KeyError, TypeError, ValueError) as error:
        raise _invalid(where, "what a collection is made of", answer) from error


def read_found(answer: Mapping[str, Any], where: str) -> Found:
    """Read the answer to a search; raises IndexDamagedError if scores are missing, invalid or unordered."""
    try:
        listed, scores = answer["documents"], [float(score) for score in answer["scores"]]
        documents = [_stored(document, score) for document, score in zip(listed, scores, strict=True)]
        examined = int(answer.get("candidates_examined", len(listed)))
    except (KeyError, TypeError, ValueError) as error:
        raise _invalid(where, "documents with a score each", answer) from error
    is_valid = all(math.isfinite(score) and -_ROUNDING <= score <= 2 + _ROUNDING for score in scores)
    if not is_valid or any(after < before - _ROUNDING for before, after in pairwise(scores)):
        raise IndexDamagedError(
            f"{where}: expected cosine distances from 0 to 2, ascending, found {scores[:10]}: it is poisoned"
        )
    without_ghosts = tuple(found for found in documents if found.id and found.ref)
    return Found(without_ghosts, len(listed), scores[-1] if scores else -1.0, examined)


def read_documents(answer: Mapping[str, Any], where: str) -> list[Stored]:
    """Read the answer to a request for documents by id."""
    try:
        return [_stored(document, None) for document in answer["documents"]]
    except (KeyError, TypeError, ValueError) as error:
        raise _invalid(where, "documents", answer) from error


def read_ids(answer: Mapping[str, Any], sent: int, where: str) -> list[int | str] | None:
    """Return per document its id, or the server's error; None if the outcome is unknown.

    `ids` has no places for failures; `errors` names them by position. If the two do not add up to what was sent, the
    server gave up midway.
    """
    try:
        ids = [int(number) for number in answer["ids"]]
        errors = {int(position): str(words) for position, words in (answer["errors"] or {}).items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _invalid(where, "ids and errors", answer) from error
    if len(ids) + len(errors) != sent or len(set(ids)) < len(ids) or not all(0 <= place < sent for place in errors):
        return None
    remaining = iter(ids)
    return [errors[position] if position in errors else next(remaining) for position in range(sent)]


def _stored(document: Mapping[str, Any], distance: float | None) -> Stored:
    metadata = document.get("metadata") or {}
    ref = metadata.get("ref")
    raw = (document.get("vectors") or {}).get(FIELD)
    vector = None if raw is None else np.array(raw, np.float32)
    return Stored(int(document["id"]), ref if isinstance(ref, str) else None, distance, metadata, vector)


def _invalid(where: str, expected: str, found: object) -> IndexDamagedError:
    return IndexDamagedError(f"{where}: expected {expected}, found {str(found)[:200]}")
