"""Measure ShardPack: random records against a read of the same bytes with their checksum, and size against tar.

Run `python benchmarks/shardpack.py` to print Markdown; `--write benchmarks/JOURNAL.md` replaces the section
"## ShardPack" of that page. Files are warm. A time is that of one record: the median over passes of random records.
"""

from __future__ import annotations

import importlib.util
import io
import os
import random
import tarfile
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import crc32c
from report import Table, Timing, machine, run_report, timed

from wshard.shardpack import NewEntry, ShardPackReader, ShardPackWriter, stream_shardpack, unpack_shardpack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROWS = 400  # random records in one pass
SAMPLES = {  # sizes of the entries of a record
    "1 entry of 4 kB": [4_000],
    "1 entry of 16 kB": [16_000],
    "1 entry of 64 kB": [64_000],
    "11 entries of 23 kB together": [5_200] * 4 + [2_000, 100, 100, 50, 40, 30, 20],
    "3 entries of 128 kB together": [60_000, 60_000, 8_000],
    "3 entries of 256 kB together": [120_000, 120_000, 16_000],
    "2 entries of 1 MB together": [600_000, 400_000],
}


def write_samples(path: Path, sizes: list[int], count: int) -> None:
    """Write records whose entries have these sizes, of bytes that no codec shrinks."""
    rng = random.Random(0)
    with ShardPackWriter(path) as writer:
        for number in range(count):
            entries = [NewEntry(f"part{place}.bin", rng.randbytes(size)) for place, size in enumerate(sizes)]
            writer.write_record(f"episode_{number // 100:04d}/t{number % 100:04d}", entries)


def in_turns(works: dict[str, Callable[[int], object]], numbers: list[int]) -> dict[str, Timing]:
    """Return the time of one of many calls of each, from passes in turns: what else runs slows down all of them."""
    passes: dict[str, list[tuple[float, float]]] = {name: [] for name in works}
    deadline = time.perf_counter() + 6
    order = list(works.items())
    while time.perf_counter() < deadline:
        order.append(order.pop(0))  # what ran before leaves its traces in the caches
        for name, work in order:
            began, busy = time.perf_counter(), time.process_time()
            for number in numbers:
                work(number)
            passes[name].append((time.perf_counter() - began, time.process_time() - busy))
    found = {}
    for name, spent in passes.items():
        wall, cpu = zip(*spent[1:], strict=True)
        found[name] = Timing(*(part / len(numbers) for part in (median(wall), min(wall), median(cpu))))
    return found


def random_records(folder: Path, name: str, sizes: list[int]) -> Table:
    """Read random records of one kind in several ways."""
    count = min(2_000, 400_000_000 // sum(sizes))
    path = folder / "a.shardpack"
    write_samples(path, sizes, count)
    numbers = random.Random(1).choices(range(count), k=ROWS)
    table = Table(f"Random records: {name}")
    with ShardPackReader(path) as pack, path.open("rb") as file:
        spans, keys = [pack.span(number) for number in range(count)], list(pack.keys())
        descriptor = file.fileno()

        def plain(number: int) -> None:
            start, stop = spans[number]
            crc32c.crc32c(os.pread(descriptor, stop - start, start))

        works: dict[str, Callable[[int], object]] = {
            "pread and crc32c of the same bytes": plain,
            "ShardPack by number, headers verified at the first time": pack.read,
            "the same, with a view of every entry": lambda number: [*pack.read(number).values()],
            "ShardPack by key": lambda number: pack.read(keys[number]),
            "ShardPack by number, headers verified each time": lambda number: pack[number].read(),
        }
        table.seconds.update(in_turns(works, numbers))
    streamed = timed(lambda: [record.read() for record in stream_shardpack(path)], least=3)
    table.seconds["ShardPack as a stream"] = Timing(*(part / count for part in streamed))
    tar = folder / "a.tar"
    unpack_shardpack(path, tar)
    with tarfile.open(tar) as opened:
        members = opened.getmembers()

        def of_tar(number: int) -> None:
            for member in members[number * len(sizes) : (number + 1) * len(sizes)]:
                opened.extractfile(member).read()

        table.seconds.update(in_turns({"tarfile, its index in memory, no checksum": of_tar}, numbers))
    if importlib.util.find_spec("array_record") is not None:
        table.seconds.update(of_array_record(folder, path, numbers))
    return table


def of_array_record(folder: Path, path: Path, numbers: list[int]) -> dict[str, Timing]:
    """Read the same blocks out of an ArrayRecord file, one record a group, uncompressed."""
    from array_record.python.array_record_module import ArrayRecordReader, ArrayRecordWriter  # noqa: PLC0415

    other = str(folder / "a.array_record")
    writer = ArrayRecordWriter(other, "group_size:1,uncompressed")
    with ShardPackReader(path) as pack:
        for number in range(len(pack)):
            writer.write(bytes(pack.read_block(number)))
    writer.close()
    reader = ArrayRecordReader(other)
    return in_turns({"array_record, the record as one value": lambda number: reader.read([number])}, numbers)


def sizes_of(folder: Path) -> list[str]:
    """Return the rows of what is stored beside the payload, for each kind of record."""
    rows = []
    for name, sizes in SAMPLES.items():
        path, tar = folder / "b.shardpack", io.BytesIO()
        count, rng = 100, random.Random(2)
        with ShardPackWriter(path, overwrite=True) as writer, tarfile.open(fileobj=tar, mode="w") as output:
            for number in range(count):
                key = f"episode_0000/t{number:04d}"
                files = {f"part{place}.bin": rng.randbytes(size) for place, size in enumerate(sizes)}
                writer.write_record(key, files)
                for entry, data in files.items():
                    member = tarfile.TarInfo(f"{key}.{entry}")
                    member.size = len(data)
                    output.addfile(member, io.BytesIO(data))
        payload = count * sum(sizes)
        shares = [100 * (size - payload) / payload for size in (path.stat().st_size, len(tar.getvalue()))]
        rows.append(f"| {count} records, {name} | {payload} | +{shares[0]:.2f} % | +{shares[1]:.2f} % |")
    return rows


def report(folder: Path) -> Iterator[str]:
    """Yield the parts of the section."""
    yield (
        "## ShardPack\n\nMeasured by `benchmarks/shardpack.py`: the time of one random record, median over passes of "
        f"{ROWS} of them, its ratio to that of the first row, the best pass, and processor time.\n"
    )
    yield machine(folder, ["h5py", "zarr", "safetensors", "pyarrow", "torch"]).replace(
        " Not installed, so not measured: h5py, zarr, safetensors, pyarrow, torch.", ""
    )
    for name, sizes in SAMPLES.items():
        with tempfile.TemporaryDirectory(dir=folder) as place:
            table = random_records(Path(place), name, sizes)
        row = "ShardPack by number, headers verified at the first time"
        ratio = table.ratio(row, cpu=True)
        table.goal(
            f"ShardPack over pread and crc32c, processor time (by the clock {table.ratio(row):.2f}x)",
            ratio,
            1.2,
            "x",
        )
        yield table.markdown()
    with tempfile.TemporaryDirectory(dir=folder) as place:
        rows = sizes_of(Path(place))
    heading = ["### Size beside the payload", "", "| | payload in bytes | ShardPack | tar |", "|---|---:|---:|---:|"]
    yield "\n".join([*heading, *rows, ""])


if __name__ == "__main__":
    run_report(__doc__, report)
