"""How to reach a DeepData server: one value from URL, arguments and environment.

    http://[TOKEN@]HOST[:PORT][/PREFIX][?tenant=T&rpm=N&ef=N&batch=N&timeout=S]

TOKEN is an API token or a JWT; PREFIX begins the names of the collections ("wshard"); rpm is what the server's API_RPS
allows, in requests per minute (0: no limit); ef is the width of searches; batch the documents per request; timeout:
after how many seconds, repetitions and waits among them, a search gives up (default: each request has a limit alone).
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from wshard.core.messages import public_url
from wshard.errors import UnknownIndexError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TENANT_VARIABLE: Final = "DEEPDATA_TENANT"
RPM_VARIABLE: Final = "DEEPDATA_RPM"

CAP: Final = 10_000
"""Maximum number of documents per search: a request for a few thousand millions would kill the server."""

_SERVER_RPM: Final = 100
_PREFIX: Final = re.compile(r"[A-Za-z0-9_-]{1,16}")
_TENANT: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SECONDS: Final = re.compile(r"\d{1,6}(\.\d{1,6})?")


class UrlForm(NamedTuple):
    """What the URLs of a kind of server may have, and the environment variable of its token; scheme: without an s."""

    scheme: str
    options: Sequence[str]
    token_variable: str


DEEPDATA: Final = UrlForm("http", ("tenant", "rpm", "ef", "batch", "timeout"), "DEEPDATA_TOKEN")


@dataclass(frozen=True)
class Settings:
    """base: scheme://host:port. tenant: None = as in the token. The token is never part of any text.

    attempts: how often an ingest tries to go on after a fault that may pass.
    """

    base: str
    prefix: str = "wshard"
    token: str | None = field(default=None, repr=False)
    tenant: str | None = None
    rpm: int = _SERVER_RPM
    ef_search: int = 200
    batch: int = 250
    timeout: float | None = None
    attempts: int = 5
    token_variable: str = DEEPDATA.token_variable

    @property
    def place(self) -> str:
        """The name of this index in the ledger, without credentials and settings that may change."""
        return f"{self.base}/{self.prefix}" + (f"?tenant={self.tenant}" if self.tenant else "")

    @property
    def advice_on_token(self) -> str:
        """What helps where the server refuses access."""
        fault = "the token given does not suffice" if self.token else "no token was given"
        return f"{fault}: set {self.token_variable}, or write TOKEN@ before the host"


def read_settings(
    url: str, token: str | None = None, environment: Mapping[str, str] | None = None, *, form: UrlForm = DEEPDATA
) -> Settings:
    """Return the settings of a URL; an argument counts before the URL, the URL before the environment.

    Raises UnknownIndexError for any other URL.
    """
    variables = os.environ if environment is None else environment
    parts = _split(url, form.scheme)
    options = {name: values[-1] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
    prefix = parts.path.strip("/") or "wshard"
    base = _base(parts, url, form.scheme)
    if unknown := sorted(set(options) - set(form.options)):
        # An option without a value may be a misplaced token, and is not shown.
        found = ", ".join(name for name in unknown if options[name]) or "others"
        raise UnknownIndexError(
            f"expected options among {', '.join(form.options)} in {public_url(url)}, found {found} "
            f"(a token goes before the host, {form.scheme}://TOKEN@HOST, or in {form.token_variable})"
        )
    if not _PREFIX.fullmatch(prefix):
        raise UnknownIndexError(
            f"expected {form.scheme}://host:port/PREFIX with up to 16 letters, digits, _ or -, found {public_url(url)}"
        )
    tenant = options.get("tenant") or variables.get(TENANT_VARIABLE) or None
    if tenant is not None and not _TENANT.fullmatch(tenant):
        raise UnknownIndexError(f"expected a tenant of up to 64 letters, digits, _ or -, found {tenant!r}")
    token = token or unquote(parts.username or parts.password or "") or variables.get(form.token_variable) or None
    if token is not None and not (token.isascii() and token.isprintable()):
        raise UnknownIndexError(f"expected a token of ASCII characters for {base}, found other characters")
    return Settings(
        base=base,
        prefix=prefix,
        token=token,
        tenant=tenant,
        rpm=_number("rpm", options.get("rpm") or variables.get(RPM_VARIABLE) or str(_SERVER_RPM), 0, 10**9),
        ef_search=_number("ef", options.get("ef", "200"), 1, CAP),
        batch=_number("batch", options.get("batch", "250"), 1, CAP),
        timeout=_seconds(options.get("timeout")),
        token_variable=form.token_variable,
    )


def _split(url: str, scheme: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError as error:
        raise UnknownIndexError(f"expected {scheme}://host:port, found {public_url(url)}") from error


def _base(parts: SplitResult, url: str, scheme: str) -> str:
    try:
        host, port = parts.hostname, parts.port
    except ValueError as error:
        wrong = f"expected {scheme}://host:port with a port from 0 to 65535, found {public_url(url)}"
        raise UnknownIndexError(wrong) from error
    if parts.scheme not in (scheme, f"{scheme}s") or not host:
        raise UnknownIndexError(f"expected {scheme}://host:port, found {public_url(url)}")
    netloc_host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{netloc_host}" + (f":{port}" if port is not None else "")


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    if not _SECONDS.fullmatch(text) or not float(text):
        raise UnknownIndexError(f"expected timeout as a number of seconds above 0, found {text!r}")
    return float(text)


def _number(name: str, text: str, least: int, most: int) -> int:
    if not text.isdecimal() or not least <= int(text) <= most:
        raise UnknownIndexError(f"expected {name} as a whole number from {least} to {most}, found {text!r}")
    return int(text)
