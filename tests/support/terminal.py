"""A terminal for tests of what programs show on one."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import sys
import tty


def on_a_terminal(*arguments: str, columns: int) -> str:
    """Return what Python with these arguments writes to a terminal of that many columns, as it is sent."""
    ours, theirs = pty.openpty()
    tty.setraw(theirs)  # nothing is made of line ends
    plain = {**os.environ, "TERM": "dumb", "COLUMNS": str(columns)}  # no bold headings
    with subprocess.Popen(
        [sys.executable, *arguments], stdin=subprocess.DEVNULL, stdout=theirs, stderr=subprocess.PIPE, env=plain
    ) as process:
        os.close(theirs)
        sent = b""
        with contextlib.suppress(OSError):  # Linux says so of a terminal that nobody writes to any more
            while part := os.read(ours, 1 << 16):
                sent += part
        assert process.stderr is not None
        assert not process.stderr.read()
    os.close(ours)
    assert process.returncode == 0
    return sent.decode()
