"""Measure random windows of a LeRobot v3.0 folder with two cameras of 128 x 128 (H.264, a key frame every 2 frames).

Run `python benchmarks/windows.py` to print Markdown; `--write benchmarks/JOURNAL.md` replaces its section
"## Windows of LeRobot folders". A window has 2 frames of each camera and 16 actions, in random order, 32
to a batch. Both sides give equal frames; they are measured in turns, and CPU seconds are those of all threads.
lerobot's own loader is measured in the environment that `make peers` creates, if it is there, on the same files and
windows.
"""

from __future__ import annotations

import io
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import av
import numpy as np
from machine import facts
from report import run_report

from wshard.core.media.video_frames import VideoFrames
from wshard.core.media.video_writer import encode_video
from wshard.data import ClipSampler, SourceDataset, WindowDataset, collate
from wshard.formats.base import open_sink, open_source
from wshard.types import Episode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

EPISODES, T, SIZE, FPS, BATCH, BATCHES, ROUNDS = 40, 200, 128, 30, 32, 8, 7
CAMERAS = ("observation.images.left", "observation.images.right")
HISTORY, CHUNK = 2, 16
LEROBOT = Path(__file__).parents[1] / ".bench" / "venv-lerobot" / "bin" / "python"
PEER = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
import numpy as np, torch
from lerobot.datasets.lerobot_dataset import LeRobotDataset
folder, backend, rows, fps, batch, history, chunk = json.loads(sys.argv[1])
cameras = ("observation.images.left", "observation.images.right")
deltas = {name: [-step / fps for step in reversed(range(history))] for name in cameras}
deltas["action"] = [step / fps for step in range(chunk)]
data = LeRobotDataset("peer/set", root=folder, video_backend=backend, delta_timestamps=deltas)
spent = []
for turn in range(4):
    some = torch.utils.data.Subset(data, np.roll(rows, turn * 97).tolist())
    began, busy = time.perf_counter(), time.process_time()
    sizes = [item[cameras[0]].shape for item in torch.utils.data.DataLoader(some, batch)]
    spent.append((len(rows) / (time.process_time() - busy), len(rows) / (time.perf_counter() - began)))
    assert sizes[0][1] == history
print(json.dumps(np.median(spent[1:], axis=0).tolist()))
"""


def encode(frames: np.ndarray) -> VideoFrames:
    """Return the frames as a video with a key frame every two."""
    file = io.BytesIO()
    encode_video(frames, file, fps=FPS, options={"g": "2"})
    return VideoFrames(file.getvalue())


def write_set(folder: Path) -> None:
    """Write episodes of moving blocks, with state and action, by the project's own Sink."""
    rng = np.random.default_rng(0)
    with open_sink(folder, "lerobot") as sink:
        for number in range(EPISODES):
            blocks = rng.integers(0, 256, (8, 8, 3), np.uint8).repeat(16, 0).repeat(16, 1)
            frames = np.stack([np.roll(blocks, step, 1) for step in range(T)])
            lanes: dict[str, Any] = {"observation.state": rng.normal(size=(T, 14)).astype(np.float32)}
            lanes |= {camera: encode(frames[:, :, :: 1 - 2 * place]) for place, camera in enumerate(CAMERAS)}
            actions: dict[str, Any] = {"action": rng.normal(size=(T, 14)).astype(np.float32)}
            ep = Episode(f"{number}", observations=lanes, actions=actions, metadata={"task": "move"})
            ep.timebase.tick_hz = FPS
            sink.write(ep)


