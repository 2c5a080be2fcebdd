"""Poses of a window relative to that of its anchor. Rotations are the first two rows of their matrices, six numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def relative_poses(
    xyz: NDArray[Any], rot_6d: NDArray[Any], *, anchor_xyz: NDArray[Any], anchor_rot_6d: NDArray[Any]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return positions [T, 3] and rotations [T, 6] as seen from the anchor's pose; NaN where a row of one is zero."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        poses, anchor = _matrices(xyz, rot_6d), _matrices(anchor_xyz[None], anchor_rot_6d[None])[0]
        try:
            seen = np.linalg.inv(anchor) @ poses
        except np.linalg.LinAlgError:
            seen = np.full_like(poses, np.nan)
    return seen[:, :3, 3].astype(np.float32), seen[:, :2, :3].reshape(-1, 6).astype(np.float32)


def _matrices(xyz: NDArray[Any], rot_6d: NDArray[Any]) -> NDArray[np.float64]:
    rows = rot_6d.astype(np.float64)
    first = rows[:, :3] / np.linalg.norm(rows[:, :3], axis=1, keepdims=True)
    second = rows[:, 3:] - (first * rows[:, 3:]).sum(axis=1, keepdims=True) * first
    second /= np.linalg.norm(second, axis=1, keepdims=True)
    poses = np.zeros((len(xyz), 4, 4))
    poses[:, 0, :3], poses[:, 1, :3], poses[:, 2, :3] = first, second, np.cross(first, second)
    poses[:, :3, 3], poses[:, 3, 3] = xyz, 1.0
    return poses
