"""Measure random training clips: episode files beside h5py, pylance with simplejpeg and PyAV, in one run.

Run `python benchmarks/training.py` to print Markdown; `--write benchmarks/JOURNAL.md` replaces the section "## Training
clips". Clips are 4 steps of frames 64 x 64 x 3, action, proprio and reward, in random order, 64 to a batch. CPU seconds
are those of all processes; all rows are measured in turns, and the median of the rounds counts. The other libraries
are used in their fastest form: contiguous HDF5, open files, seeks, and no frame converted that is not in a clip.
"""

from __future__ import annotations

import gc
import os
import statistics
import time
import tracemalloc
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import av
import h5py
import lance
import numpy as np
import simplejpeg
from machine import facts
from report import run_report

from wshard.core.episode.file import save_wshard
from wshard.data import ClipLoader, ClipSampler, HDF5Dataset, LanceDataset, collate, convert, load_dataset
from wshard.types import Episode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from wshard.data import Dataset

EPISODES, T, SIZE, STEPS, BATCH = 200, 100, 64, 4, 64
ROUNDS = 5
PEER = {"hdf5": 3053, "lance": 3947, "video": 840}
"""Clips per CPU second that the original reaches by its loader, measured for contracts/world-model-datasets.md."""


@dataclass
class Row:
    """Clips per CPU second and per second, in each round."""

    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)

    def measure(self, work: Callable[[], int]) -> None:
        """Measure a call that returns how many clips it read."""
        began, busy = time.perf_counter(), _busy()
        clips = work()
        self.cpu.append(clips / (_busy() - busy))
        self.wall.append(clips / (time.perf_counter() - began))


def _busy() -> float:
    return time.process_time()


def write_sets(folder: Path) -> None:
    """Write the same episodes in every format."""
    rng = np.random.default_rng(0)
    for name in ("raw", "jpeg", "mp4"):
        (folder / name).mkdir()
    for number in range(EPISODES):
        blocks = rng.integers(0, 256, (8, 8, 3), np.uint8).repeat(8, 0).repeat(8, 1)
        ep = Episode(
            f"episode-{number:04d}",
            observations={
                "pixels": np.stack([np.roll(blocks, step, 1) for step in range(T)]),
                "proprio": rng.normal(size=(T, 4)).astype(np.float32),
            },
            actions={"action": rng.normal(size=(T, 2)).astype(np.float32)},
            rewards=rng.normal(size=T).astype(np.float32),
        )
        for name in ("raw", "jpeg", "mp4"):
            encode = {} if name == "raw" else {"signal/pixels": {"jpeg": "jpeg:95", "mp4": "mp4"}[name]}
            save_wshard(ep, folder / name / f"{ep.id}.wshard", encode=encode or None)
    convert(folder / "raw", folder / "rows.h5", dest_format="hdf5", progress=False)
    convert(folder / "raw", folder / "rows.lance", dest_format="lance", progress=False)
    convert(folder / "mp4", folder / "videos", dest_format="video", progress=False)
    with h5py.File(folder / "rows.h5") as rows, h5py.File(folder / "contiguous.h5", "w") as contiguous:
        for name in ("pixels", "proprio", "action", "reward"):
            contiguous[name] = rows[name][:]


# ---- peers: what one writes with the library alone -----------------------------------------------------------------


def read_h5py(file: h5py.File, numbers: np.ndarray, starts: np.ndarray) -> int:
    """Read clips one by one and stack them."""
    names = ("pixels", "proprio", "action", "reward")
    rows = numbers * T + starts
    clips = [{name: file[name][row : row + STEPS] for name in names} for row in rows.tolist()]
    return len({name: np.stack([clip[name] for clip in clips]) for name in names}["pixels"])


