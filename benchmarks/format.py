"""Measure the file format against its goals and against other formats, in one run on one machine.

Run `python benchmarks/format.py` to print Markdown; `--write benchmarks/JOURNAL.md` replaces the section "## Format" of
that page. Files lie in memory where the system offers that (--folder), and on disk for reading whole ones (--disk);
they are warm. Median and best are wall time; processor time is of all threads.
"""

from __future__ import annotations

import argparse
import mmap
import os
import shutil
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import crc32c
import numpy as np
from peers import FRAME_STEPS, Peer, installed
from report import Table, Timing, machine, timed, write_section
from workload import T, episode, pictures, standard

from wshard.core.array_fields import DType
from wshard.core.container import encode_block
from wshard.core.container.reader import ShardReader
from wshard.core.episode.file import load_wshard, open_wshard, save_wshard
from wshard.core.recording.channel_defs import ChannelDef
from wshard.core.recording.writer import WShardStreamWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

IN_MEMORY = Path("/dev/shm")  # noqa: S108  (a folder with a random name is made in it)


@dataclass(frozen=True)
class Places:
    """Two folders to write to: one for most files, in memory if there is such a thing, and one on disk."""

    folder: Path
    disk: Path


# ---- measurements --------------------------------------------------------------------------------------------------


def one_lane(places: Places, peers: list[Peer]) -> Table:
    """Open a file of 50 MB and read its lane of 28 kB."""
    folder = places.folder
    lanes = {"big": np.random.default_rng(0).integers(0, 256, (T, 50_000), np.uint8), "joint": standard()["joint"]}
    own = folder / "a.wshard"
    save_wshard(episode(lanes), own)

    def ours() -> np.ndarray:
        with open_wshard(own) as file:
            return file.lane("joint")

    np.testing.assert_array_equal(ours(), lanes["joint"])
    table = Table("Open a 50 MB file and read one lane of 28 kB", {"wshard, checksum verified": timed(ours)})
    table.seconds["of that: header and index read and checked"] = timed(lambda: ShardReader(own))
    table.seconds["of that: and the three JSON blocks"] = timed(lambda: open_wshard(own))
    pieces = len(table.seconds)
    for peer in (peer for peer in peers if not peer.compressed):
        path = folder / f"a{peer.suffix}"
        peer.write(path, lanes)
        np.testing.assert_array_equal(peer.read_lane(path, "joint"), lanes["joint"])
        table.seconds[peer.name] = timed(lambda peer=peer, path=path: peer.read_lane(path, "joint"))
    table.goal("wshard", table.seconds["wshard, checksum verified"].median * 1e6, 60, " us")
    fastest = min(list(table.seconds)[pieces:], key=lambda name: table.seconds[name].median)
    index, meta = (table.ratio(name) for name in list(table.seconds)[1:pieces])
    why = (
        f"Our reader is Python: {index:.0%} of its time goes to opening the file and checking header and index, "
        f"{meta - index:.0%} to the three JSON blocks that tell dtypes and shapes, the rest to the lane and its "
        f"checksum. The reader of safetensors is compiled, has one JSON to read, and compares no checksum."
    )
    table.goal(f"fastest peer ({fastest}) over wshard", table.ratio(fastest), 1, "x", least=True, why=why)
    return table


def full_read(places: Places, peers: list[Peer]) -> Table:
    """Read everything, uncompressed, from disk; and from a file system in memory, whose pages are small."""
    lanes, crc = standard(), "crc32c of the same bytes in memory"
    table = Table("Read a whole episode of 21 MB, uncompressed, from disk")
    table.seconds[crc] = timed(lambda: [crc32c.crc32c(lane) for lane in lanes.values()])
    rows = {"": places.disk, f", from {places.folder.parent}": places.folder}
    for where, folder in rows.items():
        path = folder / "b.wshard"
        save_wshard(episode(lanes), path)
        table.seconds[f"crc32c of the file, mapped afresh{where}"] = timed(lambda path=path: crc_of_mapping(path))
        table.seconds[f"wshard, checksums verified{where}"] = timed(lambda path=path: load_wshard(path))
    for peer in (peer for peer in peers if not peer.compressed):
        path = places.disk / f"b{peer.suffix}"
        peer.write(path, lanes)
        table.seconds[peer.name] = timed(lambda peer=peer, path=path: peer.read_all(path))
    ours, mapped = "wshard, checksums verified", "crc32c of the file, mapped afresh"
    why = (
        f"By processor time it is {table.ratio(ours, cpu=True):.2f}x, and {table.ratio(mapped, cpu=True):.2f}x for the "
        f"same checksum over the file, mapped afresh. What is between the two is Python code that opens and describes "
        f"the episode, and that finds the processor's caches full of the 21 MB that the call before went through."
    )
    table.goal("wshard over crc32c", table.ratio(ours), 1.3, "x", why=why)
    return table


