"""Moments of images: spans of camera frames, replayed at another speed and in another light, and where they are found.

Records episodes of four classic-control tasks with camera frames once into --cache (a minute), ingests their frames,
and asks for spans of them through `search_moments`, with and without refinement. Prints a Markdown table.

    python benchmarks/retrieval/images.py --cache .bench/classic
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from bridge.ingest.ingestor import TrajectoryIngestor
from bridge.search.retriever import TrajectoryRetriever
from demo.record import record_all
from demo.tasks import plan
from embedders.windows import WindowPlan
from wshard.core.episode.file import open_wshard

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

PLAN: Final = WindowPlan(scales=(24, 36, 54, 80, 120))
KINDS: Final = {"as it is": (False, 1.0, 0.0), "warped": (True, 1.0, 0.0), "warped, darker, noise": (True, 0.7, 10.0)}
RIGHT: Final = 0.5


def spans(files: Sequence[Path], count: int) -> list[tuple[Path, int, int]]:
    """Return spans of 25 to 69 timesteps of episodes that are longer."""
    rng, found = np.random.default_rng(5), list[tuple[Path, int, int]]()
    lengths = {file: len(frames(file)) for file in files}
    while len(found) < count:
        file, steps = files[rng.integers(len(files))], int(rng.integers(25, 70))
        if lengths[file] > steps:
            start = int(rng.integers(lengths[file] - steps))
            found.append((file, start, start + steps))
    return found


def frames(file: Path) -> NDArray[Any]:
    """Return the camera's frames [T, height, width, 3]."""
    with open_wshard(file) as opened:
        return np.array(opened["signal/camera/rgb"])


def disturbed(images: NDArray[Any], kind: str, seed: int) -> NDArray[np.uint8]:
    """Return images at another, varying speed (as long to 1.6 times shorter or longer), in another light."""
    warp, light, noise = KINDS[kind]
    rng, steps = np.random.default_rng(seed), len(images)
    if warp:
        pace = np.interp(np.linspace(0, 5, steps), np.arange(6), np.exp(0.5 * rng.normal(size=6)))
        places = np.cumsum(pace) - pace[0]
        asked = np.linspace(0, steps - 1, int(steps * np.exp(rng.uniform(-0.5, 0.5))))
        images = images[np.rint(np.interp(asked, np.arange(steps), places / places[-1] * (steps - 1))).astype(int)]
    return np.clip(images * light + noise * rng.normal(size=images.shape), 0, 255).astype(np.uint8)


def judged(found: tuple[Path, int, int], wanted: tuple[Path, int, int]) -> tuple[float, float]:
    """Return the overlap of two spans and the mean error of the bounds, NaN where they do not meet."""
    both = max(0, min(found[2], wanted[2]) - max(found[1], wanted[1])) if found[0] == wanted[0] else 0
    share = both / (max(found[2], wanted[2]) - min(found[1], wanted[1])) if both else 0.0
    return share, (abs(found[1] - wanted[1]) + abs(found[2] - wanted[2])) / 2 if both else float("nan")


def measure(archive: Path, asked: Sequence[tuple[Path, int, int]], kind: str, *, refine: bool) -> dict[str, Any]:
    """Return how the best hits lie, and the processor time of the first query and of the others."""
    results, spent = [], []
    with TrajectoryRetriever(archive) as retriever:
        for seed, (file, start, stop) in enumerate(asked):
            query = disturbed(frames(file)[start:stop], kind, seed)
            begun = time.process_time()
            (best,) = retriever.search_moments(query, 1, refine=refine)
            spent.append((time.process_time() - begun) * 1e3)
            results.append(judged((Path(best.file_path), *best.span), (file, start, stop)))
    shares, bounds = np.array(results).T
    about = {"kind": kind, "refine": refine, "right": float((shares >= RIGHT).mean()), "overlap": float(shares.mean())}
    return about | {"bounds": float(np.nanmedian(bounds)), "first_ms": spent[0], "ms": float(np.median(spent[1:]))}


def main() -> None:
    """Measure, print, and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, default=Path(".bench/classic"))
    parser.add_argument("--episodes", type=int, default=6, help="of each task")
    parser.add_argument("--queries", type=int, default=48)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    record_all(options.cache, plan(0, 0, options.episodes))
    files = sorted(path.resolve() for path in options.cache.rglob("*.wshard"))
    asked = spans(files, options.queries)
    with tempfile.TemporaryDirectory() as folder:
        with TrajectoryIngestor(folder, "frames", lanes="camera/rgb") as ingestor:
            ingestor.ingest(files, windows=PLAN)
        rows = [measure(Path(folder), asked, kind, refine=refine) for kind in KINDS for refine in (False, True)]
    print("| query | hits | right | overlap | bounds | CPU ms | the first |\n|---|---|---|---|---|---|---|")
    for row in rows:
        hits = "`search_moments`" if row["refine"] else "windows (`refine=False`)"
        numbers = (
            f"{row['right']:.2f} | {row['overlap']:.2f} | {row['bounds']:.1f} | {row['ms']:.0f} | {row['first_ms']:.0f}"
        )
        print(f"| {row['kind']} | {hits} | {numbers} |")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
