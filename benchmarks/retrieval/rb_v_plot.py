"""Picture of benchmark RB-V: queries of each kind, and the middle frames of what they find."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from PIL import Image, ImageDraw

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray
    from rb_v_record import Rendered
    from rb_v_views import View

_HITS: Final = 5
_LABEL: Final = 110  # pixels
_GAP: Final = 6
_RIGHT: Final = (60, 150, 60)
_WRONG: Final = (200, 50, 40)
_ASKING: Final = 78  # the episode that asks


def draw_hits(path: Path, *, data: Rendered, views: Sequence[View]) -> None:
    """Draw a query of each kind and its best hits by each view: in green where the task is the same, else in red."""
    (_, near), *others = data.cameras.items()
    kinds = {"same camera": near, **data.scenes, **dict(others)}
    side = near.shape[2]
    step = side + _GAP
    width, height = (
        _LABEL + (1 + _HITS * len(views)) * step + len(views) * 2 * _GAP,
        (len(kinds) + 1) * step - side // 2,
    )
    sheet = Image.new("RGB", (width, height), "white")
    pen = ImageDraw.Draw(sheet)
    tops = {name: side // 2 + line * step for line, name in enumerate(kinds)}
    for name, top in tops.items():
        pen.text((_GAP, top + side // 2 - 6), name, fill="black")
        sheet.paste(Image.fromarray(_shown(kinds[name][_ASKING])), (_LABEL, top))
    for number, view in enumerate(views):
        start = _LABEL + step * (1 + number * _HITS) + (number + 1) * 2 * _GAP
        pen.text((start, side // 4 - 6), view.name.replace("`", ""), fill="black")
        rows = _units(view.of_episodes(near))
        for name, top in tops.items():
            scores = rows @ _units(view.of_episodes(kinds[name][_ASKING : _ASKING + 1]))[0]
            scores[_ASKING] = -np.inf
            for place, hit in enumerate(np.argsort(-scores, kind="stable")[:_HITS].tolist()):
                left = start + place * step
                colour = _RIGHT if data.tasks[hit] == data.tasks[_ASKING] else _WRONG
                pen.rectangle((left - 3, top - 3, left + side + 2, top + side + 2), fill=colour)
                sheet.paste(Image.fromarray(_shown(near[hit])), (left, top))
    sheet.save(path, optimize=True)


def _shown(episode: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the middle frame of an episode."""
    return episode[len(episode) // 2]


def _units(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    found: NDArray[np.float64] = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
    return found
