"""Serve an archive until Ctrl-C: bind, print the link, open the browser."""

from __future__ import annotations

import getpass
import signal
import socket
import threading
import webbrowser
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import uvicorn

from bridge.support.blas_threads import one_blas_thread
from bridge.web.accounts import Account, SignIns, allowed_hosts, read_accounts
from bridge.web.application import AppOptions, make_app
from bridge.web.guard import Rules
from bridge.web.served import ServedArchive
from wshard.errors import RequestError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable
    from pathlib import Path
    from types import FrameType

    from bridge.web.accounts import Role

_OWN: Final = ("127.0.0.1", "localhost", "::1")
_CLOSE_S: Final = 3  # for requests that are being answered


@dataclass(frozen=True)
class ServeOptions:
    """Where and for whom to serve. port 0: any that is free. auth: a file of accounts. hosts: further names of it.

    path: the page that the link leads to. opened: open it in the browser.
    """

    host: str = "127.0.0.1"
    port: int = 8642
    read_only: bool = False
    auth: Path | None = None
    hosts: tuple[str, ...] = ()
    path: str = "/"
    opened: bool = True
    index: str | None = field(default=None, repr=False)


def serve(place: str | os.PathLike[str], options: ServeOptions, *, report: Callable[[str], None]) -> None:
    """Serve the archive until Ctrl-C or SIGTERM; report: is given the link once requests are answered.

    Raises RequestError for another address than this machine's own without accounts, OSError where the port is taken,
    MissingExtraError where the pages were not built, and what open_archive raises.
    """
    if options.host not in _OWN and options.auth is None:
        raise RequestError(
            f"--host {options.host}: others could reach the archive there; expected a file of accounts (--auth), "
            f"or an address of this machine alone ({_OWN[0]})"
        )
    accounts = read_accounts(options.auth) if options.auth is not None else None
    role: Role = "reader" if options.read_only else "editor"
    if accounts and options.read_only:
        accounts = {token: replace(one, role=role) for token, one in accounts.items()}
    sign_ins = SignIns(accounts, owner=Account(_user_name(), role))
    with ServedArchive(place, index=options.index) as archive, listen(options.host, options.port) as listening:
        port = int(listening.getsockname()[1])
        rules = Rules(allowed_hosts(options.host, port, options.hosts), sign_ins, f"wshard_{port}")
        app = make_app(archive, AppOptions(rules))
        server = _Server(
            uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=_CLOSE_S, ws="none")
        )
        server.archive = archive
        server.link = _link(options, port, sign_ins)
        server.report = report
        server.opened = options.opened
        with suppress(KeyboardInterrupt), one_blas_thread():  # requests and jobs run side by side
            server.run([listening])


def _link(options: ServeOptions, port: int, sign_ins: SignIns) -> str:
    host = f"[{options.host}]" if ":" in options.host else options.host
    base = f"http://{host}:{port}{options.path}"
    if sign_ins.by_token:
        return base
    return f"{base}{'&' if '?' in base else '?'}token={quote(sign_ins.new_link_token())}"


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens; one that fails says which port was taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # named, else asyncio leaves delays on
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(128)
    except OSError as error:
        listening.close()
        raise OSError(
            error.errno, f"{error.strerror}: choose another port by --port, 0 for any", f"{host}:{port}"
        ) from None
    return listening


def _user_name() -> str:
    """Return what the audit says of changes by whoever started the server."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # an account without a name
        return ""


class _Server(uvicorn.Server):
    """A server that reports its link as soon as it answers."""

    link = ""
    opened = False
    archive: ServedArchive
    report: Callable[[str], None] = print

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002  (the signature of the original)
        """End when requests have been answered; on a second Ctrl-C at once, where the original prints a trace."""
        if self.should_exit:
            signal.signal(sig, signal.SIG_DFL)
            signal.raise_signal(sig)
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer."""
        await super().startup(sockets)
        self.report(self.link)
        self.archive.warm_up()
        if self.opened:  # a browser may take long to start, and the server must answer it meanwhile
            threading.Thread(target=webbrowser.open, args=(self.link,), daemon=True).start()
