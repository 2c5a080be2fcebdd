"""Train a temporal encoder on the windows of an archive, without labels. Requires torch (extra "torch")."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from embedders.base import unit_rows
from embedders.neural.temporal_encoder import DILATIONS, SEGMENTS, TAPS, Encoder, Shape, along_arc
from embedders.trajectory.arc import ArcDct
from embedders.trajectory.disturbances import disturb
from wshard.core.plugins import import_library
from wshard.errors import EmbedderError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from embedders.base import Vectors
    from embedders.neural.frame_network import FrameShape
    from embedders.numeric import Rows

FEWEST: Final = 64
"""Minimum number of windows for training."""

_NEIGHBOURS: Final = 10
_NEIGHBOUR_SHARE: Final = 0.8  # of the second views; with more, windows are no longer similar to themselves
_MEASURED: Final = 0.05  # of the time, before what a step takes is believed
_BATCH_ROWS: Final = 1024  # rows of the similarity matrix at a time


@dataclass(frozen=True)
class Training:
    """How to train: up to `steps` steps of `batch` windows, up to `seconds`; the same seed gives the same batches."""

    steps: int = 200
    batch: int = 256
    seconds: float = 300.0
    rate: float = 2e-3
    temperature: float = 0.3
    seed: int = 0


def train(
    windows: Sequence[Rows],
    shape: Shape,
    training: Training,
    progress: Callable[[int, float], None] = lambda *_: None,
) -> Encoder:
    """Train on z-scored windows [T_i, channels]; progress gets the number of steps and the loss.

    Raises EmbedderError for fewer than FEWEST windows, MissingExtraError if torch is not installed.
    """
    if len(windows) < FEWEST:
        raise EmbedderError(f"training: expected at least {FEWEST} windows, found {len(windows)}")
    torch = import_library("torch", "torch")
    rng = np.random.default_rng(training.seed)
    neighbours = mutual_neighbours(windows)
    weights = {name: torch.from_numpy(array).requires_grad_() for name, array in initial_weights(shape, rng).items()}
    optimizer = torch.optim.AdamW(weights.values(), lr=training.rate, weight_decay=1e-4)
    for step in paced_steps(torch, optimizer, training):
        chosen = rng.permutation(len(windows))[: training.batch]
        partners = [
            int(rng.choice(neighbours[window]))
            if len(neighbours[window]) and rng.random() < _NEIGHBOUR_SHARE
            else window
            for window in chosen
        ]
        first = _vectors(torch, weights, [disturb(windows[window], rng) for window in chosen])
        second = _vectors(torch, weights, [disturb(windows[window], rng) for window in partners])
        loss = contrast(torch, first, second, _mask_neighbours(neighbours, chosen), training.temperature)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        progress(step, float(loss.detach()))
    return Encoder(shape, {name: tensor.detach().numpy().copy() for name, tensor in weights.items()})


def paced_steps(
    torch: Any, optimizer: Any, training: Training, clock: Callable[[], float] = time.monotonic
) -> Iterator[int]:
    """Yield the numbers of steps, and set the learning rate of each: it has fallen when the steps or the seconds end.

    Once a twentieth of the time has passed, the rate falls faster if the steps so far say that not all of them fit.
    """
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, training.rate, total_steps=training.steps)
    started, place = clock(), 0.0
    for step in range(1, training.steps + 1):
        yield step
        passed, left = clock() - started, training.steps - place
        fitting = left if passed <= _MEASURED * training.seconds else (training.seconds - passed) / passed * step
        place += max(1.0, left / max(fitting, 1.0))
        if place >= training.steps:
            return
        schedule.last_epoch = int(place) - 1
        schedule.step()


def mutual_neighbours(windows: Sequence[Rows]) -> list[NDArray[np.int64]]:
    """Return the mutual nearest neighbours of each window by arcdct."""
    return mutual_nearest(unit_rows(ArcDct(damping=0.0).describe(list(windows))), _NEIGHBOURS)


def mutual_nearest(vectors: Vectors, count: int) -> list[NDArray[np.int64]]:
    """Return which of the `count` nearest of each unit row [N, D] have it among theirs."""
    nearest = np.empty((len(vectors), min(count, len(vectors) - 1)), np.int64)
    for begin in range(0, len(vectors), _BATCH_ROWS):
        similarities = vectors[begin : begin + _BATCH_ROWS] @ vectors.T
        similarities[np.arange(len(similarities)), begin + np.arange(len(similarities))] = -2.0
        nearest[begin : begin + _BATCH_ROWS] = np.argpartition(-similarities, nearest.shape[1] - 1, axis=1)[
            :, : nearest.shape[1]
        ]
    neighbour_sets = [set(row.tolist()) for row in nearest]
    return [
        np.array(sorted(neighbour for neighbour in row if window in neighbour_sets[neighbour]), np.int64)
        for window, row in enumerate(neighbour_sets)
    ]


def initial_weights(shape: Shape | FrameShape, rng: np.random.Generator) -> dict[str, NDArray[np.float32]]:
    """Return random weights, and biases of 0."""
    arrays = {}
    for name, size in shape.arrays().items():
        spread = 0.0 if len(size) == 1 else np.sqrt((2.0 if name.startswith("taps") else 1.0) / size[0])
        arrays[name] = (spread * rng.normal(size=size)).astype(np.float32)
    return arrays


def _vectors(torch: Any, weights: Mapping[str, Any], windows: Sequence[Rows]) -> Any:
    """Return unit vectors [N, dim]: the arithmetic of Encoder.encode, in a form that can be differentiated."""
    rows = torch.from_numpy(along_arc(windows))
    hidden = rows
    for layer, dilation in enumerate(DILATIONS):
        output = torch.relu(_neighbours(torch, hidden, dilation) @ weights[f"taps{layer}"] + weights[f"bias{layer}"])
        hidden = output if layer == 0 else hidden + output
    features = torch.cat([hidden, rows], dim=2)
    segments = features.reshape(len(features), SEGMENTS, -1, features.shape[2]).mean(dim=2)
    return torch.nn.functional.normalize(segments.reshape(len(features), -1) @ weights["map"], dim=1)


def _neighbours(torch: Any, rows: Any, dilation: int) -> Any:
    reach = TAPS // 2 * dilation
    padded = torch.nn.functional.pad(rows, (0, 0, reach, reach))
    length = rows.shape[1]
    return torch.cat([padded[:, tap * dilation : tap * dilation + length] for tap in range(TAPS)], dim=2)


def _mask_neighbours(neighbours: Sequence[NDArray[np.int64]], chosen: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return a mask [B, B] of pairs of a batch that are neighbours, which the loss ignores."""
    places = {int(window): number for number, window in enumerate(chosen)}
    is_neighbour = np.zeros((len(chosen), len(chosen)), bool)
    for number, window in enumerate(chosen):
        is_neighbour[
            number, [places[neighbour] for neighbour in neighbours[window].tolist() if neighbour in places]
        ] = True
    return is_neighbour


def contrast(torch: Any, first: Any, second: Any, is_neighbour: NDArray[np.bool_], temperature: float) -> Any:
    """Return the contrastive loss: each view should identify the other view of its window within the batch."""
    logits = (first @ second.T) / temperature
    logits = logits.masked_fill(torch.from_numpy(is_neighbour), float("-inf"))
    truth = torch.arange(len(logits))
    entropy = torch.nn.functional.cross_entropy
    return (entropy(logits, truth) + entropy(logits.T, truth)) / 2
