"""A real Ray cluster on this machine."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import ray
from free_ports import find_ports

HERE = Path(__file__).resolve().parent


@contextmanager
def started(arguments, folder):
    """Run a machine of a cluster in a group of its own, from when it is up until the block ends."""
    environment = {**os.environ, "PYTHONPATH": f"{HERE.parents[1]}:{HERE}", "OPENBLAS_NUM_THREADS": "1"}
    options = ["--num-cpus", "1", "--object-store-memory", "80000000", "--disable-usage-stats", "--block"]
    program = [sys.executable, "-m", "ray.scripts.scripts", "start", *map(str, arguments), *options]
    log = folder / f"machine-{len(list(folder.glob('*.log')))}.log"
    with log.open("w") as output:
        process = subprocess.Popen(program, stdout=output, stderr=output, env=environment, start_new_session=True)
    try:
        until = time.monotonic() + 120
        while "runtime started" not in log.read_text():
            assert time.monotonic() < until, log.read_text()
            assert process.poll() is None, log.read_text()
            time.sleep(0.1)
        yield process
    finally:
        kill(process)


def kill(process):
    """End a machine, with all that it has started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def wait_for_clients(port):
    """Wait until the client server of a head listens, which it says nothing about."""
    until = time.monotonic() + 60
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=5).close()
        except OSError:
            assert time.monotonic() < until, f"no client server at port {port}"
            time.sleep(0.1)


@contextmanager
def running_head():
    """Run the head of a cluster; yield its process, the URL of its client server, and the address for others."""
    folder = Path(tempfile.mkdtemp(prefix="ray-"))  # names of sockets must be short
    port, clients = find_ports(2)
    options = ["--head", "--port", port, "--ray-client-server-port", clients, "--include-dashboard", "false"]
    try:
        with started(
            [*options, "--temp-dir", folder, "--min-worker-port", "0", "--max-worker-port", "0"], folder
        ) as head:
            wait_for_clients(clients)
            yield head, f"ray://127.0.0.1:{clients}", f"127.0.0.1:{port}"
    finally:
        ray.shutdown()
        shutil.rmtree(folder, ignore_errors=True)
