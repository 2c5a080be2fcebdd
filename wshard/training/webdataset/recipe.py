"""How a run turns an episode into samples: options, field map, windows, and the columns that arrays are cut from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from wshard.errors import DatasetError
from wshard.training.webdataset.fields import LaneField
from wshard.training.webdataset.windows import ShardWindows, find_still

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wshard.training.webdataset.fields import FieldMap
    from wshard.training.webdataset.options import ShardifyOptions

_COMMANDED_POSES = "robot__action__poses__"


@dataclass(frozen=True)
class ShardRecipe:
    """The same for all episodes of a run. Raises DatasetError for a still filter without commanded positions."""

    options: ShardifyOptions
    fields: FieldMap

    def __post_init__(self) -> None:
        """Refuse a still filter without fields of commanded positions."""
        if self.options.filter_still_samples and not self.positions:
            raise DatasetError(f"filter_still_samples: expected fields {_COMMANDED_POSES}SIDE__xyz, found none")

    @cached_property
    def windows(self) -> ShardWindows:
        """The windows."""
        return ShardWindows.of(self.options)

    @cached_property
    def columns(self) -> tuple[LaneField, ...]:
        """The fields, followed by intrinsics and extrinsics of each camera, in that order."""
        extra = []
        for camera in self.fields.cameras:
            kinds = (("intrinsics", camera.intrinsics, 9), ("extrinsics", camera.extrinsics, 16))
            extra += [LaneField(f"{kind}.{camera.name}", lane, 0, size, optional=True) for kind, lane, size in kinds]
        return (*self.fields.fields, *extra)

    @cached_property
    def positions(self) -> list[int]:
        """The indices of the columns with commanded positions."""
        keys = [column.key for column in self.columns]
        return [number for number, key in enumerate(keys) if key.startswith(_COMMANDED_POSES) and key.endswith("__xyz")]

    def choose_anchors(
        self, length: int, values: NDArray[Any], columns: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], int, int]:
        """Return the anchors of an episode, and the numbers of those left out for padding and for stillness.

        columns: bounds [columns, 2] of each column in values [timesteps, numbers], -1 for missing ones.
        """
        options = self.options
        anchors = self.windows.anchors(length, max_left=options.max_padding_left, max_right=options.max_padding_right)
        padded = length - len(anchors)
        if not options.filter_still_samples:
            return anchors, padded, 0
        bounds = [columns[number] for number in self.positions if columns[number, 0] >= 0]
        is_still = find_still(
            [values[:, first:stop].astype(np.float64) for first, stop in bounds],
            anchors,
            future=options.future_lowdim_steps,
            threshold=options.still_threshold,
        )
        return anchors[~is_still], padded, int(is_still.sum())
