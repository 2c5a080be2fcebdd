"""Routes of the API as values, from which requests are parsed and the OpenAPI document is generated."""

from __future__ import annotations

import asyncio
import json
import math
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import anyio
from anyio.to_thread import run_sync
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from bridge.web.guard import body_limit
from catalog.database.abandon import CANCELLATION, Cancellation
from catalog.query.suggestions import suggest_keys
from wshard.core.messages import error_text, finite, shown
from wshard.errors import (
    CatalogBusyError,
    CatalogError,
    CatalogUnreachableError,
    EntryNotFoundError,
    IndexUnreachableError,
    MissingExtraError,
    RequestError,
    StaleEpisodeError,
    StepError,
    VectorIndexError,
    WShardError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from starlette.requests import Request

    from bridge.web.accounts import Account
    from bridge.web.served import ServedArchive

_BODY_S: Final = 10.0  # time limit for receiving a body
_MAX_VALUES: Final = 1000  # of one parameter
_MAX_TEXT: Final = 1 << 16
_TYPES: Final = {str: "string", int: "integer", float: "number", bool: "boolean", dict: "object"}
_FLAGS: Final = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True)
class Parameter:
    """One named value of a request; many: it may be repeated, and is a list."""

    name: str
    about: str
    kind: type = str
    many: bool = False
    default: Any = None
    required: bool = False
    least: float = -math.inf
    most: float = math.inf

    def read(self, raw_values: Sequence[Any]) -> Any:
        """Return the parsed value of a request's raw values; raises RequestError."""
        if not raw_values:
            if self.required:
                raise RequestError(f"expected the parameter {self.name!r}: {self.about}")
            return [] if self.many and self.default is None else self.default
        if len(raw_values) > (_MAX_VALUES if self.many else 1):
            raise RequestError(f"{self.name}: expected {'fewer values' if self.many else 'one value'}")
        values = [self._one(value) for value in raw_values]
        return values if self.many else values[0]

    def _one(self, value: Any) -> Any:
        converted = _as_kind(value, self.kind)
        if converted is None or (self.kind in (int, float) and not self.least <= converted <= self.most):
            bounds = "" if math.isinf(self.least) else f" of at least {self.least:g}"
            bounds += "" if math.isinf(self.most) else f" and at most {self.most:g}"
            raise RequestError(
                f"{self.name}: expected a value of type {_TYPES[self.kind]}{bounds}, found {shown(value)}"
            )
        return converted

    def schema(self) -> dict[str, Any]:
        """Return its JSON schema."""
        one: dict[str, Any] = {"type": _TYPES[self.kind]}
        one |= {} if math.isinf(self.least) else {"minimum": self.least}
        one |= {} if math.isinf(self.most) else {"maximum": self.most}
        whole: dict[str, Any] = {"type": "array", "items": one} if self.many else one
        return whole if self.default is None else whole | {"default": self.default}


@dataclass(frozen=True)
class ApiCall:
    """A request as passed to an answer function: archive, account, values of the parameters, and an uploaded file."""

    archive: ServedArchive
    account: Account
    values: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes = b""

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def check_may_compute(self, what: str, instead: str) -> None:
        """Raise RequestError unless the account may start jobs; for routes that read, and compute what is missing.

        instead: what computes it without the app.
        """
        if self.account.role != "editor":
            raise RequestError(
                f"expected an account that may start jobs, to compute {what}: this one is read-only, and is shown "
                f"what an editor has had computed; {instead} needs no account",
                403,
            )


@dataclass(frozen=True)
class Endpoint:
    """One route: values in its path are parameters, too. changes: only editors may call it.

    body: it takes its parameters as a JSON object. takes_file: its body is a file. media: the type of its answers,
    where they are no JSON.
    """

    method: str
    path: str
    summary: str
    answer: Callable[[ApiCall], Any]
    parameters: tuple[Parameter, ...] = ()
    changes: bool = False
    body: bool = False
    takes_file: bool = False
    media: str = "application/json"

    def route(self, archive: ServedArchive) -> Route:
        """Return the route that answers from this archive."""

        async def respond(request: Request) -> Response:
            try:
                account = request.state.account
                if self.changes and account.role != "editor":
                    raise RequestError("expected an account that may change the archive: this one is read-only", 403)
                content = await receive_body(request) if self.takes_file else b""
                call = ApiCall(archive, account, await self._read(request), request.headers, content)
                answer = partial(self._answer, call)
                result = await (run_sync(answer) if self.changes else _read_for(request, answer))
            except (WShardError, OSError) as error:
                return refuse(error)
            return result if isinstance(result, Response) else as_json(result)

        return Route(self.path, respond, methods=[self.method])

    def _answer(self, call: ApiCall) -> Any:
        with suggest_keys(call.archive.catalog.query):
            return self.answer(call)

    async def _read(self, request: Request) -> dict[str, Any]:
        given: dict[str, Sequence[Any]] = {name: [value] for name, value in request.path_params.items()}
        if self.body:
            parsed = await _read_body(request)
            given |= {name: value if isinstance(value, list) else [value] for name, value in parsed.items()}
        else:
            given |= {name: request.query_params.getlist(name) for name in request.query_params}
        names = {one.name for one in self.parameters}
        if unknown := sorted(given.keys() - names):
            raise RequestError(f"expected parameters among {', '.join(sorted(names)) or 'none'}, found {unknown[0]!r}")
        return {one.name: one.read(given.get(one.name, ())) for one in self.parameters}


