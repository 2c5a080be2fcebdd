"""Benchmark RB-C, shared pieces: copies spliced of the end of one episode and the beginning of another.

Does not know: whole copies (rb_c_copies.py).
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import rb_c_copies
from rb_c_copies import as_episode, pair_of

from bridge.archive import open_archive
from bridge.curation.shared_pieces import find_pieces
from bridge.ingest.ingestor import TrajectoryIngestor
from embedders.windows import SCALES, WindowPlan
from wshard.core.episode.file import save_wshard

if TYPE_CHECKING:
    from rb_c_copies import Originals, Pair

    from bridge.curation.duplicates import Twin

LEAST: Final = 60  # timesteps of an episode that pieces are taken from


def measure_pieces(originals: Originals, seed: int) -> list[tuple[str, float, int]]:
    """Return how well they are found: names of measures, values, and of how many."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "data"
        folder.mkdir()
        expected = _save(folder, originals, seed)
        with TrajectoryIngestor(Path(scratch) / "archive") as ingestor:
            ingestor.ingest([folder], windows=WindowPlan(scales=SCALES))
        with open_archive(Path(scratch) / "archive") as archive:
            begun = time.perf_counter()
            twins = {pair_of(twin): twin for twin in find_pieces(archive)}
            print(f"  pieces in {time.perf_counter() - begun:.1f} s", flush=True)
    found = expected.keys() & twins.keys()
    errors = [np.abs(np.subtract(_original(twins[pair]), expected[pair])).mean() for pair in found]
    return [
        ("recall of pairs", len(found) / len(expected), len(expected)),
        ("median error of bounds, timesteps", float(np.median(errors)), len(found)),
    ]


def _save(folder: Path, originals: Originals, seed: int) -> dict[Pair, tuple[int, int]]:
    """Save the episodes and the spliced ones; return what they share, as timesteps of the original."""
    episodes, expected = originals.rows, {}
    for number in range(len(episodes)):
        save_wshard(originals.episode(number), folder / f"e{number}.wshard")
    long = np.flatnonzero([len(rows) >= LEAST for rows in episodes])
    chosen = np.random.default_rng(seed + 2).permutation(long)[: 2 * rb_c_copies.COPIES].tolist()
    for first, second in zip(chosen[::2], chosen[1::2], strict=True):
        end, begin = int(0.4 * len(episodes[first])), int(0.6 * len(episodes[second]))
        rows = np.concatenate([episodes[first][end:], episodes[second][:begin]])
        name = f"copy-{first}-{second}"
        save_wshard(as_episode(name, str(originals.tasks[first]), rows), folder / f"{name}.wshard")
        expected[frozenset({f"e{first}", name})] = (end, len(episodes[first]))
        expected[frozenset({f"e{second}", name})] = (0, begin)
    return expected


def _original(twin: Twin) -> tuple[int, int]:
    """Return the timesteps of the piece in the episode that is no copy."""
    start, stop = twin.span or (0, 0)
    back = twin.shift if "copy" in Path(twin.left.path).stem else 0
    return start - back, stop - back
