"""Runs a server of this process in a thread, until a test ends."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator
    from socketserver import BaseServer

_Server = TypeVar("_Server", bound="BaseServer")


@contextmanager
def run_server(server: _Server) -> Iterator[_Server]:
    """Serve in a thread; stop and close the server at the end."""
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