def read_lance(table: Any, numbers: np.ndarray, starts: np.ndarray) -> int:
    """Take the rows of a batch at once, decode each frame once."""
    rows = (numbers * T + starts)[:, None] + np.arange(STEPS)
    unique, places = np.unique(rows, return_inverse=True)
    found = table.take(unique)
    frames = np.stack([simplejpeg.decode_jpeg(data) for data in found["pixels"].to_pylist()])
    batch = {"pixels": frames[places.reshape(rows.shape)]}
    for name in ("proprio", "action", "reward"):
        column = found[name].combine_chunks()
        width = column.type.list_size
        batch[name] = column.flatten().to_numpy().reshape(-1, width)[places.reshape(rows.shape)]
    return len(batch["pixels"])


def read_av(files: list[Any], numbers: np.ndarray, starts: np.ndarray) -> int:
    """Seek in the open video of each clip, decode from the key frame on, and convert the frames of the clip only."""
    clips = []
    for number, start in zip(numbers.tolist(), starts.tolist(), strict=True):
        file = files[number]
        stream = file.streams.video[0]
        per_frame = 1 / (stream.average_rate * stream.time_base)
        file.seek(int(start * per_frame), stream=stream)
        shown: list[np.ndarray] = []
        for frame in file.decode(stream):
            if frame.pts >= start * per_frame:
                shown.append(frame.to_ndarray(format="rgb24"))
            if len(shown) == STEPS:
                break
        clips.append(np.stack(shown))
    return len(np.stack(clips))


def open_videos(folder: Path) -> list[Any]:
    """Open the videos of all episodes, each decoded by one thread."""
    files = [av.open(str(folder / "pixels" / f"ep_{number}.mp4")) for number in range(EPISODES)]
    for file in files:
        file.streams.video[0].thread_count = 1
    return files


# ---- measurements --------------------------------------------------------------------------------------------------


