"""Small drawings of episodes for notebooks, files and terminals: lanes as SVG, PNG or text, frames as a sprite."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.episodes.pictures import encode_picture, picture_axes
from bridge.episodes.series import MAX_CHANNELS, read_series
from wshard.core.channel_names import component_names, describe_names
from wshard.core.messages import how_to_install
from wshard.errors import MissingExtraError, MissingFileError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from PIL import ImageDraw

    from wshard.core.episode.protocol import EpisodeReader

COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#b0437f", "#b38600", "#6b4fa3")
_LANES: Final = 4
_CHANNELS: Final = 6
_POINTS: Final = 160
_FRAMES: Final = 16
_SIDE: Final = 120
_TICKS: Final = 4  # parts of the axis
_AXIS: Final = 14  # pixels below the lanes
_BLOCKS: Final = "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"


@dataclass(frozen=True)
class Course:
    """A lane as lines: its name, and values per channel, from 0 at the least to 1 at the greatest, None for gaps.

    ranges: least and greatest value of each line, in the lane's own unit. names: what the lines are called, () where
    the lane does not name them; unit: that of the values, "" where it is not stated.
    """

    lane: str
    lines: tuple[tuple[float | None, ...], ...]
    ranges: tuple[tuple[float, float], ...] = ()
    names: tuple[str, ...] = ()
    unit: str = ""

    @property
    def label(self) -> str:
        """The name, and the range of values of all lines."""
        if not self.ranges:
            return self.lane
        low, high = min(low for low, _ in self.ranges), max(high for _, high in self.ranges)
        scaled = ", each line scaled by itself" if len(self.ranges) > 1 else ""
        return f"{self.lane}  {low:.4g} to {high:.4g}{f' {self.unit}' * bool(self.unit)}{scaled}"


@dataclass(frozen=True)
class Sketch:
    """An episode, or a span of it, in short: a title, the course of lanes, and a few frames as JPEG, equally wide.

    span: the timesteps [start, stop) that the lines cover, for the axis; None for no axis. channels: names and units by
    lane, of those that state any.
    """

    title: str
    courses: tuple[Course, ...]
    frames: tuple[bytes, ...] = ()
    span: tuple[int, int] | None = None
    channels: tuple[tuple[str, str], ...] = ()

    def ticks(self) -> list[tuple[float, str]]:
        """Return places along the lines, 0 to 1, with the timesteps there."""
        if self.span is None or not self.courses or self.span[1] <= self.span[0]:
            return []
        first, last = self.span[0], self.span[1] - 1
        steps = sorted({first + round((last - first) * part / _TICKS) for part in range(_TICKS + 1)})
        return [((step - first) / max(1, last - first), str(step)) for step in steps]


def read_sketch(file: EpisodeReader, title: str, span: tuple[int, int], *, frames: int = _FRAMES) -> Sketch:
    """Return the sketch of timesteps [start, stop) of an open episode: observations, then actions, then the reward."""
    lanes = file.lanes()
    order = {"signal": 0, "action": 1, "reward": 2}
    numbers = [
        name
        for name, lane in lanes.items()
        if name.partition("/")[0] in order and file.has(name) and len(lane.shape) <= 1 and lane.dtype.value != "bf16"
    ]
    numbers.sort(key=lambda name: (order[name.partition("/")[0]], name))
    courses = tuple(_course(file, name, span) for name in numbers[:_LANES] if sum(lanes[name].shape) <= MAX_CHANNELS)
    cameras = [name for name, lane in lanes.items() if picture_axes(lane.shape)]
    pictures: tuple[bytes, ...] = ()
    if cameras and frames and span[1] > span[0]:
        view, axes = file.lane_view(cameras[0]), picture_axes(lanes[cameras[0]].shape)
        steps = np.unique(np.linspace(span[0], min(span[1], len(view)) - 1, frames).astype(int))
        try:
            pictures = tuple(encode_picture(np.asarray(view[int(step)]), axes, width=_SIDE) for step in steps)
        except MissingFileError:
            title = f"{title}  (its video is missing)"
    stated = {name: describe_names(component_names(lanes[name]), lanes[name].unit) for name in numbers}
    return Sketch(title, courses, pictures, span, tuple((name, text) for name, text in stated.items() if text))


def _course(file: EpisodeReader, name: str, span: tuple[int, int]) -> Course:
    series = read_series(file, name, span, points=_POINTS)
    ranges = [_range_of(values) for values in series.values]
    lines = [_rescale(values, *ends) for values, ends in zip(series.values, ranges, strict=True)]
    moving = [number for number, (low, high) in enumerate(ranges) if high > low]
    drawn = (moving or [*range(len(lines))])[:_CHANNELS]
    names = tuple(series.names[number] for number in drawn) if series.names else ()
    drawn_lines, drawn_ranges = tuple(lines[number] for number in drawn), tuple(ranges[number] for number in drawn)
    return Course(name, drawn_lines, drawn_ranges, names, series.unit)


def _range_of(values: Sequence[float | None]) -> tuple[float, float]:
    numbers = [value for value in values if value is not None]
    return min(numbers, default=0.0), max(numbers, default=0.0)


def _rescale(values: Sequence[float | None], low: float, high: float) -> tuple[float | None, ...]:
    return tuple(None if one is None else 0.5 if high <= low else (one - low) / (high - low) for one in values)


def draw_svg(sketch: Sketch, *, width: int = 420, height: int = 46) -> str:
    """Return the lanes of a sketch as one SVG element, with an axis of timesteps below."""
    rows, tall = [], height * len(sketch.courses)
    for place, step in sketch.ticks():
        anchor = "start" if place == 0 else "end" if place == 1 else "middle"
        x = f"{place * width:.1f}"
        rows.append(f'<line x1="{x}" y1="0" x2="{x}" y2="{tall}" stroke="#dde"/>')
        rows.append(
            f'<text x="{x}" y="{tall + _AXIS - 3}" font-size="9" fill="#667" text-anchor="{anchor}">{step}</text>'
        )
    for row, course in enumerate(sketch.courses):
        top = row * height
        named = zip(course.names, COLOURS, strict=False)
        legend = "".join(f' <tspan fill="{colour}">{escape(name)}</tspan>' for name, colour in named)
        rows.append(f'<text x="2" y="{top + 10}" font-size="9" fill="#667">{escape(course.label)}{legend}</text>')
        for number, line in enumerate(course.lines):
            points = _points(line, width, height - 14, top + 12)
            colour = COLOURS[number % len(COLOURS)]
            rows += [f'<polyline fill="none" stroke="{colour}" points="{part}"/>' for part in points]
    tall += _AXIS if sketch.ticks() else 0
    attributes = f'role="img" aria-label="{escape(sketch.title, quote=True)}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{tall}" {attributes}>{"".join(rows)}</svg>'


def _points(line: Sequence[float | None], width: int, height: int, top: int) -> list[str]:
    """Return the points of each piece of a line without gaps."""
    pieces: list[list[str]] = [[]]
    step = width / max(1, len(line) - 1)
    for place, value in enumerate(line):
        if value is None:
            pieces.append([])
        else:
            pieces[-1].append(f"{place * step:.1f},{top + (1 - value) * height:.1f}")
    return [" ".join(piece) for piece in pieces if piece]


def draw_html(sketch: Sketch) -> str:
    """Return a sketch as HTML without scripts: its frames play while the pointer is over them."""
    return f"<div><b>{escape(sketch.title)}</b><br>{_player(sketch)}{draw_svg(sketch)}</div>"


def _player(sketch: Sketch) -> str:
    if not sketch.frames:
        return ""
    images = [
        f'<img alt="" src="data:image/jpeg;base64,{base64.b64encode(frame).decode()}">' for frame in sketch.frames
    ]
    count, name = len(images), f"wshard{abs(hash(sketch.frames[0])):x}"
    style = (
        f".{name}{{width:{_SIDE}px;height:90px;overflow:hidden;display:inline-block;margin-right:8px}}"
        f".{name} div{{display:flex;width:max-content;"
        f"animation:{name} {count / 6:.1f}s steps({count}) infinite paused}}"
        f".{name}:hover div{{animation-play-state:running}}"
        f".{name} img{{width:{_SIDE}px;height:90px;object-fit:contain}}"
        f"@keyframes {name}{{to{{transform:translateX(-100%)}}}}"
    )
    return (
        f'<style>{style}</style><div class="{name}" title="plays under the pointer"><div>{"".join(images)}</div></div>'
    )


def draw_png(sketches: Sequence[Sketch], *, width: int = 900, height: int = 60) -> bytes:
    """Return sketches below one another as PNG. Raises MissingExtraError without Pillow."""
    try:
        from PIL import Image, ImageDraw  # noqa: PLC0415  (only files need it)
    except ImportError as error:
        raise MissingExtraError(f"PNG needs Pillow: {how_to_install('images')}; SVG and HTML do not") from error
    tall = [
        24 + (96 if sketch.frames else 0) + height * len(sketch.courses) + (_AXIS if sketch.ticks() else 0)
        for sketch in sketches
    ]
    page = Image.new("RGB", (width, max(1, sum(tall))), "white")
    pen, top = ImageDraw.Draw(page), 0
    for sketch, used in zip(sketches, tall, strict=True):
        pen.text((6, top + 6), sketch.title, fill="black")
        below = top + 24
        for place, frame in enumerate(sketch.frames[: width // (_SIDE + 6)]):
            picture = Image.open(io.BytesIO(frame))
            picture.thumbnail((_SIDE, 90))
            page.paste(picture, (6 + place * (_SIDE + 6), below))
        below += 96 if sketch.frames else 0
        _draw_axis(pen, sketch, width - 12, (below, below + height * len(sketch.courses)))
        for row, course in enumerate(sketch.courses):
            left = 6.0
            for text, colour in (course.label, "#666677"), *zip(course.names, COLOURS, strict=False):
                pen.text((left, below + row * height), text, fill=colour)
                left += pen.textlength(text) + 6
            for number, line in enumerate(course.lines):
                for part in _points(line, width - 12, height - 18, below + row * height + 14):
                    pairs = [tuple(map(float, pair.split(","))) for pair in part.split(" ")]
                    if len(pairs) > 1:
                        pen.line([(6 + x, y) for x, y in pairs], fill=COLOURS[number % len(COLOURS)], width=2)
        top += used
    sink = io.BytesIO()
    page.save(sink, "PNG")
    return sink.getvalue()


def _draw_axis(pen: ImageDraw.ImageDraw, sketch: Sketch, width: int, rows: tuple[int, int]) -> None:
    """Draw lines and labels of timesteps behind the lanes, from the first to the last row of pixels."""
    for place, step in sketch.ticks():
        x = 6 + place * width
        pen.line([(x, rows[0]), (x, rows[1])], fill="#ddddee")
        before = {0.0: 0.0, 1.0: 1.0}.get(place, 0.5) * pen.textlength(step)  # labels end at the edges
        pen.text((x - before, rows[1] + 2), step, fill="#666677")


def draw_text(line: Sequence[float | None], *, width: int = 40) -> str:
    """Return a line as blocks of text, one for each of `width` equal parts; a space for a gap."""
    parts = np.array_split(
        np.array([np.nan if value is None else value for value in line]), min(width, max(1, len(line)))
    )
    means = [float(np.nanmean(part)) if np.isfinite(part).any() else None for part in parts]
    return "".join(" " if value is None else _BLOCKS[min(7, int(value * 8))] for value in means)
