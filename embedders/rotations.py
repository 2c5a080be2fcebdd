"""Rotations among channels: quaternions and angles, which have several numbers for one thing, in one of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from embedders.canonical_json import check_count
from embedders.numeric import check_number
from wshard.errors import EmbedderError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Rows = NDArray[np.float64]

_TURN: Final = 2 * math.pi
_QUATERNION: Final = 4


@dataclass(frozen=True)
class Rotation:
    """Adjacent channels of a Space that are one rotation: four of a quaternion, or an angle in radians.

    reference: the one to which a row is near in its canonical form. Each row has a form by itself, so that a window has
    the same rows whether it is cut from an episode or comes alone.
    """

    channel: int
    reference: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "channel", check_count(self.channel + 1, "first channel of a rotation, plus 1") - 1)
        reference = tuple(check_number(value, "reference of a rotation") for value in self.reference)
        if len(reference) not in (1, _QUATERNION):
            raise EmbedderError(f"reference of a rotation: expected an angle or a quaternion, found {reference}")
        object.__setattr__(self, "reference", reference)

    @staticmethod
    def of(channel: int, rows: Rows) -> Rotation:
        """Return the rotation [T, 1 or 4] at a channel with the usual direction of its rows as reference."""
        if rows.shape[1] == 1:
            return Rotation(channel, (math.atan2(np.sin(rows).mean(), np.cos(rows).mean()),))
        axis = np.linalg.eigh(rows.T @ rows)[1][:, -1]  # of all axes the one to which rows of any sign are nearest
        return Rotation(channel, tuple((axis * np.sign(axis[np.abs(axis).argmax()])).tolist()))

    @property
    def channels(self) -> slice:
        """The channels that it has."""
        return slice(self.channel, self.channel + len(self.reference))

    def to_canonical(self, rows: Rows) -> None:
        """Change rows [T, D] in place: of q and -q, and of angles a turn apart, that nearest to the reference."""
        part = rows[:, self.channels]
        if len(self.reference) == 1:
            part -= _TURN * np.round((part - self.reference[0]) / _TURN)
        else:
            part[part @ np.array(self.reference) < 0] *= -1


def in_channels(rotations: Sequence[Rotation] | None, channels: int) -> tuple[Rotation, ...] | None:
    """Return the rotations in order, None if there are none; raises EmbedderError unless each has channels of its own.

    channels: their number in all.
    """
    ordered = sorted(rotations or (), key=lambda rotation: rotation.channel)
    edges = [0, *(edge for one in ordered for edge in (one.channels.start, one.channels.stop)), channels]
    if edges != sorted(edges):
        raise EmbedderError(f"rotations: expected each in other channels of the {channels}, found {ordered}")
    return tuple(ordered) or None


def canonical_rows(rows: NDArray[Any], rotations: Sequence[Rotation] | None) -> NDArray[Any]:
    """Return rows [T, D] in which rotations have their canonical form; the rows themselves without rotations."""
    if not rotations:
        return rows
    changed = rows.astype(np.float64)
    for rotation in rotations:
        rotation.to_canonical(changed)
    return changed
