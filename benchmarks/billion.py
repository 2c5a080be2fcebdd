"""Nearest windows among 10^9, a shard after the other: python benchmarks/billion.py [--shards 1000] [--folder DIR].

Each shard is an archive of its own of 1,000,000 windows of 32 numbers: it is made, searched by the embedded index and
by a plain scan, and removed. What it found is stored in the folder, so that the same command goes on after an
interruption, or with more shards. Then the answers of all shards are merged and compared with the merged scans.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np
from index_data import TOP, fill, trajectories, unit
from machine import facts

from bridge.index.base import Request
from bridge.index.embedded.index import EmbeddedIndex
from bridge.testing.brute_force import make_space
from catalog.catalog import Catalog
from catalog.filters.where import EVERYTHING

WINDOWS, DIM, QUERIES = 1_000_000, 32, 50


def make_queries() -> np.ndarray:
    """Return windows of the first shard with noise added."""
    rng = np.random.default_rng(7)
    some = trajectories(10_000, DIM).vectors[rng.choice(10_000, QUERIES, replace=False)]
    return unit(some + rng.normal(size=some.shape) * 0.02).astype(np.float32)


def search(folder: Path, seed: int, queries: np.ndarray) -> dict[str, Any]:
    """Return the best scores that the index finds in one shard, those of a scan, and milliseconds of each search."""
    data = trajectories(WINDOWS, DIM, seed=seed)
    rmtree(folder, ignore_errors=True)
    started = time.process_time()
    fill(folder, data)
    seconds = time.process_time() - started
    space, request = make_space("benchmark", DIM), Request(TOP, EVERYTHING, distinct=False)
    found, exact, took = [], 0, []
    with Catalog.open(folder / "catalog.db") as catalog, EmbeddedIndex(catalog, folder / "index") as index:
        index.search(space, queries[0], request)
        for query in queries:
            started = time.process_time()
            answer = index.search(space, query, request)
            took.append(1e3 * (time.process_time() - started))
            exact += answer.exact
            found.append([float(match.score) for match in answer.matches])
    scans = [np.sort(np.partition(data.vectors @ query, -TOP)[-TOP:])[::-1].astype(float).tolist() for query in queries]
    rmtree(folder)
    return {"found": found, "scans": scans, "exact": exact, "ms": float(np.median(took)), "seconds": seconds}


def merge(shards: list[dict[str, Any]], name: str) -> np.ndarray:
    """Return the best scores [Q, TOP] of all shards."""
    scores = np.concatenate([np.array(one[name]) for one in shards], axis=1)
    return -np.sort(-scores, axis=1)[:, :TOP]


def main() -> None:
    """Search the shards that are left, then merge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shards", type=int, default=1000)
    parser.add_argument("--folder", type=Path, default=Path(".bench/billion"))
    asked = parser.parse_args()
    print(facts())
    asked.folder.mkdir(parents=True, exist_ok=True)
    queries, shards = make_queries(), []
    for number in range(asked.shards):
        path = asked.folder / f"{number}.json"
        if not path.exists():
            draft = path.with_suffix(".draft")
            draft.write_text(json.dumps(search(asked.folder / "shard", number, queries)))
            draft.replace(path)
        shards.append(json.loads(path.read_text()))
        print(f"shard {number}: {shards[-1]['ms']:.2f} ms, filled in {shards[-1]['seconds']:.1f} CPU s", flush=True)
    found, scans = merge(shards, "found"), merge(shards, "scans")
    equal = np.isclose(found, scans, rtol=0, atol=1e-5).all(axis=1).sum()
    exact = sum(one["exact"] for one in shards)
    print(
        f"{len(shards) * WINDOWS:,} windows: {equal} of {QUERIES} merged answers equal those of the scans, "
        f"{exact} of {len(shards) * QUERIES} answers of shards were proven; median of a shard "
        f"{np.median([one['ms'] for one in shards]):.2f} CPU ms"
    )


if __name__ == "__main__":
    main()
