"""How an archive grows: python benchmarks/scale.py [--episodes 2000 200000] [--folder DIR].

Makes a LeRobot v3 location of each size (20 timesteps an episode, 1,000 episodes a file) and measures, each in a
process of its own: the first ingest, a rescan with nothing to do, and a process that searches, also for moments by the
compiled alignment. Largest private memory (files that are mapped do not count) and processor time; the ratio of the
largest to the smallest size is what counts. --folder keeps the sets for the next run. About 20 minutes with 200,000
episodes.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from lerobot_set import make_set
from machine import facts

from wshard.formats.base import open_sink
from wshard.types import Channel, Episode

if TYPE_CHECKING:
    from collections.abc import Sequence

STEPS = 20
COMMAND = "from bridge.cli.entry import main; main()"
SEARCH = """
import itertools, statistics, sys, time
import wshard
from bridge.alignment.align import get_kernel
lab = wshard.open_archive(sys.argv[1])
refs = list(itertools.islice(lab, 0, 2000, 50))
moments = [{'state': one.load().observations['state'].data[2:14]} for one in refs]
def median(search, queries):
    times = []
    for query in queries:
        started = time.process_time()
        search(query)
        times.append(time.process_time() - started)
    return 1000 * statistics.median(times)
median(lab.search, refs[:15])
median(lab.moments, moments[:15])
get_kernel().use(60)  # seconds, so that it is loaded
get_kernel().wait()
median(lab.moments, moments[:5])
filtered = median(lambda one: lab.search(one, where='reward:-1..'), refs)
print(f"{median(lab.search, refs):.1f} {filtered:.1f} {median(lab.moments, moments):.1f}")
"""


def make_source(folder: Path) -> Path:
    """Write a LeRobot location of two episodes, of which the large ones are made."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    with open_sink(folder / "source", "lerobot") as sink:
        for number in range(2):
            episode = Episode(
                f"episode-{number}",
                "arm",
                200,
                observations={"state": Channel.of("state", rng.normal(size=(200, 7)).astype(np.float32))},
                actions={"ctrl": Channel.of("ctrl", rng.normal(size=(200, 7)).astype(np.float32))},
                rewards=np.zeros(200, np.float32),
            )
            sink.write(episode)
    return folder / "source"


def run(arguments: Sequence[str]) -> tuple[float, int, str]:
    """Return the processor time in seconds of a Python process, its largest private memory in MB, and its output."""
    private = 0
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen([sys.executable, *arguments], stdout=out)
        while True:
            ended, status, usage = os.wait4(process.pid, os.WNOHANG)
            if ended:
                break
            found = re.search(r"RssAnon:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text())
            private = max(private, int(found[1]) // 1000 if found else 0)
            time.sleep(0.01)
        if status:
            sys.exit(f"{arguments}: ended with {status}")
        out.seek(0)
        return usage.ru_utime + usage.ru_stime, private, out.read().decode()


def main() -> None:
    """Measure every size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, nargs="+", default=[2000, 200_000])
    parser.add_argument("--folder", type=Path, default=None)
    given = parser.parse_args()
    print(facts())
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.folder or Path(scratch)
        for count in given.episodes:
            place = folder / f"lerobot-{count}"
            if not (place / "meta/info.json").exists():
                make_set(make_source(Path(scratch) / f"{count}"), place, count, STEPS)
            lab = Path(scratch) / f"lab-{count}"
            for name in ("ingest", "rescan"):
                seconds, peak, _ = run(["-c", COMMAND, "ingest", str(place), "--archive", str(lab)])
                each = f"{seconds:8.1f} CPU s {1e6 * seconds / count:8.0f} us an episode"
                print(f"{count:>8,} episodes  {name:<7} {each} {peak:8.0f} MB", flush=True)
            _, peak, text = run(["-c", SEARCH, str(lab)])
            shown = f"{peak} MB; default, filtered, moments: {', '.join(text.split())} CPU ms"
            print(f"{count:>8,} episodes  search  {shown}", flush=True)


if __name__ == "__main__":
    main()
