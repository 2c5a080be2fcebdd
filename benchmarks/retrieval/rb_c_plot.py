"""Pictures of benchmark RB-C: how well each family of faults is ranked, and what is found by vectors.

Knows: matplotlib, results. Does not know: how anything was found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import matplotlib as mpl

mpl.use("Agg")
import numpy as np
from matplotlib import pyplot as plt

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

_OURS: Final = "#d1602a"
_OTHERS: Final = ("#bbbbbb", "#8c8c8c", "#8ab6d6", "#4a86b8", "#5b5b5b")
_GOAL: Final = 0.95


@dataclass(frozen=True)
class Result:
    """One row of the table: AUC within lengths of the check for it, of all checks, of the baselines; share flagged."""

    family: str
    check: str
    count: int
    own: float
    any: float
    flagged: float
    baselines: dict[str, float]


@dataclass(frozen=True)
class Found:
    """One line of the table: what was looked for, how it is measured, and how many there were to be found."""

    channels: str
    sought: str
    measure: str
    value: float
    count: int


def draw(rows: Sequence[Result], target: Path) -> None:
    """Draw the area under the curve of each family's check, and of the baselines, into a PNG."""
    figure, axes = plt.subplots(figsize=(9, 0.8 + 0.28 * len(rows)), layout="constrained")
    places = np.arange(len(rows))
    axes.barh(places, [row.own for row in rows], 0.6, color=_OURS, label="the check for it")
    names = dict.fromkeys(name for row in rows for name in row.baselines)
    for name, colour in zip(names, _OTHERS, strict=False):
        shown = [(row.baselines[name], place) for row, place in zip(rows, places, strict=True) if name in row.baselines]
        axes.plot(*zip(*shown, strict=True), "o", ms=5, mec="white", mew=0.5, color=colour, label=name)
    axes.axvline(_GOAL, ls="--", lw=0.8, color="k")
    _finish(
        axes, [f"{row.family} ({row.check})" for row in rows], "area under the curve, within quarters of the length"
    )
    axes.legend(ncols=1 + len(names), fontsize=7, loc="lower center", bbox_to_anchor=(0.4, 1.0), frameon=False)
    figure.savefig(target, dpi=80)
    plt.close(figure)


def draw_found(results: Sequence[Found], goals: dict[str, float], target: Path) -> None:
    """Draw recall, precision and area of what vectors found into a PNG, and the goals as marks."""
    shares = [one for one in results if one.value <= 1 and "bounds" not in one.measure]
    lines = list(dict.fromkeys((one.sought, one.measure) for one in shares))
    channels = list(dict.fromkeys(one.channels for one in shares))
    figure, axes = plt.subplots(figsize=(9, 0.8 + 0.28 * len(lines)), layout="constrained")
    for number, name in enumerate(channels):
        values = {(one.sought, one.measure): one.value for one in shares if one.channels == name}
        places = np.arange(len(lines)) + (number - (len(channels) - 1) / 2) * 0.35
        widths = [values.get(line, 0.0) for line in lines]
        axes.barh(places, widths, 0.33, color=(_OURS, _OTHERS[3])[number % 2], label=name)
    for place, (_, measure) in enumerate(lines):
        if measure in goals:
            axes.plot([goals[measure]] * 2, [place - 0.4, place + 0.4], ls="--", lw=1, color="k")
    _finish(axes, [f"{sought}: {measure}" for sought, measure in lines], "share, or area under the curve; dashed: goal")
    axes.legend(ncols=len(channels), fontsize=7, loc="lower center", bbox_to_anchor=(0.4, 1.0), frameon=False)
    figure.savefig(target, dpi=80)
    plt.close(figure)


def _finish(axes: Axes, names: Sequence[str], about: str) -> None:
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.02)
    axes.set_xlabel(about, fontsize=8)
    axes.grid(axis="x", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
