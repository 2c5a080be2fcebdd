"""A picture of one query of benchmark RB-B: the moments found, with their true bounds, and how the best one aligns.

Knows: matplotlib, hits. Does not know: how anything was found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.patches import ConnectionPatch

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from rb_b_data import Play, Query

    from bridge.results import EpisodeRef

_AXES: Final = ("x", "y", "z")
_AROUND: Final = 40  # timesteps shown before and after a hit


def draw(plays: Sequence[Play], query: Query, hits: Sequence[EpisodeRef], target: Path) -> None:
    """Draw the way of the hand in query and hits: shaded what was found, dashed the true bounds."""
    figure, panels = plt.subplots(1 + len(hits), 1, figsize=(8, 1.5 * (1 + len(hits))), layout="constrained")
    _panel(panels[0], plays[query.episode], (query.start, query.stop), f"query: {query.label}")
    numbers = {f"play-{play.seed}": play for play in plays}
    for panel, hit in zip(panels[1:], hits, strict=True):
        _panel(panel, numbers[hit.episode_id], hit.span, f"{hit.episode_id}, score {hit.score:.2f}")
    best = numbers[hits[0].episode_id].arm[:, 2]
    asking = plays[query.episode].arm[query.start :, 2]
    for step, met in hits[0].alignment[::3]:
        start, stop = (query.start + step, asking[step]), (met, best[met])
        line = ConnectionPatch(start, stop, "data", "data", axesA=panels[0], axesB=panels[1], color="0.6", lw=0.6)
        figure.add_artist(line)
    panels[0].legend(_AXES, loc="upper right", ncols=3, fontsize=7)
    panels[-1].set_xlabel("timestep")
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=80)


def _panel(panel: Axes, play: Play, span: tuple[int, int], title: str) -> None:
    first, last = max(0, span[0] - _AROUND), min(len(play.arm), span[1] + _AROUND)
    panel.plot(range(first, last), play.arm[first:last, :3], lw=1)
    panel.axvspan(*span, color="tab:orange", alpha=0.2)
    for label, (start, stop) in zip(play.labels, play.spans.tolist(), strict=True):
        if max(start, span[0]) < min(stop, span[1]) and min(stop, span[1]) - max(start, span[0]) > (stop - start) / 2:
            panel.axvline(start, ls="--", lw=0.8, color="k")
            panel.axvline(stop, ls="--", lw=0.8, color="k")
            title += f" (there: {label})"
    panel.set_title(title, fontsize=8, loc="left")
    panel.set_xlim(first, last)
    panel.tick_params(labelsize=7)
