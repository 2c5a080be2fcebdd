"""What the pickle of a timestep has, as lanes and texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wshard.types import Array

_ACTIONS: Final = ("action", "action_joints")


@dataclass(frozen=True)
class PickledStep:
    """The arrays of a timestep by block name, and its texts by their keys."""

    lanes: dict[str, Array]
    texts: dict[str, str]

    @staticmethod
    def of(frame: Mapping[str, Any]) -> PickledStep:
        """Sort what read_frame returns."""
        lanes: dict[str, Array] = {}
        for name, value in frame.items():
            if isinstance(value, dict):
                lanes |= {f"signal/{name}/{camera}": array for camera, array in value.items()}
            elif not isinstance(value, str):
                lanes[f"{'action' if name in _ACTIONS else 'signal'}/{name}"] = value
        return PickledStep(lanes, {name: value for name, value in frame.items() if isinstance(value, str)})
