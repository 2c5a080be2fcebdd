"""The OpenAPI document of the API, written from its endpoints."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bridge.web.endpoints import Endpoint

_PROBLEM: Final = {
    "type": "object",
    "required": ["error", "message"],
    "properties": {
        "error": {"type": "string", "description": "the error's class, see docs/errors.md"},
        "message": {"type": "string"},
        "position": {"type": "integer", "description": "characters of the filter before its mistake"},
    },
}
_IN_PATH: Final = re.compile(r"{(\w+)(?::\w+)?}")


def describe_api(endpoints: Iterable[Endpoint], *, version: str) -> dict[str, Any]:
    """Return the document, OpenAPI 3.1, of these endpoints."""
    paths: dict[str, dict[str, Any]] = {}
    for one in endpoints:
        paths.setdefault(_IN_PATH.sub(r"{\1}", one.path), {})[one.method.lower()] = _describe(one)
    schemes = {
        "token": {"type": "http", "scheme": "bearer", "description": "an account's token, of the file --auth"},
        "cookie": {"type": "apiKey", "in": "cookie", "name": "wshard_PORT", "description": "a signed-in browser"},
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "wshard", "version": version, "description": "An episode archive, as `wshard serve` has it."},
        "security": [{"token": []}, {"cookie": []}],
        "paths": paths,
        "components": {"schemas": {"Problem": _PROBLEM}, "securitySchemes": schemes},
    }


def _describe(endpoint: Endpoint) -> dict[str, Any]:
    named = set(_IN_PATH.findall(endpoint.path))
    plain = [one for one in endpoint.parameters if one.name in named or not endpoint.body]
    described: dict[str, Any] = {
        "summary": endpoint.summary,
        "operationId": f"{endpoint.method.lower()}{re.sub(r'[^a-z]+', '_', endpoint.path.lower()).rstrip('_')}",
        "parameters": [
            {
                "name": one.name,
                "in": "path" if one.name in named else "query",
                "required": one.required or one.name in named,
                "description": one.about,
                "schema": one.schema(),
            }
            for one in plain
        ],
        "responses": {
            "200": {"description": "done", "content": {endpoint.media: {}}},
            "default": {
                "description": "refused",
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
            },
        },
    }
    if endpoint.body:
        inner = [one for one in endpoint.parameters if one.name not in named]
        schema = {
            "type": "object",
            "additionalProperties": False,
            "properties": {one.name: {**one.schema(), "description": one.about} for one in inner},
            "required": [one.name for one in inner if one.required],
        }
        described["requestBody"] = {"content": {"application/json": {"schema": schema}}}
    if endpoint.takes_file:
        described["requestBody"] = {"content": {"application/octet-stream": {}}}
    if endpoint.changes:
        described["description"] = "Needs an account that may change the archive; from a browser also X-CSRF-Token."
    return described
