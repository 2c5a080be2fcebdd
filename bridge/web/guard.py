"""Security checks of every request (host, origin, sign-in, CSRF), and strict response headers."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from bridge.web.accounts import Account, SignIns

POLICY: Final = (
    "default-src 'self'; img-src 'self' blob: data:; media-src 'self' blob:; object-src 'none'; base-uri 'none'; "
    "frame-ancestors 'none'; form-action 'self'"
)
_HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
_SAFE: Final = ("GET", "HEAD")
_OPEN: Final = ("/static/", "/login")
MAX_BODY: Final = 1 << 20
UPLOADS: Final = "/api/queries"
_MAX_UPLOAD: Final = 64 << 20
"""Maximum size of a request body in bytes."""


@dataclass(frozen=True)
class Rules:
    """Hosts that are answered, sign-ins, and the name of the session cookie. secure: cookies over HTTPS only."""

    hosts: frozenset[str]
    sign_ins: SignIns
    cookie: str
    secure: bool = False


class Guard:
    """ASGI middleware that refuses invalid requests; it never reads the archive."""

    def __init__(self, app: ASGIApp, rules: Rules) -> None:
        self._app = app
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return

        async def send_strictly(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
            await send(message)

        refusal = self._refusal(Request(scope))
        if refusal is not None:
            await refusal(scope, receive, send_strictly)
        else:
            await self._app(scope, receive, send_strictly)

    def _refusal(self, request: Request) -> Response | None:
        """Return the response to a request that is not passed on; else store account and csrf in its state."""
        if violation := self._find_violation(request):
            return _refuse(request, *violation)
        if request.method == "GET" and "token" in request.query_params:
            return self._sign_in(request)
        request.state.account, request.state.csrf = None, ""
        return None if request.url.path.startswith(_OPEN) else self._authenticate(request)

    def _find_violation(self, request: Request) -> tuple[int, str] | None:
        """Return status and message for a request that is invalid for any account; None if it is valid."""
        headers = request.headers
        is_cross_site = headers.get("sec-fetch-site") == "cross-site"
        if headers.get("host", "").lower() not in self._rules.hosts:
            return 421, "this server does not answer for that host"
        if is_cross_site and not (request.method == "GET" and headers.get("sec-fetch-mode") == "navigate"):
            return 403, "requests from other sites are refused"
        most = body_limit(request)
        if int(_digits(headers.get("content-length"))) > most:
            return 413, f"expected at most {most} bytes"
        if request.method not in _SAFE and not self._is_own_origin(headers):
            return 403, "requests from other origins are refused"
        return None

    def _is_own_origin(self, headers: Headers) -> bool:
        origin = headers.get("origin")
        if origin is None:  # not a browser: authenticated by its token
            return headers.get("sec-fetch-site") in (None, "same-origin")
        return urlsplit(origin).netloc.lower() in self._rules.hosts

    def _authenticate(self, request: Request) -> Response | None:
        account, csrf = self._identify(request)
        if account is None:
            return _refuse(request, 401, "expected a signed-in browser or an account's token")
        if request.method not in _SAFE and csrf is not None:
            given = request.headers.get("x-csrf-token", "")
            if not hmac.compare_digest(given.encode(), csrf.encode()):
                return _refuse(request, 403, "expected the page's own token with a change")
        request.state.account, request.state.csrf = account, csrf or ""
        return None

    def _identify(self, request: Request) -> tuple[Account | None, str | None]:
        """Return the account of a request, and the csrf token that its changes need; None for a program's."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return self._rules.sign_ins.account_of(token.strip()), None
        session = self._rules.sign_ins.session(read_cookie(request, self._rules.cookie))
        return (session.account, session.csrf) if session else (None, None)

    def _sign_in(self, request: Request) -> Response:
        key = self._rules.sign_ins.sign_in(request.query_params["token"])
        rest = [(name, value) for name, value in request.query_params.multi_items() if name != "token"]
        if key is None:
            is_signed_in = (
                self._identify(request)[0] is not None
            )  # the link was opened again, and the browser is signed in
            if not is_signed_in:
                return _refuse(request, 401, "this link was used already, or is of another server")
        path = "/" + request.url.path.lstrip("/\\")  # prevents redirects to //host
        answer = RedirectResponse(path + (f"?{urlencode(rest)}" if rest else ""), 303)
        if key is not None:
            set_cookie(answer, self._rules, key)
        return answer


def body_limit(request: Request) -> int:
    """Return how many bytes the body of a request may have: uploaded queries are files."""
    return _MAX_UPLOAD if request.url.path == UPLOADS else MAX_BODY


def set_cookie(answer: Response, rules: Rules, key: str) -> None:
    """Set the session cookie, for this server only and not readable by scripts."""
    answer.set_cookie(rules.cookie, key, httponly=True, samesite="strict", secure=rules.secure, path="/")


def read_cookie(request: Request, name: str) -> str:
    """Return the value of a cookie, "" where there is none."""
    return request.cookies.get(name, "")  # parsed one by one: odd cookies of other apps on this host do not matter


def _digits(text: str | None) -> str:
    return text if text is not None and text.isascii() and text.isdigit() and len(text) < 20 else "0"


def _refuse(request: Request, status: int, message: str) -> Response:
    """Return a refusal: JSON for the API, a page's text elsewhere; it repeats nothing of the request."""
    if request.url.path.startswith("/api/"):
        body: dict[str, Any] = {"error": "RequestError", "message": message}
        return JSONResponse(body, status)
    if status == 401 and request.method == "GET":
        next_path = request.url.path + (
            f"?{request.url.query}" if request.url.query and "token=" not in request.url.query else ""
        )
        return RedirectResponse(f"/login?{urlencode({'next': next_path})}", 303)
    return PlainTextResponse(message, status)
