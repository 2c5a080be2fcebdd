"""Ask an archive of RB-V's episodes, as a user does: the default ranking, which includes the graph of neighbours."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import wshard
from wshard.core.types import TimebaseSpec

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bridge.archive import Archive


def search_all(seen: NDArray[np.uint8], states: NDArray[np.float32]) -> dict[str, NDArray[np.float64]]:
    """Return how high each episode ranks each other one [E, E], the higher the better: by frames, states, and both."""
    ranks = {}
    with tempfile.TemporaryDirectory() as folder:
        episodes = write_episodes(Path(folder), seen, states, rate=10.0)
        with wshard.open_archive(Path(folder, "lab"), create=True) as lab:
            for embedder, lanes in (("frames", ["camera"]), ("blocks", ["state"])):
                lab.ingest(episodes, embedder=embedder, lanes=lanes, windows="whole")
                ranks[embedder] = _ranks(lab, len(seen), embedder)
            ranks["both"] = _ranks(lab, len(seen), None)
    return ranks


def _ranks(lab: Archive, count: int, embedder: str | None) -> NDArray[np.float64]:
    ranks = np.full((count, count), -np.inf)
    for number in range(count):
        hits = lab.search(f"{number:04d}", count, embedder=embedder, exclude_self=True)
        ranks[number, [int(hit.episode_id) for hit in hits]] = -np.arange(len(hits))
    return ranks


def write_episodes(folder: Path, seen: NDArray[np.uint8], states: NDArray[np.float32], *, rate: float) -> Path:
    """Write frames [E, T, H, W, 3] and states [E, T, D] as episodes, named by number, and return their folder."""
    episodes = folder / "episodes"
    episodes.mkdir()
    for number, (frames, rows) in enumerate(zip(seen, states, strict=True)):
        nothing = {"nothing": np.zeros((len(frames), 1), np.float32)}
        episode = wshard.Episode(
            f"{number:04d}",
            "arm",
            len(frames),
            observations={"camera": frames, "state": rows},
            actions=nothing,
            timebase=TimebaseSpec(tick_hz=rate),
        )
        wshard.save(episode, episodes / f"{number:04d}.wshard")
    return episodes
