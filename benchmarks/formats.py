"""How fast locations of other formats are catalogued and read: python benchmarks/formats.py [--episodes 10000].

Makes a LeRobot v3.0 data set of 200 timesteps an episode from the small one in the folder of fixtures, catalogues and
embeds it in processes of their own, and reads spans of states and of a video, each beside what the libraries below do
by themselves, and lerobot where `make peers` installed it. About four minutes; nothing is judged.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import av
import numpy as np
import pyarrow.parquet as pq
from lerobot_set import STEPS, make_set
from machine import facts

from bridge import TrajectoryIngestor, TrajectoryRetriever
from wshard import save_wshard
from wshard.formats.open import open_location
from wshard.media import VideoFrames

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parent.parent
FIXTURES = Path(os.environ.get("WSHARD_FIXTURES", ROOT.parent / "shared" / "fixtures")) / "datasets"
STATE = "observation.state"
SPAN = 16
FRAMES = 4


MARKS = (1000, 2500, 5000, 10_000)
LEROBOT = ROOT / ".bench" / "venv-lerobot" / "bin" / "python"
PEER = """
import json, statistics, sys, time, warnings
warnings.simplefilter("ignore")
from lerobot.datasets.lerobot_dataset import LeRobotDataset
folder, name, rows, count, fps = json.loads(sys.argv[1])
begun = time.perf_counter()
deltas = {name: [n / fps for n in range(count)]}
data = LeRobotDataset("peer/set", root=folder, video_backend="pyav", delta_timestamps=deltas)
opened, spent = time.perf_counter() - begun, []
for row in rows:
    begun = time.perf_counter(), time.process_time()
    assert len(data[row][name]) == count
    spent.append((time.perf_counter() - begun[0], time.process_time() - begun[1]))
print(json.dumps([opened, *(statistics.median(column) * 1e3 for column in zip(*spent[1:]))]))
"""


class Stages:
    """Seconds of each stage of an ingest, of the processor in them, and memory after some numbers of episodes."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}
        self.memory: dict[str, dict[int, int]] = {}
        self._count = 0
        self._last = ("begin", time.perf_counter(), time.process_time())

    def stage(self, what: str, total: int) -> None:  # noqa: ARG002  (as Progress has it)
        """End the stage before."""
        name, wall, busy = self._last
        now = time.perf_counter(), time.process_time()
        self.seconds[name] = [round(now[0] - wall, 2), round(now[1] - busy, 2)]
        self._last, self._count = (what, *now), 0

    def advance(self, count: int) -> None:
        """Note the memory that is not that of files."""
        before, self._count = self._count, self._count + count
        for mark in MARKS:
            if before < mark - 16 <= self._count:  # the last batch may be smaller
                self.memory.setdefault(self._last[0], {})[mark] = anonymous_memory()


def anonymous_memory() -> int:
    """Return the MB of memory of this process that is not that of files."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("Anonymous:"))


def ingest(place: str, archive: str, workers: str) -> dict[str, Any]:
    """Ingest a location twice: the seconds of each stage, of the second run, and the most memory of this process."""
    stages = Stages()
    with TrajectoryIngestor(archive, limits=None) as ingestor:
        first = ingestor.ingest([place], windows="whole", progress=stages, workers_count=int(workers))
        stages.stage("end", 0)
        again = ingestor.ingest([place], windows="whole")
    if first.failed or again.new or again.changed:
        raise SystemExit(f"expected a clean first run and an idle second one, found {first} and {again}")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    found = {"count": first.new, "stages": stages.seconds, "again": round(again.seconds, 2), "memory": memory}
    return found | {"anonymous": stages.memory}


def in_child(place: Path, archive: Path, workers: int) -> dict[str, Any]:
    """Return what `ingest` measures in a process of its own, and in others that help it."""
    command = [sys.executable, __file__, "--ingest", str(place), str(archive), str(workers)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def median_ms(work: Callable[[int], object], times: int = 50, clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the median milliseconds of a call, of the clock or of another one."""
    work(0)
    found = []
    for number in range(times):
        begun = clock()
        work(number)
        found.append(clock() - begun)
    return statistics.median(found) * 1e3


def measure_spans(place: Path, archive: Path, episodes: int) -> None:
    """Print how long a span of states of one episode takes: of a hit, of an open location, of the library itself."""
    chosen = np.random.default_rng(0).integers(0, episodes, 60).tolist()
    with TrajectoryRetriever(archive) as retriever:
        found = retriever.search_similar_episodes(f"{place}#0", top_k=60)
        hits = [replace(hit, span=(50, 50 + SPAN)) for hit in found]
        print(f"  of a hit (load_span)       {median_ms(lambda n: hits[n % len(hits)].load_span([STATE])):7.2f} ms")
    with open_location(place) as source:
        read = median_ms(lambda n: source.lane(str(chosen[n]), f"signal/{STATE}", 50, 50 + SPAN))
        print(f"  of an open location (lane) {read:7.2f} ms")
    files: dict[int, pq.ParquetFile] = {}

    def plainly(number: int) -> object:
        file, group = divmod(chosen[number], 1000)
        if file not in files:
            files[file] = pq.ParquetFile(place / f"data/chunk-000/file-{file:03d}.parquet")
        rows = files[file].read_row_group(group, columns=[STATE]).column(0).slice(50, SPAN)
        return np.stack(rows.to_pylist())

    print(f"  pyarrow, files kept open   {median_ms(plainly):7.2f} ms")
    rows = [episode * STEPS + 50 for episode in chosen]
    if (peer := ask_lerobot(place, STATE, rows, SPAN, 10)) is not None:
        print(f"  lerobot 0.4.4              {peer[1]:7.2f} ms, and {peer[0]:.1f} s to open the data set")


