"""What searches cost that the table of index.py leaves out: python benchmarks/index_sweep.py [--rows 1000000].

The same windows (index_data.py), asked by queries that are more and less like them, under filters that let through more
and less, for few and for many matches, windows or distinct episodes. Prints a Markdown table of milliseconds, medians
of ten searches after two that warm up, and what a plain product takes. Every answer must be proven. Needs as much
memory as the vectors take, and three times as much disk.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
from index_data import NOISE, Data, fill, trajectories, unit
from machine import facts

from bridge.index.base import Request
from bridge.index.embedded.index import EmbeddedIndex
from bridge.support.blas_threads import one_blas_thread
from bridge.testing.brute_force import make_space
from catalog.catalog import Catalog
from catalog.filters.where import EVERYTHING, build_where

MANY, UNTIMED, TIMED = (10, 100, 1000), 2, 10
FILTERS = {
    "none": EVERYTHING,
    "0.1 %": build_where(reward_range=(40, 40.1)),
    "1 %": build_where(reward_range=(40, 41)),
    "5 %, one task": build_where(env_id=[f"env-0-{number}" for number in range(5)]),
    "30 %": build_where(reward_range=(40, 70)),
    "95 %": build_where(reward_range=(5, 100)),
}


def window(data: Data, rng: np.random.Generator) -> np.ndarray:
    """Return a window of the archive with noise."""
    row, dim = data.vectors[rng.integers(len(data.vectors))], data.vectors.shape[1]
    return unit(row + rng.normal(size=dim) * (NOISE / np.sqrt(dim))).astype(np.float32)


def between(data: Data, rng: np.random.Generator) -> np.ndarray:
    """Return what lies between two windows."""
    return unit(window(data, rng) + window(data, rng))


def nothing(data: Data, rng: np.random.Generator) -> np.ndarray:
    """Return a direction that has nothing to do with the archive."""
    return unit(rng.normal(size=data.vectors.shape[1])).astype(np.float32)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--dim", type=int, default=256)
    asked = parser.parse_args()
    print(f"One BLAS thread. {facts()}\n")
    data, rng = trajectories(asked.rows, asked.dim), np.random.default_rng(9)
    space = make_space("benchmark", asked.dim)
    heads = [f"{count} {what}" for what in ("windows", "episodes") for count in MANY]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "archive")
        fill(folder, data)
        with Catalog.open(folder / "catalog.db") as catalog, EmbeddedIndex(catalog, folder / "index") as index:
            print(f"| query | filter | {' | '.join(heads)} |\n|---|---|{'---:|' * len(heads)}")
            for about, make in {"a window": window, "between two": between, "near nothing": nothing}.items():
                for label, where in FILTERS.items():
                    requests = [Request(count, where, distinct=one) for one in (False, True) for count in MANY]
                    cells = [median(partial(index.search, space), partial(make, data, rng), one) for one in requests]
                    print(f"| {about} | {label} | {' | '.join(cells)} |", flush=True)
        scans = []
        for _ in range(TIMED):
            begun = time.perf_counter()
            data.vectors @ nothing(data, rng)
            scans.append(time.perf_counter() - begun)
    print(f"\nThe product of all vectors with a query, numpy: {np.median(scans) * 1e3:.1f} ms")


def median(search: partial, query: partial, request: Request) -> str:
    """Return the milliseconds that such a search takes; an answer without proof ends the program."""
    spent = []
    for turn in range(UNTIMED + TIMED):
        one, begun = query(), time.perf_counter()
        answer = search(one, request)
        spent.append(time.perf_counter() - begun)
        if not answer.exact:
            raise SystemExit(f"expected an answer with proof, found none in search {turn} of {request}")
    return f"{np.median(spent[UNTIMED:]) * 1e3:.2f}"


if __name__ == "__main__":
    with one_blas_thread():
        main()
