"""Concatenation of encoded frames."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wshard.core.media.frames import EncodedFrames, ImageFrames
from wshard.errors import LaneError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False, repr=False)
class ChainedFrames(EncodedFrames):
    """The concatenated frames of several parts of equal encoding, shape and dtype; see chain_frames."""

    parts: tuple[EncodedFrames, ...]
    where: str = "frames"

    @property
    def encoding(self) -> str:  # type: ignore[override]  # that of the parts
        """The encoding of all parts."""
        return self.parts[0].encoding

    @property
    def length(self) -> int:
        """The number of frames of all parts."""
        return sum(part.length for part in self.parts)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels."""
        return self.parts[0].shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """uint8 or uint16."""
        return self.parts[0].dtype

    @property
    def nbytes(self) -> int:
        """Bytes of all parts."""
        return sum(part.nbytes for part in self.parts)

    def slice(self, start: int, stop: int | None = None) -> EncodedFrames:
        """Return the frames [start, stop), still encoded."""
        spans = self._spans(self.steps(start, stop))
        return chain_frames([part.slice(first, end) for part, first, end in spans] or [self.parts[0].slice(0, 0)])

    def decode_into(self, out: NDArray[Any], start: int) -> None:
        """Decode frames into out [n, H, W, C]."""
        count = 0
        for part, first, end in self._spans(range(start, start + len(out))):
            part.decode_into(out[count : count + end - first], first)
            count += end - first

    def _spans(self, steps: range) -> list[tuple[EncodedFrames, int, int]]:
        spans, part_start = [], 0
        for part in self.parts:
            first, end = max(steps.start - part_start, 0), min(steps.stop - part_start, part.length)
            if first < end:
                spans.append((part, first, end))
            part_start += part.length
        return spans


def chain_frames(parts: Sequence[EncodedFrames]) -> EncodedFrames:
    """Return the concatenated frames of one or more parts; raises LaneError if encoding, shape or dtype differ."""
    first = parts[0]
    for part in parts:
        if (part.encoding, part.shape, part.dtype) != (first.encoding, first.shape, first.dtype):
            raise LaneError(
                f"{part.where}: expected {first.encoding} {first.dtype} {list(first.shape)} as in the first part, "
                f"found {part.encoding} {part.dtype} {list(part.shape)}"
            )
    if len(parts) == 1:
        return first
    if not all(isinstance(part, ImageFrames) for part in parts):
        return ChainedFrames(tuple(parts), where=first.where)
    images = [part.image(step) for part in parts if isinstance(part, ImageFrames) for step in range(part.length)]
    return ImageFrames(first.encoding, images, frame_shape=first.shape, frame_dtype=first.dtype, where=first.where)
