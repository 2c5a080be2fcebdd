"""HDF5 files in the layouts of other programs, written by h5py alone, and the episodes that are in them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

from wshard.types import Channel, Episode, TimebaseSpec

if TYPE_CHECKING:
    from pathlib import Path

ENV_ARGS = {"env_name": "Lift", "type": 1, "env_kwargs": {"robots": ["Panda"], "control_freq": 20}}


def lanes(**arrays: Any) -> dict[str, Channel]:
    """Return channels of arrays by name; "__" stands for "/"."""
    return {name.replace("__", "/"): Channel.of(name.replace("__", "/"), data) for name, data in arrays.items()}


def write_robomimic(path: Path, steps: dict[str, int]) -> dict[str, Episode]:
    """Write demonstrations of so many steps by name; odd numbers have the filter "valid", others "train"."""
    expected = {}
    with h5py.File(path, "w") as file:
        data = file.create_group("data")
        data.attrs.update({"total": sum(steps.values()), "env_args": json.dumps(ENV_ARGS)})
        for name, count in steps.items():
            rng = np.random.default_rng(len(name) * 1000 + count)
            arrays = {
                "actions": rng.standard_normal((count, 7)),
                "actions_abs": rng.standard_normal((count, 7)),
                "rewards": rng.random(count),
                "dones": (np.arange(count) == count - 1).astype(np.int64),
                "states": rng.standard_normal((count, 11)),
                "obs/robot0_eef_pos": rng.standard_normal((count, 3)),
                "obs/object": rng.standard_normal((count, 10)).astype(np.float32),
                "obs/agentview_image": rng.integers(0, 256, (count, 6, 5, 3), np.uint8),
            }
            final = rng.standard_normal(3)
            group = data.create_group(name)
            group.attrs.update({"num_samples": count, "model_file": "<mujoco/>" * 1000, "operator": 7})
            for place, array in arrays.items():
                group[place] = array
            group["next_obs/robot0_eef_pos"] = np.concatenate([arrays["obs/robot0_eef_pos"][1:], [final]])
            number = int(name.removeprefix("demo_"))
            expected[name] = Episode(
                name,
                "Lift",
                count,
                TimebaseSpec(tick_hz=20.0),
                {key.removeprefix("obs/"): Channel.of(key.removeprefix("obs/"), arrays[key])
                 for key in ("states", "obs/robot0_eef_pos", "obs/object", "obs/agentview_image")},
                lanes(actions=arrays["actions"], actions_abs=arrays["actions_abs"]),
                rewards=arrays["rewards"],
                terminations=arrays["dones"] != 0,
                metadata={
                    "operator": 7, "env_args": ENV_ARGS, "filters": ["valid" if number % 2 else "train"],
                    "final_observation": {"robot0_eef_pos": final.tolist()},
                },
            )  # fmt: skip
        for number, name in enumerate(("train", "valid")):
            listed = [demo for demo in steps if int(demo.removeprefix("demo_")) % 2 == number]
            file[f"mask/{name}"] = np.array(listed, dtype="S")
    return expected
