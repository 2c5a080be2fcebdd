"""What the index asks of a Milvus server, by pymilvus."""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from bridge.index.deepdata.messages import Collection, Found, Stored
from bridge.index.milvus.expressions import expression
from bridge.support.waiting import Waiting
from wshard.core.plugins import import_library
from wshard.errors import (
    IndexAccessError,
    IndexDamagedError,
    IndexLostError,
    IndexRefusedError,
    IndexUnreachableError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    from bridge.index.deepdata.messages import Ask, Document
    from bridge.index.deepdata.settings import Settings

SCHEME: Final = "milvus+"
_ANSWER_S: Final = 30.0
_SPREADING_S: Final = 10.0  # after which all nodes have a change: Milvus bounds it by 5 s
_LOST_WORDS: Final = ("collection not found", "can't find collection", "not exist")
_UNREACHABLE_WORDS: Final = ("unavailable", "fail connecting", "deadline", "timeout", "connection", "not ready")
_ACCESS_WORDS: Final = ("unauthenticated", "auth check failure", "permission", "privilege")
_EXACT, _SOON = "Strong", "Bounded"  # what a search sees: all that was written, or all that is older than some seconds


class MilvusServer:
    """See Dialect; names of collections have _ in place of -. Threads may share it, forked processes may not.

    A search sees all changes once `note_change` was called after them. breaks: see Wire.
    """

    suffix = ""

    def __init__(self, settings: Settings) -> None:
        self.breaks = 0
        self._settings = settings
        self._waiting = Waiting(settings.base)
        self._client: Any = None
        self._strict_until = 0.0  # of time.monotonic()
        self._lock = threading.Lock()

    def within(self, seconds: float | None) -> AbstractContextManager[None]:
        """Limit all requests of this thread in the context to this many seconds; see Wire."""
        return self._waiting.within(seconds)

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = None

    def note_change(self) -> None:
        """Let searches wait for everything that was written, until all nodes of the server have it anyway."""
        self._strict_until = time.monotonic() + _SPREADING_S

    def collection(self, name: str) -> Collection | None:
        """Describe a collection, and load it where a restarted server has not."""
        if not self._ask("has_collection", name):
            return None
        found = self._ask("describe_collection", name)
        self._ask("load_collection", name)
        counted = self._ask("query", name, filter="", output_fields=["count(*)"], consistency_level=_EXACT)
        try:
            metadata = json.loads(found["description"])
            (vectors,) = (field for field in found["fields"] if field["name"] == "vector")
            return Collection(name, int(vectors["params"]["dim"]), metadata, int(counted[0]["count(*)"]))
        except (KeyError, TypeError, ValueError, IndexError):
            return Collection(name, None, {}, 0)

    def create(self, schema: Mapping[str, Any]) -> None:
        """Make a collection whose numbers the server gives out, as they must never come again."""
        if self._ask("has_collection", schema["name"]):
            return
        kinds = import_library("pymilvus", "milvus").DataType
        fields = self._connect().create_schema(
            auto_id=True, enable_dynamic_field=True, description=json.dumps(schema["metadata"])
        )
        fields.add_field("id", kinds.INT64, is_primary=True)
        fields.add_field("ref", kinds.VARCHAR, max_length=64)
        fields.add_field("vector", kinds.FLOAT_VECTOR, dim=schema["fields"][0]["dim"])
        index = self._connect().prepare_index_params()
        made = {"index_type": "HNSW", "metric_type": "COSINE", "params": {"M": 16, "efConstruction": 200}}
        index.add_index("vector", **made)
        self._ask("create_collection", schema["name"], schema=fields, index_params=index)

    def drop(self, name: str) -> None:
        """Remove a collection."""
        self._ask("drop_collection", name)

    def insert(self, name: str, documents: Sequence[Document]) -> list[int | str] | None:
        """Store one batch, whole or not at all."""
        rows = [{**document.metadata, "vector": list(document.vector)} for document in documents]
        ids = [int(one) for one in self._ask("insert", name, data=rows)["ids"]]
        return [*ids] if len(set(ids)) == len(rows) else None

    def search(self, name: str, ask: Ask) -> Found:
        """Return the nearest; those of one request are seen as it needs them."""
        wanted = ["ref", "about", *(["vector"] if ask.include_vectors else [])]
        strict = time.monotonic() < self._strict_until or "ref" in (ask.filters or {})
        (hits,) = self._ask(
            "search",
            name,
            data=[list(ask.query)],
            limit=ask.top_k,
            filter=expression(ask.filters),
            output_fields=wanted,
            search_params={"params": {"ef": max(ask.top_k, ask.ef_search or ask.top_k)}},
            consistency_level=_EXACT if strict else _SOON,
        )
        found = tuple(_stored(hit["id"], hit["entity"], 1.0 - hit["distance"]) for hit in hits)
        distances = [1.0 - hit["distance"] for hit in hits]
        if not np.isfinite(distances).all() or distances != sorted(distances):
            raise IndexDamagedError(f"{self._settings.base}: expected hits of {name}, the nearest first, found others")
        return Found(found, len(found), distances[-1] if distances else -1.0, len(found))

    def delete(self, name: str, document: int) -> None:
        """Remove by number."""
        self._ask("delete", name, ids=[document])

    def fetch(self, name: str, documents: Mapping[int, str], dim: int) -> list[Stored]:  # noqa: ARG002 (see Dialect)
        """Read by number."""
        if not documents:
            return []
        wanted = {"ids": list(documents), "output_fields": ["ref", "vector"], "consistency_level": _EXACT}
        return [_stored(row["id"], row, None) for row in self._ask("get", name, **wanted)]

    def _connect(self) -> Any:
        with self._lock:
            if self._client is None:
                make = import_library("pymilvus", "milvus").MilvusClient
                uri = self._settings.base.removeprefix(SCHEME)
                self._client = make(uri=uri, token=self._settings.token or "", timeout=self._left("connect"))
            return self._client

    def _ask(self, verb: str, name: str, **arguments: Any) -> Any:
        """Call a method of the client; raises the errors of Wire.send."""
        errors = import_library("pymilvus", "milvus").exceptions
        rpc_error = import_library("grpc", "milvus").RpcError  # of one that is late, which pymilvus does not translate
        with self._waiting.announce([f"no answer yet to {verb}"]):
            try:
                method = getattr(self._connect(), verb)
                return method(name.replace("-", "_"), timeout=self._left(verb), **arguments)
            except errors.MilvusException as error:
                raise self._translate(verb, str(error.message), int(error.code)) from error
            except rpc_error as error:
                raise self._translate(verb, f"{error.code().name}: {error.details()}", 0) from error

    def _left(self, what: str) -> float:
        left = self._waiting.remaining(what)
        return _ANSWER_S if left is None else min(left, _ANSWER_S)

    def _translate(self, verb: str, text: str, code: int) -> Exception:
        said = f"{self._settings.base}: {verb}: {' '.join(text.split())[:300]}"
        for marks, kind in (
            (_LOST_WORDS, IndexLostError),
            (_ACCESS_WORDS, IndexAccessError),
            (_UNREACHABLE_WORDS, IndexUnreachableError),
        ):
            if any(mark in text.lower() for mark in marks):
                self.breaks += kind is IndexUnreachableError
                return kind(f"{said} ({self._settings.advice_on_token})" if kind is IndexAccessError else said)
        return IndexRefusedError(said, code, text)


def _stored(number: int, row: Mapping[str, Any], distance: float | None) -> Stored:
    vector = row.get("vector")
    return Stored(number, row.get("ref"), distance, row, None if vector is None else np.array(vector, np.float32))
