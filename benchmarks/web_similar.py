"""From a dragged span to painted hits among many episodes: python benchmarks/web_similar.py [--episodes 100000].

Writes synthetic episodes into one HDF5 file in the layout of robomimic, ingests them with their windows, serves them
and drags in a real browser (Debian's chromium). With --folder the archive stays for the next run.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from pathlib import Path

import h5py
import numpy as np
from machine import facts
from playwright.sync_api import sync_playwright
from web import FLAGS, measure_spans, served

from bridge import TrajectoryIngestor

STEPS, KINDS = 60, 200


def write_episodes(path: Path, count: int) -> None:
    """Write `count` episodes of 200 kinds of movement, each at its own speed and with noise."""
    rng, time_ = np.random.default_rng(0), np.linspace(0, 1, STEPS)
    shapes = rng.normal(size=(KINDS, 6, 4))
    with h5py.File(path, "w") as file:
        data = file.create_group("data")
        for number in range(count):
            waves = np.sin(np.outer(time_ ** rng.uniform(0.7, 1.4), 2 * np.pi * np.arange(1, 5)))
            state = waves @ shapes[number % KINDS].T + 0.05 * rng.normal(size=(STEPS, 6))
            demo = data.create_group(f"demo_{number}")
            demo["obs/state"] = state.astype(np.float32)
            demo["actions"] = np.gradient(state[:, :3], axis=0).astype(np.float32)
            demo["rewards"] = np.full(STEPS, number / count, np.float32)
            demo["dones"] = np.arange(STEPS) == STEPS - 1
            demo.attrs["num_samples"] = STEPS
        data.attrs["env_args"] = '{"env_name": "waves", "type": 1, "env_kwargs": {}}'
        data.attrs["total"] = count * STEPS


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=100_000)
    parser.add_argument("--folder", type=Path, help="keep the archive there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "waves.hdf5"
        if not file.exists():
            write_episodes(file, options.episodes)
        begun = time.perf_counter()
        with TrajectoryIngestor(folder / "archive") as ingestor:
            report = ingestor.ingest([file], workers_count=2)
        spent = time.perf_counter() - begun
        ingested = f"{report.new:,} ingested in {spent:.0f} s; load {os.getloadavg()[0]:.1f}"
        print(f"{options.episodes:,} episodes; {facts()}; {ingested}\n", flush=True)
        with sync_playwright() as playwright, served(folder / "archive") as link:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
            print("| what | ms | goal |\n|---|---|---|")
            measure_spans(browser.new_page(), link, f"{options.episodes:,} episodes", 1000)
            browser.close()


if __name__ == "__main__":
    main()
