"""Encoded camera frames, read and decoded on demand."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, overload

import numpy as np

from wshard.core.arguments import integer
from wshard.core.media.image_header import ImageHeader, header_prefix, read_image_header
from wshard.core.media.images import decode_as, find_decoder
from wshard.core.messages import shown
from wshard.errors import CodecError, LaneError, LimitError, StepError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wshard.core.container.layout import Buffer

MAX_DECODED_SIZE: Final = 1 << 34
"""Maximum decoded bytes of one call, 16 GiB. Larger spans can be decoded in parts."""
_LAST_HEADER: Final = "last_header"  # cached first bytes and header of the last image, usually the same in the next


class EncodedFrames(ABC):
    """`length` camera frames [H, W, C] that are decoded on access.

    Implementations provide `encoding`, `length`, `where` (name in messages), `shape`, `dtype` and `nbytes`.
    """

    encoding: str
    where: str

    @property
    @abstractmethod
    def length(self) -> int:
        """The number of frames."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels of every decoded frame."""

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[Any]:
        """uint8, or uint16 of depth images."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Encoded bytes; for a span of a video, those of its whole file."""

    @abstractmethod
    def slice(self, start: int, stop: int | None = None) -> EncodedFrames:
        """Return the frames [start, stop), still encoded; raises StepError for steps out of range."""

    @abstractmethod
    def decode_into(self, out: NDArray[Any], start: int) -> None:
        """Decode len(out) frames, starting at `start`, into out [n, H, W, C]."""

    def decode(self, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Decode the frames [start, stop) to [n, H, W, C].

        Raises StepError for steps out of range, CodecError for frames that cannot be decoded, LaneError for a frame of
        another shape, LimitError above MAX_PIXELS or MAX_DECODED_SIZE, MissingExtraError.
        """
        steps = self.steps(start, stop)
        size = len(steps) * math.prod(self.shape) * self.dtype.itemsize
        if size > MAX_DECODED_SIZE:
            raise LimitError(f"{self.where}: expected at most {MAX_DECODED_SIZE} decoded bytes at once, found {size}")
        out = np.empty((len(steps), *self.shape), self.dtype)
        if steps:
            self.decode_into(out, steps.start)
        return out

    @cached_property
    def pixels(self) -> NDArray[Any]:
        """All frames, decoded once: a read-only array [n, H, W, C]."""
        array = self.decode()
        array.flags.writeable = False
        return array

    def steps(self, start: int, stop: int | None) -> range:
        """Return the steps of [start, stop), which may be empty; raises StepError for steps out of range."""
        first, end = integer(start), self.length if stop is None else integer(stop)
        if first is None or end is None or not 0 <= first <= end <= self.length:
            raise StepError(
                f"{self.where}: expected 0 <= start <= stop <= {self.length}, found {shown(start)}, {shown(stop)}"
            )
        return range(first, end)

    def __len__(self) -> int:
        return self.length

    def __repr__(self) -> str:
        return f"<{self.encoding} frames of {self.where}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # immutable


@dataclass(frozen=True, eq=False, repr=False)
class ImageFrames(EncodedFrames):
    """One JPEG or PNG per step: images[first : first + count].

    images: any sequence of bytes, which may be read lazily. frame_shape, frame_dtype: shape and dtype of the frames, if
    known; otherwise those of the first image.
    """

    encoding: str
    images: Sequence[Buffer]
    _: KW_ONLY
    first: int = 0
    count: int | None = None
    frame_shape: tuple[int, int, int] | None = None
    frame_dtype: np.dtype[Any] | None = None
    where: str = "images"

    @property
    def length(self) -> int:
        """The number of images."""
        return len(self.images) - self.first if self.count is None else self.count

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels."""
        return self._header.shape if self.frame_shape is None else self.frame_shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """uint8 or uint16."""
        if self.frame_dtype is None:
            return np.dtype(np.uint8) if self.encoding == "jpeg" else self._header.dtype
        return self.frame_dtype

    @property
    def nbytes(self) -> int:
        """Total bytes of all images, which reads each of them."""
        return sum(len(self.image(step)) for step in range(self.length))

    def image(self, step: int) -> Buffer:
        """Return the bytes of one image."""
        return self.images[self.first + step]

    def slice(self, start: int, stop: int | None = None) -> ImageFrames:
        """Return the images [start, stop)."""
        steps = self.steps(start, stop)
        return replace(self, first=self.first + steps.start, count=len(steps))

    def decode_into(self, out: NDArray[Any], start: int) -> None:
        """Decode images into out [n, H, W, C]."""
        prefix, header = self.__dict__.get(_LAST_HEADER, (b"", None))
        size, first = len(prefix), self.first + start
        decode = find_decoder(header, out) if prefix else None
        for number, pixels in enumerate(out):
            image = self.images[first + number]
            if decode is None or bytes(image[:size]) != prefix or not decode(image, pixels):
                self._decode_checked(image, pixels, start + number)

    def _decode_checked(self, image: Buffer, pixels: NDArray[Any], step: int) -> None:
        """Decode an image after reading and checking its header; raises CodecError, LaneError, LimitError."""
        where = f"{self.where}: step {step}"
        header = read_image_header(image, where)
        self.__dict__[_LAST_HEADER] = header_prefix(image), header
        if (header.encoding, header.shape, header.dtype) != (self.encoding, pixels.shape, pixels.dtype):
            raise LaneError(
                f"{where}: expected {self.encoding} {self.dtype} {list(self.shape)}, "
                f"found {header.encoding} {header.dtype} {list(header.shape)}"
            )
        decode_as(header, image, pixels, where=where)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the bytes of the images only, not the larger memory that they may be views of."""
        state = {name: value for name, value in self.__dict__.items() if name not in {"pixels", _LAST_HEADER}}
        if isinstance(self.images, list | tuple):
            images = [bytes(self.image(step)) for step in range(self.length)]
            state |= {"images": images, "first": 0, "count": None}
        return state

    @cached_property
    def _header(self) -> ImageHeader:
        if not self.length:
            raise CodecError(f"{self.where}: expected at least one image to determine the shape, found none")
        return read_image_header(self.image(0), f"{self.where}: step 0")


class _HasFrames(Protocol):
    encoded: EncodedFrames | None


class LaneData:
    """A field `data` backed by a field `encoded`: assigning an array replaces the encoded frames."""

    @overload
    def __get__(self, lane: None, owner: type) -> NDArray[Any]: ...
    @overload
    def __get__(self, lane: _HasFrames, owner: type) -> NDArray[Any]: ...
    def __get__(self, lane: _HasFrames | None, owner: type) -> NDArray[Any]:
        if lane is None:
            raise AttributeError("data")  # so that dataclasses see a field without a default
        frames = lane.__dict__.get("encoded")
        array: NDArray[Any] = lane.__dict__["_data"] if frames is None else frames.pixels
        return array

    def __set__(self, lane: _HasFrames, values: Any) -> None:
        lane.__dict__["_data"] = values
        if lane.__dict__.get("encoded") is not None:
            lane.encoded = None
