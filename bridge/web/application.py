"""The app as one ASGI application: the API's routes, the pages, their files, and the guard before all of them."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from bridge.web.api import (
    annotate,
    collections,
    episode,
    exports,
    listing,
    maintenance,
    probe,
    queues,
    scatter,
    search,
    state,
)
from bridge.web.endpoints import receive_body, refuse
from bridge.web.guard import Guard, Rules, read_cookie, set_cookie
from bridge.web.openapi import describe_api
from bridge.web.page_shell import render_page
from wshard import __version__
from wshard.errors import MissingExtraError, RequestError

if TYPE_CHECKING:
    from starlette.requests import Request

    from bridge.web.endpoints import Endpoint
    from bridge.web.served import ServedArchive

ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    *state.ENDPOINTS,
    *listing.ENDPOINTS,
    *episode.ENDPOINTS,
    *search.ENDPOINTS,
    *annotate.ENDPOINTS,
    *collections.ENDPOINTS,
    *exports.ENDPOINTS,
    *queues.ENDPOINTS,
    *probe.ENDPOINTS,
    *scatter.ENDPOINTS,
    *maintenance.ENDPOINTS,
)
PAGES: Final = {
    "/": "episodes",
    "/episodes/{uid}": "episode",
    "/search": "search",
    "/compare": "compare",
    "/map": "map",
    "/review": "review",
    "/collections": "collections",
    "/maintenance": "maintenance",
}
_NO_PAGE: Final = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>No such page · wshard</title>'
    '<link rel="icon" href="data:,"><link rel="stylesheet" href="/static/main.css">'
    '<main><h1>There is no such page</h1><p><a href="/">All episodes</a></p></main></html>'
)
STATIC: Final = Path(str(resources.files("bridge.web").joinpath("static")))


@dataclass(frozen=True)
class AppOptions:
    """Who may use the app, and under which names of the server; static: the folder of the built pages."""

    rules: Rules
    static: Path = STATIC


def make_app(archive: ServedArchive, options: AppOptions) -> Starlette:
    """Return the application that serves an open archive.

    Raises MissingExtraError where the pages were not built.
    """
    if not are_pages_built(options.static):
        raise MissingExtraError(
            f"expected the app's pages in {options.static}: a wheel has them, `make web` builds them from the source"
        )
    document = describe_api(ENDPOINTS, version=__version__)

    async def show_document(_request: Request) -> Response:
        return JSONResponse(document)

    def page_route(path: str, name: str) -> Route:
        async def show_page(request: Request) -> Response:
            known = request.state
            return render_page(name, archive.archive.place.name, csrf=known.csrf, role=known.account.role)

        return Route(path, show_page)

    async def show_login(_request: Request) -> Response:
        return render_page("login", archive.archive.place.name, by_token=options.rules.sign_ins.by_token)

    async def sign_in(request: Request) -> Response:
        try:
            return _sign_in(await receive_body(request), options.rules)
        except RequestError as error:
            return refuse(error)

    async def sign_out(request: Request) -> Response:
        options.rules.sign_ins.sign_out(read_cookie(request, options.rules.cookie))
        return RedirectResponse("/login", 303)

    routes = [
        *(one.route(archive) for one in ENDPOINTS),
        Route("/api/openapi.json", show_document),
        Route("/login", show_login),
        Route("/login", sign_in, methods=["POST"]),
        Route("/logout", sign_out, methods=["POST"]),
        Mount("/static", _PageFiles(directory=options.static)),
        *(page_route(path, name) for path, name in PAGES.items()),
    ]
    handlers: dict[Any, Any] = {404: _show_nothing, 405: _show_nothing, 500: _show_failure}
    return Starlette(routes=routes, middleware=[Middleware(Guard, rules=options.rules)], exception_handlers=handlers)


class _PageFiles(StaticFiles):
    """The built pages, which browsers keep: chunks forever, as their names change with their content."""

    def file_response(self, full_path: Any, *args: Any, **kwargs: Any) -> Response:
        """Return a file, or that the browser has it."""
        response = super().file_response(full_path, *args, **kwargs)
        is_chunk = Path(full_path).parent.name == "chunks"
        response.headers["cache-control"] = "public, max-age=31536000, immutable" if is_chunk else "no-cache"
        return response


def _sign_in(body: bytes, rules: Rules) -> Response:
    """Answer the page that asks for an account's token."""
    given: Any = None
    with suppress(ValueError, RecursionError):
        given = json.loads(body)
    token = given.get("token") if isinstance(given, dict) else None
    key = rules.sign_ins.sign_in(token) if isinstance(token, str) else None
    if key is None:
        return JSONResponse({"error": "RequestError", "message": "no account has this token"}, 401)
    answer = JSONResponse({"signed_in": True})
    set_cookie(answer, rules, key)
    return answer


async def _show_nothing(request: Request, _error: Exception) -> Response:
    body = {"error": "RequestError", "message": "expected a route of the app, found none of that name and method"}
    if request.url.path.startswith("/api/"):
        return JSONResponse(body, 404)
    return HTMLResponse(_NO_PAGE, 404)


async def _show_failure(_request: Request, error: Exception) -> Response:
    message = f"unexpected {type(error).__name__}; the server's log says more"
    return JSONResponse({"error": "RequestError", "message": message}, 500)


def are_pages_built(folder: Path = STATIC) -> bool:
    """Say whether the pages' bundle is there."""
    return (folder / "main.js").is_file() and (folder / "main.css").is_file()
