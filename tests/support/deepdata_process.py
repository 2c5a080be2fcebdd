"""The fake server as a process of its own, which can be killed and started again."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Self

from paths import SUPPORT

if TYPE_CHECKING:
    from pathlib import Path


class Process:
    """The fake server as a process of its own, in a context; it keeps its port when started again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.port = 0
        self.child: subprocess.Popen[str] | None = None
        self.reserved: socket.socket | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.end(signal.SIGKILL)
        if self.reserved is not None:
            self.reserved.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}?rpm=0"

    def start(self) -> None:
        if self.reserved is not None:
            self.reserved.close()
        command = [sys.executable, str(SUPPORT / "deepdata_fake.py"), str(self.port), str(self.folder)]
        self.child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.child.stdout is not None
        self.port = int(self.child.stdout.readline().rpartition(":")[2])

    def end(self, how: signal.Signals) -> None:
        if self.child is not None:
            self.child.send_signal(how)
            self.child.communicate(timeout=30)
            self.child = None
            self.reserve_port()

    def reserve_port(self) -> None:
        """Refuse connections, and let no server of another test have the port meanwhile."""
        self.reserved = socket.socket()
        self.reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections of before may linger
        self.reserved.bind(("127.0.0.1", self.port))
        self.reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)  # but nobody else binds to it
