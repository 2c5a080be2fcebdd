"""Options of the export, named as in the original."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final, Literal

from wshard.core.arguments import finite_number, whole_number
from wshard.core.messages import shown
from wshard.errors import DatasetError

if TYPE_CHECKING:
    from collections.abc import Mapping

MaskStyle = Literal["position", "padding"]
_SIZE: Final = re.compile(r"([1-9]\d{0,4})x([1-9]\d{0,4})")
_MINIMUMS: Final = {
    "past_lowdim_steps": 0,
    "future_lowdim_steps": 0,
    "stride": 1,
    "max_padding_left": 0,
    "max_padding_right": 0,
    "samples_per_shard": 0,
    "num_workers": 1,
    "stats_reservoir_size": 1,
    "stats_stride": 1,
    "seed": 0,
}


@dataclass(frozen=True)
class ShardifyOptions:
    """Options for cutting and writing windows.

    A window has past_lowdim_steps + 1 + future_lowdim_steps timesteps, `stride` apart, and the images image_indices
    timesteps from its anchor. resize_images_size: (height, width), None to keep the size; JPEG images of the right size
    are copied. max_episodes_to_process: -1 for all. stats_stride: compute statistics on every n-th sample.
    camera_names: by default those of the first episode.

    Not in the original: seed, for shuffling; masks "padding": the anchor counts as future and repeated timesteps as
    neither, instead of "position"; resize_depth, scale_intrinsics: match the resized images; window_timesteps: store
    the timesteps of a window in its metadata; keep_incomplete: write samples that lack an image, which are skipped
    otherwise.
    """

    past_lowdim_steps: int = 1
    future_lowdim_steps: int = 19
    stride: int = 3
    image_indices: tuple[int, ...] = (-1, 0)
    max_padding_left: int = 3
    max_padding_right: int = 15
    camera_names: tuple[str, ...] | None = None
    camera_name_map: Mapping[str, str] = field(default_factory=dict)
    resize_images_size: tuple[int, int] | None = (384, 384)
    jpeg_quality: int = 95
    use_depth: bool = False
    filter_still_samples: bool = False
    still_threshold: float = 0.05
    fail_on_nan: bool = True
    max_episodes_to_process: int = -1
    samples_per_shard: int = 100
    num_workers: int = 1
    stats_reservoir_size: int = 50_000
    stats_stride: int = 1
    seed: int = 0
    masks: MaskStyle = "position"
    resize_depth: bool = False
    scale_intrinsics: bool = False
    window_timesteps: bool = False
    keep_incomplete: bool = False

    def __post_init__(self) -> None:
        """Raise DatasetError for values out of range."""
        for name, minimum in _MINIMUMS.items():
            whole_number(getattr(self, name), name, DatasetError, least=minimum)
        for index in self.image_indices:
            whole_number(index, "image_indices", DatasetError)
        if not self.image_indices or len(set(self.image_indices)) < len(self.image_indices):
            raise DatasetError(f"image_indices: expected different whole numbers, found {shown(self.image_indices)}")
        finite_number(self.still_threshold, "still_threshold", DatasetError)
        if not 1 <= whole_number(self.jpeg_quality, "jpeg_quality", DatasetError) <= 100:
            raise DatasetError(f"jpeg_quality: expected 1 to 100, found {self.jpeg_quality}")
        if self.masks not in ("position", "padding"):
            raise DatasetError(f"masks: expected 'position' or 'padding', found {shown(self.masks)}")

    def config(self, output_dir: str) -> dict[str, Any]:
        """Return the options that the original has, in the form and order in which it writes them."""
        names = [field_.name for field_ in fields(self)]
        values = {name: getattr(self, name) for name in names[: names.index("seed")]}
        # The original writes these first, in this order.
        order = ["past_lowdim_steps", "future_lowdim_steps", "stride", "image_indices"]
        order += ["max_padding_left", "max_padding_right", "padding_strategy"]
        values = {"output_dir": output_dir, "padding_strategy": "copy", **values}
        ordered = {name: values[name] for name in ("output_dir", *order)}
        return {name: _plain(value) for name, value in (ordered | values).items()}


def parse_size(text: str) -> tuple[int, int] | None:
    """Read "HEIGHTxWIDTH"; "None" and "" are None. Raises DatasetError."""
    if text in ("", "None"):
        return None
    match = _SIZE.fullmatch(text)
    if match is None:
        raise DatasetError(f"resize-images: expected HEIGHTxWIDTH as 384x384, or None, found {shown(text)}")
    return int(match[1]), int(match[2])


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else dict(value) if isinstance(value, dict) else value