async def _read_for(request: Request, answer: Callable[[], Any]) -> Any:
    """Run an answer function in a thread; if the browser disconnects, its catalog queries are cancelled."""
    cancellation = Cancellation()
    token = CANCELLATION.set(cancellation)
    watch = asyncio.ensure_future(_leave(request, cancellation))
    try:
        return await run_sync(answer)
    finally:
        watch.cancel()
        CANCELLATION.reset(token)


async def _leave(request: Request, cancellation: Cancellation) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    cancellation.cancel()


async def receive_body(request: Request) -> bytes:
    """Return the body of a request; RequestError for one that is too large or too slow."""
    data, most = bytearray(), body_limit(request)
    with anyio.move_on_after(_BODY_S) as limit:
        async for piece in request.stream():
            data += piece
            if len(data) > most:
                raise RequestError(f"expected a body of at most {most} bytes", 413)
    if limit.cancelled_caught:
        raise RequestError(f"expected the body within {_BODY_S:g} seconds", 408)
    return bytes(data)


async def _read_body(request: Request) -> dict[str, Any]:
    data = await receive_body(request)
    try:
        parsed = json.loads(data or b"{}")
    except (ValueError, RecursionError):
        raise RequestError("expected a JSON object as the body") from None
    if not isinstance(parsed, dict):
        raise RequestError(f"expected a JSON object as the body, found {shown(parsed)}")
    return {name: value for name, value in parsed.items() if value is not None}


def _as_kind(value: Any, kind: type) -> Any:
    """Return a value of the kind, from a URL's text or from JSON; None where it is not one."""
    if kind is str:
        return value if isinstance(value, str) and len(value) <= _MAX_TEXT else None
    if kind is dict:
        return value if isinstance(value, dict) else None
    if kind is bool:
        return value if isinstance(value, bool) else _FLAGS.get(value) if isinstance(value, str) else None
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        number = kind(value)
        return number if math.isfinite(number) and (kind is float or number == float(value)) else None
    except (ValueError, OverflowError):
        return None


def as_json(value: Any, status: int = 200) -> Response:
    """Return a value as strict JSON; NaN and infinities become null."""
    try:
        return JSONResponse(value, status)
    except ValueError:
        return JSONResponse(finite(value), status)


def reason_of(error: WShardError | OSError) -> str:
    """Return the message of an error; of a file that is missing, with what to do."""
    text = error_text(error)
    return f"{text}: restore it, or ingest where it is now" if type(error) is FileNotFoundError else text


def refuse(error: WShardError | OSError) -> Response:
    """Return an error as JSON: its kind, its message, and where a filter is wrong."""
    body: dict[str, Any] = {"error": type(error).__name__, "message": reason_of(error)}
    if (position := getattr(error, "position", None)) is not None:
        body["position"] = position
    return JSONResponse(body, _status(error))


def _status(error: WShardError | OSError) -> int:
    """Return the HTTP status of an error."""
    for kind, status in _STATUS:
        if isinstance(error, kind):
            return int(getattr(error, "status", status)) if isinstance(error, RequestError) else status
    return 500


_STATUS: Final[tuple[tuple[type[Exception], int], ...]] = (
    (RequestError, 400),
    (EntryNotFoundError, 404),
    (FileNotFoundError, 404),
    (StepError, 416),
    (StaleEpisodeError, 409),
    (MissingExtraError, 501),
    (BlockingIOError, 503),
    (CatalogBusyError, 503),
    (CatalogUnreachableError, 503),
    (IndexUnreachableError, 503),
    (ValueError, 400),
    (CatalogError, 500),
    (VectorIndexError, 500),
)
"""Error classes and their status; the first match counts."""
