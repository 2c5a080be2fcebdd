"""What listing a bucket of many keys in one folder takes: python benchmarks/bucket_listing.py [--keys 100000 1000000].

A server of this file answers as S3 lists keys, 1,000 a page, in a process of its own. Another process searches the
folder for episodes as an ingest does, and says what memory and processor time that takes, by obstore as always. With
--keys 5000000 about five minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing import get_context
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, urlsplit

from machine import facts

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

BUCKET: Final = "lab"
PAGE: Final = 1000
HEAD: Final = '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult>'
SEARCH: Final = """
import json, os, resource, sys, time
from bridge.episodes.discover import discover
from bridge.support.garbage import give_back

def memory(name):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith(name))

discover([sys.argv[1]])  # imports, and the client of the bucket
give_back()
before, started, clock = memory("RssAnon"), time.process_time(), time.monotonic()
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # the peak begins here
found = discover([sys.argv[2]])
spent, clock = time.process_time() - started, time.monotonic() - clock
peak = memory("VmHWM") - memory("RssFile")
give_back()
count = len(found.episodes)
last = str(found.episodes[count - 1].address)
print(json.dumps([count, spent, clock, memory("RssAnon") - before, peak - before, peak, last]))
"""


class Bucket(BaseHTTPRequestHandler):
    """Lists folders of as many keys as their names say; there is nothing else to read."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """List a page of keys."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        folder = asked["prefix"]
        first, stop = int(asked.get("continuation-token", 0)), int(folder.strip("/"))
        numbers = range(first, min(first + PAGE, stop))
        ended = numbers.stop == stop
        more = "" if ended else f"<NextContinuationToken>{numbers.stop}</NextContinuationToken>"
        rows = [
            f"<Contents><Key>{folder}episode_{n:07d}.wshard</Key><LastModified>2026-03-02T10:00:00.000Z</LastModified>"
            f"<ETag>&quot;{n:032x}&quot;</ETag><Size>{20_000 + n}</Size></Contents>"
            for n in numbers
        ]
        begin = f"<IsTruncated>{str(not ended).lower()}</IsTruncated>{more}<Name>{BUCKET}</Name>"
        self._answer(200, "".join([HEAD, begin, *rows, "</ListBucketResult>"]).encode())

    def do_HEAD(self) -> None:
        """Say that there is no such object."""
        self._answer(404, b"")

    def _answer(self, code: int, data: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_args: object) -> None:
        """Say nothing."""


def serve(told: Connection) -> None:
    """Serve until the process is ended."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Bucket)
    told.send(server.server_port)
    server.serve_forever()


def measure(url: str, count: int) -> str:
    """Search a folder of so many keys in a process of its own."""
    environment = {**os.environ, "AWS_ENDPOINT_URL": url, "AWS_REGION": "us-east-1"}
    command = [sys.executable, "-c", SEARCH, f"s3://{BUCKET}/10", f"s3://{BUCKET}/{count}"]
    said = subprocess.run(command, check=True, capture_output=True, env=environment).stdout
    found, spent, clock, kept, more, peak, last = json.loads(said)  # bytes and seconds
    if found != count or not last.endswith(f"episode_{count - 1:07d}.wshard"):
        raise SystemExit(f"expected {count} episodes, found {found}, the last one {last}")
    kept_each, peak_each = kept / count, more / count
    memory = f"{kept_each:.0f} bytes a key stay, {peak_each:.0f} at the peak ({peak / 1e6:.0f} MB of the process)"
    return f"{count:>9,} keys: {memory}; {spent / count * 1e6:.1f} us of processor time a key, {clock:.0f} s"


def main() -> None:
    """Measure every number of keys."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, nargs="+", default=[100_000, 1_000_000])
    asked = parser.parse_args()
    print(facts())
    context = get_context("spawn")
    here, there = context.Pipe()
    server = context.Process(target=serve, args=(there,), daemon=True)
    server.start()
    url = f"http://127.0.0.1:{here.recv()}"
    for count in asked.keys:
        print(measure(url, count), flush=True)
    server.terminate()


if __name__ == "__main__":
    main()
