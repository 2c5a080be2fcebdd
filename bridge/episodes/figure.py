"""Figures of sketches: panels with axes, units, names and a legend; SVG and PNG have the same layout."""

from __future__ import annotations

import base64
import io
import math
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from typing import TYPE_CHECKING, Any, Final

from wshard.core.messages import how_to_install
from wshard.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from PIL import Image

    from bridge.episodes.sketch import Course, Sketch

COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#b0437f", "#b38600", "#6b4fa3")
_INK: Final = "#1b2430"
_SOFT: Final = "#55606e"
_GRID: Final = "#e1e5eb"
_STEPS: Final = (1, 2, 5, 10)
_FINEST: Final = 8  # numbers of double precision from tick to tick, at least
_SMOOTHED: Final = 12_000_000  # pixels: a larger PNG is drawn without smooth edges
_SVG_WIDTH: Final = 0.56  # of a character, in its size: browsers choose the font


@dataclass(frozen=True)
class Style:
    """Size of a figure in pixels: its width, and that of its letters, to which all else is in proportion."""

    width: float
    em: float


NOTEBOOK: Final = Style(460, 10)
STRIP: Final = Style(300, 9)
PAGE: Final = Style(1200, 16)
SLIDE: Final = Style(1600, 22)


@dataclass(frozen=True)
class _Line:
    points: Sequence[tuple[float, float]]
    colour: str
    width: float


@dataclass(frozen=True)
class _Text:
    """anchor: "start", "middle" or "end" of the text is at x; y is its base line."""

    x: float
    y: float
    text: str
    size: float
    colour: str = _SOFT
    anchor: str = "start"
    bold: bool = False


@dataclass(frozen=True)
class _Frame:
    x: float
    y: float
    jpeg: bytes
    height: float


_Mark = _Line | _Text | _Frame


def nice_ticks(low: float, high: float, most: int, *, whole: bool = False) -> list[float]:
    """Return at most about `most` multiples of 1, 2 or 5 times a power of ten within the range."""
    if not high > low or not math.isfinite(high - low):
        return [low]
    rough = max((high - low) / most, _FINEST * math.ulp(max(-low, high)))
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(one * power for one in _STEPS if one * power >= rough * 0.999)
    step = max(1.0, step) if whole else step
    slack = 1e-9 * min(1.0, (high - low) / step)
    return [at * step for at in range(math.ceil(low / step - slack), math.floor(high / step + slack) + 1)]


def _lay_out(
    sketch: Sketch, style: Style, measure: Callable[[str, float], float], *, titled: bool
) -> tuple[list[_Mark], float]:
    """Return what a figure consists of, and its height."""
    em, marks, top = style.em, list[_Mark](), 0.0
    if titled:
        marks.append(_Text(0.6 * em, 1.5 * em, sketch.title, 1.25 * em, _INK, bold=True))
        top += 2.2 * em
        if sketch.frames:
            marks += _lay_frames(sketch.frames, style, top)
            top += 6.6 * em
    for number, course in enumerate(sketch.courses):
        marks += _lay_legend(course, style, top, measure)
        top += 2 * em
        is_last = number == len(sketch.courses) - 1
        marks += _lay_panel(course, sketch.span, style, top, labelled=is_last)
        top += 7 * em
    return marks, top + (2.2 * em if sketch.courses and sketch.span else 0)


