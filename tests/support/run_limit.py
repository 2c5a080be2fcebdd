"""The gate ends by itself: past its limit, it prints what all processes do, and leaves none of its own running."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil

_SHOWN = 24


def end_after(seconds: float) -> None:
    """End this run, with a list of what was busy, unless it ends before by itself."""
    timer = threading.Timer(seconds, _end, [seconds])
    timer.daemon = True
    timer.start()


def _end(seconds: float) -> None:
    load = ", ".join(f"{load:.0f}" for load in os.getloadavg())
    reason = f"the run took longer than {seconds:.0f} s; load {load}; the busiest processes, most busy last:"
    os.write(2, f"\n{reason}\n{describe_processes()}\n".encode())
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            child.kill()
    os._exit(3)


def describe_processes() -> str:
    """Return a line for each process that is no thread of the kernel, those with the most CPU seconds last."""
    lines = ["CPU s ready s   age s     id parent state     nice threads waits in               command"]
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if command := " ".join(process.cmdline()):
                found.append((sum(process.cpu_times()[:2]), _describe(process, command)))
    return "\n".join(lines + [f"{used:5.0f} {text}" for used, text in sorted(found)[-_SHOWN:]])


def _describe(process: psutil.Process, command: str) -> str:
    waits = _read(process, "wchan")  # where in the kernel it waits, on Linux
    ready = int((_read(process, "schedstat").split() or ["0", "0"])[1]) / 1e9  # how long its main thread had no core
    age = time.time() - process.create_time()
    ids = f"{ready:7.0f} {age:7.0f} {process.pid:6} {process.ppid():6} {process.status():9}"
    return f"{ids} {process.nice():4} {process.num_threads():7} {waits[:22]:22} {command[:25]} ... {command[-60:]}"


def _read(process: psutil.Process, name: str) -> str:
    file = Path(f"/proc/{process.pid}/{name}")
    return file.read_text() if file.exists() else ""
