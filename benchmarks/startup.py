"""How long the command line keeps one waiting: python benchmarks/startup.py [--rounds 11].

Starts each command anew, interleaved, and prints the medians of the wall times as a Markdown table.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ingest import make_files
from machine import facts

from bridge.ingest.ingestor import TrajectoryIngestor

WSHARD = "import sys; from bridge.cli.main import main; sys.argv[0] = 'wshard'; main()"


def seconds(command: list[str]) -> float:
    """Return the wall time of a command that succeeds."""
    begun = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begun


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--episodes", type=int, default=1000, help="in the archive that is searched")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        data, archive = Path(name, "data"), Path(name, "archive")
        data.mkdir()
        make_files(data, asked.episodes, 200)
        with TrajectoryIngestor(archive) as ingestor:
            ingestor.ingest(data, windows="whole")
        query = str(min(data.iterdir()))
        commands = {
            "python, nothing imported": [sys.executable, "-c", ""],
            "import numpy": [sys.executable, "-c", "import numpy"],
            "import wshard": [sys.executable, "-c", "import wshard"],
            "wshard --help": [sys.executable, "-c", WSHARD, "--help"],
            f"wshard search, {asked.episodes} episodes (`--windows whole`)": [
                sys.executable, "-c", WSHARD, "search", query, "--archive", str(archive),
            ],
        }  # fmt: skip
        spent: dict[str, list[float]] = {what: [] for what in commands}
        for _ in range(asked.rounds):
            for what, command in commands.items():
                spent[what].append(seconds(command))
    print(f"Wall time of a fresh process; median of {asked.rounds}. {facts()}\n")
    print("| what | milliseconds |\n|---|---:|")
    for what, times in spent.items():
        print(f"| {what} | {statistics.median(times) * 1e3:.0f} |")


if __name__ == "__main__":
    main()
