"""A real Dask cluster of two workers, and what they are given in tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

HERE = Path(__file__).resolve().parent
DASK = [sys.executable, "-m", "dask"]


def square_all(numbers):
    """Return the squares, but end the process at 13, whoever it is; slowly, so that others are busy meanwhile."""
    time.sleep(0.02 * len(numbers))
    if 13 in numbers:
        os._exit(1)
    return [number**2 for number in numbers]


def say_who(numbers):
    """Return the numbers and the process that got them, after a while."""
    time.sleep(0.2)
    return numbers, os.getpid()


@contextmanager
def started(arguments, log):
    """Run the program in a group of its own, which ends with the block."""
    environment = {**os.environ, "PYTHONPATH": f"{HERE.parents[1]}:{HERE}", "OPENBLAS_NUM_THREADS": "1"}
    environment["DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES"] = "0"  # each lost worker costs seconds
    with log.open("w") as output:
        process = subprocess.Popen(
            [*DASK, *map(str, arguments)], stdout=output, stderr=output, env=environment, start_new_session=True
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def running_scheduler(folder):
    """Run a scheduler; yield its process and its host and port."""
    log, address = folder / "scheduler.log", folder / "scheduler.json"
    options = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", address]
    with started(["scheduler", *options], log=log) as process:
        yield process, wait_for_address(log)


def wait_for_address(log):
    """Return host and port of the scheduler, once it says so."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        for line in log.read_text().splitlines():
            if "Scheduler at:" in line:
                return line.rpartition("tcp://")[2].strip()
        time.sleep(0.05)
    raise AssertionError(log.read_text())


def client_of(address):
    """Return a client of the cluster at this address."""
    from distributed import Client  # noqa: PLC0415  (which every process that collects tests would import)

    return Client(f"tcp://{address}", set_as_default=False)


@contextmanager
def running_worker(folder, address, *, count=1):
    """Run so many workers of one thread each, once the scheduler knows them."""
    options = ["--nworkers", count, "--nthreads", "1", "--no-dashboard", "--local-directory", folder]
    with started(["worker", f"tcp://{address}", *options], log=folder / "workers.log"):
        with client_of(address) as client:
            client.wait_for_workers(count, timeout=90)
        yield