def crc_of_mapping(path: Path) -> int:
    """Return the checksum of a file through a new mapping: what reading from the page cache costs at least."""
    with path.open("rb") as file:
        return crc32c.crc32c(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def full_write(places: Places, peers: list[Peer]) -> Table:
    """Write everything, uncompressed."""
    folder = places.folder
    lanes, path = standard(), folder / "c.bin"

    def plain() -> None:
        with (folder / "c.tmp").open("wb") as file:
            for lane in lanes.values():
                crc32c.crc32c(lane)
                file.write(lane.data)
            file.flush()
            os.fsync(file.fileno())
        (folder / "c.tmp").replace(path)

    ep = episode(lanes)
    table = Table("Write a whole episode of 21 MB, uncompressed")
    table.seconds["crc32c, plain write, fsync, rename"] = timed(plain)
    table.seconds["wshard (checksums, fsync, rename)"] = timed(lambda: save_wshard(ep, folder / "c.wshard"))
    for peer in (peer for peer in peers if not peer.compressed):
        target = folder / f"c{peer.suffix}"
        table.seconds[peer.name] = timed(lambda peer=peer, target=target: peer.write(target, lanes))
    table.goal("wshard over plain", table.ratio("wshard (checksums, fsync, rename)"), 1.3, "x")
    return table


def compressed(places: Places, peers: list[Peer]) -> Table:
    """Write and read four cameras with zstd, in threads and without."""
    folder = places.folder
    lanes = {f"rgb{number}": pictures(number) for number in range(4)}
    ep, path = episode(lanes), folder / "d.wshard"
    table = Table("Four cameras, 85 MB, compressed")
    threads = encode_block._MAX_THREADS  # noqa: SLF001  (the same code without threads is what is compared with)
    times: dict[str, Timing] = {}
    for label, count in (("one thread", 1), ("threads", threads)):
        encode_block._MAX_THREADS = count  # noqa: SLF001
        times[f"wshard zstd write, {label}"] = timed(lambda: save_wshard(ep, path, "zstd"), seconds=3, least=5)
        times[f"wshard zstd read, {label}"] = timed(lambda: load_wshard(path), seconds=2)
    table.seconds = dict(sorted(times.items()))
    table.seconds["wshard zstd write in frames, threads"] = timed(
        lambda: save_wshard(ep, folder / "f.wshard", "zstd", frame_steps=FRAME_STEPS), least=5
    )
    table.seconds["wshard zstd read in frames, threads"] = timed(lambda: load_wshard(folder / "f.wshard"))
    for peer in (peer for peer in peers if peer.compressed):
        target = folder / f"d-{peer.name}{peer.suffix}"
        table.seconds[f"{peer.name} write"] = timed(lambda peer=peer, target=target: peer.write(target, lanes), least=3)
        table.seconds[f"{peer.name} read"] = timed(lambda peer=peer, target=target: peer.read_all(target), least=3)
    for verb in ("write", "read"):
        gain = times[f"wshard zstd {verb}, one thread"].median / times[f"wshard zstd {verb}, threads"].median
        alone, together = (times[f"wshard zstd {verb}, {label}"] for label in ("one thread", "threads"))
        why = (
            f"The load of the machine was {os.getloadavg()[0]:.1f}, and threads gain what other cores have to give. "
            f"In threads the work takes {together.cpu / alone.cpu:.2f}x the processor time that it takes in one."
        )
        cores = encode_block._cores()  # noqa: SLF001
        table.goal(f"{verb}: one thread over {cores} cores", gain, 1.6, "x", least=True, why=why)
    table.verdicts.append(f"Size: {path.stat().st_size / ep.length / 4 / 84 / 84 / 3:.2f} of the raw bytes.")
    return table


def slices(places: Places, peers: list[Peer]) -> Table:
    """Read 16 timesteps at random places of a compressed lane of 1000."""
    folder = places.folder
    lanes, rng = {"rgb": pictures(0)}, np.random.default_rng(0)
    save_wshard(episode(lanes), folder / "e.wshard", "zstd")
    save_wshard(episode(lanes), folder / "f.wshard", "zstd", frame_steps=FRAME_STEPS)
    save_wshard(episode(lanes), folder / "g.wshard")
    table = Table(
        f"16 timesteps at a random place of a compressed lane [1000, 84, 84, 3], {FRAME_STEPS} per frame or chunk"
    )

    def measure(lane: Any) -> Timing:
        return timed(lambda: np.asarray(lane[(start := int(rng.integers(0, T - 16))) : start + 16]))

    with open_wshard(folder / "f.wshard") as file:
        table.seconds["wshard, frames"] = measure(file["rgb"])
    with open_wshard(folder / "g.wshard") as file:
        table.seconds["wshard, uncompressed"] = measure(file["rgb"])
    table.seconds["wshard, whole block"] = timed(
        lambda: ShardReader(folder / "e.wshard").block("signal/rgb", verify=False)
    )
    for peer in (peer for peer in peers if peer.compressed):
        path = folder / f"e-{peer.name}{peer.suffix}"
        peer.write(path, lanes)
        with peer.open(path) as handle:
            table.seconds[f"{peer.name}, chunks"] = measure(handle["rgb"])
    table.goal("whole block over frames", table.ratio("wshard, whole block"), 20, "x", least=True)
    if "h5py gzip-4, chunks" in table.seconds:
        table.goal("h5py gzip-4 over frames", table.ratio("h5py gzip-4, chunks"), 1, "x", least=True)
    return table


def recording(places: Places, _: list[Peer]) -> Table:
    """Write timesteps of joint, ctrl, reward and done; memory after 10^5 and after 10^6 of them."""
    folder = places.folder
    joint = np.random.default_rng(0).normal(size=7).astype(np.float32)
    defs = [ChannelDef("joint", DType.FLOAT32, [7])], [ChannelDef("ctrl", DType.FLOAT32, [7])]
    durations, memory = [], {}
    with WShardStreamWriter(folder / "h.wshard", "bench", defs[0], None, action_defs=defs[1]) as writer:
        writer.begin_episode()
        for t in range(1_000_000):
            if t in (100_000, 999_999):
                memory[t] = anonymous()
            start = time.perf_counter()
            writer.write_timestep(t, {"joint": joint}, {"ctrl": joint}, 0.5, done=False)
            if t < 100_000:
                durations.append(time.perf_counter() - start)
        start = time.perf_counter()
        writer.end_episode()
        ended, memory[0] = time.perf_counter() - start, anonymous()
    table = Table(
        "Record a timestep (joint, ctrl, reward, done)",
        {"timestep": Timing(statistics.median(durations), min(durations))},
    )
    mean = statistics.fmean(durations)
    table.seconds |= {"mean, flushes included": Timing(mean, mean), "end_episode after 10^6": Timing(ended, ended)}
    table.goal("write_timestep", table.seconds["timestep"].median * 1e6, 8, " us")
    growth = ((memory[999_999] - memory[100_000]) / 1e6, (memory[0] - memory[100_000]) / 1e6)
    table.goal("memory from timestep 10^5 to 10^6", growth[0], 1, " MB")
    table.goal("memory from timestep 10^5 to after the end", growth[1], 1, " MB")
    return table


def anonymous() -> float:
    """Return the memory of this process that no file backs, in bytes (NaN where the system does not tell)."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((float(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon")), float("nan"))


def scan(places: Places, _: list[Peer]) -> Table:
    """Read header and index of 10,000 files."""
    folder = places.folder
    lanes = {name: lane for name, lane in standard().items() if name != "rgb"}
    save_wshard(episode(lanes), folder / "one.wshard")
    many = folder / "many"
    many.mkdir()
    for number in range(10_000):
        shutil.copyfile(folder / "one.wshard", many / f"{number}.wshard")
    paths = sorted(str(path) for path in many.iterdir())
    table = Table("Scan 10,000 files, per file")

    def each(work: Callable[[str], Any]) -> Timing:
        durations = []
        for path in paths:
            start = time.perf_counter()
            work(path)
            durations.append(time.perf_counter() - start)
        return Timing(statistics.median(durations), min(durations))

    table.seconds["header and index"] = each(ShardReader)
    table.seconds["header, index and content digest"] = each(lambda path: ShardReader(path).digest())
    table.seconds["open_wshard: and meta blocks"] = each(open_wshard)
    table.seconds["reading the first 4 KiB, nothing else"] = each(first_page)
    table.goal("header and index", table.seconds["header and index"].median * 1e6, 25, " us")
    return table


def first_page(path: str) -> bytes:
    """Return the first bytes of a file: what any scan has to do."""
    descriptor = os.open(path, os.O_RDONLY)
    data = os.read(descriptor, 4096)
    os.close(descriptor)
    return data


# ---- the report ----------------------------------------------------------------------------------------------------

MEASUREMENTS = (one_lane, full_read, full_write, compressed, slices, recording, scan)


def report(places: Places, wanted: list[str]) -> Iterator[str]:
    """Yield the parts of the section as they are measured."""
    peers, missing = installed()
    yield "## Format\n"
    yield (
        "Measured by `benchmarks/format.py`: the median of all calls, its ratio to that of the first row, the best "
        "call, and the median of processor time (all threads). Missed goals have their reasons from the same run.\n"
    )
    yield machine(places.folder, missing)
    for measurement in MEASUREMENTS:
        if not wanted or measurement.__name__ in wanted:
            yield measurement(places, peers).markdown()


def main() -> None:
    """Measure, print, and write if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", type=Path, metavar="PAGE")
    parser.add_argument("--folder", type=Path, default=IN_MEMORY if IN_MEMORY.is_dir() else None)
    parser.add_argument("--disk", type=Path)
    parser.add_argument("only", nargs="*", choices=[[], *(measurement.__name__ for measurement in MEASUREMENTS)])
    arguments = parser.parse_args()
    parts = []
    temporary = tempfile.TemporaryDirectory
    with temporary(dir=arguments.folder) as folder, temporary(dir=arguments.disk) as disk:
        for part in report(Places(Path(folder), Path(disk)), arguments.only):
            print(part)
            sys.stdout.flush()
            parts.append(part)
    if arguments.write:
        write_section(arguments.write, "\n".join(parts))


if __name__ == "__main__":
    main()
