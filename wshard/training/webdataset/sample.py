"""Build one sample: the window around an anchor as members of a tar."""

from __future__ import annotations

import io
import json
import uuid
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.errors import DatasetError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wshard.training.webdataset.recipe import ShardRecipe
    from wshard.training.webdataset.spool import LoadedEpisode, SpooledEpisode

_NAMESPACE: Final = uuid.UUID("6f1c1f0e-5b1a-5c53-9f0a-2f6a3f6f7d11")
_NO_STATISTICS: Final = ("intrinsics.", "extrinsics.")
NAN, INCOMPLETE = "nan", "incomplete"


@dataclass(frozen=True)
class ShardSample:
    """Members (name, bytes) of a sample in order, and its arrays for the statistics; or why it is left out."""

    members: list[tuple[str, bytes]]
    statistics: dict[str, NDArray[Any]]
    left_out: str = ""


def build_sample(recipe: ShardRecipe, episode: SpooledEpisode, data: LoadedEpisode, anchor: int) -> ShardSample:
    """Return the sample of an anchor; raises DatasetError for NaN where that is an error."""
    key = str(uuid.uuid5(_NAMESPACE, f"{episode.name}\n{anchor}"))
    lowdim = _gather_lowdim(recipe, episode, data, anchor)
    nan_key = next((name for name, array in lowdim.items() if array.dtype.kind == "f" and np.isnan(array).any()), None)
    if nan_key is not None and recipe.options.fail_on_nan:
        raise DatasetError(f"{episode.address}: {nan_key}: expected numbers in the window of frame {anchor}, found NaN")
    if nan_key is not None:
        return ShardSample([], {}, NAN)
    steps = _image_steps(recipe, episode, anchor)
    images = _gather_images(recipe, data, steps)
    if images is None:
        return ShardSample([], {}, INCOMPLETE)
    members = [(f"{key}.{name}", content) for name, content in images]
    members.append((f"{key}.lowdim.npz", _npz_bytes(lowdim)))
    members.append((f"{key}.metadata.json", json.dumps(_describe(recipe, episode, anchor, key)).encode()))
    if episode.texts:
        members.append((f"{key}.language_instructions.json", json.dumps({"original": list(episode.texts)}).encode()))
    counted = {name: array for name, array in lowdim.items() if array.ndim >= 2 and not name.startswith(_NO_STATISTICS)}
    return ShardSample(members, counted)


def _image_steps(recipe: ShardRecipe, episode: SpooledEpisode, anchor: int) -> list[int]:
    return [min(max(anchor + index, 0), episode.length - 1) for index in recipe.options.image_indices]


def _gather_images(recipe: ShardRecipe, data: LoadedEpisode, steps: list[int]) -> list[tuple[str, bytes]] | None:
    members: list[tuple[str, bytes]] = []
    for index, step in zip(recipe.options.image_indices, steps, strict=True):
        for number, camera in enumerate(recipe.fields.cameras):
            image, depth = (data.frame(number, kind, step) for kind in range(2))
            if image is None and not recipe.options.keep_incomplete:
                return None
            if image is not None:
                members.append((f"{camera.name}_t{index}.jpg", image))
            if depth is not None:
                members.append((f"{camera.name}_t{index}.depth.png", depth))
    return members


def _gather_lowdim(
    recipe: ShardRecipe, episode: SpooledEpisode, data: LoadedEpisode, anchor: int
) -> dict[str, NDArray[Any]]:
    steps, count = recipe.windows.steps(anchor, episode.length), len(recipe.fields.fields)
    lowdim: dict[str, NDArray[Any]] = {}
    for number, column in enumerate(recipe.fields.fields):
        rows = data.rows(number, steps)
        if rows is not None:
            lowdim[column.key] = rows
    frames = _image_steps(recipe, episode, anchor)
    for number, camera in enumerate(recipe.fields.cameras):
        intrinsics = data.rows(count + 2 * number, [anchor])
        if intrinsics is not None:
            matrix = _scaled(intrinsics.reshape(1, 3, 3), recipe, episode.sizes.get(camera.name, (0, 0)))
            lowdim[f"intrinsics.{camera.name}"] = np.repeat(matrix, len(frames), axis=0)
        if camera.extrinsics:
            rows_by_step = [data.rows(count + 2 * number + 1, [step]) for step in frames]
            poses = [np.eye(4) if rows is None else rows.reshape(4, 4).astype(np.float64) for rows in rows_by_step]
            lowdim[f"extrinsics.{camera.name}"] = np.stack(poses)
    for side in recipe.fields.sides:
        lowdim |= _relative(lowdim, side, recipe.windows.past)
    by_padding = recipe.options.masks == "padding"
    past, future = recipe.windows.masks(anchor, episode.length, by_padding=by_padding)
    return lowdim | {"past_mask": past, "future_mask": future}


