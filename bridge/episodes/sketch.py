"""Sketches of episodes, or of spans of them: the course of a few lanes, and a few frames."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.episodes.pictures import encode_picture, picture_axes
from bridge.episodes.series import order_lanes, read_series
from wshard.core.channel_names import component_names, describe_names
from wshard.errors import MissingFileError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wshard.core.episode.protocol import EpisodeReader

FRAME_WIDTH: Final = 120
"""Pixels of a frame, about."""

_LANES: Final = 4
_CHANNELS: Final = 6
_POINTS: Final = 400
_FRAMES: Final = 16


@dataclass(frozen=True)
class Course:
    """A lane as lines: its name, and the values of some channels at equal distances in time, None for gaps.

    channels: their numbers. names: what they are called, () where the lane does not name them; unit: that of the
    values, "" where it is not stated.
    """

    lane: str
    lines: tuple[tuple[float | None, ...], ...]
    channels: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    unit: str = ""

    @property
    def legend(self) -> tuple[str, ...]:
        """What the lines are called: names, else numbers."""
        return self.names or tuple(map(str, self.channels))

    @property
    def range(self) -> tuple[float, float]:
        """The least and the greatest value of all lines."""
        return range_of([value for line in self.lines for value in line])


@dataclass(frozen=True)
class Sketch:
    """An episode, or a span of it, in short: a title, the course of lanes, and a few frames as JPEG, equally wide.

    span: the timesteps [start, stop) that the lines cover, None for no axis. channels: names and units by
    lane, of those that state any.
    """

    title: str
    courses: tuple[Course, ...]
    frames: tuple[bytes, ...] = ()
    span: tuple[int, int] | None = None
    channels: tuple[tuple[str, str], ...] = ()


def read_sketch(file: EpisodeReader, title: str, span: tuple[int, int], *, frames: int = _FRAMES) -> Sketch:
    """Return the sketch of timesteps [start, stop) of an open episode: observations, then actions, then the reward."""
    lanes = file.lanes()
    numbers = [name for name in order_lanes(file) if name.partition("/")[0] in ("signal", "action", "reward")]
    courses = tuple(_course(file, name, span) for name in numbers[:_LANES])
    cameras = [name for name, lane in lanes.items() if picture_axes(lane.shape)]
    pictures: tuple[bytes, ...] = ()
    if cameras and frames and span[1] > span[0]:
        view, axes = file.lane_view(cameras[0]), picture_axes(lanes[cameras[0]].shape)
        steps = np.unique(np.linspace(span[0], min(span[1], len(view)) - 1, frames).astype(int))
        try:
            pictures = tuple(encode_picture(np.asarray(view[int(step)]), axes, width=FRAME_WIDTH) for step in steps)
        except MissingFileError:
            title = f"{title}  (its video is missing)"
    stated = {name: describe_names(component_names(lanes[name]), lanes[name].unit) for name in numbers}
    return Sketch(title, courses, pictures, span, tuple((name, text) for name, text in stated.items() if text))


def _course(file: EpisodeReader, name: str, span: tuple[int, int]) -> Course:
    series = read_series(file, name, span, points=_POINTS)
    ranges = [range_of(values) for values in series.values]
    moving = [number for number, (low, high) in enumerate(ranges) if high > low]
    drawn = (moving or [*range(len(ranges))])[:_CHANNELS]
    names = tuple(series.names[number] for number in drawn) if series.names else ()
    lines = tuple(tuple(series.values[number]) for number in drawn)
    return Course(name, lines, tuple(series.channels[number] for number in drawn), names, series.unit)


def range_of(values: Sequence[float | None]) -> tuple[float, float]:
    """Return the least and the greatest value, 0 and 0 of none."""
    numbers = [value for value in values if value is not None]
    return min(numbers, default=0.0), max(numbers, default=0.0)
