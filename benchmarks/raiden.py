"""Export folders of Raiden as WebDataset shards, beside the original `rd shardify`: samples per CPU second, memory.

Usage: python benchmarks/raiden.py [--as-stored] [EPISODES [FRAMES [HEIGHT WIDTH [ROUNDS]]]], by default 8 episodes of
60 frames 480 x 640 and 3 rounds in turns. RAIDEN names a checkout of the original, RAIDEN_PYTHON a Python with numpy,
OpenCV and tqdm; without them the original is left out. Each side runs in a process of its own, with two threads and
otherwise the options that the command line has by default: images are resized to 384 x 384 (--as-stored: not resized),
two of each camera in a sample. The same episodes are exported from Raiden's folders with PNG images by both, and from
`.wshard` files with JPEG lanes.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

import numpy as np
from machine import facts

from wshard.core.episode.file import save_wshard
from wshard.formats.base import open_source

CAMERAS = ("left", "right")
DISTINCT = 16  # images of a camera; the others are links to them, so that the disk is not what is measured
THREADS = 2
SIZE = None if "--as-stored" in sys.argv else (384, 384)
PEER, ROWS = "rd shardify", ("wshard, Raiden's folders", "wshard, .wshard files with JPEG lanes")
COUNT = """
import json, re, sys, time
from pathlib import Path
task, to, threads, size = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), json.loads(sys.argv[4])
size = size and tuple(size)
began = time.perf_counter()
{export}
seconds, busy = time.perf_counter() - began, time.process_time()
samples = sum(json.loads(line)["num_sequences"] for line in next(to.rglob("manifest.jsonl")).open())
peak = int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024
print(json.dumps([samples, seconds, busy, peak]), file=sys.__stdout__)
"""
OURS = COUNT.format(
    export="""
from wshard.webdataset import ShardifyOptions, shardify
shardify([task], to, ShardifyOptions(num_workers=threads, stats_stride=10, resize_images_size=size))
"""
)
THEIRS = COUNT.format(
    export="""
