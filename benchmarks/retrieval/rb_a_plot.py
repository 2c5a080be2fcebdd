"""Pictures of benchmark RB-A: mean average precision per disturbance, one bar per method; queries and their best hits.

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
    from numpy.typing import NDArray

    Rows = NDArray[np.float64]


@dataclass(frozen=True)
class Result:
    """One cell of the tables."""

    channels: str
    method: str
    dim: int | None
    disturbance: str
    mean_average_precision: float
    precision_at_1: float
    precision_at_10: float
    ms_per_query: float


@dataclass(frozen=True, eq=False)
class Hit:
    """What one panel shows: its title and an episode [T, D], of which the first three channels are a position."""

    title: str
    rows: Rows


SHOWN: Final = {
    "mean (baseline)": ("mean over time", "#bbbbbb"),
    "subsequence DTW, free steps (scan)": ("subsequence DTW, a scan", "#a3a3a3"),
    "full DTW (scan)": ("full DTW, a scan", "#8c8c8c"),
    "arcdct": ("arcdct, whole episodes", "#8ab6d6"),
    "windows, arcdct undamped": ("arcdct, best window", "#4a86b8"),
    "archive, `--windows both`: whole, windows, expanded": ("default of --windows both", "#d1602a"),
}


def draw(results: Sequence[Result], target: Path) -> None:
    """Draw the shown methods into a PNG, one panel for each choice of channels; those without results are left out."""
    channels = list(dict.fromkeys(result.channels for result in results))
    figure, panels = plt.subplots(
        len(channels), 1, figsize=(9, 0.4 + 2.8 * len(channels)), layout="constrained", squeeze=False
    )
    for panel, name in zip(panels[:, 0], channels, strict=True):
        _panel(panel, [result for result in results if result.channels == name])
        panel.set_ylabel(f"mAP, {name}")
    panels[0, 0].legend(ncols=3, fontsize=7, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
    figure.savefig(target, dpi=80)
    plt.close(figure)


def draw_hits(found: Sequence[Sequence[Hit]], target: Path) -> None:
    """Draw queries into a PNG, each with its hits in a row: the hand's x, y and z over time."""
    size = (10, 1.5 * len(found))
    figure, panels = plt.subplots(
        len(found), len(found[0]), figsize=size, sharex="row", sharey=True, layout="constrained"
    )
    for row, hits in zip(panels, found, strict=True):
        for panel, hit in zip(row, hits, strict=True):
            panel.plot(hit.rows[:, :3], lw=1)
            panel.set_title(hit.title, fontsize=8, loc="left")
            panel.tick_params(labelsize=7)
            panel.spines[["top", "right"]].set_visible(False)
    panels[0, -1].legend(("x", "y", "z"), ncols=3, fontsize=7, frameon=False)
    figure.supxlabel("timestep", fontsize=8)
    figure.savefig(target, dpi=80)
    plt.close(figure)


def _panel(panel: Axes, results: Sequence[Result]) -> None:
    cells = {(result.method, result.disturbance): result.mean_average_precision for result in results}
    columns = list(dict.fromkeys(result.disturbance for result in results))
    shown = [name for name in SHOWN if (name, columns[0]) in cells]
    width = 0.85 / len(shown)
    for number, name in enumerate(shown):
        label, colour = SHOWN[name]
        places = np.arange(len(columns)) + (number - (len(shown) - 1) / 2) * width
        panel.bar(places, [cells[name, column] for column in columns], width, label=label, color=colour)
    panel.set_xticks(range(len(columns)), columns)
    panel.set_ylim(0.2, 1.0)
    panel.grid(axis="y", alpha=0.3)
    panel.spines[["top", "right"]].set_visible(False)
