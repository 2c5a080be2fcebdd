"""The two API versions of the server behind one interface: v2 for open servers and admin tokens, else v3."""

from __future__ import annotations

import base64
import json
import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from bridge.index.deepdata.http import Call, Wire
from bridge.index.deepdata.messages import Ask, Collection, read_collection, read_documents, read_found, read_ids
from bridge.index.deepdata.settings import CAP
from wshard.errors import (
    IndexAccessError,
    IndexDamagedError,
    IndexLostError,
    IndexRefusedError,
    IndexUnreachableError,
    VectorIndexError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from bridge.index.deepdata.messages import Document, Found, Stored
    from bridge.index.deepdata.rate_limit import Throttle
    from bridge.index.deepdata.settings import Settings

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SEARCH_S: Final = 30.0
_INSERT_S: Final = 30.0
_INSERTED_PER_S: Final = 50  # documents; 200 to 600 were measured on a loaded machine


class Connections(Protocol):
    """What is open to one server. breaks: see Wire."""

    breaks: int

    def within(self, seconds: float | None) -> AbstractContextManager[None]:
        """Limit all requests of this thread in the context to this many seconds, None: not."""

    def close(self) -> None:
        """Close every connection."""


class Dialect(Protocol):
    """The requests of the index to a server. Every method raises the errors of Wire.send."""

    suffix: str
    """Suffix that distinguishes the collections of this API version (and tenant) at the same address."""

    def collection(self, name: str) -> Collection | None:
        """Return the server's description of a collection; None if it does not exist."""

    def create(self, schema: Mapping[str, Any]) -> None:
        """Create a collection; an existing one of that name is left unchanged."""

    def drop(self, name: str) -> None:
        """Remove a collection, if it exists."""

    def insert(self, name: str, documents: Sequence[Document]) -> list[int | str] | None:
        """Store documents once; return per document its id or error, or None if the outcome is unknown."""

    def search(self, name: str, ask: Ask) -> Found:
        """Return the nearest documents."""

    def delete(self, name: str, document: int) -> None:
        """Remove a document, if it exists."""

    def fetch(self, name: str, documents: Mapping[int, str], dim: int) -> list[Stored]:
        """Return the documents (id: ref) that exist, with their vectors."""


def reach(settings: Settings, throttle: Throttle | None) -> tuple[Connections, Callable[[], Dialect]]:
    """Return the connections to a server, and what finds out how to speak to it."""
    wire = Wire(settings, throttle=throttle)
    return wire, partial(connect, wire, settings)


def connect(wire: Wire, settings: Settings) -> Dialect:
    """Detect the API version that the token may use; raises IndexAccessError if there is none.

    Raises IndexUnreachableError if the response is not that of a DeepData server.
    """
    try:
        response = wire.send(Call("GET", "/v2/collections"))
    except IndexAccessError as error:
        if "forbidden" not in str(error):
            raise
    except (IndexRefusedError, IndexDamagedError) as error:
        raise IndexUnreachableError(f"no DeepData server at {wire.base}: {error}") from error
    else:
        if not isinstance(response.get("collections"), list):
            raise IndexUnreachableError(
                f"no DeepData server at {wire.base}: expected a list of collections, found {str(response)[:100]}"
            )
        return V2(wire)
    token_tenant = _tenant_of_token(settings.token)
    tenant = settings.tenant or token_tenant or "default"
    if token_tenant is None and tenant != "default":
        wire.as_tenant(tenant)
    return V3(wire, tenant)


def _tenant_of_token(token: str | None) -> str | None:
    """Return the tenant in a JWT, the only one that it gives access to; None for a plain token."""
    try:
        _, payload, _ = (token or "").split(".")
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return str(claims["tenant_id"])
    except (ValueError, KeyError, TypeError):
        return None


class V2:
    """Batches and reading by id; needs an open server or a JWT with the permission admin."""

    suffix = ""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def collection(self, name: str) -> Collection | None:
        """Ask for one collection."""
        return _collection(self._wire, f"/v2/collections/{_check_name(name)}")

    def create(self, schema: Mapping[str, Any]) -> None:
        """Make a collection."""
        _create(self._wire, "/v2/collections", schema)

    def drop(self, name: str) -> None:
        """Remove a collection."""
        _drop(self._wire, f"/v2/collections/{_check_name(name)}")

    def insert(self, name: str, documents: Sequence[Document]) -> list[int | str] | None:
        """Store one batch; the status is always 200, even if nothing was stored."""
        docs = [document.body() for document in documents]
        body = {"collection": name, "docs": docs, "continue_on_error": True}
        time_s = _INSERT_S + len(docs) / _INSERTED_PER_S
        answer = self._wire.send(
            Call("POST", "/v2/insert/batch", body, repeatable=False, timeout_s=time_s),
        )
        ids = read_ids(answer, len(docs), f"{self._wire.base}: batch for {name}")
        words = " ".join(str(text) for text in (answer["errors"] or {}).values())
        if f"collection {name} not found" in words:
            raise IndexLostError(f"{self._wire.base}: expected the collection {name}, found: {words[:200]}")
        return ids

    def search(self, name: str, ask: Ask) -> Found:
        """Search with POST."""
        answer = self._wire.send(Call("POST", "/v2/search", _check_limits(ask).body(name), timeout_s=_SEARCH_S))
        return read_found(answer, f"{self._wire.base}: search in {name}")

    def delete(self, name: str, document: int) -> None:
        """Remove by id."""
        _delete(self._wire, Call("POST", "/v2/delete", {"collection": name, "doc_id": document}))

    def fetch(self, name: str, documents: Mapping[int, str], dim: int) -> list[Stored]:  # noqa: ARG002 (v3 needs it)
        """Read by id."""
        if not documents:
            return []
        answer = self._wire.send(Call("POST", f"/v2/collections/{_check_name(name)}/get", {"ids": list(documents)}))
        return read_documents(answer, f"{self._wire.base}: documents of {name}")


class V3:
    """One tenant's collections, for plain API tokens and other JWTs: single inserts, and no reading by id."""

    def __init__(self, wire: Wire, tenant: str) -> None:
        self._wire = wire
        self._collections = f"/v3/tenants/{_check_name(tenant)}/collections"
        self.suffix = f"#{tenant}"

    def collection(self, name: str) -> Collection | None:
        """Ask for one collection."""
        return _collection(self._wire, self._at(name))

    def create(self, schema: Mapping[str, Any]) -> None:
        """Make a collection."""
        _create(self._wire, self._collections, schema)

    def drop(self, name: str) -> None:
        """Remove a collection."""
        _drop(self._wire, self._at(name))

    def insert(self, name: str, documents: Sequence[Document]) -> list[int | str] | None:
        """Store one by one."""
        done: list[int | str] = []
        for document in documents:
            call = Call("POST", f"{self._at(name)}/docs", document.body(), repeatable=False, timeout_s=_INSERT_S)
            try:
                answer = self._wire.send(call)
                done.append(int(answer["id"]))
            except IndexRefusedError as error:
                done.append(error.text)
            except (KeyError, TypeError, ValueError):
                return None
        return done

    def search(self, name: str, ask: Ask) -> Found:
        """Search with POST."""
        if ask.offset:
            raise VectorIndexError(f"{self._wire.base}: expected no offset in a tenant's search, found {ask.offset}")
        answer = self._wire.send(
            Call("POST", f"{self._at(name)}/search", _check_limits(ask).body(), timeout_s=_SEARCH_S)
        )
        return read_found(answer, f"{self._wire.base}: search in {name}")

    def delete(self, name: str, document: int) -> None:
        """Remove by id."""
        _delete(self._wire, Call("DELETE", f"{self._at(name)}/docs", {"doc_id": document}))

    def fetch(self, name: str, documents: Mapping[int, str], dim: int) -> list[Stored]:
        """Search by ref, the only way to read a document in v3; it walks the whole graph."""
        if not documents:
            return []
        filters = {"$and": [{"ref": {"$in": sorted(documents.values())}}]}
        query = [1.0] + [0.0] * (dim - 1)
        found = self.search(name, Ask(query, len(documents), filters, include_vectors=True))
        return [stored for stored in found.documents if stored.id in documents]

    def _at(self, name: str) -> str:
        return f"{self._collections}/{_check_name(name)}"


def _check_name(name: str) -> str:
    """Return the name if it is valid; the server creates others too, but can then neither read nor remove them."""
    if not _NAME.fullmatch(name):
        raise VectorIndexError(f"expected a name of up to 64 letters, digits, _ or -, found {name!r}")
    return name


def _check_limits(ask: Ask) -> Ask:
    if not 1 <= ask.top_k + ask.offset <= CAP or not 1 <= (CAP if ask.ef_search is None else ask.ef_search) <= CAP:
        raise VectorIndexError(
            f"expected a search for 1 to {CAP} documents, at most as wide, found {ask.top_k} after {ask.offset}, "
            f"ef {ask.ef_search}: more can kill the server"
        )
    return ask


def _collection(wire: Wire, path: str) -> Collection | None:
    try:
        return read_collection(wire.send(Call("GET", path)), f"{wire.base}{path}")
    except IndexLostError:
        return None


def _create(wire: Wire, path: str, schema: Mapping[str, Any]) -> None:
    _check_name(str(schema["name"]))
    try:
        wire.send(Call("POST", path, schema))
    except IndexRefusedError as error:
        if "already exists" not in error.text:
            raise


def _drop(wire: Wire, path: str) -> None:
    try:
        wire.send(Call("DELETE", path))
    except IndexLostError:
        return


def _delete(wire: Wire, call: Call) -> None:
    try:
        wire.send(call)
    except IndexRefusedError as error:
        if "not found" not in error.text:
            raise
