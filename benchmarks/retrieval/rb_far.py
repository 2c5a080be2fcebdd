"""RB-F: how often a search says that no hit is much like the query, for queries that are and that are not.

Of each labelled set, the episodes of half of the labels are an archive, but for a quarter, which are the queries that
have others like them. Strange ones: noise, random walks, the same queries with timesteps in random order, and episodes
of the other sets, on the scales of the archive. The share of episodes was chosen on the first half of the labels.

    python benchmarks/retrieval/rb_far.py FOLDER    # with cheetah.npz, swimmer.npz, ...
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from wshard import Channel, Episode, TrajectoryIngestor, TrajectoryRetriever, save_wshard

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Steps: TypeAlias = NDArray[Any]

SETS = ("cheetah", "swimmer", "highway", "real/lp4", "real/lp5")
OTHERS = 12  # episodes of each other set


def read_set(file: Path) -> tuple[list[Steps], NDArray[np.str_]]:
    """Return the observations [T, D] and the label of each episode."""
    with np.load(file) as data:
        steps = np.split(data["obs"].reshape(len(data["obs"]), -1), np.cumsum(data["lengths"])[:-1])
        return [one.astype(np.float32) for one in steps], data["labels"].astype(str)


def draw_strange(
    queries: list[Steps], known: list[Steps], others: list[list[Steps]], rng: np.random.Generator
) -> dict[str, list[Steps]]:
    """Return queries that nothing in the archive is like, by kind."""
    rows = np.concatenate(known)
    mean, spread, width = rows.mean(0), rows.std(0) + 1e-6, rows.shape[1]

    def scale(values: Steps) -> Steps:
        return mean + spread * (values - values.mean(0)) / (values.std(0) + 1e-6)

    noise = [mean + spread * rng.normal(size=one.shape) for one in queries]
    walks = [scale(rng.normal(size=one.shape).cumsum(0)) for one in queries]
    kinds = {"noise": noise, "walk": walks, "order": [rng.permutation(one) for one in queries], "other": []}
    for episodes in others:
        wide = [np.tile(one, (1, -(-width // one.shape[1])))[:, :width] for one in episodes]
        every = np.concatenate(wide)
        for place in rng.choice(len(wide), OTHERS, replace=False):
            values = (wide[place] - every.mean(0)) / (every.std(0) + 1e-6)
            kinds["other"].append(mean + spread * values)
    return kinds


def measure(known: list[Steps], kinds: dict[str, list[Steps]]) -> dict[str, list[bool]]:
    """Return the share of queries of each kind that are said to have no hit like them."""
    with tempfile.TemporaryDirectory() as folder:
        for number, values in enumerate(known):
            episode = Episode(str(number), "", len(values), observations={"state": Channel.of("state", values)})
            save_wshard(episode, Path(folder, f"{number}.wshard"))
        with TrajectoryIngestor(Path(folder, "lab")) as ingestor:
            ingestor.ingest(folder)
        with TrajectoryRetriever(Path(folder, "lab")) as retriever:
            return {
                kind: [
                    any("no hit is much like" in note for note in retriever.search_similar_episodes(one).answered.notes)
                    for one in queries
                ]
                for kind, queries in kinds.items()
            }


def main(folder: str) -> None:
    """Print a line for each set and half of its labels."""
    sets = {name: read_set(Path(folder, f"{name}.npz")) for name in SETS}
    for half, shown in enumerate(("tuned", "reported")):
        every: dict[str, list[bool]] = {}
        for name, (episodes, labels) in sets.items():
            rng = np.random.default_rng(half)
            chosen = np.random.default_rng(0).permutation(np.unique(labels))[half::2]
            own = rng.permutation(np.flatnonzero(np.isin(labels, chosen)))
            cut = len(own) * 3 // 4
            known, queries = ([episodes[place] for place in part] for part in (own[:cut], own[cut:]))
            others = [found for other, (found, _) in sets.items() if other != name]
            pieces = [one[len(one) // 4 : len(one) - len(one) // 4] for one in queries]
            said = measure(known, {"like": queries, "piece": pieces} | draw_strange(queries, known, others, rng))
            for kind, flags in said.items():
                every.setdefault(kind, []).extend(flags)
            shares = (f"{kind} {np.mean(flags):.2f}" for kind, flags in said.items())
            print(shown, name, len(known), *shares, flush=True)
        print(shown, "all", *(f"{kind} {np.mean(flags):.3f} of {len(flags)}" for kind, flags in every.items()))


if __name__ == "__main__":
    main(sys.argv[1])