import importlib.util, os
place = Path(os.environ["RAIDEN"], "raiden", "shardify.py")
spec = importlib.util.spec_from_file_location("shardify", place)
module = sys.modules["shardify"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
sys.stdout = sys.stderr = open(os.devnull, "w")
config = module.ShardifyConfig(output_dir=to, num_workers=threads, resize_images_size=size)
module.run_shardify(sorted(path for path in task.iterdir() if path.is_dir()), config)
"""
)


def write_png(path: Path, pixels: np.ndarray) -> None:
    """Write an image as OpenCV does by default: filter Sub, run lengths, level 1."""
    height, width, _ = pixels.shape
    rows = pixels.astype(np.int16)
    rows[:, 1:] -= pixels[:, :-1]
    lines = np.concatenate([np.ones((height, 1), np.uint8), rows.astype(np.uint8).reshape(height, -1)], axis=1)
    packer = zlib.compressobj(1, strategy=zlib.Z_RLE)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", packer.compress(lines.tobytes()) + packer.flush()), (b"IEND", b""))
    sums = (struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks)
    parts = (struct.pack(">I", len(data)) + kind + data for kind, data in chunks)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(map(bytes.__add__, parts, sums)))


def write_images(folder: Path, size: tuple[int, int]) -> dict[str, list[Path]]:
    """Write the images of each camera: a moving pattern with the noise of a sensor."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    y, x = np.mgrid[: size[0], : size[1]]
    waves = (80 * np.sin(x / 40) + 20 * np.cos(y / 9), 60 * np.sin((x + y) / 55), y / 4 - 60)
    pattern = np.stack(waves, axis=2) + 128
    found: dict[str, list[Path]] = {camera: [] for camera in CAMERAS}
    for camera, paths in found.items():
        for number in range(DISTINCT):
            pixels = np.roll(pattern, 9 * number, axis=1) + rng.normal(0, 2, pattern.shape)
            paths.append(folder / f"{camera}-{number}.png")
            write_png(paths[-1], pixels.clip(0, 255).astype(np.uint8))
    return found


def write_episode(folder: Path, frames: int, images: dict[str, list[Path]], rng: np.random.Generator) -> None:
    """Write an episode of two arms and two cameras."""
    (folder / "lowdim").mkdir(parents=True)
    (folder / "metadata.json").write_text(json.dumps({"control": "leader", "framerate": 30.0, "num_frames": frames}))
    for camera in CAMERAS:
        (folder / "rgb" / camera).mkdir(parents=True)
    values = rng.normal(size=(frames, 80)).astype(np.float32)
    texts = {"language_task": "pick", "language_prompt": "pick the cube"}
    for step in range(frames):
        row = values[step]
        frame = {"joints": row[:14], "action": row[14:40], "actual_poses": row[40:66], "action_joints": row[66:80]}
        frame = {name: array.copy() for name, array in frame.items()}
        matrices = {"intrinsics": np.eye(3, dtype=np.float32), "extrinsics": np.eye(4, dtype=np.float32)}
        frame |= {name: dict.fromkeys(CAMERAS, matrix) for name, matrix in matrices.items()}
        frame |= {name: np.array(text, object) for name, text in texts.items()}
        (folder / "lowdim" / f"{step:010d}.pkl").write_bytes(pickle.dumps(frame))
        for camera, paths in images.items():
            os.link(paths[step % DISTINCT], folder / "rgb" / camera / f"{step:010d}.png")


def save_as_jpeg(task: Path, to: Path) -> None:
    """Save the episodes as files whose camera frames are JPEG."""
    to.mkdir()
    with open_source(task, "raiden") as source:
        for key in source.keys():  # noqa: SIM118  (a method of Sources)
            ep = source.load(key)
            for camera in CAMERAS:
                ep.observations[f"rgb/{camera}"].data = ep.observations[f"rgb/{camera}"].data.copy()
            save_wshard(ep, to / f"{key}.wshard", encode={f"signal/rgb/{camera}": "jpeg" for camera in CAMERAS})


def measure(python: str, program: str, task: Path, to: Path) -> tuple[int, float, float, int]:
    """Return samples, seconds, seconds of the processor, and the most memory in MB of an export."""
    command = [python, "-c", program, task, to, str(THREADS), json.dumps(SIZE)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    shutil.rmtree(to)
    samples, seconds, busy, peak = json.loads(done.stdout.splitlines()[-1])
    return samples, seconds, busy, peak


def main() -> None:
    """Print a row for each side, and how many times as fast this one is."""
    given, usual = [one for one in sys.argv[1:] if one != "--as-stored"], (8, 60, 480, 640, 3)
    count, frames, height, width, rounds = map(int, [*given, *usual[len(given) :]])
    sides = {ROWS[0]: (sys.executable, OURS, "task"), ROWS[1]: (sys.executable, OURS, "files")}
    if "RAIDEN" in os.environ:
        sides[PEER] = (os.environ.get("RAIDEN_PYTHON", sys.executable), THEIRS, "task")
    found: dict[str, list[tuple[int, float, float, int]]] = {name: [] for name in sides}
    what = f"{count} episodes of {frames} frames {height} x {width}, images {SIZE or 'as they are'}"
    print(f"{facts()}, load {os.getloadavg()[0]:.1f}: {what}", flush=True)
    with tempfile.TemporaryDirectory() as place:
        images, rng = write_images(Path(place, "images"), (height, width)), np.random.default_rng(0)
        for number in range(count):
            write_episode(Path(place, "task", f"{number:04d}"), frames, images, rng)
        save_as_jpeg(Path(place, "task"), Path(place, "files"))
        for _ in range(rounds):
            for name, (python, program, source) in sides.items():
                found[name].append(measure(python, program, Path(place, source), Path(place, "to")))
    print("| | samples | per CPU second | per second | memory |\n|---|---:|---:|---:|---:|")
    for name, rows in found.items():
        samples, (seconds, busy, peak) = rows[0][0], map(statistics.median, list(zip(*rows, strict=True))[1:])
        print(f"| {name} | {samples} | {samples / busy:.1f} | {samples / seconds:.1f} | {peak:.0f} MB |")
    if PEER not in found:
        print("The original is left out: RAIDEN names no checkout of it.")
        return
    for name in ROWS:
        pairs = list(zip(found[PEER], found[name], strict=True))
        wall, cpu = (statistics.median(theirs[place] / ours[place] for theirs, ours in pairs) for place in (1, 2))
        verdict = "met" if wall >= 3 else "**missed**"
        print(f"- {name}: {wall:.2f} x rd shardify per second, {cpu:.2f} x per CPU second, goal >= 3: {verdict}")


if __name__ == "__main__":
    main()
