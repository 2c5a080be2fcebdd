"""Export windows of episodes with two cameras at 30 Hz: episodes per second, and memory while it runs.

Usage: python benchmarks/shardify.py [EPISODES [FRAMES [HEIGHT WIDTH]]], by default 4 episodes of 150 frames 480 x 640.
The original program is not measured: it cannot be installed beside this one.
"""

from __future__ import annotations

import resource
import shutil
import sys
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from wshard.core.episode.file import save_wshard
from wshard.types import Episode
from wshard.webdataset import ShardifyOptions, shardify

KINDS = {
    "JPEG as stored": ShardifyOptions(resize_images_size=None),
    "resized to 384x384": ShardifyOptions(),
    "resized to 384x384, 2 threads": ShardifyOptions(num_workers=2),
}


def write_episodes(folder: Path, count: int, frames: int, size: tuple[int, int]) -> None:
    """Write episodes with poses and two cameras, stored as JPEG."""
    rng = np.random.default_rng(0)
    rows, columns = np.mgrid[: size[0], : size[1]]
    base = np.stack([rows // 2, columns // 3, (rows + columns) // 5], axis=2).astype(np.uint8)
    images = np.stack([np.roll(base, 7 * step, axis=1) for step in range(frames)])
    for number in range(count):
        lanes = {"state": rng.normal(size=(frames, 26)).astype(np.float32), "left": images, "right": images}
        ep = Episode(f"ep-{number}", "", frames, observations=lanes, actions={"ctrl": lanes["state"]})
        encode = {"signal/left": "jpeg", "signal/right": "jpeg"}
        save_wshard(ep, folder / f"{ep.id}.wshard", encode=encode)  # type: ignore[arg-type]  # of two lanes


def measure(folder: Path, to: Path, kind: str) -> tuple[float, float, int, list[int], int]:
    """Return seconds, processor seconds, samples, memory in MB at each tenth, and its peak; run in its own process."""
    memory: list[int] = []

    def note(stage: str, done: int, total: int) -> None:
        if stage == "writing" and done * 10 // total > (done - 1) * 10 // total:
            memory.append(int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() >> 20)

    start, busy = time.perf_counter(), time.process_time()
    report = shardify([folder], to, KINDS[kind], progress=note)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return time.perf_counter() - start, time.process_time() - busy, report.samples, memory, peak


def main() -> None:
    """Print a line for each kind of export."""
    count, frames, *size = map(int, [*sys.argv[1:], *("4", "150", "480", "640")[len(sys.argv) - 1 :]])
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place, "episodes")
        folder.mkdir()
        write_episodes(folder, count, frames, (size[0], size[1]))
        for number, kind in enumerate(list(KINDS)[: 1 if count >= 1000 else None]):
            with get_context("spawn").Pool(1) as pool:
                to = Path(place, str(number))
                seconds, busy, samples, memory, peak = pool.apply(measure, (folder, to, kind))
            shutil.rmtree(to)
            print(
                f"{kind:<32} {count} x {frames} frames: {count / seconds:6.2f} episodes/s, "
                f"{samples / seconds:7.1f} samples/s, {samples / busy:7.1f} samples per CPU second, "
                f"memory {min(memory)} to {max(memory)} MB while writing, peak {peak} MB",
                flush=True,
            )


if __name__ == "__main__":
    main()