def _relative(lowdim: dict[str, NDArray[Any]], side: str, row: int) -> dict[str, NDArray[Any]]:
    """Return the poses of a side relative to the measured pose at the anchor, which is row `row` of the window."""
    names = {kind: f"robot__{kind}__poses__{side}" for kind in ("action", "actual")}
    actual = [lowdim.get(f"{names['actual']}__{part}") for part in ("xyz", "rot_6d")]
    poses: dict[str, NDArray[Any]] = {}
    for name in names.values():
        xyz, rotation = (lowdim.get(f"{name}__{part}") for part in ("xyz", "rot_6d"))
        if xyz is None or rotation is None or actual[0] is None or actual[1] is None:
            continue
        anchor = {"anchor_xyz": actual[0][row], "anchor_rot_6d": actual[1][row]}
        poses[f"{name}__xyz_relative"], poses[f"{name}__rot_6d_relative"] = relative_poses(xyz, rotation, **anchor)
    return poses


def _scaled(matrix: NDArray[Any], recipe: ShardRecipe, size: tuple[int, int]) -> NDArray[Any]:
    """Return intrinsics [1, 3, 3], scaled to the resized image if the options say so; size: (height, width) before."""
    new_size = recipe.options.resize_images_size
    if not recipe.options.scale_intrinsics or new_size is None or not all(size):
        return matrix
    scales = np.array([new_size[1] / size[1], new_size[0] / size[0], 1], matrix.dtype)
    scaled: NDArray[Any] = matrix * scales[:, None]
    return scaled


def _describe(recipe: ShardRecipe, episode: SpooledEpisode, anchor: int, key: str) -> dict[str, Any]:
    options, last = recipe.options, episode.length - 1
    left, right = (int(steps) for steps in recipe.windows.padding(anchor, episode.length))
    metadata = {
        "episode_id": episode.name,
        "sample_id": f"{key}_{episode.name}_t{anchor:04d}",
        "anchor_timestep": anchor,
        "anchor_relative_idx": options.past_lowdim_steps,
        "image_timesteps": _image_steps(recipe, episode, anchor),
        "lowdim_start_timestep": max(0, anchor - options.past_lowdim_steps),
        "lowdim_end_timestep": min(last, anchor + options.future_lowdim_steps),
        "past_padding": left,
        "future_padding": right,
        "camera_names": [camera.name for camera in recipe.fields.cameras],
        "original_episode_length": episode.length,
        "is_padded": left > 0 or right > 0,
        "control": episode.control,
    }
    if options.window_timesteps:
        metadata["window_timesteps"] = recipe.windows.steps(anchor, episode.length).tolist()
    return metadata


def _npz_bytes(arrays: dict[str, NDArray[Any]]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, np.ascontiguousarray(array), allow_pickle=False)
            member = zipfile.ZipInfo(f"{name}.npy")
            member.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(member, content.getvalue())
    return file.getvalue()


def relative_poses(
    xyz: NDArray[Any], rot_6d: NDArray[Any], *, anchor_xyz: NDArray[Any], anchor_rot_6d: NDArray[Any]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return positions [T, 3] and rotations [T, 6] relative to the anchor's pose; NaN if a row of one is zero.

    A rotation is given by the first two rows of its matrix, six numbers.
    """
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        poses, anchor = _matrices(xyz, rot_6d), _matrices(anchor_xyz[None], anchor_rot_6d[None])[0]
        try:
            relative = np.linalg.inv(anchor) @ poses
        except np.linalg.LinAlgError:
            relative = np.full_like(poses, np.nan)
    return relative[:, :3, 3].astype(np.float32), relative[:, :2, :3].reshape(-1, 6).astype(np.float32)


def _matrices(xyz: NDArray[Any], rot_6d: NDArray[Any]) -> NDArray[np.float64]:
    rows = rot_6d.astype(np.float64)
    first = rows[:, :3] / np.linalg.norm(rows[:, :3], axis=1, keepdims=True)
    second = rows[:, 3:] - (first * rows[:, 3:]).sum(axis=1, keepdims=True) * first
    second /= np.linalg.norm(second, axis=1, keepdims=True)
    poses = np.zeros((len(xyz), 4, 4))
    poses[:, 0, :3], poses[:, 1, :3], poses[:, 2, :3] = first, second, np.cross(first, second)
    poses[:, :3, 3], poses[:, 3, 3] = xyz, 1.0
    return poses
