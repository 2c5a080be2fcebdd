"""What a command costs before it does anything: python benchmarks/startup.py [--rounds 9].

Starts each command anew, interleaved, and prints the medians of the processor times as a Markdown table.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from ingest import make_files
from machine import facts

from bridge.ingest.ingestor import TrajectoryIngestor

WSHARD = "import sys; from bridge.cli.entry import main; sys.argv[0] = 'wshard'; main()"  # as an installed one begins


def seconds(command: list[str]) -> float:
    """Return the processor time of a command that succeeds, from its start to its end; its modules are compiled."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    before = os.times()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--episodes", type=int, default=1000, help="in the archive that is searched")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        data, archive = Path(name, "data"), Path(name, "archive")
        data.mkdir()
        make_files(data, asked.episodes, 200)
        with TrajectoryIngestor(archive) as ingestor:
            ingestor.ingest(data)
        query, of = str(min(data.iterdir())), ("--archive", str(archive))
        python = {"python, nothing imported": "", "import numpy": "import numpy", "import wshard": "import wshard"}
        verbs = {"--help": (), "ls": of, "search": (query, *of), "moments": (f"{query}@10:60", *of)}
        commands = {what: [sys.executable, "-c", code] for what, code in python.items()}
        commands |= {f"wshard {verb}": [sys.executable, "-c", WSHARD, verb, *rest] for verb, rest in verbs.items()}
        for command in commands.values():  # so that everything is compiled
            seconds(command)
        spent: dict[str, list[float]] = {what: [] for what in commands}
        for _ in range(asked.rounds):
            for what, command in commands.items():
                spent[what].append(seconds(command))
    print(f"Processor time of a fresh process; {asked.episodes} episodes, median of {asked.rounds}. {facts()}\n")
    print("| what | milliseconds |\n|---|---:|")
    for what, times in spent.items():
        print(f"| {what} | {statistics.median(times) * 1e3:.0f} |")


if __name__ == "__main__":
    main()
