"""One request to a DeepData server and its answer, or one of this project's errors."""

from __future__ import annotations

import json
import re
import threading
import time
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Self

import httpx

from bridge.index.deepdata.rate_limit import Throttle
from bridge.support.waiting import Waiting
from wshard.errors import (
    IndexAccessError,
    IndexDamagedError,
    IndexLostError,
    IndexRefusedError,
    IndexUnreachableError,
    SpaceMismatchError,
)

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from ssl import SSLContext

    from bridge.index.deepdata.settings import Settings

_CONNECTIONS: Final = 100
_CONNECT_S: Final = 5.0
_ATTEMPTS: Final = 3  # of repeatable requests
_PAUSE_S: Final = 0.2  # before the second attempt, and twice that before the third
_REFUSALS: Final = 3  # in a row, each followed by a wait of up to a minute
_GATEWAY: Final = frozenset({502, 503, 504})
_NEVER_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_NO_COLLECTION: Final = re.compile(r"\bcollection \S+ not found")


@dataclass(frozen=True)
class Call:
    """One request. body: a JSON value, or the bytes of one; timeout_s: for each read.

    repeatable: the request is idempotent.
    """

    method: str
    path: str
    body: object = None
    repeatable: bool = True
    timeout_s: float = 30.0

    @property
    def name(self) -> str:
        """The name of the request in errors."""
        return f"{self.method} {self.path}"


