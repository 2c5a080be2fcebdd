"""Files as robot programs write them, written by h5py, numpy and json alone, and what they state.

Paths, shapes and dtypes are those of the programs' sources: DROID (trajectory_writer.py, postprocessing/schema.py),
AgiBot World (its data card), Unitree (episode_writer.py), dm_control (mocap/loader.py, test_trajectories.h5), AMASS,
RoboTwin (envs/utils/pkl2hdf5.py), RoboMIND (read_h5.py).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

from wshard.core.media import encode_image, encode_video

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

STEPS = 8


@dataclass
class Stated:
    """What a file states: arrays by block, encoded cameras, metadata."""

    key: str
    id: str
    lanes: Mapping[str, Any]
    rate: float | None = None
    cameras: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)


def _frames(seed: int, count: int) -> Any:
    return np.random.default_rng(seed).integers(0, 255, (count, 16, 32, 3), np.uint8)


def write_droid(folder: Path) -> tuple[Path, list[Stated]]:
    """Write a trajectory with its JSON file, and MP4 files that have a frame more."""
    rng, serials = np.random.default_rng(0), {"wrist": "18026681", "ext1": "22008760", "ext2": "24400334"}
    state = {name: rng.normal(size=(STEPS, size)) for name, size in (("cartesian_position", 6), ("joint_positions", 7),
             ("joint_velocities", 7), ("motor_torques_measured", 7))} | {"gripper_position": rng.random(STEPS),
             "prev_command_successful": np.ones(STEPS, np.bool_)}  # fmt: skip
    action = {name: rng.normal(size=(STEPS, size)) for name, size in (("cartesian_velocity", 6), ("joint_position", 7),
              ("cartesian_position", 6), ("joint_velocity", 7))} | {"gripper_position": rng.random(STEPS)}  # fmt: skip
    extrinsics = rng.normal(size=(STEPS, 6))
    start = 1_690_000_000_000 + 67 * np.arange(STEPS)
    place = folder / "Fri_Jul__7_09:42:23_2023"
    (place / "recordings" / "MP4").mkdir(parents=True)
    with h5py.File(place / "trajectory.h5", "w") as file:
        for name, values in state.items():
            file[f"observation/robot_state/{name}"] = file[f"action/robot_state/{name}"] = values
        for name, values in action.items():
            file[f"action/{name}"] = values
        for name in ("step_start", "policy_start", "step_end"):
            file[f"observation/timestamp/control/{name}"] = start
        file["observation/timestamp/cameras/18026681_read_start"] = start
        file["observation/timestamp/skip_action"] = file["observation/controller_info/success"] = np.zeros(STEPS, bool)
        for serial in serials.values():
            file[f"observation/camera_type/{serial}"] = np.full(STEPS, int(serial != serials["wrist"]))
        file[f"observation/camera_extrinsics/{serials['ext1']}_left"] = extrinsics
        file.attrs.update({"success": True, "failure": False, "current_task": "Pick up the cup", "user": "a"})
    about = {"uuid": "LAB+1+2023-07-07-09h-42m-23s", "lab": "LAB", "success": True, "current_task": "Pick up the cup"}
    cameras = {f"{name}_cam_serial": serial for name, serial in serials.items()}
    (place / f"metadata_{about['uuid']}.json").write_text(json.dumps(about | cameras))
    for number, serial in enumerate(serials.values()):
        encode_video(_frames(number, STEPS + 1), place / "recordings" / "MP4" / f"{serial}.mp4", fps=15)
    (place / "recordings" / "MP4" / f"{serials['wrist']}-stereo.mp4").write_bytes(b"")
    lanes = {f"signal/{name}": values for name, values in state.items()}
    lanes |= {f"action/{name}": values for name, values in action.items()}
    lanes |= {"signal/skip_action": np.zeros(STEPS, bool), "signal/controller_info/success": np.zeros(STEPS, bool)}
    lanes |= {f"signal/camera_extrinsics/{serials['ext1']}_left": extrinsics, "time/timestamps_ns": start * 1_000_000}
    names = tuple(f"signal/images/{name}" for name in serials)
    stated = {"task": "Pick up the cup", "success": True, "lab": "LAB"} | cameras
    return place / "trajectory.h5", [Stated("", about["uuid"], lanes, 15, names, stated)]


def write_agibot(folder: Path) -> tuple[Path, list[Stated]]:
    """Write an episode of a task: proprio_stats.h5, two videos, depth images, and the text of the task."""
    rng = np.random.default_rng(1)
    arrays = {
        "state/effector/position": rng.normal(size=(STEPS, 2)),
        "state/end/orientation": rng.normal(size=(STEPS, 2, 4)),
        "state/end/position": rng.normal(size=(STEPS, 2, 3)),
        "state/head/position": rng.normal(size=(STEPS, 2)),
        "state/joint/current_value": rng.normal(size=(STEPS, 14)),
        "state/joint/position": rng.normal(size=(STEPS, 14)),
        "state/waist/position": rng.normal(size=(STEPS, 2)),
        "action/effector/position": rng.normal(size=(STEPS, 2)),
        "action/end/position": rng.normal(size=(STEPS, 2, 3)),
        "action/joint/position": rng.normal(size=(STEPS, 14)),
        "action/robot/velocity": rng.normal(size=(STEPS, 2)),
    }
    times = 1_700_000_000_000_000_000 + np.arange(STEPS) * 33_333_333
    place, seen = folder / "proprio_stats" / "327" / "648649", folder / "observations" / "327" / "648649"
    for new in (place, seen / "videos", seen / "depth", folder / "task_info"):
        new.mkdir(parents=True)
    with h5py.File(place / "proprio_stats.h5", "w") as file:
        for name, values in arrays.items():
            file[name] = values
        for name in ("action/effector/force", "action/joint/effort", "state/robot/position", "state/end/wrench"):
            file[name] = np.empty(0, np.float32)
        file["action/end/index"], file["action/effector/index"] = np.arange(STEPS - 2), np.arange(STEPS)
        file["timestamp"] = times
    rows = [{"episode_id": 648642, "task_name": "another"}, {"episode_id": 648649, "task_name": "Pickup items",
            "init_scene_text": "The robot is at the stand.", "label_info": {"action_config": [{"start_frame": 0,
            "end_frame": 5, "action_text": "Retrieve cucumber.", "skill": "Pick"}]}}]  # fmt: skip
    (folder / "task_info" / "task_327.json").write_text(json.dumps(rows))
    for number, name in enumerate(("head_color", "hand_left_color")):
        encode_video(_frames(number, STEPS), seen / "videos" / f"{name}.mp4", fps=30)
    for step in range(STEPS):
        depth = np.full((4, 6, 1), step, np.uint16)
        (seen / "depth" / f"head_depth_{step:06d}.png").write_bytes(encode_image(depth, "png"))
    lanes = {name.replace("state/", "signal/"): values for name, values in arrays.items()}
    names = ("signal/images/head", "signal/images/hand_left", "signal/depth/head")
    stated = {"task": "Pickup items", "label_info": rows[1]["label_info"]}
    lanes["time/timestamps_ns"] = times
    return place / "proprio_stats.h5", [Stated("", "648649", lanes, 1e9 / 33_333_333, names, stated)]


def write_unitree(folder: Path) -> tuple[Path, list[Stated]]:
    """Write an episode: data.json, and a JPEG a timestep of two cameras."""
    rng, place = np.random.default_rng(2), folder / "episode_0003"
    (place / "colors").mkdir(parents=True)
    lanes = {name: rng.normal(size=(STEPS, 7)) for name in ("signal/left_arm/qpos", "signal/right_arm/qpos",
             "action/left_arm/qpos", "action/right_arm/qpos")}  # fmt: skip

    def part(kind: str, step: int) -> dict[str, Any]:
        arms = {f"{side}_arm": {"qpos": lanes[f"{kind}/{side}_arm/qpos"][step].tolist(), "qvel": [], "torque": []}
                for side in ("left", "right")}  # fmt: skip
        return arms | {"left_hand": {"qpos": [], "qvel": [], "torque": []}, "body": None}

    rows = []
    for step in range(STEPS):
        colors = {f"color_{number}": f"colors/{step:06d}_color_{number}.jpg" for number in (0, 1)}
        for number, name in enumerate(colors.values()):
            (place / name).write_bytes(encode_image(_frames(number, STEPS)[step]))
        rows.append({"idx": step, "colors": colors, "depths": {}, "states": part("signal", step),
                     "actions": part("action", step), "tactiles": None, "audios": None})  # fmt: skip
    info = {"version": "1.0.0", "date": "2025-01-01", "author": "unitree",
            "image": {"width": 32, "height": 16, "fps": 30},
            "joint_names": {"left_arm": ["kLeftShoulderPitch"], "body": []}}  # fmt: skip
    text = {"goal": "Pick up the red cup on the table.", "desc": "carefully", "steps": "step1: search"}
    (place / "data.json").write_text(json.dumps({"info": info, "text": text, "data": rows}, indent=4))
    stated = {"task": text["goal"], "text/desc": "carefully", "info/author": "unitree"}
    return place / "data.json", [
        Stated("", "episode_0003", lanes, 30, ("signal/images/color_0", "signal/images/color_1"), stated)
    ]


def write_mocap(folder: Path) -> tuple[Path, list[Stated]]:
    """Write clips of a walker and a prop, arrays [values, timesteps], at 20 timesteps a second."""
    rng, sizes = np.random.default_rng(3), {"position": 3, "quaternion": 4, "joints": 56, "appendages": 15,
               "body_positions": 90, "body_quaternions": 120, "end_effectors": 12}  # fmt: skip
    found = []
    with h5py.File(folder / "cmu.h5", "w") as file:
        for number in (1, 2, 10):
            clip, steps = file.create_group(f"CMU_{number:03d}"), STEPS + number
            clip.attrs.update({"dt": 0.05, "num_steps": steps, "year": 2020})
            lanes = {f"signal/walker_0/{name}": rng.normal(size=(steps, size)) for name, size in sizes.items()}
            lanes["signal/prop_0/position"] = rng.normal(size=(steps, 3))
            for name, values in lanes.items():
                group = "walkers" if "walker" in name else "props"
                clip[f"{group}/{name.removeprefix('signal/')}"] = values.T
            for name in ("scaling", "markers"):
                clip.create_group(f"walkers/walker_0/{name}/{name.rstrip('s')}_0").attrs["name"] = b"x"
            name = f"CMU_{number:03d}"
            found.append(Stated(name, name, lanes, 20, (), {"num_steps": steps}))
    return folder / "cmu.h5", found


def write_demo_groups(folder: Path) -> tuple[Path, list[Stated]]:
    """Write demonstrations in groups of the root, with images, rewards and whether they succeeded."""
    rng, found = np.random.default_rng(4), []
    with h5py.File(folder / "demos.hdf5", "w") as file:
        for number in (0, 1, 10):
            group, steps = file.create_group(f"demo_{number}"), STEPS + number
            lanes = {
                "signal/qpos": rng.normal(size=(steps, 7)),
                "signal/image": _frames(number, steps),
                "action/actions": rng.normal(size=(steps, 7)).astype(np.float32),
            }
            group["observations/qpos"], group["observations/image"] = lanes["signal/qpos"], lanes["signal/image"]
            group["actions"], group["rewards"] = lanes["action/actions"], (rewards := rng.random(steps))
            group.attrs.update({"success": bool(number), "length": steps, "language_instruction": "stack"})
            stated = {"success": bool(number), "task": "stack"}
            found.append(Stated(f"demo_{number}", f"demo_{number}", lanes | {"reward": rewards}, None, (), stated))
    return folder / "demos.hdf5", found


def write_amass(folder: Path, *, smplx: bool = False) -> tuple[Path, list[Stated]]:
    """Write a motion with the arrays of SMPL+H, or those of SMPL-X with pickled objects."""
    rng = np.random.default_rng(5)
    steps = 16  # as many as betas
    rows: dict[str, Any] = {"trans": rng.normal(size=(steps, 3)), "poses": rng.normal(size=(steps, 156))}
    once = {"betas": rng.normal(size=16), "gender": np.array("female")}
    if smplx:
        rows |= {"root_orient": rng.normal(size=(steps, 3)), "pose_body": rng.normal(size=(steps, 63))}
        once |= {"mocap_frame_rate": np.array(100.0), "surface_model_type": np.array("smplx"),
                 "num_betas": np.array(16), "latent_labels": np.array(["ARIEL", "C7"]),
                 "markers_latent": rng.normal(size=(41, 3)), "mocap_time_length": np.array(0.16),
                 "markers_latent_vids": np.array({"ARIEL": 3}, object)}  # fmt: skip
    else:
        rows["dmpls"], once["mocap_framerate"] = rng.normal(size=(steps, 8)), np.array(120.0)
    path = folder / "A1 - Stand_poses.npz"
    np.savez(path, **rows, **once)
    stated = {"gender": "female", "betas": once["betas"].tolist()}
    lanes = {f"signal/{name}": values for name, values in rows.items()}
    return path, [Stated("", path.stem, lanes, 100 if smplx else 120, (), stated)]


def write_robotwin(folder: Path) -> tuple[Path, list[Stated]]:
    """Write an episode with JPEG images that are padded with zeros, and its instructions."""
    rng, place = np.random.default_rng(6), folder / "data" / "episode0.hdf5"
    for new in (place.parent, folder / "instructions"):
        new.mkdir(parents=True)
    joints, pose = rng.normal(size=(STEPS, 14)), rng.normal(size=(STEPS, 7))
    images = [encode_image(pixels) for pixels in _frames(7, STEPS)]
    with h5py.File(place, "w") as file:
        file["joint_action/vector"], file["joint_action/left_arm"] = joints, joints[:, :6]
        file["joint_action/left_gripper"], file["endpose/left_endpose"] = joints[:, 6], pose
        group = file.create_group("observation/head_camera")
        group.create_dataset("rgb", data=images, dtype=f"S{max(map(len, images))}")
        group["intrinsic_cv"] = np.tile(np.eye(3), (STEPS, 1, 1))
        file["pointcloud"] = np.empty((STEPS, 0))
    stated = {"seen": ["Grab the block.", "Take it."], "unseen": ["Lift it."]}
    (folder / "instructions" / "episode0.json").write_text(json.dumps(stated))
    lanes = {"action/joint_action": joints, "signal/endpose/left_endpose": pose,
             "signal/head_camera/intrinsic_cv": np.tile(np.eye(3), (STEPS, 1, 1))}  # fmt: skip
    return place, [
        Stated("", "episode0", lanes, None, ("signal/head_camera/rgb",), stated | {"task": "Grab the block."})
    ]


def write_xpolicylab(folder: Path) -> tuple[Path, list[Stated]]:
    """Write an episode as RoboTwin does now: each action is the state one timestep later."""
    rng, path = np.random.default_rng(10), folder / "episode0.hdf5"
    sizes = {"left_arm_joint_states": 6, "left_ee_joint_states": 1, "left_ee_poses": 7}
    states = {name: rng.normal(size=(STEPS + 1, size)).astype(np.float32) for name, size in sizes.items()}
    images = [encode_image(pixels) for pixels in _frames(7, STEPS)]
    with h5py.File(path, "w") as file:
        file.attrs.update({"source_format": "RoboTwin", "source_path": "native_collection"})
        file["data_format_version"], file["instructions"] = "v1.0", json.dumps(["Grab the block.", "Take it."])
        file["additional_info/frequency"] = np.int32(15)
        for name, values in states.items():
            file[f"state/{name}"], file[f"action/{name}"] = values[:-1], values[1:]
        group = file.create_group("vision/cam_head")
        group.create_dataset("colors", data=images, dtype=f"S{max(map(len, images))}")
        group["shape"] = np.array([16, 32, 3], np.int32)
        group["intrinsic_matrix"] = np.tile(np.eye(3), (STEPS, 1, 1))
    lanes = {f"signal/{name}": values[:-1] for name, values in states.items()}
    lanes |= {f"action/{name}": values[1:] for name, values in states.items()}
    lanes["signal/cam_head/intrinsic_matrix"] = np.tile(np.eye(3), (STEPS, 1, 1))
    stated = {"task": "Grab the block.", "source_format": "RoboTwin", "data_format_version": "v1.0"}
    return path, [Stated("", "episode0", lanes, 15, ("signal/images/cam_head",), stated)]


def write_robomind(folder: Path) -> tuple[Path, list[Stated]]:
    """Write an episode of a Franka arm: measured and commanded joints, images and depth of variable length."""
    rng, place = np.random.default_rng(8), folder / "1112_141543" / "data" / "trajectory.hdf5"
    place.parent.mkdir(parents=True)
    lanes = {
        "signal/joint_position": rng.normal(size=(STEPS, 8)),
        "signal/end_effector": rng.normal(size=(STEPS, 6)),
        "action/joint_position": rng.normal(size=(STEPS, 8)),
    }
    with h5py.File(place, "w") as file:
        file.attrs.update({"sim": False, "compress": True})
        file["puppet/joint_position"], file["puppet/end_effector"] = list(lanes.values())[:2]
        file["master/joint_position"] = lanes["action/joint_position"]
        file["language_raw"] = np.array([b"place apples on the plate"])
        for kind in ("rgb", "depth"):
            images = file.create_dataset(f"observations/{kind}_images/camera_top", (STEPS,), h5py.vlen_dtype(np.uint8))
            for step, pixels in enumerate(_frames(9, STEPS)):
                depth = pixels[..., :1].astype(np.uint16)
                encoded = encode_image(pixels) if kind == "rgb" else encode_image(depth, "png")
                images[step] = np.frombuffer(encoded, np.uint8)
    cameras = ("signal/images/camera_top", "signal/depth/camera_top")
    stated = {"task": "place apples on the plate", "compress": True}
    return place, [Stated("", "1112_141543", lanes, None, cameras, stated)]


ROBOT_FILES: dict[str, Callable[[Path], tuple[Path, list[Stated]]]] = {
    "agibot": write_agibot,
    "amass": write_amass,
    "demo-groups": write_demo_groups,
    "dm-control-mocap": write_mocap,
    "droid": write_droid,
    "robomind": write_robomind,
    "robotwin": write_robotwin,
    "unitree": write_unitree,
    "xpolicylab": write_xpolicylab,
}
"""How to write a file of each layout; the path returned is that of the location."""
