"""What benchmarks/index.py searches: synthetic windows of trajectories, an archive that holds them, and requests.

The windows: 20 environments, each a smooth closed-form curve through the space; an episode of 60 to 160 windows runs
along its environment's curve at its own pace, shifted smoothly within 8 directions, plus noise. So neighbouring windows
are alike (cosine about 0.99), and so are windows of one task in different episodes. A query is a window of the
archive with noise added. All are of length 1 where the cosine compares them; for other metrics windows are as long as
the curves make them, times a number per episode, which is between a third and three for most.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from bridge.index.base import Request
from bridge.index.embedded.index import EmbeddedIndex
from bridge.testing.brute_force import make_space
from catalog.catalog import Catalog
from catalog.filters.where import EVERYTHING, build_where
from catalog.testing.contract import make_record
from catalog.vectors.records import EmbeddingRow

if TYPE_CHECKING:
    from pathlib import Path

ENVIRONMENTS, NOISE, TOP = 20, 0.09, 10


@dataclass
class Data:
    """vectors [N, E]; episode i has sizes[i] of them, from environment environments[i]."""

    vectors: np.ndarray
    sizes: np.ndarray
    environments: np.ndarray

    @property
    def owners(self) -> np.ndarray:
        """Return the episode of each row."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)


def unit(rows: np.ndarray) -> np.ndarray:
    """Return rows of length 1."""
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def trajectories(count: int, dim: int, metric: str = "cosine", *, seed: int = 0) -> Data:
    """Return windows as the head of this file describes them; another seed gives others of the same environments."""
    rng, magnitudes = np.random.default_rng(0), np.random.default_rng(5)
    waves, ways = np.arange(1, 7), 8
    anchors = unit(rng.normal(size=(ENVIRONMENTS, dim)))
    curves = unit(rng.normal(size=(ENVIRONMENTS, 6, dim))) * (0.9 / waves)[None, :, None]
    phases = rng.uniform(0, 2 * np.pi, (ENVIRONMENTS, 6))
    directions = unit(rng.normal(size=(ENVIRONMENTS, ways, dim))) * 0.18
    if seed:
        rng = np.random.default_rng(seed)
    vectors, sizes, environments, done = np.empty((count, dim), np.float32), [], [], 0
    while done < count:
        size, env = min(int(rng.integers(60, 161)), count - done), int(rng.integers(ENVIRONMENTS))
        clock = np.linspace(0, 1, size) ** rng.uniform(0.7, 1.4)
        shifts = np.maximum(0, 1 - np.abs(3 * clock[:, None] - np.arange(4))) @ rng.normal(size=(ways, 4)).T
        path = anchors[env] + np.sin(np.pi * waves * clock[:, None] + phases[env]) @ curves[env]
        noise = rng.normal(size=(size, dim)) * (NOISE / np.sqrt(dim))
        rows = path + shifts @ directions[env] + noise
        vectors[done : done + size] = unit(rows) if metric == "cosine" else rows * np.exp(0.5 * magnitudes.normal())
        sizes.append(size)
        environments.append(env)
        done += size
    return Data(vectors, np.array(sizes), np.array(environments))


def gaussian(count: int, dim: int, metric: str = "cosine") -> Data:
    """Return independent directions, or vectors: data without any structure."""
    data = trajectories(count, 2)
    rng = np.random.default_rng(1)
    vectors = np.empty((count, dim), np.float32)
    for start in range(0, count, 10_000):
        rows = rng.normal(size=(min(10_000, count - start), dim))
        vectors[start : start + 10_000] = unit(rows) if metric == "cosine" else rows
    return replace(data, vectors=vectors)


def fill(folder: Path, data: Data, metric: str = "cosine") -> None:
    """Commit the vectors to the ledger of a new archive, and have the search copy written."""
    folder.mkdir()
    space = make_space("benchmark", data.vectors.shape[1], metric)
    starts = np.cumsum(data.sizes) - data.sizes
    rng = np.random.default_rng(2)
    with Catalog.open(folder / "catalog.db", create=True) as catalog:
        records = [
            make_record(i, env_id=f"env-{env}-{i % 5}", length=int(size), total_reward=float(rng.uniform(0, 100)))
            for i, (env, size) in enumerate(zip(data.environments.tolist(), data.sizes.tolist(), strict=True))
        ]
        ids = [done.id for done in catalog.episodes.register(records)]
        space_id = catalog.vectors.add_space(space.fingerprint, space.family, space.to_json()).id
        for first in range(0, len(ids), 256):
            rows = []
            for i in range(first, min(first + 256, len(ids))):
                vectors = data.vectors[starts[i] : starts[i] + data.sizes[i]].tobytes()
                rows.append(EmbeddingRow(ids[i], records[i].digest, int(data.sizes[i]), vectors))
            catalog.vectors.write(space_id, rows)
        with EmbeddedIndex(catalog, folder / "index") as index:
            index.count(space)
            index.upsert(space, [])


def cases(env: str, elsewhere: str, which: str) -> dict[str, Request]:
    """Return the requests of one query from environment `env`; `which` is one of its five variants."""
    several = [f"{env}-{number}" for number in range(5)]
    three = build_where(env_id=several, min_length=110, reward_range=(10, 30))
    return {
        "no filter": Request(TOP, EVERYTHING, distinct=False),
        "1 %, one environment": Request(TOP, build_where(env_id=f"{env}-{which}"), distinct=False),
        "1 %, query from elsewhere": Request(TOP, build_where(env_id=f"{elsewhere}-{which}"), distinct=False),
        "10 %, by reward": Request(TOP, build_where(reward_range=(40, 50)), distinct=False),
        "0.5 %, three fields": Request(TOP, three, distinct=False),
        "ten distinct episodes": Request(TOP, EVERYTHING, distinct=True),
    }


@dataclass(frozen=True)
class Ask:
    """One search of the case `name`."""

    name: str
    query: np.ndarray
    request: Request


def asks(data: Data, queries: int, only: set[str] | None = None) -> list[Ask]:
    """Return the searches, turn by turn one of each case."""
    rng, dim, made = np.random.default_rng(3), data.vectors.shape[1], []
    owners = data.owners
    for turn in range(queries):
        row = int(rng.integers(len(data.vectors)))
        env = data.environments[owners[row]]
        noise = rng.normal(size=dim) * (NOISE / np.sqrt(dim))
        length = np.linalg.norm(data.vectors[row])
        query = (unit(data.vectors[row] / length + noise) * length).astype(np.float32)
        elsewhere = (env + 1 + int(rng.integers(ENVIRONMENTS - 1))) % ENVIRONMENTS
        wanted = cases(f"env-{env}", f"env-{elsewhere}", str(turn % 5)).items()
        made += [Ask(name, query, request) for name, request in wanted if only is None or name in only]
    return made
