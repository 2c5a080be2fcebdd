"""Disturbed scenes for benchmark RB-V: other light, other colours, objects that do not belong there, a moved camera."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    Random = np.random.Generator
    Disturbance = Callable[[Any, Random], "list[Solid]"]

_TOUCHED: Final = ("light_diffuse", "light_pos", "light_dir", "mat_rgba", "geom_rgba", "cam_quat")
_OBJECTS: Final = 4


class Solid(NamedTuple):
    """An object that is drawn, but takes no part in the motion: SPHERE, BOX or CYLINDER."""

    kind: str
    size: NDArray[np.float64]
    place: NDArray[np.float64]
    colour: NDArray[np.float32]


@contextmanager
def disturbed(model: Any, disturb: Disturbance | None, rng: Random) -> Iterator[list[Solid]]:
    """Disturb the model's scene, yield what is added to it, and restore it."""
    before = {name: getattr(model, name).copy() for name in _TOUCHED}
    headlight = [getattr(model.vis.headlight, name).copy() for name in ("ambient", "diffuse")]
    try:
        yield [] if disturb is None else disturb(model, rng)
    finally:
        for name, values in before.items():
            getattr(model, name)[:] = values
        model.vis.headlight.ambient[:], model.vis.headlight.diffuse[:] = headlight


def _light(model: Any, rng: Random) -> list[Solid]:
    """Half to one and a half times as much light, a tint of 15 %, from elsewhere."""
    factor = rng.uniform(0.5, 1.5) * rng.uniform(0.85, 1.15, 3)
    model.light_diffuse[:] *= factor
    model.vis.headlight.ambient[:] *= factor
    model.vis.headlight.diffuse[:] *= factor
    model.light_pos[:, :2] += rng.uniform(-1, 1, (len(model.light_pos), 2))
    model.light_dir[:, :2] += rng.uniform(-0.5, 0.5, (len(model.light_dir), 2))
    return []


def _colours(model: Any, rng: Random) -> list[Solid]:
    """Every material and every part has 60 to 140 % of each of its colours."""
    for name in ("mat_rgba", "geom_rgba"):
        values = getattr(model, name)
        values[:, :3] = np.clip(values[:, :3] * rng.uniform(0.6, 1.4, (len(values), 3)), 0, 1)
    return []


def _distractors(model: Any, rng: Random) -> list[Solid]:  # noqa: ARG001  (they are not part of the model)
    """Four solids of 2 to 5 cm anywhere on the table."""
    return [
        Solid(
            str(rng.choice(["SPHERE", "BOX", "CYLINDER"])),
            np.full(3, rng.uniform(0.02, 0.05)),
            np.array([rng.uniform(-0.4, 0.4), rng.uniform(0.4, 0.9), 0.03]),
            np.array([*rng.uniform(0, 1, 3), 1], np.float32),
        )
        for _ in range(_OBJECTS)
    ]


def _moved(model: Any, rng: Random) -> list[Solid]:
    """Every camera is turned by one to two degrees: two to three of 96 pixels."""
    import mujoco  # noqa: PLC0415  (after the environment is set)

    angle, side = np.deg2rad(rng.uniform(1, 2)), rng.uniform(0, 2 * np.pi)
    axis = np.sin(angle / 2) * np.array([np.cos(side), np.sin(side), 0])
    for quaternion in model.cam_quat:
        turned = np.empty(4)
        mujoco.mju_mulQuat(turned, quaternion, np.array([np.cos(angle / 2), *axis]))
        quaternion[:] = turned
    return []


SCENES: Final[Mapping[str, Disturbance]] = {
    "light": _light,
    "colours": _colours,
    "distractors": _distractors,
    "camera moved": _moved,
}
"""Disturbances by name; each changes a model and returns what is to be drawn besides."""


def put_object(model: Any, rng: Random) -> list[Solid]:  # noqa: ARG001  (as above)
    """Put a ball of 20 cm on the table, within 10 cm of a place in its middle: some 10 of 96 pixels."""
    place = np.array([rng.uniform(-0.1, 0.1), rng.uniform(0.55, 0.75), 0.1])
    return [Solid("SPHERE", np.full(3, 0.1), place, np.array([0.9, 0.1, 0.8, 1], np.float32))]
