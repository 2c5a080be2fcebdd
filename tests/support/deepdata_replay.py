"""A server that answers only what a real one was recorded to answer: same method, path, body and token, in order."""

from __future__ import annotations

import base64
import json
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from local_server import run_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path


class Handler(BaseHTTPRequestHandler):
    """HTTP/1.1 with persistent connections; `respond(method, path, headers, body)` gives (status, headers, body)."""

    protocol_version = "HTTP/1.1"
    timeout = 30
    disable_nagle_algorithm = True

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status, headers, content = self.server.respond(self.command, self.path, self.headers, body)  # type: ignore[attr-defined]
        if status is None:  # the connection breaks instead of an answer
            self.close_connection = True
            return
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_DELETE = do_OPTIONS = _answer  # noqa: N815  (http.server's names)

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


class Server(ThreadingHTTPServer):
    """A server on a free port of 127.0.0.1."""

    daemon_threads = True

    def __init__(self, respond: Any, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.respond = respond

    def handle_error(self, *args: Any) -> None:
        """Say nothing of clients that went away."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


def serving(respond: Any, port: int = 0) -> AbstractContextManager[Server]:
    """Run a server that answers by this function."""
    return run_server(Server(respond, port))


class Replay:
    """The exchanges of one recorded server; each request must be the next of its kind after the one before."""

    def __init__(self, wire: Path, server: str) -> None:
        lines = (json.loads(line) for line in wire.read_text().splitlines())
        self.exchanges = [line for line in lines if line["server"] == server]
        self.place = 0
        self.answered: list[str] = []
        self.unrecorded: list[str] = []

    def respond(self, method: str, path: str, headers: Any, body: bytes) -> tuple[int, dict[str, str], bytes]:
        for place in range(self.place, len(self.exchanges)):
            found = self.exchanges[place]
            if self._is(found, method, path, body) and self._says_the_same(found, headers):
                self.place = place + 1
                self.answered.append(found["name"])
                kind = found["response_headers"].get("Content-Type", "text/plain")
                return found["status"], {"Content-Type": kind}, (found["response_raw"] or "").encode()
        self.unrecorded.append(f"{method} {path} {body[:500].decode(errors='replace')}")
        return 599, {}, b"no such exchange was recorded"

    @staticmethod
    def _is(found: dict[str, Any], method: str, path: str, body: bytes) -> bool:
        if (found["method"], found["path"]) != (method, path):
            return False
        recorded = found["request_body"]
        if found["request_body_kind"] == "base64":
            return bool(base64.b64decode(recorded) == body)
        if found["request_body_kind"] != "json":
            return bool((recorded or "").encode() == body)
        try:
            return bool(json.loads(body) == recorded)
        except ValueError:
            return False

    @staticmethod
    def _says_the_same(found: dict[str, Any], headers: Any) -> bool:
        recorded = found["request_headers"]
        return all(headers.get(name) == recorded.get(name) for name in ("Authorization", "X-Tenant-ID"))


@contextmanager
def replaying(wire: Path, server: str) -> Iterator[tuple[Replay, str]]:
    """Serve the recording; fails at any request that was not recorded."""
    replay = Replay(wire, server)
    with serving(replay.respond) as running:
        yield replay, running.url
    assert not replay.unrecorded, replay.unrecorded
