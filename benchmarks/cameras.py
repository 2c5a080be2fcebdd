"""Measure encoded camera lanes against the libraries that decode them, in one run on one machine.

Run `python benchmarks/cameras.py` to print Markdown; `--write PAGE` also replaces its section "## Cameras" of a page.
Every row of the tables about reading reads four consecutive frames at a random place of an open episode; both sides
give equal frames. The library decodes in one thread, bare PyAV in several. The last tables are about recording.
"""

from __future__ import annotations

import argparse
import io
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import av
import numpy as np
from machine import facts
from PIL import Image
from report import Table, Timing, leave_section, timed
from workload import T, pictures

from wshard.core.episode.file import open_wshard, save_wshard
from wshard.core.media.frames import ImageFrames
from wshard.core.media.images import encode_image
from wshard.core.media.open_video import OpenVideo
from wshard.core.media.video_frames import VideoFrames
from wshard.core.media.video_writer import encode_video
from wshard.core.recording.writer import WShardStreamWriter
from wshard.types import Episode

if TYPE_CHECKING:
    from collections.abc import Callable

    Read = Callable[[int], np.ndarray]

CLIP = 4
SECONDS = 5.0


def compare(table: Table, rows: dict[str, Read], steps: int) -> Table:
    """Time the rows at the same random places, after comparing what they give."""
    rng = np.random.default_rng(0)
    for start in (0, 1, steps // 2 + 1, steps - CLIP):
        frames = [read(start) for read in rows.values()]
        assert all(np.array_equal(frames[0], other) for other in frames[1:])  # noqa: S101  (or nothing is compared)
    spent: dict[str, list[tuple[float, float]]] = {name: [] for name in rows}
    deadline = time.perf_counter() + SECONDS
    while time.perf_counter() < deadline:  # in turn, so that a busy machine slows all of them
        start = int(rng.integers(steps - CLIP))
        for name, read in rows.items():
            busy, began = time.process_time(), time.perf_counter()
            read(start)
            spent[name].append((time.perf_counter() - began, time.process_time() - busy))
    for name, calls in spent.items():
        wall, busy_ones = zip(*calls, strict=True)
        table.seconds[name] = Timing(statistics.median(wall), min(wall), statistics.median(busy_ones))
    return table


def jpeg(folder: Path, size: int) -> Table:
    """Compare with Pillow on the same bytes, which lie in a list."""
    frames = np.repeat(np.repeat(pictures(0)[:200], size // 84 + 1, 1), size // 84 + 1, 2)[:, :size, :size]
    images = [encode_image(frame, "jpeg", quality=95) for frame in frames]
    path = folder / f"jpeg{size}.wshard"
    save_wshard(Episode("jpeg", observations={"rgb": ImageFrames("jpeg", images)}), path)
    lane = open_wshard(path)["rgb"]

    def by_pillow(start: int) -> np.ndarray:
        return np.stack([np.asarray(Image.open(io.BytesIO(image))) for image in images[start : start + CLIP]])

    def by_lane(start: int) -> np.ndarray:
        return lane[start : start + CLIP]

    rows = {"wshard lane": by_lane, "Pillow, bytes in memory": by_pillow}
    return compare(Table(f"{CLIP} frames of a JPEG lane, {size} x {size}, quality 95"), rows, len(images))


def video(folder: Path, title: str, data: bytes, fps: float) -> Table:
    """Compare with PyAV: an open container, seek by time, decode from the key frame on."""
    steps = VideoFrames(data).length
    path = folder / "video.wshard"
    save_wshard(Episode("video", observations={"rgb": VideoFrames(data)}), path)
    lane = open_wshard(path)["rgb"]
    by_time = VideoFrames(data, from_timestamp=0.0, fps=fps, count=steps)
    container = av.open(io.BytesIO(data))
    stream = container.streams.video[0]

    def by_pyav(start: int) -> np.ndarray:
        wanted = round(start / fps / stream.time_base)
        container.seek(wanted, stream=stream, backward=True)
        found: list[Any] = []
        for frame in container.decode(stream):
            if frame.pts >= wanted:
                found.append(frame.to_ndarray(format="rgb24"))
            if len(found) == CLIP:
                break
        return np.stack(found)

    rows: dict[str, Read] = {
        "wshard lane": lambda start: lane[start : start + CLIP],
        "VideoFrames by time": lambda start: by_time.decode(start, start + CLIP),
        "PyAV, open container, seek": by_pyav,
    }
    table = compare(Table(f"{CLIP} frames of an MP4 lane: {title}"), rows, steps)
    reader = OpenVideo(data, "video")
    out = np.empty((CLIP, *reader.shape), reader.dtype)
    following = iter(range(0, 10**9, CLIP))

    def in_turn() -> None:
        start = next(following) % (steps - CLIP)
        reader.read_into(out, reader.times[start : start + CLIP])

    table.seconds["wshard, one clip after the other"] = timed(in_turn, seconds=2.0)
    return table


def scene(count: int, height: int, width: int) -> np.ndarray:
    """Return frames of a square that moves over a slope, with sensor noise of standard deviation 3."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:height, :width]
    slope = np.stack([x * 255 / width, y * 255 / height, (x + y) * 255 / (height + width)], -1)
    frames = np.empty((count, height, width, 3), np.uint8)
    for t, frame in enumerate(frames):
        left, top = int(width * (0.4 + 0.35 * np.sin(t / 15))), int(height * (0.4 + 0.35 * np.cos(t / 20)))
        pixels = slope + rng.normal(0, 3, slope.shape)
        pixels[top : top + height // 4, left : left + width // 4] = (200, 40, 40)
        frame[:] = np.clip(pixels, 0, 255)
    return frames


def recording(folder: Path, height: int, width: int) -> Table:
    """Time recordings with a camera, per timestep, from the first one to the finished file."""
    colors, path = scene(60, height, width), folder / "recorded.wshard"
    depth = 1000 + 16 * colors[..., :1].astype(np.uint16)
    table = Table(f"Recording a camera, per frame of {height} x {width}")
    for codec in ("", "h264", "av1", "jpeg:90", "png"):
        frames, dtype = (depth, "u16") if codec == "png" else (colors, "u8")
        channel = {"id": "signal/cam", "dtype": dtype, "shape": frames.shape[1:]} | ({"codec": codec} if codec else {})

        def record(channel: dict[str, Any] = channel, frames: np.ndarray = frames) -> None:
            with WShardStreamWriter(path, "e", [channel]) as writer:
                writer.begin_episode()
                for frame in frames:
                    writer.write_timestep({"signal/cam": frame})

        found = timed(record, seconds=2.0, least=3)
        size = path.stat().st_size / len(frames)
        name = {"": "arrays", "png": "png, depth in 16 bits"}.get(codec, codec)
        table.seconds[f"{name}, {size:,.0f} bytes"] = Timing(*(taken / len(frames) for taken in found))
    return table


def encoded(frames: np.ndarray, **options: Any) -> bytes:
    """Return an MP4."""
    file = io.BytesIO()
    encode_video(frames, file, fps=20, **options)
    return file.getvalue()


def main() -> None:
    """Measure and print, or write, the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="replace the section of this page")
    parser.add_argument("--video", type=Path, help="another MP4 to measure, at a constant rate of 30 per second")
    given = parser.parse_args()
    frames = pictures(0)[: T // 2]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tables = [
            jpeg(folder, 84),
            jpeg(folder, 256),
            video(folder, "H.264, 84 x 84, key frames every 10", encoded(frames), 20),
            video(folder, "H.264, 84 x 84, key frames every 250", encoded(frames, options={"g": "250"}), 20),
            recording(folder, 128, 128),
            recording(folder, 480, 640),
        ]
        if given.video:
            tables.append(video(folder, given.video.name, given.video.read_bytes(), 30))
    about = (
        f"Measured by `benchmarks/cameras.py`; both sides give equal frames. Machine: {facts()}, av {av.__version__}"
    )
    about += ". The library decodes in one thread, bare PyAV in several, so that processor time compares best"
    about += f". Load of the machine {os.getloadavg()[0]:.1f} when it ended."
    leave_section(f"## Cameras\n\n{about}\n\n" + "\n".join(map(Table.markdown, tables)), given.write)


if __name__ == "__main__":
    main()
