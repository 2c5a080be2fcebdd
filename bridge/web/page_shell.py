"""The HTML that every page begins with: its name, its scripts, and the token for changes; scripts do the rest."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from jinja2 import Environment, PackageLoader
from starlette.responses import HTMLResponse

if TYPE_CHECKING:
    from jinja2 import Template

_TEMPLATE: Final = "page.html"


@lru_cache(maxsize=1)
def _template() -> Template:
    return Environment(loader=PackageLoader("bridge.web"), autoescape=True).get_template(_TEMPLATE)


def render_page(page: str, archive: str, *, csrf: str = "", role: str = "", by_token: bool = False) -> HTMLResponse:
    """Return the page of that name; role: that of the account; by_token: it asks for an account's token."""
    return HTMLResponse(_template().render(page=page, archive=archive, csrf=csrf, role=role, by_token=by_token))