def batches_of(seed: int, count: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield episodes and starts of random clips."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield rng.integers(0, EPISODES, BATCH), rng.integers(0, T - STEPS + 1, BATCH)


def read_clips(data: Dataset, seed: int, count: int) -> int:
    """Read batches of random clips."""
    order = np.resize(ClipSampler(data, seed=seed).order(0), count * BATCH)
    for start in range(0, len(order), BATCH):
        collate(data.__getitems__(order[start : start + BATCH].tolist()))
    return len(order)


def measure_clips(folder: Path) -> dict[str, Row]:
    """Return the speeds of reading by one process."""
    ours = {name: load_dataset(folder / name, num_steps=STEPS) for name in ("raw", "jpeg", "mp4")}
    hdf5, rows = (
        HDF5Dataset(path=folder / "rows.h5", num_steps=STEPS),
        LanceDataset(folder / "rows.lance", num_steps=STEPS),
    )
    table = lance.dataset(folder / "rows.lance")
    file = h5py.File(folder / "contiguous.h5")
    videos = open_videos(folder / "videos")
    works: dict[str, Callable[[int], int]] = {
        "wshard, uncompressed": lambda seed: read_clips(ours["raw"], seed, 60),
        "wshard.data, HDF5": lambda seed: read_clips(hdf5, seed, 8),
        "h5py slices, contiguous": lambda seed: sum(read_h5py(file, *clips) for clips in batches_of(seed, 8)),
        "wshard, JPEG": lambda seed: read_clips(ours["jpeg"], seed, 16),
        "wshard.data, Lance": lambda seed: read_clips(rows, seed, 16),
        "pylance take, simplejpeg": lambda seed: sum(read_lance(table, *clips) for clips in batches_of(seed, 8)),
        "wshard, MP4": lambda seed: read_clips(ours["mp4"], seed, 8),
        "PyAV, open files, seek": lambda seed: sum(read_av(videos, *clips) for clips in batches_of(seed, 4)),
    }
    found = {name: Row() for name in works}
    for seed in range(ROUNDS + 1):
        for name, work in works.items():
            if seed == 0:
                work(-1 % 97)  # files are opened
            else:
                found[name].measure(lambda work=work, seed=seed: work(seed))
    return found


def measure_workers(folder: Path) -> dict[int, float]:
    """Return clips per second of reading JPEG lanes by this process and by two others, in turns."""
    data = load_dataset(folder / "jpeg", num_steps=STEPS)
    loaders = {workers: ClipLoader(data, BATCH, num_workers=workers) for workers in (0, 2)}
    found: dict[int, list[float]] = {0: [], 2: []}
    for turn in range(4):
        for workers, loader in loaders.items():
            began, clips = time.perf_counter(), 0
            for batch in loader:
                clips += len(batch["pixels"])
            if turn:
                found[workers].append(clips / (time.perf_counter() - began))
    return {workers: max(speeds) for workers, speeds in found.items()}


def measure_cost(folder: Path, workers: int) -> float:
    """Return microseconds of processor time for each clip, of this process and its workers together."""
    data = load_dataset(folder / "jpeg", num_steps=STEPS)
    gc.collect()  # ends the processes of earlier loaders, whose time counts when they end
    began = sum(os.times()[:4])
    loader = ClipLoader(data, BATCH, num_workers=workers)
    clips = sum(len(batch["pixels"]) for _ in range(3) for batch in loader)
    del loader  # whose processes end, and count from then on
    gc.collect()
    return 1e6 * (sum(os.times()[:4]) - began) / clips


def measure_start(folder: Path) -> tuple[float, int, int]:
    """Return seconds from load_dataset to the first batch of 1,000,000 clips, the clips, and bytes of their index."""
    (folder / "many").mkdir()
    rng = np.random.default_rng(0)
    for number in range(500):
        lanes = {"state": rng.normal(size=(2003, 4)).astype(np.float32)}
        save_wshard(
            Episode(f"{number}", observations=lanes, actions={"a": lanes["state"]}),
            folder / "many" / f"{number}.wshard",
        )
    durations = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        data = load_dataset(folder / "many", num_steps=STEPS)
        next(iter(ClipLoader(data, BATCH)))
        durations.append(time.perf_counter() - began)
    seconds = statistics.median(durations)
    tracemalloc.start()
    index = type(data.clip_indices)(data.lengths, data.span)
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return seconds, len(index), size


def report(folder: Path) -> Iterator[str]:
    """Yield the parts of the section."""
    write_sets(folder)
    load = os.getloadavg()[0]
    yield f"## Training clips\n\nMachine: {facts()}. Load of the machine when this began: {load:.1f}.\n"
    rows = measure_clips(folder)
    speeds = {name: statistics.median(row.cpu) for name, row in rows.items()}
    goals = [
        ("wshard, uncompressed", 10 * PEER["hdf5"], "10 x the original's HDF5"),
        ("wshard, JPEG", 2 * PEER["lance"], "2 x the original's Lance"),
        ("wshard, MP4", 2 * PEER["video"], "2 x the original's video"),
    ]
    lines = []
    for name, goal, why in goals:
        verdict = "met." if speeds[name] >= goal else "**missed** under this load."
        lines.append(
            f"- {name}: {speeds[name]:.0f} clips per CPU second, goal >= {goal} ({why}, measured earlier): {verdict}"
        )
    workers = measure_workers(folder)
    ratio = workers[2] / workers[0]
    seconds, clips, size = measure_start(folder)
    yield "\n".join(lines)
    costs = [measure_cost(folder, count) for count in (0, 2)]
    why = f"a clip costs {costs[1]:.0f} us of processor time by workers, {costs[0]:.0f} without"
    verdict = "met" if ratio >= 1.7 else f"**missed**: {why}, on 2 cores that other programs used, too"
    found = f"{ratio:.2f} x the clips per second of none ({workers[2]:.0f} and {workers[0]:.0f})"
    yield f"- 2 workers, JPEG: {found}, goal >= 1.7: {verdict}."
    yield (
        f"- first batch after `load_dataset`, {clips} clips in 500 files: {seconds:.3f} s, goal <= 0.2: "
        f"{'met' if seconds <= 0.2 else '**missed**'}; the clip index takes {size} bytes.\n"
    )
    yield "| | clips per CPU second | per second | best |\n|---|---:|---:|---:|"
    for name, row in rows.items():
        yield f"| {name} | {speeds[name]:.0f} | {statistics.median(row.wall):.0f} | {max(row.cpu):.0f} |"
    yield ""


if __name__ == "__main__":
    run_report(__doc__, report)
