"""What more processes save of an ingest: python benchmarks/processes.py [--episodes 2000 10000] [--rounds 3] [--local].

Ingests files of 200 timesteps with one process, with two of this machine, and on a Dask cluster of two workers, in
turns, and prints medians of processor time, which other programs disturb less than the clock: that of the process which
commits, as a share of one process, and how much sooner two processes would be done if each had a core of its own. That
is computed: what one process does alone, and half of what the two share. By the clock, it counts on quiet cores only.
--local leaves the cluster out. About 10 minutes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from distributed import LocalCluster
from ingest import make_files
from machine import facts

if TYPE_CHECKING:
    from collections.abc import Iterator

TIMESTEPS = 200
INGEST = """
import json, resource, sys, time

def main():
    from bridge.ingest.ingestor import TrajectoryIngestor
    from bridge.support import workers
    shared = 0.0
    each = workers._LocalWorkers.each

    def measure(self, *arguments):
        nonlocal shared
        started = time.process_time()
        yield from each(self, *arguments)
        shared += time.process_time() - started

    workers._LocalWorkers.each = measure
    files, archive, how = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    started = time.monotonic()
    with TrajectoryIngestor(archive) as ingestor:
        report = ingestor.ingest(files, windows="both", **how)
    others = resource.getrusage(resource.RUSAGE_CHILDREN)
    own = time.process_time()
    print(json.dumps([own, shared, others.ru_utime + others.ru_stime, time.monotonic() - started, report.embedded]))

if __name__ == "__main__":
    main()
"""


@dataclass(frozen=True)
class Taken:
    """Seconds of one run: of the process that commits, of it while others could share, of these, by the clock."""

    own: float
    shared: float
    others: float
    clock: float

    @property
    def two_cores(self) -> float:
        """The seconds that it takes if each of two processes has a core."""
        return self.own - self.shared + (self.shared + self.others) / 2


def measure(files: Path, how: dict[str, object], count: int) -> Taken:
    """Ingest in a process of its own."""
    with tempfile.TemporaryDirectory() as scratch:
        script = Path(scratch, "ingest_files.py")  # a file, as worker processes import it
        script.write_text(INGEST)
        command = [sys.executable, str(script), str(files), f"{scratch}/lab", json.dumps(how)]
        *seconds, embedded = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    if embedded != count:
        raise SystemExit(f"expected {count} episodes, found {embedded}")
    return Taken(*seconds)


def measure_all(files: Path, count: int, address: str, rounds: int) -> Iterator[str]:
    """Yield a line of each way; address: that of the cluster, "" for none."""
    ways: dict[str, dict[str, object]] = {"one process": {}, "two processes": {"workers_count": 2}}
    if address:
        ways["Dask, two workers"] = {"executor": address}
    taken: dict[str, list[Taken]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way, how in ways.items():
            taken[way].append(measure(files, how, count))
    alone, alone_by_clock = (
        statistics.median(getattr(one, name) for one in taken["one process"]) for name in ("own", "clock")
    )
    for way, found in taken.items():
        own, others, clock = (
            statistics.median(getattr(one, name) for one in found) for name in ("own", "others", "clock")
        )
        shares = ", ".join(f"{one.own / alone:.2f}" for one in found)
        computed = alone / statistics.median(one.two_cores for one in found)
        sooner = f", {computed:.2f}x with a core each (computed)" if way == "two processes" else ""
        times = f"{own:5.1f} CPU s ({shares}), others {others:5.1f}, {clock:5.1f} s"
        yield f"{count:>7,} episodes, {way:<17}: {times}, {alone_by_clock / clock:.2f}x by the clock{sooner}"


def main() -> None:
    """Measure every number of episodes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, nargs="+", default=[2000, 10_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--local", action="store_true")
    asked = parser.parse_args()
    print(facts())
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        address = ""
        if not asked.local:
            cluster = stack.enter_context(LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0"))
            address = cluster.scheduler_address.replace("tcp://", "dask://")
        for count in asked.episodes:
            files = Path(scratch, str(count))
            files.mkdir()
            make_files(files, count, TIMESTEPS)
            for line in measure_all(files, count, address, asked.rounds):
                print(line, flush=True)


if __name__ == "__main__":
    main()
