"""A report of measurements in Markdown: timings, goals, the machine that they were measured on."""

from __future__ import annotations

import argparse
import importlib.metadata
import math
import os
import statistics
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from machine import facts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

PACKAGES = ("crc32c", "zstandard", "h5py", "zarr", "safetensors", "pyarrow", "torch")


class Timing(NamedTuple):
    """Seconds of one call: the median, the best, and the median of processor time, which a busy machine hides least."""

    median: float
    best: float
    cpu: float = math.nan


@dataclass
class Table:
    """One table of the report: seconds by name, and the sentences that say what follows from them."""

    title: str
    seconds: dict[str, Timing] = field(default_factory=dict)
    verdicts: list[str] = field(default_factory=list)

    def goal(
        self, what: str, found: float, limit: float, unit: str = "", *, least: bool = False, why: str = ""
    ) -> None:
        """Note a goal, what was found, whether it was met, and why not if it was missed."""
        met = found >= limit if least else found <= limit
        verdict = "met." if met else f"**missed**. {why}".rstrip()
        self.verdicts.append(f"{what}: {found:.3g}{unit}, goal {'>=' if least else '<='} {limit:g}{unit}: {verdict}")

    def markdown(self) -> str:
        """Return title, verdicts and numbers, each with its ratio to the first."""
        verdicts = [f"- {verdict}" for verdict in self.verdicts]
        columns = ["| | median | ratio | best | processor |", "|---|---:|---:|---:|---:|"]
        lines = [f"### {self.title}", "", *verdicts, "", *columns]
        for name, timing in self.seconds.items():
            shares = (shown(timing.median), f"{self.ratio(name):.2f}", shown(timing.best), shown(timing.cpu))
            lines.append(f"| {name} | {' | '.join(shares)} |")
        return "\n".join(lines) + "\n"

    def ratio(self, name: str, *, cpu: bool = False) -> float:
        """Return how many times the first row's median, or its processor time, a row takes."""
        row, base = self.seconds[name], next(iter(self.seconds.values()))
        return row.cpu / base.cpu if cpu else row.median / base.median


def shown(seconds: float) -> str:
    """Return a time in the unit that suits it, nothing for one that was not measured."""
    if math.isnan(seconds):
        return ""
    return f"{seconds * 1e6:.1f} us" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"


def timed(work: Callable[[], Any], *, seconds: float = 0.7, least: int = 7) -> Timing:
    """Return the duration of a call, from as many calls as fit into `seconds`."""
    work()
    durations: list[float] = []
    busy: list[float] = []
    deadline = time.perf_counter() + seconds
    while time.perf_counter() < deadline or len(durations) < least:
        began, start = time.process_time(), time.perf_counter()
        work()
        durations.append(time.perf_counter() - start)
        busy.append(time.process_time() - began)
    return Timing(statistics.median(durations), min(durations), statistics.median(busy))


def machine(folder: Path, missing: list[str]) -> str:
    """Return where the numbers come from; missing: packages that were not there to be measured."""
    versions = [f"{name} {importlib.metadata.version(name)}" for name in PACKAGES if name not in missing]
    absent = f" Not installed, so not measured: {', '.join(missing)}." if missing else ""
    where = "in memory (/dev/shm)" if folder.is_relative_to("/dev") else "on disk"
    return (
        f"Machine: {facts()}, {', '.join(versions)}. Files {where}, warm, if nothing else is said.{absent} "
        f"Load of the machine when this began: {os.getloadavg()[0]:.1f}.\n"
    )


def run_report(about: str, report: Callable[[Path], Iterable[str]]) -> None:
    """Measure in a temporary folder, print part by part, and write a page's section if asked to."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--write", type=Path, metavar="PAGE")
    parser.add_argument("--folder", type=Path, help="where files are written (default: the temporary folder)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        parts = []
        for part in report(Path(folder)):
            print(part, flush=True)
            parts.append(part)
    if arguments.write:
        write_section(arguments.write, "\n".join(parts))


def leave_section(section: str, page: Path | None) -> None:
    """Print a section, and write it to its page if there is one."""
    print(section, flush=True)
    if page is not None:
        write_section(page, section)


def write_section(page: Path, section: str) -> None:
    """Replace the section of a page that has the same heading, or add it."""
    text = page.read_text(encoding="utf-8") if page.exists() else "# Performance\n\n"
    before, found, rest = text.partition(section.partition("\n")[0] + "\n")
    before += "" if found else "\n"
    following = rest.partition("\n## ")
    page.write_text(before + section + (f"\n## {following[2]}" if following[1] else ""), encoding="utf-8")
