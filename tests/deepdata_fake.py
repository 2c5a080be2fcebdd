"""A small DeepData server with a memory, for faults that no recording can hold.

Every behaviour is one that was recorded (L = line of wire.jsonl) or a numbered trap (S-1 to S-13) or section (§) of the
contract that was established by running the real server. It searches exactly, so it says nothing of HNSW's recall.

As a program: `python deepdata_fake.py PORT FOLDER`; SIGTERM saves and stops, SIGKILL loses what came since (S-1).
"""

from __future__ import annotations

import base64
import json
import os
import random
import re
import signal
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
from deepdata_filters import passes
from deepdata_replay import Server

MINUTE_S = 60.0
_TENANTS = re.compile(r"/v3/tenants/([A-Za-z0-9_-]{1,64})/collections(?:/([^/]+))?(?:/(docs|search))?")


class RefusedError(Exception):
    """An answer other than 200: status and plain text (§2)."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass
class Collection:
    """Documents in memory; nodes keep deleted and ghostly vectors, as the graph does (S-5, S-7)."""

    schema: dict[str, Any]
    next_id: int = 1
    documents: dict[int, dict[str, Any]] = field(default_factory=dict)
    nodes: list[tuple[int, list[float]]] = field(default_factory=list)
    deleted: set[int] = field(default_factory=set)
    poisoned: bool = False
    matrix: Any = None

    @property
    def dim(self) -> int:
        return int(self.schema["fields"][0]["dim"])

    def add(self, vectors: dict[str, Any], metadata: Any) -> int:
        number = self.next_id
        self.next_id += 1  # failed inserts use up an id, too (§4)
        if not vectors:
            raise RefusedError(400, "at least one vector required")  # L45
        if "embedding" not in vectors:
            raise RefusedError(500, "document validation failed: missing required vector field: embedding")  # L43
        if extra := set(vectors) - {"embedding"}:
            raise RefusedError(500, f"document validation failed: unknown vector field: {extra.pop()}")  # L44
        raw = [float(x) if isinstance(x, int | float) else 0.0 for x in vectors["embedding"]]  # L50
        if len(raw) != self.dim:
            words = f"failed to add to index embedding: vector dimension mismatch: expected {self.dim}, got {len(raw)}"
            raise RefusedError(500, words)  # L42
        with np.errstate(over="ignore"):
            vector = np.array(raw).astype(np.float32)
        self.poisoned |= not np.isfinite(vector).all()  # S-2: accepted, and for ever
        self.documents[number] = {"vector": vector.tolist(), "metadata": metadata}
        self.nodes.append((number, vector.tolist()))
        self.matrix = None
        return number

    def delete(self, number: int) -> None:
        if number not in {known for known, _ in self.nodes}:
            words = f"failed to delete from index embedding: vector with ID {number} not found"
            raise RefusedError(500, f"failed to delete document: {words}")  # L126
        self.documents.pop(number, None)
        self.deleted.add(number)  # the place in the graph stays (S-5); again is fine (L123)

    def search(self, ask: dict[str, Any]) -> dict[str, Any]:
        query = np.array(ask["queries"]["embedding"], np.float32)
        if len(query) != self.dim:
            raise RefusedError(
                500, f"search failed: query dimension mismatch: expected {self.dim}, got {len(query)}"
            )  # L75
        top_k, offset = ask.get("top_k", 0), ask.get("offset", 0)
        if top_k <= 0:
            raise RefusedError(400, "top_k must be positive")  # L71
        if top_k > 10**9 or (ask.get("ef_search") or 0) > 10**9:
            os._exit(2)  # S-3: out of memory
        ranked = self._ranked(query, ask.get("filters"), top_k + offset)[offset:]
        documents = [self._shown(number, ask.get("include_vectors")) for number, _ in ranked]
        found = {"status": "success", "documents": documents, "scores": [score for _, score in ranked]}
        return found | {"candidates_examined": len(ranked)}

    def _ranked(self, query: Any, filters: Any, count: int) -> list[tuple[int, float]]:
        if self.matrix is None:
            self.matrix = np.array([vector for _, vector in self.nodes], np.float32).reshape(-1, self.dim)
        norms = np.linalg.norm(self.matrix, axis=1) * np.linalg.norm(query)
        with np.errstate(all="ignore"):
            cosines = np.where(norms > 0, self.matrix @ query / np.where(norms > 0, norms, 1), 0)
        distances = np.maximum(0, 1 - cosines).astype(np.float32)
        reachable = self._reachable()
        order = [at for at in np.argsort(distances, kind="stable").tolist() if at in reachable]
        if filters is not None:  # applied during the walk: as many as asked come back (§12)
            ids = [self.nodes[at][0] for at in order]
            kept = [at for at, number in zip(order, ids, strict=True) if self._meets(number, filters)][:count]
        else:  # deleted ones are dropped afterwards (S-5; L124)
            spare = count if len(self.deleted) > 0.1 * len(self.nodes) else 0
            kept = [at for at in order[: count + spare] if self.nodes[at][0] not in self.deleted][:count]
        found = [(self.nodes[at][0], float(distances[at])) for at in kept]
        if self.poisoned:
            random.shuffle(found)  # S-2: wrong order, even after the document is deleted
        return found

    def _reachable(self) -> set[int]:
        """Return the nodes that a walk gets to: of more than 20 equal ones hardly any (S-4)."""
        groups = Counter(tuple(vector) for _, vector in self.nodes) if len(self.nodes) < 5000 else Counter()
        crowded = {vector for vector, count in groups.items() if count > 20}
        if not crowded:
            return set(range(len(self.nodes)))
        return {at for at, (_, vector) in enumerate(self.nodes) if tuple(vector) not in crowded}

    def _meets(self, number: int, filters: dict[str, Any]) -> bool:
        document = self.documents.get(number)
        return document is not None and bool(document["metadata"]) and passes(filters, document["metadata"])  # L84

    def _shown(self, number: int, with_vector: Any) -> dict[str, Any]:
        document = self.documents.get(number)
        if document is None:
            return {"id": 0}  # S-7, S-9: a vector without a document
        return _document(number, document, with_vector=bool(with_vector))

    def about(self) -> dict[str, Any]:
        fields = [{name: field_[name] for name in ("name", "type", "dim", "index")} for field_ in self.schema["fields"]]
        shown = {"Name": self.schema["name"], "Fields": fields, "Description": self.schema.get("description", "")}
        return shown | {"Metadata": self.schema.get("metadata"), "DocCount": len(self.documents)}  # L30


def _document(number: int, document: dict[str, Any], *, with_vector: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {"id": number}
    if with_vector:
        if not np.isfinite(document["vector"]).all():
            raise RefusedError(200, "")  # L56, L57
        shown["vectors"] = {"embedding": document["vector"]}
    if document["metadata"]:
        shown["metadata"] = document["metadata"]
    return shown


class Fake:
    """The server. `faults` are popped one per request that they fit, see the methods that read them.

    auth: "open", "token:T" or "jwt" (S-6). rpm: requests per minute and key, None = no limit (S-6).
    """

    def __init__(self, folder: Path | None = None, *, auth: str = "open", rpm: int | None = None) -> None:
        self.folder = folder
        self.auth = auth
        self.rpm = rpm
        self.clock = time.monotonic
        self.lock = threading.RLock()
        self.requests: list[str] = []
        self.faults: list[str] = []
        self.windows: dict[str, tuple[float, int]] = {}
        self.tenants: dict[str, dict[str, Collection]] = {}
        self.load()

    @property
    def collections(self) -> dict[str, Collection]:
        """The collections of v2; tenants have a name space of their own (L147)."""
        return self.tenants.setdefault("", {})

    # ---- S-1: what survives ----------------------------------------------------------------------------------------

    @property
    def file(self) -> Path | None:
        return None if self.folder is None else self.folder / "index.gob.collections"

    def load(self) -> None:
        """Start: what does not parse is a warning in a log, and an empty server (S-1)."""
        self.tenants = {}
        try:
            stored = json.loads(self.file.read_text()) if self.file is not None else {}
        except (OSError, ValueError):
            stored = {}
        for tenant, collections in stored.items():
            for name, values in collections.items():
                made = Collection(values["schema"], values["next_id"], deleted=set(values["deleted"]))
                made.documents = {int(number): document for number, document in values["documents"].items()}
                made.nodes = [(number, vector) for number, vector in values["nodes"]]
                self.tenants.setdefault(tenant, {})[name] = made

    def stop(self) -> None:
        """Stop on SIGTERM: one file for all collections, or none at all if a number is no JSON (S-2)."""
        if self.file is None or any(c.poisoned for collections in self.tenants.values() for c in collections.values()):
            return
        names = ("schema", "next_id", "documents", "nodes")
        stored = {
            tenant: {
                name: {key: getattr(made, key) for key in names} | {"deleted": sorted(made.deleted)}
                for name, made in collections.items()
            }
            for tenant, collections in self.tenants.items()
        }
        self.file.write_text(json.dumps(stored))

    def restart(self, *, graceful: bool) -> None:
        """Stop and start; without grace everything since the last graceful stop is gone (S-1)."""
        with self.lock:
            if graceful:
                self.stop()
            self.load()

    # ---- requests --------------------------------------------------------------------------------------------------

    def respond(self, method: str, path: str, headers: Any, body: bytes) -> tuple[int | None, dict[str, str], bytes]:
        with self.lock:
            self.requests.append(f"{method} {path}")
            try:
                answer = self._route(method, unquote(urlsplit(path).path), headers, body)
            except RefusedError as refused:
                text = f"{refused}\n" if str(refused) else ""
                return refused.status, {"Content-Type": "text/plain; charset=utf-8"}, text.encode()
            if answer is None:
                return None, {}, b""
            status, value = answer
            return status, {"Content-Type": "application/json"}, json.dumps(value).encode() + b"\n"

    def fault(self, kind: str) -> str | None:
        """Pop the next fault if it is of this kind."""
        if self.faults and self.faults[0].startswith(kind):
            return self.faults.pop(0)
        return None

    def _route(self, method: str, path: str, headers: Any, body: bytes) -> tuple[int, Any] | None:
        if path == "/healthz":
            raise RefusedError(200, "ok")  # L1: no auth, no limit
        admin, tenant = self._who(headers)
        self._limit(headers)
        if self.fault("hang up"):
            return None
        asked = self._json(body)
        if path.startswith("/v2/collections"):
            if not admin:
                raise RefusedError(403, "forbidden: admin permission required")  # L153, L157, L170
            return self._admin(method, path, asked)
        if found := re.fullmatch(
            r"/v3/tenants/([A-Za-z0-9_-]{1,64})/collections(?:/([^/]+))?(?:/(docs|search))?", path
        ):
            if found[1] != tenant and self.auth != "open":
                raise RefusedError(
                    403, f'forbidden: token for tenant "{tenant}" cannot access tenant "{found[1]}"'
                )  # L160
            return self._tenant(method, self.tenants.setdefault(found[1], {}), found[2], found[3], asked)
        return self._data(method, path, asked)

    def _json(self, body: bytes) -> Any:
        if not body:
            return None
        if b"NaN" in body or b"Infinity" in body:
            raise RefusedError(400, "invalid request: invalid character 'N' looking for beginning of value")  # L48
        return json.loads(body)

    def _who(self, headers: Any) -> tuple[bool, str]:
        """Return (admin, tenant), or refuse (S-6)."""
        token = re.sub("^Bearer ", "", headers.get("Authorization") or "")
        named = headers.get("X-Tenant-ID")
        if self.auth == "open":
            return named is None, named or "default"  # L153
        if self.auth.startswith("token:"):
            if token != self.auth.removeprefix("token:"):
                raise RefusedError(401, "unauthorized")  # L155, L156
            return False, named or "default"  # L157, L161
        try:
            claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
        except (ValueError, IndexError) as error:
            words = "invalid token" if token else "missing authentication token"
            raise RefusedError(401, f"unauthorized: {words}") from error  # L165, L166
        return "admin" in claims["permissions"], claims["tenant_id"]

    def _limit(self, headers: Any) -> None:
        if self.rpm is None:
            return
        key = headers.get("Authorization") or "anonymous"
        begun, count = self.windows.get(key, (self.clock(), 0))
        if self.clock() - begun >= MINUTE_S:
            begun, count = self.clock(), 0
        self.windows[key] = (begun, count + 1)
        if count >= self.rpm:
            raise RefusedError(429, "rate limited")  # L176: nothing says for how long

    def _get(self, name: str, status: int = 404, before: str = "collection not found: ") -> Collection:
        if name not in self.collections:
            raise RefusedError(status, f"{before}collection {name} not found")  # L31, L47, L64, L77
        return self.collections[name]

    def _admin(self, method: str, path: str, asked: Any) -> tuple[int, Any]:
        parts = path.removeprefix("/v2/collections").strip("/").split("/")
        if method == "GET" and parts == [""]:
            listed = [made.about() for made in self.collections.values()]
            return 200, {"collections": listed, "count": len(listed), "status": "success"}  # L6
        if method == "POST" and parts == [""]:
            return self._create(self.collections, asked)
        if method == "POST" and parts[1:] == ["get"]:
            made = self._get(parts[0])
            if not asked["ids"]:
                raise RefusedError(400, "at least one id required")  # L62
            found = [(number, made.documents.get(number)) for number in asked["ids"]]
            shown = [_document(number, known, with_vector=True) for number, known in found if known]
            return 200, {"documents": shown, "status": "success"}  # L59, L60
        if method == "GET" and len(parts) == 1:
            return 200, {"collection": self._get(parts[0]).about(), "status": "success"}
        if method == "DELETE" and len(parts) == 1:
            self._get(parts[0], 400, "failed to delete collection: ")  # L34
            del self.collections[parts[0]]
            return 200, {"message": f'collection "{parts[0]}" deleted', "status": "success"}  # L14
        raise RefusedError(400, "unknown operation or method not allowed")  # L35

    def _create(self, collections: dict[str, Collection], asked: Any) -> tuple[int, Any]:
        name = asked["name"]
        if not asked.get("fields"):
            raise RefusedError(
                400, "failed to create collection: invalid schema: collection must have at least one vector"
            )
        if name in collections:
            raise RefusedError(400, f"failed to create collection: collection {name} already exists")  # L9
        collections[name] = Collection(asked)
        return 201, {"message": f'collection "{name}" created', "status": "success"}  # L7

    def _data(self, method: str, path: str, asked: Any) -> tuple[int, Any] | None:
        if method != "POST":
            raise RefusedError(405, "method not allowed")  # L49
        if path == "/v2/insert":
            number = self._get(asked["collection"], 500, "failed to add document: ").add(
                asked["vectors"], asked.get("metadata")
            )
            return 200, {"id": number, "message": "document added", "status": "success"}  # L37
        if path == "/v2/insert/batch":
            return self._batch(asked)
        if path == "/v2/search":
            made = self._get(asked["collection"], 500, "search failed: ")
            if made.poisoned and self._touches_poison(made, asked):
                raise RefusedError(200, "")  # L57
            return 200, made.search(asked)
        if path == "/v2/delete":
            self._get(asked["collection"], 500, "failed to delete document: ").delete(asked["doc_id"])
            return 200, {"message": "deleted", "status": "success"}  # L122
        raise RefusedError(404, "404 page not found")

    @staticmethod
    def _touches_poison(made: Collection, asked: Any) -> bool:
        bad = [known for known in made.documents.values() if not np.isfinite(known["vector"]).all()]
        return bool(bad) and asked["top_k"] >= len(made.documents)

    def _batch(self, asked: Any) -> tuple[int, Any] | None:
        """Status 200 whatever happens (§4).

        The fault "batch breaks:N" hangs up after N documents, "batch stops:N" answers for these alone (S-8).
        """
        if not asked["docs"]:
            raise RefusedError(400, "no documents provided")  # L108
        breaks, stops = self.fault("batch breaks:"), self.fault("batch stops:")
        most = int((breaks or stops or f":{len(asked['docs'])}").split(":")[1])
        ids: list[int] = []
        errors: dict[str, str] = {}
        for at, document in enumerate(asked["docs"][:most]):
            try:
                made = self._get(asked["collection"], 500, "")
                ids.append(made.add(document.get("vectors") or {}, document.get("metadata")))
            except RefusedError as refused:
                errors[str(at)] = str(refused)  # L106, L107
                if not asked.get("continue_on_error"):
                    break
        if breaks:
            return None
        answer = {"errors": errors, "failed": len(errors), "ids": ids, "inserted": len(ids), "status": "success"}
        return 200, answer

    def _tenant(
        self, method: str, collections: dict[str, Collection], name: str | None, what: str | None, asked: Any
    ) -> tuple[int, Any]:
        if name is None:
            if method == "POST":
                return self._create(collections, asked)  # L142
            return 200, {"collections": [made.about() for made in collections.values()], "status": "success"}  # L143
        if name not in collections:
            status = {"docs": 500, "search": 500}.get(what or "", 400 if method == "DELETE" else 404)
            raise RefusedError(status, f"collection not found: collection {name} not found")  # L149
        made = collections[name]
        if what == "search":
            return 200, made.search(asked)  # L146
        if what == "docs" and method == "POST":
            return 200, {"id": made.add(asked["vectors"], asked.get("metadata")), "status": "success"}  # L145
        if method == "GET":
            return 200, {"collection": made.about(), "status": "success"}  # L144
        if what == "docs":
            made.delete(asked["doc_id"])  # L148
        else:
            del collections[name]  # L152
        return 200, {"message": "deleted", "status": "success"}


def main() -> None:
    fake = Fake(Path(sys.argv[2]))

    def save_and_leave(*_: Any) -> None:
        fake.stop()
        os._exit(0)

    signal.signal(signal.SIGTERM, save_and_leave)
    with Server(fake.respond, int(sys.argv[1])) as server:
        print(server.url, flush=True)
        server.serve_forever(0.01)


if __name__ == "__main__":
    main()
