"""Sketches in notebooks and terminals: frames that play under the pointer, and lines as text."""

from __future__ import annotations

import base64
from html import escape
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.episodes.figure import NOTEBOOK, draw_svg
from bridge.episodes.sketch import FRAME_WIDTH, range_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bridge.episodes.figure import Style
    from bridge.episodes.sketch import Sketch

_BLOCKS: Final = "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"


def draw_html(sketch: Sketch, style: Style = NOTEBOOK) -> str:
    """Return a sketch as HTML without scripts: its frames play while the pointer is over them."""
    return f"<div><b>{escape(sketch.title)}</b><br>{_player(sketch)}{draw_svg(sketch, style)}</div>"


def _player(sketch: Sketch) -> str:
    if not sketch.frames:
        return ""
    images = [
        f'<img alt="" src="data:image/jpeg;base64,{base64.b64encode(frame).decode()}">' for frame in sketch.frames
    ]
    count, name = len(images), f"wshard{abs(hash(sketch.frames[0])):x}"
    style = (
        f".{name}{{width:{FRAME_WIDTH}px;height:90px;overflow:hidden;display:inline-block;vertical-align:top;margin-right:8px}}"
        f".{name} div{{display:flex;width:max-content;"
        f"animation:{name} {count / 6:.1f}s steps({count}) infinite paused}}"
        f".{name}:hover div{{animation-play-state:running}}"
        f".{name} img{{width:{FRAME_WIDTH}px;height:90px;object-fit:contain}}"
        f"@keyframes {name}{{to{{transform:translateX(-100%)}}}}"
    )
    return (
        f'<style>{style}</style><div class="{name}" title="plays under the pointer"><div>{"".join(images)}</div></div>'
    )


def draw_text(line: Sequence[float | None], *, width: int = 40) -> str:
    """Return a line as blocks of text from its least to its greatest value, one for each of `width` equal parts."""
    values = np.array([np.nan if value is None else value for value in line])
    low, high = range_of(line)
    shares = (values - low) / (high - low) if high > low else np.where(np.isnan(values), np.nan, 0.5)
    parts = np.array_split(shares, min(width, max(1, len(line))))
    means = [float(np.nanmean(part)) if np.isfinite(part).any() else None for part in parts]
    return "".join(" " if value is None else _BLOCKS[min(7, int(value * 8))] for value in means)
