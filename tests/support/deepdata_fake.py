"""A small DeepData server with a memory, for faults that no recording can hold.

Every behaviour is one that was recorded (L = line of wire.jsonl) or a numbered trap (S-1 to S-13) or section (§) of the
contract that was established by running the real server. It searches exactly, so it says nothing of HNSW's recall.

As a program: `python deepdata_fake.py PORT FOLDER`; SIGTERM saves and stops, SIGKILL loses what came since (S-1).
"""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
from deepdata_collection import Collection, RefusedError, shown_document
from deepdata_replay import Server

MINUTE_S = 60.0
_TENANTS = re.compile(r"/v3/tenants/([A-Za-z0-9_-]{1,64})/collections(?:/([^/]+))?(?:/(docs|search))?")


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
            return None  # S-1, S-8: a connection that breaks
        requested = self._json(body)
        if path.startswith("/v2/collections"):
            if not admin:
                raise RefusedError(403, "forbidden: admin permission required")  # L153, L157, L170
            return self._admin(method, path, requested)
        if found := re.fullmatch(
            r"/v3/tenants/([A-Za-z0-9_-]{1,64})/collections(?:/([^/]+))?(?:/(docs|search))?", path
        ):
            if found[1] != tenant and self.auth != "open":
                raise RefusedError(
                    403, f'forbidden: token for tenant "{tenant}" cannot access tenant "{found[1]}"'
                )  # L160
            return self._tenant(method, self.tenants.setdefault(found[1], {}), found[2], found[3], requested)
        return self._data(method, path, requested)

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

    def _admin(self, method: str, path: str, requested: Any) -> tuple[int, Any]:
        parts = path.removeprefix("/v2/collections").strip("/").split("/")
        if method == "GET" and parts == [""]:
            listed = [made.about() for made in self.collections.values()]
            return 200, {"collections": listed, "count": len(listed), "status": "success"}  # L6
        if method == "POST" and parts == [""]:
            return self._create(self.collections, requested)
        if method == "POST" and parts[1:] == ["get"]:
            made = self._get(parts[0])
            if not requested["ids"]:
                raise RefusedError(400, "at least one id required")  # L62
            found = [(number, made.documents.get(number)) for number in requested["ids"]]
            shown = [shown_document(number, known, with_vector=True) for number, known in found if known]
            return 200, {"documents": shown, "status": "success"}  # L59, L60
        if method == "GET" and len(parts) == 1:
            return 200, {"collection": self._get(parts[0]).about(), "status": "success"}  # L30
        if method == "DELETE" and len(parts) == 1:
            self._get(parts[0], 400, "failed to delete collection: ")  # L34
            del self.collections[parts[0]]
            return 200, {"message": f'collection "{parts[0]}" deleted', "status": "success"}  # L14
        raise RefusedError(400, "unknown operation or method not allowed")  # L35

    def _create(self, collections: dict[str, Collection], requested: Any) -> tuple[int, Any]:
        name = requested["name"]
        if not requested.get("fields"):
            raise RefusedError(
                400, "failed to create collection: invalid schema: collection must have at least one vector"
            )  # L10
        if name in collections:
            raise RefusedError(400, f"failed to create collection: collection {name} already exists")  # L9
        collections[name] = Collection(requested)
        return 201, {"message": f'collection "{name}" created', "status": "success"}  # L7

    def _data(self, method: str, path: str, requested: Any) -> tuple[int, Any] | None:
        if method != "POST":
            raise RefusedError(405, "method not allowed")  # L49
        if path == "/v2/insert":
            number = self._get(requested["collection"], 500, "failed to add document: ").add(
                requested["vectors"], requested.get("metadata")
            )
            return 200, {"id": number, "message": "document added", "status": "success"}  # L37
        if path == "/v2/insert/batch":
            return self._batch(requested)
        if path == "/v2/search":
            made = self._get(requested["collection"], 500, "search failed: ")
            if made.poisoned and self._touches_poison(made, requested):
                raise RefusedError(200, "")  # L57
            return 200, made.search(requested)  # L65
        if path == "/v2/delete":
            self._get(requested["collection"], 500, "failed to delete document: ").delete(requested["doc_id"])
            return 200, {"message": "deleted", "status": "success"}  # L122
        raise AssertionError(f"expected a path that the contract has, found {method} {path}")

    @staticmethod
    def _touches_poison(made: Collection, requested: Any) -> bool:
        bad = [known for known in made.documents.values() if not np.isfinite(known["vector"]).all()]
        return bool(bad) and requested["top_k"] >= len(made.documents)

    def _batch(self, requested: Any) -> tuple[int, Any] | None:
        """Status 200 whatever happens (§4).

        The fault "batch breaks:N" hangs up after N documents, "batch stops:N" answers for these alone (S-8).
        """
        if not requested["docs"]:
            raise RefusedError(400, "no documents provided")  # L108
        breaks, stops = self.fault("batch breaks:"), self.fault("batch stops:")
        most = int((breaks or stops or f":{len(requested['docs'])}").split(":")[1])
        ids: list[int] = []
        errors: dict[str, str] = {}
        for at, document in enumerate(requested["docs"][:most]):
            try:
                made = self._get(requested["collection"], 500, "")
                ids.append(made.add(document.get("vectors") or {}, document.get("metadata")))
            except RefusedError as refused:
                errors[str(at)] = str(refused)  # L106, L107
                if not requested.get("continue_on_error"):
                    break
        if breaks:
            return None
        answer = {"errors": errors, "failed": len(errors), "ids": ids, "inserted": len(ids), "status": "success"}
        return 200, answer

    def _tenant(
        self, method: str, collections: dict[str, Collection], name: str | None, what: str | None, requested: Any
    ) -> tuple[int, Any]:
        if name is None:
            if method == "POST":
                return self._create(collections, requested)  # L142
            return 200, {"collections": [made.about() for made in collections.values()], "status": "success"}  # L143
        if name not in collections:
            status = {"docs": 500, "search": 500}.get(what or "", 400 if method == "DELETE" else 404)
            raise RefusedError(status, f"collection not found: collection {name} not found")  # L149
        made = collections[name]
        if what == "search":
            return 200, made.search(requested)  # L146
        if what == "docs" and method == "POST":
            return 200, {"id": made.add(requested["vectors"], requested.get("metadata")), "status": "success"}  # L145
        if method == "GET":
            return 200, {"collection": made.about(), "status": "success"}  # L144
        if what == "docs":
            made.delete(requested["doc_id"])  # L148
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