def ask_lerobot(place: Path, name: str, rows: list[int], count: int, fps: float) -> list[float] | None:
    """Return seconds to open a data set with lerobot, and milliseconds of the clock and the processor for an item."""
    if not LEROBOT.exists():
        return None
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": cache, "PYTHONPATH": ""}
        command = [LEROBOT, "-c", PEER, json.dumps([str(place), name, rows, count, fps])]
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    found: list[float] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure_frames(path: Path, count: int, fps: float) -> None:
    """Print how long frames at random places of a video take, beside a plain seek to the nearest key frame."""
    places = np.random.default_rng(0).integers(0, count - FRAMES, 60).tolist()
    lane = VideoFrames(path, count=count, fps=fps, from_timestamp=0.0)
    with av.open(str(path)) as container:
        video = container.streams.video[0]

        def plainly(number: int) -> object:
            first = places[number] / fps
            container.seek(int(first / video.time_base), stream=video)
            frames = []
            for frame in container.decode(video):
                if frame.time >= first - 1e-4:
                    frames.append(frame.to_ndarray(format="rgb24"))
                if len(frames) == FRAMES:
                    return np.stack(frames)
            raise SystemExit(f"expected {FRAMES} frames at {first} s, found {len(frames)}")

        for name, clock in (("clock", time.perf_counter), ("processor", time.process_time)):
            ours, plain = [], []
            for _ in range(5):  # by turns, so that a busy moment hits both
                ours.append(median_ms(lambda n: lane.decode(places[n], places[n] + FRAMES), 12, clock))
                plain.append(median_ms(plainly, 12, clock))
            read, sought = statistics.median(ours), statistics.median(plain)
            about = f"{path.name} ({video.codec_context.name}), {name}"
            print(f"  {about}: lane {read:.1f} ms, PyAV seek and decode {sought:.1f} ms")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--episodes", type=int, default=10_000)
    parser.add_argument("--ingest", nargs=3, metavar=("PLACE", "ARCHIVE", "WORKERS"))
    options = parser.parse_args()
    if options.ingest:
        print(json.dumps(ingest(*options.ingest)))
        return
    fixture = FIXTURES / "lerobot" / "lerobot_v3_video_h264"
    if not fixture.is_dir():
        print(f"skipped: no data sets of other programs in {FIXTURES}: set WSHARD_FIXTURES to their folder")
        return
    print(f"{facts()}, load {os.getloadavg()[0]:.1f}; seconds of the clock, and of the processor")
    with tempfile.TemporaryDirectory() as folder:
        measure_lerobot(Path(folder), fixture, options.episodes)
    print(f"\n{FRAMES} frames at random places of a video")
    real = FIXTURES / "real" / "g1_lerobot_v21" / "videos" / "chunk-000" / "observation.images.cam_high"
    measure_frames(real / "episode_000002.mp4", 343, 30)
    measure_frames(fixture / "videos" / "observation.images.top" / "chunk-000" / "file-000.mp4", 39, 10)
    places = np.random.default_rng(0).integers(0, 39 - FRAMES, 60).tolist()
    if (peer := ask_lerobot(fixture, "observation.images.top", places, FRAMES, 10)) is not None:
        print(f"  file-000.mp4: lerobot 0.4.4, pyav: {peer[1]:.1f} ms of the clock, {peer[2]:.1f} of the processor")


def measure_lerobot(folder: Path, fixture: Path, episodes: int) -> None:
    """Print what cataloguing, embedding and reading a large data set takes."""
    few = max(episodes // 5, 1)
    rows = make_set(fixture, folder / "large", episodes)
    make_set(fixture, folder / "small", few)
    (folder / "wshard").mkdir()
    with open_location(folder / "small") as source:
        for key in source.keys():  # noqa: SIM118  (a Source is no mapping)
            save_wshard(source.load(key), folder / "wshard" / f"{key}.wshard")
    print(f"\nLeRobot v3.0, {episodes} episodes of {STEPS} timesteps, {rows} rows, no quality checks")
    for name, workers in (("small", 1), ("wshard", 1), ("large", 1), ("large", 2)):
        archive = folder / f"archive-{name}"
        shutil.rmtree(archive, ignore_errors=True)
        found = in_child(folder / name, archive, workers)
        count, how = found["count"], f"processes: {workers}, at most {found['memory']} MB"
        print(f"  {name}, {count} episodes, {how}, second run {found['again']} s")
        for stage, sizes in found["anonymous"].items():
            print(f"    {stage:10} MB without those of files, after episodes: {sizes}")
        for stage in ("reading", "embedding"):
            wall, busy = found["stages"][stage]
            print(f"    {stage:10} {wall} s, {busy} s: {count / wall:.0f} and {count / busy:.0f} episodes per second")
    print(f"\n{SPAN} timesteps of states at random places")
    measure_spans(folder / "large", folder / "archive-large", episodes)


if __name__ == "__main__":
    main()
