"""HDF5 files in the layouts of other programs, written by h5py alone, and the episodes that are in them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

from wshard import Channel, Episode, TimebaseSpec

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
                blocks={"aux/attributes/model_file": b"<mujoco/>" * 1000},
                metadata={
                    "operator": 7, "env_args": ENV_ARGS, "filters": ["valid" if number % 2 else "train"],
                    "final_observation": {"robot0_eef_pos": final.tolist()},
                },
            )  # fmt: skip
        for number, name in enumerate(("train", "valid")):
            listed = [demo for demo in steps if int(demo.removeprefix("demo_")) % 2 == number]
            file[f"mask/{name}"] = np.array(listed, dtype="S")
    return expected


def write_maniskill(path: Path, steps: dict[str, int]) -> dict[str, Episode]:
    """Write trajectories of so many actions, with n + 1 observations, and the JSON file beside them."""
    expected = {}
    rows = []
    with h5py.File(path, "w") as file:
        for name, count in steps.items():
            rng = np.random.default_rng(count)
            number = int(name.removeprefix("traj_"))
            group = file.create_group(name)
            observed = {
                "agent/qpos": rng.standard_normal((count + 1, 9)).astype(np.float32),
                "extra/tcp_pose": rng.standard_normal((count + 1, 7)).astype(np.float32),
                "sensor_data/base_camera/rgb": rng.integers(0, 256, (count + 1, 16, 16, 3), np.uint8),
            }
            for key, array in observed.items():
                group.create_dataset(f"obs/{key}", data=array, compression="gzip")
            states = rng.standard_normal((count + 1, 13)).astype(np.float32)
            group["env_states/actors/cube"] = states
            actions, rewards = rng.standard_normal((count, 8)).astype(np.float32), rng.random(count, np.float32)
            done = np.arange(count) == count - 1
            group["actions"], group["rewards"] = actions, rewards
            group["terminated"], group["truncated"], group["success"] = done, np.zeros(count, bool), done
            about = {"episode_seed": 100 + number, "control_mode": "pd_joint_pos", "elapsed_steps": count}
            rows.append({"episode_id": number, "success": number != 3, **about})
            expected[name] = Episode(
                name,
                "PickCube-v1",
                count,
                TimebaseSpec(),
                {key: Channel.of(key, array[:count]) for key, array in observed.items()}
                | lanes(env_states__actors__cube=states[:count], success=done),
                lanes(actions=actions),
                rewards=rewards,
                terminations=done,
                truncations=np.zeros(count, bool),
                metadata={
                    "success": number != 3, **about,
                    "final_observation": {
                        "agent/qpos": observed["agent/qpos"][count].tolist(),
                        "extra/tcp_pose": observed["extra/tcp_pose"][count].tolist(),
                        "env_states/actors/cube": states[count].tolist(),
                    },
                },
            )  # fmt: skip
    about = {"env_info": {"env_id": "PickCube-v1", "env_kwargs": {"obs_mode": "rgb"}}, "episodes": rows}
    path.with_suffix(".json").write_text(json.dumps(about))
    return expected


def write_aloha(path: Path, count: int) -> Episode:
    """Write an episode with raw images as ACT has it."""
    rng = np.random.default_rng(count)
    arrays = {
        "observations/qpos": rng.standard_normal((count, 14)),
        "observations/qvel": rng.standard_normal((count, 14)),
        "observations/images/top": rng.integers(0, 256, (count, 12, 16, 3), np.uint8),
        "action": rng.standard_normal((count, 14)),
    }
    with h5py.File(path, "w") as file:
        file.attrs.update({"sim": True})
        for place, array in arrays.items():
            file[place] = array
    names = {place.removeprefix("observations/"): array for place, array in arrays.items() if place != "action"}
    return Episode(
        path.stem,
        length=count,
        observations={name: Channel.of(name, array) for name, array in names.items()},
        actions=lanes(action=arrays["action"]),
        metadata={"sim": True},
    )
