"""Draw the trajectory of a query over those of its best hits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from wshard.core.container.atomic_write import publish
from wshard.core.messages import how_to_install
from wshard.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from bridge.results import EpisodeRef

AXES = ("x", "y", "z")


def draw(path: Path, query: EpisodeRef, hits: Sequence[EpisodeRef]) -> None:
    """Write a PNG with the hand positions of the query and its hits, seen from above and over time."""
    try:
        import matplotlib as mpl  # noqa: PLC0415  (an extra, and slow to import)

        mpl.use("Agg")
        from matplotlib import pyplot as plt  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError(f"the picture expects the extra 'demo' ({how_to_install('demo')}): {error}") from error
    figure, axes = plt.subplots(1, 4, figsize=(15, 4), constrained_layout=True)
    for rank, ref in reversed([*enumerate((query, *hits))]):
        hand = _hand(ref)
        style: dict[str, Any] = {"color": "black", "linewidth": 2.2, "label": f"query {ref.episode_id}"}
        if rank:
            style = {"color": f"C{rank - 1}", "linewidth": 1.2, "label": f"{rank}. {ref.episode_id}  {ref.score:.3f}"}
        axes[0].plot(hand[:, 0], hand[:, 1], **style)
        axes[0].plot(*hand[0, :2], "o", color=style["color"], markersize=3)
        for axis, axis_plot in enumerate(axes[1:]):
            axis_plot.plot(np.linspace(0, 1, len(hand)), hand[:, axis], **style)
    axes[0].set(title="hand seen from above", xlabel="x (m)", ylabel="y (m)")
    for name, axis_plot in zip(AXES, axes[1:], strict=True):
        axis_plot.set(title=f"hand {name} over the episode", xlabel="share of the episode", ylabel=f"{name} (m)")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles[::-1], labels[::-1], loc="outside right upper", fontsize="small")
    with publish(path) as file:
        figure.savefig(file, format="png", dpi=110)
    plt.close(figure)


def _hand(ref: EpisodeRef) -> NDArray[np.float32]:
    """Return the hand's position [T, 3] in metres: the first three numbers of a MetaWorld observation."""
    hand: NDArray[np.float32] = ref.load(channels=["state"]).observations["state"].data[:, :3]
    return hand
