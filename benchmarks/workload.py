"""What the measurements of the file format write and read: a camera, joints, control, rewards of 1000 timesteps."""

from __future__ import annotations

import numpy as np

from wshard.types import Channel, Episode

T = 1000
Lanes = dict[str, np.ndarray]


def pictures(seed: int) -> np.ndarray:
    """Return camera-like frames u8 [1000, 84, 84, 3]: a moving gradient with sensor noise."""
    rng = np.random.default_rng(seed)
    y, x, colour = np.meshgrid(np.arange(84), np.arange(84), np.arange(3), indexing="ij")
    moving = (y + x * (1 + colour) + np.arange(T)[:, None, None, None]).astype(np.uint8) & 0xF8
    return moving | rng.integers(0, 4, (T, 84, 84, 3), np.uint8)


def standard() -> Lanes:
    """Return the lanes of the standard episode: camera, joints, control."""
    rng = np.random.default_rng(1)
    joint, ctrl = rng.normal(size=(2, T, 7)).astype(np.float32)
    return {
        "rgb": pictures(0),
        "joint": joint,
        "ctrl": ctrl,
        "reward": joint[:, 0].copy(),
        "done": np.arange(T) == T - 1,
    }


def episode(lanes: Lanes) -> Episode:
    """Return the lanes as an episode."""
    rest = {name: Channel.of(name, data) for name, data in lanes.items() if name not in ("ctrl", "reward", "done")}
    actions = {"ctrl": Channel.of("ctrl", lanes["ctrl"])} if "ctrl" in lanes else {}
    ends = {"rewards": lanes.get("reward"), "terminations": lanes.get("done")}
    return Episode("bench", length=T, observations=rest, actions=actions, **ends)
