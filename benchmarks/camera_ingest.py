"""Measure ingests by `frames`: the first, which describes every frame, and later ones, which find the features stored.

Run `python benchmarks/camera_ingest.py` to print Markdown; `--write PAGE` also replaces its section of a page. The
later ones embed the same episodes with other windows, or another pooling over time. Processor time of whole commands,
from their start to their end.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from cameras import encoded, scene
from machine import facts
from report import leave_section

from wshard.core.episode.file import save_wshard
from wshard.core.media.frames import ImageFrames
from wshard.core.media.images import encode_image
from wshard.core.media.video_frames import VideoFrames
from wshard.core.types import TimebaseSpec
from wshard.types import Episode

if TYPE_CHECKING:
    from collections.abc import Callable

WINDOWS = "from bridge.cli.entry import main; main()"  # the command, as an installed one begins
POOLING = (
    "import sys; from embedders import Frames; from wshard import TrajectoryIngestor\n"
    "with TrajectoryIngestor(sys.argv[2], Frames(coefficients=6), lanes='cam') as ingestor:\n"
    "    print(ingestor.ingest(sys.argv[1], windows='whole').embedded, 'embedded')"
)
NOTHING = "nothing new"
INGESTS = (
    ("first, whole", WINDOWS, "whole"),
    ("windows 32:16", WINDOWS, "32:16"),
    ("windows of several sizes", WINDOWS, "multi"),
    ("another pooling", POOLING, ""),
    (NOTHING, WINDOWS, "whole"),
)


def jpegs(frames: np.ndarray) -> ImageFrames:
    """Return frames as JPEG."""
    return ImageFrames("jpeg", [encode_image(frame, "jpeg", quality=90) for frame in frames])


def movie(frames: np.ndarray) -> VideoFrames:
    """Return frames as H.264."""
    return VideoFrames(encoded(frames))


SETS: tuple[tuple[str, tuple[int, int, int, int], Callable[[np.ndarray], Any]], ...] = (
    ("JPEG 128 x 128", (60, 200, 128, 128), jpegs),
    ("JPEG 128 x 128", (60, 400, 128, 128), jpegs),
    ("JPEG 128 x 128", (200, 300, 128, 128), jpegs),
    ("JPEG 480 x 640", (100, 100, 480, 640), jpegs),
    ("H.264 480 x 640", (100, 100, 480, 640), movie),
)


def measure(folder: Path, size: tuple[int, int, int, int], encode: Callable[[np.ndarray], Any]) -> dict[str, float]:
    """Return the processor seconds of each ingest.

    size: episodes, frames of each, height, width; the frames of all are the same, moved sideways.
    """
    count, *shape = size
    frames = scene(*shape)
    (folder / "set").mkdir()
    for number in range(count):
        moved = np.roll(frames, number * 5, axis=2)
        episode = Episode(f"ep-{number}", observations={"cam": encode(moved)}, timebase=TimebaseSpec(tick_hz=30.0))
        save_wshard(episode, folder / "set" / f"{number:03}.wshard")
    (folder / "some").mkdir()
    (folder / "some" / "0.wshard").symlink_to(folder / "set" / "000.wshard")
    for _, program, windows in INGESTS:  # so that everything is compiled
        run(program, folder / "some", folder / "other", windows)
    spent = {}
    for name, program, windows in INGESTS:
        spent[name], said = run(program, folder / "set", folder / "lab", windows)
        if name != NOTHING and f"{count} embedded" not in said:
            raise SystemExit(f"{name}: expected {count} episodes to be embedded, found {said}")
    return spent


def run(program: str, episodes: Path, archive: Path, windows: str) -> tuple[float, str]:
    """Return the processor seconds of a process that ingests episodes, from its start to its end, and what it says."""
    options = ["ingest", episodes, "--archive", archive, "--embedder", "frames", "--lanes", "cam", "--windows", windows]
    given = options if windows else [episodes, archive]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    before = os.times()
    command = [sys.executable, "-c", program, *given]
    said = subprocess.run(command, check=True, capture_output=True, env=environment, text=True).stdout
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system, said


def main() -> None:
    """Measure and print, or write, the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="replace the section of this page")
    given = parser.parse_args()
    lines = ["| episodes | ingest | processor time | of the first |", "|---|---|---|---|"]
    for title, size, encode in SETS:
        with tempfile.TemporaryDirectory() as name:
            spent = measure(Path(name), size, encode)
        episodes = f"{size[0]} of {size[1]} frames, {title}"
        first = spent[INGESTS[0][0]]
        lines += [f"| {episodes} | {one} | {t:.2f} s | {t / first:.3f} |" for one, t in spent.items()]
    about = f"Measured by `benchmarks/camera_ingest.py`. Machine: {facts()}, load {os.getloadavg()[0]:.1f} at the end."
    about += " The first ingest also measures up to 120 frames of an episode for checks of cameras."
    table = "\n".join(lines)
    leave_section(f"## Features of frames, computed once\n\n{about}\n\n{table}\n", given.write)


if __name__ == "__main__":
    main()
