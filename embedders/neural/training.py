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
from wshard.errors import EmbedderError
from wshard.plugins import import_library

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from embedders.numeric import Rows

FEWEST: Final = 64
"""Minimum number of windows for training."""

_NEIGHBOURS: Final = 10
_FROM_NEIGHBOURS: Final = 0.8  # of the second views: more than that and a window no longer knows itself
_AT_ONCE: Final = 1024  # rows of the matrix of similarities at a time


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
    like = mutual_neighbours(windows)
    weights = {name: torch.from_numpy(array).requires_grad_() for name, array in _initial(shape, rng).items()}
    optimizer = torch.optim.AdamW(weights.values(), lr=training.rate, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, training.rate, total_steps=training.steps)
    begun = time.monotonic()
    for step in range(1, training.steps + 1):
        chosen = rng.permutation(len(windows))[: training.batch]
        partners = [
            int(rng.choice(like[one])) if len(like[one]) and rng.random() < _FROM_NEIGHBOURS else one for one in chosen
        ]
        first = _vectors(torch, weights, [disturb(windows[one], rng) for one in chosen])
        second = _vectors(torch, weights, [disturb(windows[one], rng) for one in partners])
        loss = _contrast(torch, first, second, _alike(like, chosen), training.temperature)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        progress(step, float(loss.detach()))
        if time.monotonic() - begun > training.seconds:
            break
    return Encoder(shape, {name: tensor.detach().numpy().copy() for name, tensor in weights.items()})


def mutual_neighbours(windows: Sequence[Rows]) -> list[NDArray[np.int64]]:
    """Return for each window the windows that are, by arcdct, among its nearest as it is among theirs."""
    vectors = unit_rows(ArcDct(damping=0.0).describe(list(windows)))
    nearest = np.empty((len(vectors), min(_NEIGHBOURS, len(vectors) - 1)), np.int64)
    for begin in range(0, len(vectors), _AT_ONCE):
        similar = vectors[begin : begin + _AT_ONCE] @ vectors.T
        similar[np.arange(len(similar)), begin + np.arange(len(similar))] = -2.0
        nearest[begin : begin + _AT_ONCE] = np.argpartition(-similar, nearest.shape[1] - 1, axis=1)[
            :, : nearest.shape[1]
        ]
    of = [set(row.tolist()) for row in nearest]
    return [np.array(sorted(other for other in row if one in of[other]), np.int64) for one, row in enumerate(of)]


def _initial(shape: Shape, rng: np.random.Generator) -> dict[str, NDArray[np.float32]]:
    made = {}
    for name, size in shape.arrays().items():
        spread = 0.0 if len(size) == 1 else np.sqrt((2.0 if name.startswith("taps") else 1.0) / size[0])
        made[name] = (spread * rng.normal(size=size)).astype(np.float32)
    return made


def _vectors(torch: Any, weights: Mapping[str, Any], windows: Sequence[Rows]) -> Any:
    """Return unit vectors [N, dim]: the arithmetic of Encoder.encode, in a form that can be differentiated."""
    rows = torch.from_numpy(along_arc(windows))
    hidden = rows
    for layer, dilation in enumerate(DILATIONS):
        made = torch.relu(_neighbours(torch, hidden, dilation) @ weights[f"taps{layer}"] + weights[f"bias{layer}"])
        hidden = made if layer == 0 else hidden + made
    both = torch.cat([hidden, rows], dim=2)
    segments = both.reshape(len(both), SEGMENTS, -1, both.shape[2]).mean(dim=2)
    return torch.nn.functional.normalize(segments.reshape(len(both), -1) @ weights["map"], dim=1)


def _neighbours(torch: Any, rows: Any, dilation: int) -> Any:
    reach = TAPS // 2 * dilation
    padded = torch.nn.functional.pad(rows, (0, 0, reach, reach))
    length = rows.shape[1]
    return torch.cat([padded[:, tap * dilation : tap * dilation + length] for tap in range(TAPS)], dim=2)


def _alike(like: Sequence[NDArray[np.int64]], chosen: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Say which pairs of a batch are neighbours [B, B]: these are neither pulled together nor pushed apart."""
    place = {int(one): number for number, one in enumerate(chosen)}
    alike = np.zeros((len(chosen), len(chosen)), bool)
    for number, one in enumerate(chosen):
        alike[number, [place[other] for other in like[one].tolist() if other in place]] = True
    return alike


def _contrast(torch: Any, first: Any, second: Any, alike: NDArray[np.bool_], temperature: float) -> Any:
    """Return the contrastive loss: each view should identify the other view of its window within the batch."""
    similar = (first @ second.T) / temperature
    similar = similar.masked_fill(torch.from_numpy(alike), float("-inf"))
    truth = torch.arange(len(similar))
    entropy = torch.nn.functional.cross_entropy
    return (entropy(similar, truth) + entropy(similar.T, truth)) / 2
