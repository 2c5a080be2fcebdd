"""Frames of an episode on a terminal: by the protocols of kitty and iTerm2, or as half blocks in true colour."""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Pixels = NDArray[np.uint8]
_PIECE: Final = 4096  # characters of one command of kitty's
_ITERM: Final = ("iTerm.app", "WezTerm", "mintty")
_TALL: Final = 8  # lines of text


def find_protocol(environment: Mapping[str, str]) -> str | None:
    """Return how a terminal with these variables shows pictures: "kitty", "iterm2", "blocks" or None."""
    inside = "TMUX" in environment or environment.get("TERM", "").startswith("screen")  # which swallow pictures
    if not inside and ("KITTY_WINDOW_ID" in environment or environment.get("TERM") == "xterm-kitty"):
        return "kitty"
    if not inside and environment.get("TERM_PROGRAM") in _ITERM:
        return "iterm2"
    return "blocks" if environment.get("COLORTERM") in ("truecolor", "24bit") else None


def draw_frames(frames: Sequence[bytes], protocol: str, *, columns: int) -> str:
    """Return a strip of JPEG frames of one size as what a terminal draws; "" without Pillow."""
    try:
        from PIL import Image  # noqa: PLC0415  (only pictures need it)
    except ImportError:
        return ""
    pictures = [Image.open(io.BytesIO(frame)).convert("RGB") for frame in frames]
    wide, tall = pictures[0].size
    strip = Image.new("RGB", (wide * len(pictures), tall))
    for place, picture in enumerate(pictures):
        strip.paste(picture, (place * wide, 0))
    if protocol == "blocks":
        across = max(1, min(columns, round(2 * _TALL * strip.width / strip.height)))
        down = max(1, round(across * strip.height / strip.width / 2))
        return _draw_blocks(np.asarray(strip.resize((across, 2 * down))))
    png = io.BytesIO()
    strip.save(png, "PNG")
    data = base64.b64encode(png.getvalue()).decode()
    if protocol == "iterm2":
        return f"\x1b]1337;File=inline=1;size={png.tell()};height={_TALL}:{data}\x07"
    pieces = [data[start : start + _PIECE] for start in range(0, len(data), _PIECE)]
    more = [int(place < len(pieces) - 1) for place in range(len(pieces))]
    begin = [f"a=T,f=100,r={_TALL}," if not place else "" for place in range(len(pieces))]
    return "".join(f"\x1b_G{first}m={m};{piece}\x1b\\" for first, m, piece in zip(begin, more, pieces, strict=True))


def _draw_blocks(pixels: Pixels) -> str:
    """Return two rows of pixels [2 H, W, 3] as one line of upper half blocks."""

    def line(upper: Pixels, lower: Pixels) -> str:
        cells = zip(upper.tolist(), lower.tolist(), strict=True)
        return "".join(f"\x1b[38;2;{a};{b};{c}m\x1b[48;2;{d};{e};{f}m\u2580" for (a, b, c), (d, e, f) in cells)

    return "\n".join(f"{line(pixels[at], pixels[at + 1])}\x1b[0m" for at in range(0, len(pixels), 2))
