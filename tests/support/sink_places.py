"""Where each format that keeps many episodes in one location is written in tests, and what can be written there."""

from __future__ import annotations

import numpy as np

from wshard import Channel, Episode

COLLECTIONS = {
    "robomimic": "a.hdf5",
    "minari": "toy-v0",
    "rlds": "toy",
    "zarr": "a.zarr",
    "lerobot": "a",
    "lerobot_v21": "a",
    "hdf5": "a.h5",
    "folder": "a",
    "lance": "a.lance",
    "shardpack": "a.shardpack",
    "video": "a",
    "lance_video": "b",
}
"""Names by format; a new Sink is tested by all that go through them."""


def make_episode(number):
    """Return an episode that every format can hold."""
    rng, length = np.random.default_rng(number), 4 + number
    return Episode(
        f"episode-{number}",
        "arm",
        length,
        observations={
            "state": Channel.of("state", rng.standard_normal((length, 3))),
            "cam": Channel.of("cam", rng.integers(0, 255, (length, 16, 16, 3), np.uint8)),
        },
        actions={"action": Channel.of("action", rng.standard_normal((length, 2)))},
        rewards=rng.standard_normal(length),
        terminations=np.arange(length) == length - 1,
        truncations=np.zeros(length, bool),
        metadata={"task": "push"},
    )
