"""Behaviour cloning: train a small network on clips, and measure its success rate in the simulator."""

from __future__ import annotations

from contextlib import closing
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from demo.arm import Arm
from demo.tasks import METAWORLD, Job
from wshard.data import ClipLoader, column_normalizer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from wshard.data import Dataset

    Policy = Callable[[NDArray[np.float64]], NDArray[np.float64]]

_HIDDEN = 256
_BATCH_SIZE = 256
_LEARNING_RATE = 1e-3
_MAX_DEVIATION = 5.0  # standard deviations


def train_policy(data: Dataset, *, steps: int, seed: int = 0) -> Policy:
    """Train a network on the columns `state` and `action` of a data set, in `steps` batches; return state -> action.

    Clips are drawn by the weights of the data set if it has any. data: clips of one timestep.
    """
    torch.manual_seed(seed)
    scaler = column_normalizer(data, "state", "state", "zscore").scaler

    def scale(states: torch.Tensor) -> torch.Tensor:
        # Clamped, as columns that are constant in the data may change in the simulator.
        return scaler(states).clamp(-_MAX_DEVIATION, _MAX_DEVIATION)

    sizes = (data.get_dim("state"), _HIDDEN, _HIDDEN, data.get_dim("action"))
    layers = [layer for inputs, outputs in pairwise(sizes) for layer in (nn.Linear(inputs, outputs), nn.ReLU())]
    network = nn.Sequential(*layers[:-1])
    optimizer = torch.optim.Adam(network.parameters(), _LEARNING_RATE)
    loader, batch_count = ClipLoader(data, _BATCH_SIZE, seed=seed), 0
    while batch_count < steps:
        for batch in loader:
            loss = nn.functional.mse_loss(network(scale(batch["state"].flatten(1))), batch["action"].flatten(1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            batch_count += 1
            if batch_count == steps:
                break

    def respond(state: NDArray[np.float64]) -> NDArray[np.float64]:
        with torch.inference_mode():
            return network(scale(torch.as_tensor(state[None], dtype=torch.float32)))[0].numpy().astype(np.float64)

    return respond


def measure_success(task: str, respond: Policy, goals: Iterable[int]) -> float:
    """Play an episode for each of these goals (0 to 49) of a task; returns the success rate."""
    with closing(Arm(task)) as arm:
        jobs = [Job(METAWORLD, task, goal, seed=goal, noise=0.0) for goal in goals]
        return float(np.mean([arm.run(job, lambda _: None, respond)["success"] for job in jobs]))
