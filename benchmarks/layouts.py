"""How fast layouts are read in place: python benchmarks/layouts.py [--episodes 300] [--steps 400].

Reads two lanes of every episode of an HDF5 file with groups, one with the rows of all, an .npz file and a Parquet
table: through a layout, and by the library itself, one after the other in turns. Then lists a table of 100,000
episodes, as an ingest with nothing to do does. Medians of processor time.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet
from machine import facts

from wshard.formats.layouts.named import layout_reference, table_reference
from wshard.formats.layouts.options import TableOptions
from wshard.formats.open import list_episodes, open_location

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CHANNELS, TURNS = 24, 7
ARRAYS = '[arrays]\nq = "observation"\nu = "action"\n'


def write(folder: Path, count: int, steps: int) -> None:
    """Write the same episodes in every container, with their layouts."""
    rng = np.random.default_rng(0)
    q, u = rng.normal(size=(count * steps, CHANNELS)), rng.normal(size=(count * steps, CHANNELS))
    with h5py.File(folder / "groups.h5", "w") as file:
        for number in range(count):
            rows = slice(number * steps, (number + 1) * steps)
            file[f"ep{number}/q"], file[f"ep{number}/u"] = q[rows], u[rows]
    lengths = np.full(count, steps)
    with h5py.File(folder / "rows.h5", "w") as file:
        file["q"], file["u"], file["n"] = q, u, lengths
    np.savez(folder / "rows.npz", q=q, u=u, n=lengths)
    lists = {
        name: pa.FixedSizeListArray.from_arrays(values.reshape(-1), CHANNELS) for name, values in (("q", q), ("u", u))
    }
    table = pa.table(lists | {"n": np.repeat(np.arange(count), steps)})
    pa.parquet.write_table(table, folder / "rows.parquet", row_group_size=steps)
    flat = 'by = "lengths"\narray = "n"\n'
    rules = {
        "groups.h5": ("hdf5", 'by = "group"\ngroup = "ep*"\n'),
        "rows.h5": ("hdf5", flat),
        "rows.npz": ("npz", flat),
        "rows.parquet": ("table", 'by = "column"\narray = "n"\n'),
    }
    for name, (container, rule) in rules.items():
        text = f'layout = 1\ncontainer = "{container}"\n[episodes]\n{rule}{ARRAYS}n = "skip"\n'
        (folder / f"{name}.toml").write_text(text)


def through_layout(path: Path) -> Iterator[Any]:
    """Yield the lanes of every episode through the layout beside the file."""
    with open_location(path, layout_reference(f"{path}.toml")) as source:
        for key in source.keys():  # noqa: SIM118  (a Source is no mapping)
            yield source.lane(key, "signal/q"), source.lane(key, "action/u")


def by_library(path: Path, count: int, steps: int) -> Iterator[Any]:
    """Yield the same arrays by the library that the format belongs to."""
    spans = [(number * steps, (number + 1) * steps) for number in range(count)]
    if path.name == "groups.h5":
        with h5py.File(path) as file:
            for number in range(count):
                yield file[f"ep{number}/q"][:], file[f"ep{number}/u"][:]
    elif path.suffix == ".h5":
        with h5py.File(path) as file:
            q, u = file["q"], file["u"]
            for start, stop in spans:
                yield q[start:stop], u[start:stop]
    elif path.suffix == ".npz":
        with np.load(path) as file:
            q, u = file["q"], file["u"]
        for start, stop in spans:
            yield q[start:stop].copy(), u[start:stop].copy()
    else:
        file = pa.parquet.ParquetFile(path)
        for group in range(file.num_row_groups):
            rows = file.read_row_group(group, columns=["q", "u"], use_threads=False)
            yield tuple(column.combine_chunks().values.to_numpy().reshape(-1, CHANNELS) for column in rows.columns)


def spent(read: Callable[[], Iterator[Any]]) -> tuple[float, float]:
    """Return processor time, and the sum of the first rows, so that both can be seen to have read the same."""
    begun, total = time.process_time(), 0.0
    for q, u in read():
        total += float(q[0, 0] + u[-1, -1])
    return time.process_time() - begun, total


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--episodes", type=int, default=300)
    parser.add_argument("--steps", type=int, default=400)
    given = parser.parse_args()
    count, steps = given.episodes, given.steps
    print(f"{facts()}\n\n| file | layout, ms | library, ms | library / layout |\n|---|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, count, steps)
        for path in (folder / name for name in ("groups.h5", "rows.h5", "rows.npz", "rows.parquet")):
            ways = partial(through_layout, path), partial(by_library, path, count, steps)
            pairs = [(spent(ways[0]), spent(ways[1])) for _ in range(TURNS)]
            if not all(math.isclose(ours[1], theirs[1]) for ours, theirs in pairs):
                raise SystemExit(f"{path.name}: the layout and the library read different numbers")
            ours, theirs = (float(np.median([pair[side][0] for pair in pairs])) * 1e3 for side in (0, 1))
            ratio = float(np.median([theirs[0] / ours[0] for ours, theirs in pairs]))
            print(f"| {path.name} | {ours:.0f} | {theirs:.0f} | {ratio:.2f} |")
        runs = np.repeat(np.arange(100_000), 10)
        table = pa.table({"run": runs, "q": np.sin(runs)})
        pa.parquet.write_table(table, folder / "many.parquet")
        how, times = table_reference(TableOptions(episode="run")), []
        for _ in range(3):
            begun = time.process_time()
            found = list_episodes(folder / "many.parquet", how)
            times.append(time.process_time() - begun)
        print(f"\n{len(found)} episodes of one table listed with their fingerprints: {np.median(times):.2f} s")


if __name__ == "__main__":
    main()
