"""Train a network for camera frames on the frames of an archive, without labels. Requires torch (extra "torch").

Frames near in time attract each other, and so do cameras at the same moment, and after a while the same part of
episodes that went alike; frames of other episodes repel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from embedders.base import Vectors, unit_rows
from embedders.neural.frame_network import TAPS, FrameNetwork, FrameShape
from embedders.neural.frame_pairs import FramePairs
from embedders.neural.learned_frames import COEFFICIENTS, LENGTH
from embedders.neural.training import Training, contrast, initial_weights, mutual_nearest, paced_steps
from embedders.trajectory.spectral import Dct
from wshard.core.plugins import import_library
from wshard.errors import EmbedderError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    Progress = Callable[[int, float], None]
    Seen = NDArray[np.uint8]

FEWEST: Final = 64
"""Minimum number of moments for training, of at least two episodes."""

_ROUND: Final = 500  # steps after which it is found anew which episodes went alike
_NEIGHBOURS: Final = 5  # of an episode, if they are mutual
_FEWEST_OTHERS: Final = 10  # episodes for each neighbour: the others have to repel
_DESCRIBED: Final = 192  # frames at a time


@dataclass(frozen=True)
class FrameTraining(Training):
    """How to train on pairs of frames: as on windows, with defaults of its own."""

    steps: int = 2400
    batch: int = 96
    seconds: float = 1200.0
    temperature: float = 0.1


def train_frames(
    episodes: Sequence[Seen],
    shape: FrameShape,
    training: FrameTraining,
    progress: Progress = lambda *_: None,
) -> FrameNetwork:
    """Train on episodes uint8 [cameras, moments, side, side, 3]; progress gets the number of steps and the loss.

    Raises EmbedderError for one episode or fewer than FEWEST moments, MissingExtraError if torch is not installed.
    """
    moments = sum(seen.shape[1] for seen in episodes)
    if len(episodes) < 2 or moments < FEWEST:
        raise EmbedderError(
            f"training: expected at least 2 episodes with {FEWEST} moments, found {len(episodes)} with {moments}"
        )
    torch = import_library("torch", "torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # of a small network more are slower, and may round otherwise
    try:
        return _train(torch, episodes, shape, training, progress=progress)
    finally:
        torch.set_num_threads(threads)


def _train(
    torch: Any, episodes: Sequence[Seen], shape: FrameShape, training: FrameTraining, *, progress: Progress
) -> FrameNetwork:
    rng = np.random.default_rng(training.seed)
    pairs = FramePairs(episodes)
    most = min(_NEIGHBOURS, len(episodes) // _FEWEST_OTHERS)
    weights = {name: torch.from_numpy(array).requires_grad_() for name, array in initial_weights(shape, rng).items()}
    optimizer = torch.optim.AdamW(weights.values(), lr=training.rate, weight_decay=1e-4)
    for step in paced_steps(torch, optimizer, training):
        frames, ignored = pairs.draw(training.batch, rng)
        first, second = _describe(torch, weights, frames).chunk(2)
        loss = contrast(torch, first, second, ignored, training.temperature)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        progress(step, float(loss.detach()))
        if most and step % _ROUND == 0:
            pairs.neighbours = mutual_nearest(_describe_episodes(torch, weights, episodes), most)
    return FrameNetwork(shape, {name: tensor.detach().numpy().copy() for name, tensor in weights.items()})


def _describe_episodes(torch: Any, weights: Mapping[str, Any], episodes: Sequence[Seen]) -> Vectors:
    """Return a unit row for each episode: the first cosines over time of its frames' features, of all cameras."""
    rows = []
    with torch.no_grad():
        for seen in episodes:
            frames = seen.reshape(-1, *seen.shape[2:]).astype(np.float32)
            parts = range(0, len(frames), _DESCRIBED)
            found = torch.cat([_describe(torch, weights, frames[start : start + _DESCRIBED]) for start in parts])
            rows.append(found.numpy().reshape(*seen.shape[:2], -1).mean(axis=0).astype(np.float64))
    return unit_rows(Dct(LENGTH, COEFFICIENTS).describe(rows))


def _describe(torch: Any, weights: Mapping[str, Any], frames: NDArray[np.float32]) -> Any:
    """Return features [N, dim]: the arithmetic of FrameNetwork.describe, in a form that can be differentiated."""
    rows = torch.from_numpy(frames).permute(0, 3, 1, 2)
    centred = rows - rows.mean((1, 2, 3), keepdim=True)
    rows = centred / centred.pow(2).mean((1, 2, 3), keepdim=True).sqrt().clamp_min(1e-6)
    for number, taps in enumerate(TAPS):
        flat = weights[f"taps{number}"]
        kernel = flat.reshape(taps, taps, -1, flat.shape[1]).permute(3, 2, 0, 1)
        kernel = kernel.contiguous(memory_format=torch.channels_last)  # a quarter less work than as it lies
        rows = torch.relu(
            torch.nn.functional.conv2d(rows, kernel, weights[f"bias{number}"], stride=2, padding=taps // 2)
        )
    features = rows.permute(0, 2, 3, 1).flatten(1) @ weights["map"]
    features = features - features.mean(1, keepdim=True)
    return torch.nn.functional.normalize(features, dim=1)