class Wire:
    """Connections to one server; close it. Threads may share it, forked processes may not.

    breaks: number of broken connections and gateway errors, after which the server may be in another state.
    """

    def __init__(self, settings: Settings, *, throttle: Throttle | None = None) -> None:
        self._throttle = throttle or Throttle(settings.rpm)
        self._waiting = Waiting(settings.base)
        self._rpm = settings.rpm
        self._advice_on_token = settings.advice_on_token
        self.base = settings.base
        self.breaks = 0
        self._pool = _Pool()
        self._headers = {"Content-Type": "application/json"}
        if settings.token:
            self._headers["Authorization"] = f"Bearer {settings.token}"
        # Proxies and .netrc of the environment are ignored: URL and token are sufficient. A bare transport takes half
        # the time of a Client, as it has no redirects and cookies, which this server does not use. Connections stay
        # open until the server closes them, so that a broken one is noticed.
        limits = httpx.Limits(
            max_connections=_CONNECTIONS, max_keepalive_connections=_CONNECTIONS, keepalive_expiry=None
        )
        self._transport = httpx.HTTPTransport(verify=_ssl_context(), trust_env=False, limits=limits)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection."""
        self._transport.close()

    def as_tenant(self, tenant: str) -> None:
        """Name the tenant in every later request; on an open server that takes admin rights away."""
        self._headers["X-Tenant-ID"] = tenant

    def within(self, seconds: float | None) -> AbstractContextManager[None]:
        """Limit all requests of this thread in the context to this many seconds, else raise IndexUnreachableError."""
        return self._waiting.within(seconds)

    def send(self, call: Call) -> dict[str, Any]:
        """Return the JSON object in the server's response; logs a message if that takes more than 2 s.

        A call that is not repeatable is sent again only if the server cannot have seen it, or refused it unread. Raises
        IndexUnreachableError, IndexAccessError, IndexLostError (no such collection), IndexDamagedError (an empty or
        invalid response), SpaceMismatchError (vectors of another size), IndexRefusedError for any other refusal.
        """
        why = [""]
        with self._waiting.announce(why):
            return self._read(call, self._send(call, _content(call.body), why))

    def _send(self, call: Call, content: bytes | None, why: list[str]) -> httpx.Response:
        failures = refusals = 0
        while True:
            why.append(f"{self._rpm} requests per minute are allowed (rpm=)")
            if not self._throttle.wait(self._waiting.remaining(call.name)):
                raise self._waiting.late(call.name)
            why.append(f"no answer yet to {call.name}")
            try:
                response = self._once(call, content)
            except httpx.TransportError as error:
                self.breaks += 1
                failures += 1
                self._waiting.remaining(call.name)
                if failures == _ATTEMPTS or not (call.repeatable or isinstance(error, _NEVER_SENT)):
                    raise IndexUnreachableError(
                        f"no answer from {self.base} to {call.name}: {error or type(error).__name__}"
                    ) from error
                time.sleep(_PAUSE_S * failures)
                continue
            if response.status_code == httpx.codes.TOO_MANY_REQUESTS and refusals < _REFUSALS:
                refusals += 1
                why.append("it refuses requests (429, rate limited), usually for up to a minute")
                if not self._throttle.refused(self._waiting.remaining(call.name)):
                    return response
                continue
            self.breaks += response.status_code in _GATEWAY
            if response.status_code in _GATEWAY and call.repeatable and failures < _ATTEMPTS - 1:
                failures += 1
                time.sleep(_PAUSE_S * failures)
                continue
            return response

    def _once(self, call: Call, content: bytes | None) -> httpx.Response:
        left = self._waiting.remaining(call.name) or call.timeout_s
        timeout = httpx.Timeout(min(left, call.timeout_s), connect=min(left, _CONNECT_S))
        spare = self._pool.take()
        opened: list[str] = []

        def watch(event: str, _: object) -> None:
            if event == "connection.connect_tcp.complete":
                opened.append(event)

        request = httpx.Request(
            call.method,
            self.base + call.path,
            headers=self._headers,
            content=content,
            extensions={"timeout": timeout.as_dict(), "trace": watch},
        )
        reusable = False
        try:
            response = self._transport.handle_request(request)
            response.read()
            reusable = response.headers.get("Connection", "").lower() != "close"
            return response
        finally:
            self.breaks += bool(opened and spare)
            self._pool.give_back(reusable=reusable, opened=bool(opened) and not spare)

    def _read(self, call: Call, response: httpx.Response) -> dict[str, Any]:
        request_name, status, text = f"{self.base}: {call.name}", response.status_code, response.text.strip()
        if "html" in response.headers.get("Content-Type", "") or text.startswith("<"):
            page = f"{call.name} was answered with {status} and a page for browsers"
            raise IndexUnreachableError(f"no DeepData server at {self.base}: {page}")
        if response.is_success:
            return _parse(response.content, request_name)
        message = f"{request_name} was answered with {status}: {' '.join(text.split())[:300]}"
        if status in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
            raise IndexAccessError(f"{message} ({self._advice_on_token})")
        if status == httpx.codes.TOO_MANY_REQUESTS or status in _GATEWAY:
            raise IndexUnreachableError(message)
        if _NO_COLLECTION.search(text):
            raise IndexLostError(message)
        if "dimension mismatch" in text:
            raise SpaceMismatchError(message)
        raise IndexRefusedError(message, status, text)


class _Pool:
    """Counts open connections. If one has to be opened while others should be idle, these are broken."""

    def __init__(self) -> None:
        self._open = self._busy = 0
        self._lock = threading.Lock()

    def take(self) -> bool:
        """Begin a request; return True if an idle connection should exist for it."""
        with self._lock:
            self._busy += 1
            return self._open >= self._busy

    def give_back(self, *, reusable: bool, opened: bool) -> None:
        """End a request. opened: whether it opened a connection; reusable: the connection that stays open."""
        with self._lock:
            self._busy -= 1
            self._open = max(0, self._open + opened - (not reusable))


@cache
def _ssl_context() -> SSLContext:
    """Return the SSL context, cached, as loading the certificate authorities takes longer than ten requests."""
    return httpx.create_ssl_context(trust_env=False)


def _content(body: object) -> bytes | None:
    if body is None or isinstance(body, bytes):
        return body
    return json.dumps(body, allow_nan=False).encode()


def _parse(content: bytes, request_name: str) -> dict[str, Any]:
    """Parse a JSON object; a server sends nothing at all if it has a number that JSON cannot represent."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        what = "an empty answer, as from a collection poisoned by Inf or NaN" if not content.strip() else str(error)
        raise IndexDamagedError(f"{request_name}: expected a JSON object, found {what}") from error
    if not isinstance(value, dict):
        found = f"{str(value)[:100]!r}, of a proxy or another service"
        raise IndexUnreachableError(f"{request_name}: expected a JSON object, found {found}")
    return value
