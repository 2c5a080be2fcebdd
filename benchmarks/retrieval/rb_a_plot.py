"""A picture of benchmark RB-A: mean average precision per disturbance, one bar per method.

    python benchmarks/retrieval/rb_a_plot.py .bench/rb_a.json rb_a.png

Needs matplotlib (extra "demo").
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, Final

import numpy as np

SHOWN: Final = {
    "mean (baseline)": "mean over time",
    "full DTW (scan)": "full DTW, a scan",
    "arcdct": "arcdct, whole episodes",
    "windows, arcdct undamped": "arcdct, best window",
    "archive, `--windows both`: whole, windows, expanded": "default of --windows both",
}
COLOURS: Final = ("#bbbbbb", "#8c8c8c", "#8ab6d6", "#4a86b8", "#d1602a")


def draw(results: list[dict[str, Any]], channels: str, target: Path) -> None:
    """Draw the shown methods on these channels into a PNG; methods without results are left out."""
    import matplotlib as mpl  # noqa: PLC0415  (an extra)

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    cells = {(r["method"], r["disturbance"]): r["mean_average_precision"] for r in results if r["channels"] == channels}
    columns = list(dict.fromkeys(disturbance for _, disturbance in cells))
    shown = [name for name in SHOWN if (name, columns[0]) in cells]
    figure, axes = plt.subplots(figsize=(9, 3.2), layout="constrained")
    width = 0.85 / len(shown)
    for number, name in enumerate(shown):
        heights = [cells[name, column] for column in columns]
        places = np.arange(len(columns)) + (number - (len(shown) - 1) / 2) * width
        axes.bar(places, heights, width, label=SHOWN[name], color=COLOURS[list(SHOWN).index(name)])
    axes.set_xticks(range(len(columns)), columns)
    axes.set_ylim(0.2, 1.0)
    axes.set_ylabel("mAP")
    axes.grid(axis="y", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(ncols=len(shown), fontsize=7, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
    figure.savefig(target, dpi=80)


def main() -> None:
    """Read results and draw."""
    parser = argparse.ArgumentParser(description="RB-A as a picture")
    parser.add_argument("results", type=Path, help="what rb_a.py --json wrote")
    parser.add_argument("picture", type=Path)
    parser.add_argument("--channels", default="prop")
    options = parser.parse_args()
    draw(json.loads(options.results.read_text())["results"], options.channels, options.picture)


if __name__ == "__main__":
    main()
