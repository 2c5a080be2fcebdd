"""Export windows of episodes with two cameras of 640 x 480 pixels: episodes per second, peak memory.

Usage: python benchmarks/shardify.py [EPISODES [FRAMES]]
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from wshard.episode.file import save_wshard
from wshard.types import Episode
from wshard.webdataset import ShardifyOptions, shardify

KINDS = {
    "JPEG as stored": ShardifyOptions(resize_images_size=None),
    "resized to 384x384": ShardifyOptions(),
    "resized to 384x384, 2 threads": ShardifyOptions(num_workers=2),
}


def write_episodes(folder: Path, count: int, frames: int) -> None:
    """Write episodes with poses and two cameras, stored as JPEG."""
    rng = np.random.default_rng(0)
    rows, columns = np.mgrid[:480, :640]
    base = np.stack([rows // 2, columns // 3, (rows + columns) // 5], axis=2).astype(np.uint8)
    images = np.stack([np.roll(base, 7 * step, axis=1) for step in range(frames)])
    for number in range(count):
        lanes = {"state": rng.normal(size=(frames, 26)).astype(np.float32), "left": images, "right": images}
        ep = Episode(f"ep-{number}", "", frames, observations=lanes, actions={"ctrl": lanes["state"]})
        encode = {"signal/left": "jpeg", "signal/right": "jpeg"}
        save_wshard(ep, folder / f"{ep.id}.wshard", encode=encode)  # type: ignore[arg-type]  # of two lanes


def measure(folder: Path, to: Path, kind: str) -> tuple[float, int, int]:
    """Return seconds, samples and peak memory in MB; run in a process of its own."""
    start = time.perf_counter()
    report = shardify([folder], to, KINDS[kind])
    return time.perf_counter() - start, report.samples, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def main() -> None:
    """Print a line for each kind of export."""
    count, frames = map(int, [*sys.argv[1:], *("4", "150")[len(sys.argv) - 1 :]])
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place, "episodes")
        folder.mkdir()
        write_episodes(folder, count, frames)
        for number, kind in enumerate(KINDS):
            with get_context("spawn").Pool(1) as pool:
                seconds, samples, peak = pool.apply(measure, (folder, Path(place, str(number)), kind))
            print(
                f"{kind:<32} {count} x {frames} frames: {count / seconds:6.2f} episodes/s, "
                f"{samples / seconds:7.1f} samples/s, {2 * count * frames / seconds:7.1f} frames/s, peak {peak} MB"
            )


if __name__ == "__main__":
    main()
