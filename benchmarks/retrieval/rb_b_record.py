"""Record episodes of OGBench's scene for benchmark RB-B: a robot arm does one small task after another.

Run by rb_b_data.py in an environment of its own (ogbench and its mujoco); knows nothing but ogbench and numpy.

    python rb_b_record.py FOLDER fixed|variable SEED SEED ...
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Final

os.environ.setdefault("MUJOCO_GL", "disabled")

import gymnasium
import numpy as np
from ogbench.manipspace.oracles.plan.button_plan import ButtonPlanOracle
from ogbench.manipspace.oracles.plan.cube_plan import CubePlanOracle
from ogbench.manipspace.oracles.plan.drawer_plan import DrawerPlanOracle
from ogbench.manipspace.oracles.plan.window_plan import WindowPlanOracle

STEPS: Final = 1000
ORACLES: Final = {
    "cube": CubePlanOracle,
    "button": ButtonPlanOracle,
    "drawer": DrawerPlanOracle,
    "window": WindowPlanOracle,
}
PROPRIO: Final = ("joint_pos", "effector_pos", "effector_yaw", "gripper_opening", "gripper_contact")


def main() -> None:
    """Record what the command line names."""
    import ogbench  # noqa: F401, PLC0415  (registers the environments)

    folder, speed, *seeds = sys.argv[1:]
    Path(folder).mkdir(parents=True, exist_ok=True)
    env = gymnasium.make("scene-v0", terminate_at_goal=False, mode="data_collection", max_episode_steps=STEPS + 1)
    for seed in map(int, seeds):
        played = play(env, seed, speed)
        part = Path(folder) / f"{seed}.partial.npz"
        np.savez(part, **played)
        part.replace(Path(folder) / f"{seed}.npz")
        print(f"  {speed} {seed}: {len(played['labels'])} segments", flush=True)
    env.close()


def play(env: Any, seed: int, speed: str) -> dict[str, Any]:
    """Return proprio [T, 12], actions [T, 5], and labels with spans [n, 2] of the segments."""
    np.random.seed(seed)  # noqa: NPY002  (the oracles draw from numpy's global generator)
    seen, info = env.reset(seed=seed)
    oracles = {name: make(env=env, **pace(speed)) for name, make in ORACLES.items()}
    oracle, label, last = oracles[info["privileged/target_task"]], named(env, info), 0
    oracle.reset(seen, info)
    proprio, actions, labels, spans = [], [], [], []
    for step in range(STEPS):
        action = np.clip(oracle.select_action(seen, info), -1, 1)
        proprio.append(np.concatenate([np.ravel(info[f"proprio/{name}"]) for name in PROPRIO]))
        actions.append(action)
        seen, _, _, _, info = env.step(action)
        if oracle.done:
            labels.append(label)
            spans.append((last, step + 1))
            last = step + 1
            seen, info = env.unwrapped.set_new_target(return_info=True, p_stack=0.5)
            oracle, label = oracles[info["privileged/target_task"]], named(env, info)
            oracle.reset(seen, info)
    return {
        "proprio": np.array(proprio, np.float32),
        "actions": np.array(actions, np.float32),
        "labels": np.array(labels),
        "spans": np.array(spans, np.int64).reshape(-1, 2),
    }


def pace(speed: str) -> dict[str, float]:
    """Return how noisy and how fast an oracle is."""
    if speed == "fixed":
        return {"noise": 0.1, "noise_smoothing": 0.5}
    noise = np.random.uniform(0.05, 0.2)  # noqa: NPY002
    return {"noise": noise, "segment_dt": np.random.uniform(0.25, 0.9), "noise_smoothing": 0.5}  # noqa: NPY002


def named(env: Any, info: dict[str, Any]) -> str:
    """Return the label of the task that the arm was given."""
    task, scene = str(info["privileged/target_task"]), env.unwrapped
    if task == "button":
        return f"button{int(info['privileged/target_button'])}"
    if task == "drawer":
        return "drawer_open" if scene._target_drawer_pos < -0.08 else "drawer_close"  # noqa: SLF001
    if task == "window":
        return "window_a" if scene._target_window_pos > 0.1 else "window_b"  # noqa: SLF001
    return task


if __name__ == "__main__":
    main()