def _lay_frames(frames: Sequence[bytes], style: Style, top: float) -> Iterator[_Mark]:
    """Yield as many frames as there is room for, at equal distances in time."""
    height = 6 * style.em
    room = max(1, int((style.width - style.em) // (1.45 * height)))
    count = min(room, len(frames))
    for place in range(count):
        frame = frames[round(place * (len(frames) - 1) / max(1, count - 1))]
        yield _Frame(0.6 * style.em + place * 1.45 * height, top, frame, height)


def _lay_legend(course: Course, style: Style, top: float, measure: Callable[[str, float], float]) -> Iterator[_Mark]:
    em, y = style.em, top + 1.15 * style.em
    heading = f"{course.lane} [{course.unit}]" if course.unit else course.lane
    yield _Text(0.6 * em, y, heading, em, _INK, bold=True)
    x = 0.6 * em + measure(heading, em) * 1.08 + 1.2 * em
    for number, name in enumerate(course.legend if len(course.lines) > 1 else ()):
        width = measure(name, 0.9 * em) + 2.4 * em
        if x + width > style.width:
            yield _Text(x, y, f"+{len(course.lines) - number}", 0.9 * em)
            return
        yield _Line([(x, y - 0.33 * em), (x + em, y - 0.33 * em)], COLOURS[number % len(COLOURS)], 0.2 * em)
        yield _Text(x + 1.3 * em, y, name, 0.9 * em)
        x += width


def _lay_panel(
    course: Course, span: tuple[int, int] | None, style: Style, top: float, *, labelled: bool
) -> Iterator[_Mark]:
    """Yield grid, axes and lines of a lane; labelled: with the numbers of the timesteps below."""
    em, left, right, foot = style.em, 4.6 * style.em, style.width - 1.2 * style.em, top + 6.2 * style.em
    low, high = course.range
    margin = 0.05 * (high - low) or 0.5 * (abs(high) or 1.0)
    low, high = low - margin, high + margin
    first, last = (span[0], span[1] - 1) if span else (0, 1)
    hair = 0.07 * em
    for value in nice_ticks(low, high, 5):
        y = foot - (value - low) / (high - low) * (foot - top)
        yield _Line([(left, y), (right, y)], _GRID, hair)
        yield _Text(left - 0.5 * em, y + 0.32 * em, f"{value:.4g}", 0.85 * em, anchor="end")
    for step in nice_ticks(first, last, 10, whole=True) if span and span[1] > span[0] else ():
        x = left + (step - first) / max(1, last - first) * (right - left)
        yield _Line([(x, top), (x, foot)], _GRID, hair)
        if labelled:
            yield _Text(x, foot + 1.1 * em, f"{step:.0f}", 0.85 * em, anchor="middle")
    if labelled and span:
        yield _Text((left + right) / 2, foot + 2.3 * em, "timestep", 0.85 * em, anchor="middle")
    yield _Line([(left, top), (left, foot), (right, foot)], "#9aa4b0", 1.4 * hair)
    for number, line in enumerate(course.lines):
        x_step = (right - left) / max(1, len(line) - 1)
        for begin, piece in _pieces(line):
            points = [
                (left + (begin + at) * x_step, foot - (value - low) / (high - low) * (foot - top))
                for at, value in enumerate(piece)
            ]
            yield _Line(points, COLOURS[number % len(COLOURS)], 0.14 * em)


def _pieces(line: Sequence[float | None]) -> Iterator[tuple[int, list[float]]]:
    """Yield each part of a line without gaps, with its place."""
    piece: list[float] = []
    for place, value in enumerate([*line, None]):
        if value is not None:
            piece.append(value)
        elif piece:
            yield place - len(piece), piece
            piece = []


def draw_svg(sketch: Sketch, style: Style = NOTEBOOK, *, titled: bool = False) -> str:
    """Return the lanes of a sketch as one SVG element; titled: with its title and frames."""
    marks, tall = _lay_out(sketch, style, lambda text, size: len(text) * size * _SVG_WIDTH, titled=titled)
    attributes = (
        f'width="{style.width:g}" height="{tall:g}" viewBox="0 0 {style.width:g} {tall:g}" role="img" '
        f'aria-label="{escape(sketch.title, quote=True)}" font-family="system-ui, sans-serif" '
        f'style="max-width:100%;height:auto;background:white"'
    )
    return f'<svg xmlns="http://www.w3.org/2000/svg" {attributes}>{"".join(map(_as_svg, marks))}</svg>'


def _as_svg(mark: _Mark) -> str:
    if isinstance(mark, _Line):
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in mark.points)
        how = f'stroke="{mark.colour}" stroke-width="{mark.width:.2f}" stroke-linejoin="round"'
        return f'<polyline fill="none" {how} points="{points}"/>'
    if isinstance(mark, _Text):
        weight = ' font-weight="600"' if mark.bold else ""
        place = f'x="{mark.x:.1f}" y="{mark.y:.1f}" font-size="{mark.size:.1f}" fill="{mark.colour}"'
        return f'<text {place} text-anchor="{mark.anchor}"{weight}>{escape(mark.text)}</text>'
    data = base64.b64encode(mark.jpeg).decode()
    return f'<image x="{mark.x:.1f}" y="{mark.y:.1f}" height="{mark.height:.1f}" href="data:image/jpeg;base64,{data}"/>'


def draw_png(sketches: Sequence[Sketch], style: Style = SLIDE) -> bytes:
    """Return sketches below one another as PNG. Raises MissingExtraError without Pillow."""
    try:
        from PIL import Image  # noqa: PLC0415  (only files need it)
    except ImportError as error:
        raise MissingExtraError(f"PNG needs Pillow: {how_to_install('images')}; SVG and HTML do not") from error

    def measure(text: str, size: float) -> float:
        return float(_font(size).getlength(text))

    laid = [_lay_out(sketch, style, measure, titled=True) for sketch in sketches]
    width, height = round(style.width), math.ceil(sum(tall for _, tall in laid)) + 1
    zoom = 2 if 4 * width * height <= _SMOOTHED else 1
    page = Image.new("RGB", (width * zoom, height * zoom), "white")
    top = 0.0
    for marks, tall in laid:
        for mark in marks:
            _paint(page, mark, top, zoom)
        top += tall
    sink = io.BytesIO()
    page.resize((width, height), Image.Resampling.LANCZOS).save(sink, "PNG")
    return sink.getvalue()


@lru_cache(maxsize=64)
def _font(size: float) -> Any:
    from PIL import ImageFont  # noqa: PLC0415  (draw_png says what is missing)

    return ImageFont.load_default(size)


def _paint(page: Image.Image, mark: _Mark, top: float, zoom: int) -> None:
    """Draw a mark that many pixels below the top of the page."""
    from PIL import Image, ImageDraw  # noqa: PLC0415  (draw_png says what is missing)

    pen = ImageDraw.Draw(page)
    if isinstance(mark, _Line):
        points = [(x * zoom, (y + top) * zoom) for x, y in mark.points]
        pen.line(points, fill=mark.colour, width=max(1, round(mark.width * zoom)), joint="curve")
    elif isinstance(mark, _Text):
        anchor = {"start": "ls", "middle": "ms", "end": "rs"}[mark.anchor]
        font = _font(mark.size * zoom)
        thick = round(0.02 * mark.size * zoom) if mark.bold else 0
        pen.text((mark.x * zoom, (mark.y + top) * zoom), mark.text, mark.colour, font, anchor, stroke_width=thick)
    else:
        tall, jpeg = round(mark.height * zoom), Image.open(io.BytesIO(mark.jpeg))
        wide = max(1, round(jpeg.width * tall / jpeg.height))
        page.paste(
            jpeg.resize((wide, tall), Image.Resampling.LANCZOS), (round(mark.x * zoom), round((mark.y + top) * zoom))
        )
