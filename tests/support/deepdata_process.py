"""The fake server as a process of its own, which can be killed and started again."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from paths import SUPPORT

if TYPE_CHECKING:
    import signal
    from pathlib import Path


class Process:
    """The fake server as a process of its own; it keeps its port when started again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.port = 0
        self.child: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}?rpm=0"

    def start(self) -> None:
        command = [sys.executable, str(SUPPORT / "deepdata_fake.py"), str(self.port), str(self.folder)]
        self.child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.child.stdout is not None
        self.port = int(self.child.stdout.readline().rpartition(":")[2])

    def end(self, how: signal.Signals) -> None:
        if self.child is not None:
            self.child.send_signal(how)
            self.child.communicate(timeout=30)
            self.child = None
