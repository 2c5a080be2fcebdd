"""Episodes of benchmark RB-V as networks see them that were trained on their frames, without their tasks."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
from rb_v_views import View

from embedders.image.frame_encoder import comparable_rows
from embedders.neural.frame_network import FrameShape, read_cells
from embedders.neural.frame_training import FrameTraining, train_frames
from embedders.neural.learned_frames import LearnedFrames
from embedders.neural.network import save_network

if TYPE_CHECKING:
    from rb_v_record import Rendered
    from rb_v_views import Pictures, Rows


@dataclass(frozen=True)
class Trained:
    """What training on cameras took in processor seconds, and how many frames a second the network describes."""

    cameras: str
    seconds: float
    rate: float


def train_views(data: Rendered) -> list[tuple[View, LearnedFrames, Trained]]:
    """Return what was trained on the first camera, and on both fixed ones."""
    trained = []
    for cameras, name in enumerate(("this camera", "this and the other camera"), 1):
        embedder, about = _train(data, cameras, name)
        of_episodes, of_frames = (partial(one, embedder) for one in (_by_episodes, _by_frames))
        trained.append((View(f"`learnedframes`, trained on {name}", of_episodes, of_frames), embedder, about))
    return trained


def _train(data: Rendered, cameras: int, name: str) -> tuple[LearnedFrames, Trained]:
    shape = FrameShape(cameras=cameras)
    chosen = np.stack([*data.cameras.values()][:cameras], axis=1)
    cells = np.empty((*chosen.shape[:3], shape.side, shape.side, 3), np.uint8)
    for place in np.ndindex(chosen.shape[:3]):
        cells[place] = np.rint(read_cells(chosen[place], shape.side))
    started = time.process_time()
    network = train_frames(list(cells), shape, FrameTraining(seconds=np.inf))
    trained = time.process_time()
    with TemporaryDirectory() as folder:
        save_network(network, Path(folder) / "seen.wshard-model")
        embedder = LearnedFrames(Path(folder) / "seen.wshard-model")
        encoded = sum(len(embedder.encode_frames(frames)) for frames in chosen[:, 0])
    rate = encoded / (time.process_time() - trained)
    print(f"  trained on {name} in {trained - started:.0f} CPU s, {rate:.0f} frames a CPU s", flush=True)
    return embedder, Trained(name, trained - started, rate)


def _by_episodes(embedder: LearnedFrames, seen: Pictures) -> Rows:
    return embedder.embed(list(seen), None).astype(np.float64)


def _by_frames(embedder: LearnedFrames, seen: Pictures) -> Rows:
    """Return features as searches by picture compare them."""
    rows = [comparable_rows(embedder.encode_frames(one).astype(np.float16)) for one in seen]
    return np.stack(rows).astype(np.float64)
