"""An S3 server for tests, SeaweedFS, in a process of its own; and a web server of ranges that counts and fails."""

from __future__ import annotations

import ctypes
import json
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.error import URLError
from urllib.parse import unquote

import obstore
from obstore.store import S3Store

BUCKET = "lab"
STRANGER = ("stranger", "known-secret")
"""Key and secret of somebody who may read nothing in the bucket; everybody without a key may do everything."""

EXPIRED = (
    b'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>ExpiredToken</Code>'
    b"<Message>The provided token has expired.</Message></Error>"
)
"""What S3 says of an old session token, as its documentation shows it."""

_MODIFIED = "Mon, 02 Mar 2026 10:00:00 GMT"
_IDENTITIES = {
    "identities": [
        {"name": "anonymous", "actions": ["Admin", "Read", "Write", "List"]},
        {
            "name": "stranger",
            "credentials": [{"accessKey": STRANGER[0], "secretKey": STRANGER[1]}],
            "actions": ["Read:elsewhere", "List:elsewhere"],
        },
    ]
}


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _end_with_parent() -> None:
    """Have the system end a child with its parent, also if that is killed."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


@contextmanager
def serving_s3():
    """Run SeaweedFS with one bucket; yield the URL of its S3 endpoint."""
    folder = tempfile.mkdtemp(prefix="wshard-s3-")
    rights = Path(folder, "rights.json")
    rights.write_text(json.dumps(_IDENTITIES))
    names = ("s3.port", "master.port", "volume.port", "filer.port")
    names += tuple(f"{name}.grpc" for name in names)
    ports = dict(zip(names, _free_ports(len(names)), strict=True))
    weed = Path(sys.executable).parent / "weed"
    place = [f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-volume.max=100", "-s3", f"-s3.config={rights}"]
    place += ["-s3.port.iceberg=0", "-s3.port.lance=0", "-master.telemetry=false"]
    command = [str(weed), "server", *place, *(f"-{name}={port}" for name, port in ports.items())]
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=_end_with_parent,  # noqa: PLW1509  (it only calls the system)
    )
    url = f"http://127.0.0.1:{ports['s3.port']}"
    try:
        _make_bucket(f"{url}/{BUCKET}", process)
        yield url
    finally:
        process.kill()  # on request, it would wait for half a minute
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _make_bucket(url: str, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 60
    while True:
        try:
            urllib.request.urlopen(urllib.request.Request(url, method="PUT"), timeout=5).close()  # noqa: S310
        except (URLError, OSError):
            if time.monotonic() > until or process.poll() is not None:
                raise
            time.sleep(0.1)
        else:
            return


def upload(endpoint: str, path: Path, key: str) -> str:
    """Copy a file or folder into the bucket; return its URI."""
    store = S3Store(BUCKET, endpoint=endpoint, skip_signature=True, client_options={"allow_http": True})
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.is_file():
            name = f"{key}/{file.relative_to(path).as_posix()}".removesuffix("/.")
            obstore.put(store, name, file.read_bytes())
    return f"s3://{BUCKET}/{key}"


def _tag(data: bytes) -> str:
    return f"0x{hash(data) & 0xFFFFFFFF:X}"


class RangeServer(ThreadingHTTPServer):
    """Serves `files` by name, `delay` seconds after a request, which `requests` lists, and `spans` with its answer.

    `faults` takes names of the next answers' faults.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {}
        self.faults: list[str] = []
        self.requests: list[tuple[str, str]] = []
        self.delay = 0.0
        self.spans: list[tuple[float, float]] = []
        self.sent = 0
        self.url = f"http://127.0.0.1:{self.server_port}"

    def round_trips(self) -> int:
        """Return the number of requests that waited for each other, one after the other."""
        count, until = 0, 0.0
        for began, answered in sorted(self.spans, key=lambda span: span[1]):
            if began >= until:
                count, until = count + 1, answered
        return count

    def handle_error(self, *_args: object) -> None:
        """Say nothing of connections that the client has left."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: RangeServer
    wbufsize = -1  # head and body in one piece

    def log_message(self, *_args: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET(body=False)

    def do_GET(self, *, body: bool = True) -> None:
        self._began = time.monotonic()
        time.sleep(self.server.delay)
        name = unquote(self.path[1:])
        self.server.requests.append((self.command, self.headers.get("Range", "")))
        can_fail = body or self.server.faults[:1] == ["expired"]
        fault = self.server.faults.pop(0) if self.server.faults and can_fail else ""
        if fault == "expired":
            self._answer(400, EXPIRED if body else b"", {"Content-Type": "application/xml"})
            return
        if "comp=list" in name:
            self._answer(200, self._list_as_azure(), {"Content-Type": "application/xml"})
            return
        data = self.server.files.get(name)
        if data is None or fault == "503":
            self._answer(503 if fault else 404, b"", {})
            return
        if fault == "reset":
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        if fault == "slow":
            time.sleep(0.5)
        if fault.startswith("redirect"):
            self._answer(302, b"", {"Location": f"{fault.partition(' ')[2]}/{name}"})
            return
        headers = {"ETag": f'"{_tag(data)}"', "Accept-Ranges": "bytes", "Last-Modified": _MODIFIED}
        if self.headers.get("If-Match", headers["ETag"]) != headers["ETag"]:
            self._answer(412, b"", {})
            return
        span = self.headers.get("Range", "")
        if span:
            start, stop = (int(part) for part in span.removeprefix("bytes=").split("-"))
            stop = min(stop + 1, len(data))
            shift = 5 if fault == "wrong range" else 0
            headers["Content-Range"] = f"bytes {start + shift}-{stop + shift - 1}/{len(data)}"
        else:
            start, stop = 0, len(data)
        if fault == "gzip":
            headers["Content-Encoding"] = "gzip"
        self._answer(206 if span else 200, data[start:stop] if body else b"", headers, stop - start, fault)

    def _list_as_azure(self) -> bytes:
        """Return all files as Azure lists blobs: their etags without quotation marks, other than in headers."""
        blobs = "".join(
            f"<Blob><Name>{name.rpartition('/')[2]}</Name><Properties><Last-Modified>{_MODIFIED}</Last-Modified><Etag>"
            f"{_tag(data)}</Etag><Content-Type>application/octet-stream</Content-Type><Content-Length>{len(data)}</Content-Length></Properties></Blob>"
            for name, data in self.server.files.items()
        )
        begin = '<?xml version="1.0" encoding="utf-8"?><EnumerationResults ContainerName="lab">'
        return f"{begin}<Blobs>{blobs}</Blobs><NextMarker /></EnumerationResults>".encode()

    def _answer(
        self, code: int, data: bytes, headers: dict[str, str], length: int | None = None, fault: str = ""
    ) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data) if length is None else length))
        self.end_headers()
        if fault == "short":
            data = data[: len(data) // 2]
            self.close_connection = True
        if fault == "stall":
            self.wfile.write(data[:1000])
            self.wfile.flush()
            time.sleep(1)
            data = data[1000:]
        self.wfile.write(data)
        self.wfile.flush()
        self.server.spans.append((self._began, time.monotonic()))
        self.server.sent += len(data)