class BarePyAV:
    """What one writes with PyAV alone: the file of each camera stays open; seek to the key frame, decode two frames."""

    def __init__(self, folder: Path, actions: np.ndarray) -> None:
        paths = [sorted((folder / "videos" / camera).rglob("*.mp4")) for camera in CAMERAS]
        self._files = [[av.open(str(path)) for path in some] for some in paths]
        for file in (file for some in self._files for file in some):
            file.streams.video[0].thread_count = 1
        self._actions = actions

    def read(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Return the frames of windows whose present timesteps are these rows, and their actions."""
        found = {}
        for camera, files in zip(CAMERAS, self._files, strict=True):
            found[camera] = np.stack([self._frames(files[row // T], row % T) for row in rows.tolist()])
        found["action"] = self._actions[rows[:, None] + np.arange(CHUNK)]
        return found

    @staticmethod
    def _frames(file: Any, row: int) -> np.ndarray:
        stream = file.streams.video[0]
        wanted = round((row - 1) / FPS / stream.time_base)
        file.seek(wanted, stream=stream, backward=True)
        frames: list[np.ndarray] = []
        for frame in file.decode(stream):
            if frame.pts >= wanted:
                frames.append(frame.to_ndarray(format="rgb24"))
            if len(frames) == HISTORY:
                break
        return np.stack(frames)


def measure(works: dict[str, Callable[[np.ndarray], Any]], rows: np.ndarray) -> dict[str, tuple[float, float]]:
    """Return windows per CPU second and per second of each way, the medians of rounds in turns."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in works}
    for turn in range(ROUNDS + 1):
        some = np.roll(rows, turn * 97)[: BATCH * BATCHES]
        for name, work in works.items():
            began, busy = time.perf_counter(), time.process_time()
            for start in range(0, len(some), BATCH):
                work(some[start : start + BATCH])
            spent = time.process_time() - busy, time.perf_counter() - began
            if turn:
                found[name].append((len(some) / spent[0], len(some) / spent[1]))
    return {name: tuple(map(statistics.median, zip(*rounds, strict=True))) for name, rounds in found.items()}


def measure_lerobot(folder: Path, rows: np.ndarray, backend: str) -> tuple[float, float] | None:
    """Return windows per CPU second and per second of lerobot's own loader; None where it is not installed or fails."""
    options = json.dumps([str(folder), backend, rows[:BATCH].tolist(), FPS, BATCH, HISTORY, CHUNK])
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": ""}
    if not LEROBOT.exists():
        return None
    done = subprocess.run([LEROBOT, "-c", PEER, options], check=False, capture_output=True, text=True, env=environment)
    if done.returncode:
        print(done.stderr[-500:], file=sys.stderr)
        return None
    cpu, wall = json.loads(done.stdout.splitlines()[-1])
    return cpu, wall


def report(folder: Path) -> Iterator[str]:
    """Yield the parts of the section."""
    place = folder / "set"
    write_set(place)
    load = os.getloadavg()[0]
    data = SourceDataset([open_source(place, "lerobot")])
    data.channels_first = data.as_tensors = False
    windows = WindowDataset(data, history=HISTORY, chunk=CHUNK)
    peer = BarePyAV(place, data.get_col_data("action"))
    order = ClipSampler(windows, seed=0).order(0)
    inside = order[(order % T >= 1) & (order % T <= T - CHUNK)]
    ours, bare = collate(windows.__getitems__(inside[:BATCH])), peer.read(inside[:BATCH])
    for name in ("action", *CAMERAS):
        np.testing.assert_array_equal(ours[name], bare[name])
    works = {"wshard.data": lambda rows: collate(windows.__getitems__(rows)), "bare PyAV": peer.read}
    found = measure(works, inside)
    theirs = {backend: measure_lerobot(place, inside, backend) for backend in ("pyav", "torchcodec")}
    found |= {f"lerobot 0.4.4, {backend}": one for backend, one in theirs.items() if one is not None}
    ratio = found["wshard.data"][0] / found["bare PyAV"][0]
    yield (
        f"## Windows of LeRobot folders\n\nMeasured by `benchmarks/windows.py`: {EPISODES} episodes of {T} frames, two "
        f"cameras of {SIZE} x {SIZE}, H.264 with a key frame every 2 frames; random windows of {HISTORY} frames of "
        f"each camera and {CHUNK} actions. Machine: {facts()}, av {av.__version__}, load {load:.1f}.\n"
    )
    verdict = "met" if ratio >= 0.8 else "**missed**"
    yield f"- wshard.data over bare PyAV: {ratio:.2f} x the windows per CPU second, goal >= 0.8: {verdict}."
    for name, (cpu, _) in list(found.items())[2:]:
        share = found["wshard.data"][0] / cpu
        verdict = "met" if share >= 1 else "**missed**"
        yield f"- wshard.data over {name}: {share:.1f} x the windows per CPU second, goal >= 1: {verdict}."
    yield ""
    yield "| | windows per CPU second | per second |\n|---|---:|---:|"
    yield from (f"| {name} | {cpu:.0f} | {wall:.0f} |" for name, (cpu, wall) in found.items())
    yield ""


if __name__ == "__main__":
    run_report(__doc__, report)
