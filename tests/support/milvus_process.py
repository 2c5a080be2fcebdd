"""A real Milvus server in a process of its own."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import time

import grpc
from milvus import MilvusServer
from pymilvus import MilvusClient
from pymilvus.exceptions import MilvusException


class Server:
    """A server with its data in a folder; it may be killed, and starts again with these data. One a machine."""

    def __init__(self, folder, port) -> None:
        self._folder = folder
        self._first = MilvusServer(wait_for_started=False)
        self._first.set_base_dir(str(folder))
        self._first.listen_port = port
        self.url = f"milvus+http://127.0.0.1:{port}"
        with contextlib.redirect_stdout(io.StringIO()):
            self._first.start()
        self._process = self._first.server_proc
        self._wait()

    def pause(self):
        """Let it answer nothing until `go_on`."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self):
        """End a pause."""
        self._process.send_signal(signal.SIGCONT)

    def kill(self):
        """End it as a crash does."""
        self._process.kill()
        self._process.wait()

    def restart(self):
        """Kill it, and start it again as its package did."""
        self.kill()
        own = {"METRICS_PORT": str(self._first.webservice_port), "LD_LIBRARY_PATH": str(self._folder / "bin")}
        environment = {**os.environ, "DEPLOY_MODE": "STANDALONE", **own}
        with (self._folder / "logs" / "again.log").open("a") as log:
            self._process = subprocess.Popen(
                self._process.args, cwd=self._folder, env=environment, stdout=log, stderr=log
            )
        self._wait()

    def _wait(self):
        """Wait until it answers, which takes longer than until it says that it is healthy."""
        until = time.monotonic() + 120
        while True:
            try:
                client = MilvusClient(self.url.removeprefix("milvus+"), timeout=5)
                client.list_collections(timeout=5)
                client.close()
            except (MilvusException, grpc.RpcError):
                assert time.monotonic() < until
                assert self._process.poll() is None
                time.sleep(0.5)
            else:
                return
