"""The embedder `frames`: low frequencies of camera images over time, without pretrained weights."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from embedders.base import Vectors, unit_rows
from embedders.image.frame_rows import DescribedFrames
from embedders.numeric import LARGEST, first_bad, is_real
from embedders.trajectory.spectral import check_resolution, dct_matrix
from embedders.window_batches import Cuts, episodes_of
from wshard.errors import EmbedderError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from embedders.canonical_json import JSON
    from embedders.numeric import Rows
    from embedders.space import Statistics


PLANES: Final = frozenset({1, 3, 4})
"""Numbers of colour planes that the last axis of an image may have; the fourth, transparency, is ignored."""


LUMINANCE: Final = np.array([0.299, 0.587, 0.114])
"""Of grey in red, green and blue."""
_COLOUR: Final = 2.0  # times the differences of colours count as much as differences of grey
_BATCH_WINDOWS: Final = 64  # described at once, which still fit in the CPU cache


@dataclass(frozen=True)
class Frames:
    """Low spatial and temporal frequencies of the frames, and the amount of change from frame to frame.

    Every frame is averaged down to `side` x `side` pixels: grey, and with `colour` how much redder and bluer than grey.
    The pixels of a window are normalised to mean 0 and standard deviation 1 of grey, so that neither exposure, the
    scale of the values nor the tint of the light matter. A frame becomes the first `block` x `block` coefficients of
    the 2-D DCT of grey, half as many per side of both differences of colour, and the root mean square of the change of
    grey from the previous frame. These rows are described like in `arcdct`, or like in `dct` with `in_time`: dim =
    coefficients * (block * block + 2 * (block // 2) ** 2 + 1), whatever the size of the frames.
    """

    name: ClassVar[str] = "frames"
    version: ClassVar[int] = 3  # 2: averages of bytes are rounded to float16, as they are stored; 3: colour
    uses_statistics: ClassVar[bool] = False
    takes_frames: ClassVar[bool] = True
    metric: ClassVar[str] = "cosine"

    colour: bool = True
    in_time: bool = False
    side: int = 16
    block: int = 8
    length: int = 64
    coefficients: int = 8

    def __post_init__(self) -> None:
        check_resolution(self.side, self.block)
        check_resolution(self.length, self.coefficients)
        given: tuple[object, ...] = (self.colour, self.in_time)  # from a stored Space they may be anything
        if not all(isinstance(value, bool) for value in given):
            raise EmbedderError(f"colour and in_time: expected True or False, found {given}")

    def parameters(self) -> Mapping[str, JSON]:
        """Return the constructor parameters."""
        return asdict(self)

    def dim(self, channels: int) -> int:  # noqa: ARG002  (the same for frames of every size)
        """Return coefficients * (block * block + 1), and those of the differences of colour."""
        colours = 2 * (self.block // 2) ** 2 if self.colour else 0
        return self.coefficients * (self.block**2 + colours + 1)

    def embed(self, windows: Sequence[NDArray[Any]], statistics: Statistics | None) -> Vectors:
        """Return float32 [N, dim], one unit row per window [T_i, height, width] or [T_i, height, width, planes].

        Windows of one call have the same shape; frames of overlapping windows of Cuts are averaged once. `statistics`
        only determines how many values a frame must have. Raises EmbedderError.
        """
        channels = None if statistics is None else statistics.mean.size
        if not windows:
            return np.empty((0, self.dim(0)), np.float32)
        episodes = episodes_of_frames(windows, channels)
        return np.concatenate([self._describe(self._thumbnails(rows, where), cut) for where, rows, cut in episodes])

    @property
    def fingerprint(self) -> str:
        """Of the features of single frames: all embedders of this side have the same."""
        return f"thumbnails 1 {self.side}"

    def encode_frames(self, frames: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return [N, 3 * side * side]: frames [N, H, W, 3] averaged to side x side pixels in three colours."""
        rows = [thumbnail(frame, f"frame {step}", self.side) for step, frame in enumerate(frames)]
        return np.stack(rows).reshape(len(rows), -1).astype(np.float32)

    def steps(self, length: int) -> NDArray[np.int64]:
        """Return all frames of a window."""
        return np.arange(length)

    def pool(self, windows: Sequence[NDArray[Any]]) -> Vectors:
        """Return float32 [N, dim] as embed does, for windows of stored features [T_i, ...] of frames of bytes."""
        return np.concatenate([self._describe(self._planes(rows), cut) for rows, cut in episodes_of(windows)])

    def _thumbnails(self, frames: NDArray[Any], where: str) -> Rows:
        """Return [3, side, T, side]; of bytes as they are stored, so that vectors do not depend on the storage."""
        if frames.dtype == np.uint8:
            return self._planes(self.encode_frames(as_rgb(frames)).astype(np.float16))
        return self._planes(
            np.stack([thumbnail(one, f"{where}, timestep {step}", self.side) for step, one in enumerate(frames)])
        )

    def _planes(self, features: NDArray[Any]) -> Rows:
        """Return [3, side, T, side], in which all frames are read and multiplied at once."""
        frames = features.reshape(len(features), 3, self.side, self.side)
        return frames.transpose(1, 2, 0, 3).astype(np.float64, order="C")

    def _describe(self, thumbnails: Rows, spans: NDArray[np.int64]) -> Vectors:
        """Return the vectors of windows [start, stop) of an episode; what they share is computed once."""
        frames, basis = self._of_frames(thumbnails), dct_matrix(self.length, self.coefficients)
        batches = (spans[first : first + _BATCH_WINDOWS] for first in range(0, len(spans), _BATCH_WINDOWS))
        return np.concatenate([unit_rows(frames.over_time(one, basis, in_time=self.in_time)) for one in batches])

    def _of_frames(self, thumbnails: Rows) -> DescribedFrames:
        red, green, blue = thumbnails
        grey = LUMINANCE[0] * red + LUMINANCE[1] * green + LUMINANCE[2] * blue
        dct, half = dct_matrix(self.side, self.block), dct_matrix(self.side, self.block)[: self.block // 2]
        spectra, means = [_spectra(grey, dct)], [0]
        for colour in (red, blue) if self.colour and self.block > 1 else ():
            means.append(means[-1] + spectra[-1].shape[1])
            spectra.append(_spectra(_COLOUR * (colour - grey), half))
        rows = np.hstack([*spectra, np.zeros((grey.shape[1], 1))])
        walked, steps = rows[1:, :-1] - rows[:-1, :-1], np.zeros(len(rows))
        rows[1:, -1] = np.sqrt(_mean_squares(grey[:, 1:] - grey[:, :-1]))
        steps[:-1] = np.einsum("td,td->t", walked, walked)
        return DescribedFrames(rows, means, _mean_squares(grey), np.abs(grey).max(axis=0).max(axis=1), steps)


def _spectra(images: Rows, dct: Rows) -> Rows:
    """Return [T, block * block]: the 2-D DCT of images [side, T, side], all at once; their rows are the first axis."""
    block, side = dct.shape
    found: Rows = ((dct @ images.reshape(side, -1)).reshape(-1, side) @ dct.T / side).reshape(block, -1, block)
    return np.moveaxis(found, 1, 0).reshape(-1, block * block)


def _mean_squares(images: Rows) -> Rows:
    """Return [T] of images [side, T, side]."""
    found: Rows = np.einsum("rtc,rtc->t", images, images) / (len(images) * images.shape[2])
    return found


def as_rgb(frames: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return images [N, H, W] or [N, H, W, planes] as [N, H, W, 3]."""
    planes = frames[..., None] if frames.ndim == 3 else frames[..., :3]
    return np.repeat(planes, 3, axis=-1) if planes.shape[-1] == 1 else planes


def thumbnail(frame: NDArray[Any], where: str, side: int) -> Rows:
    """Return an image as [3, side, side], grey ones three times. Raises EmbedderError, naming `where`, for NaN."""
    image = frame.astype(np.float64, order="C").reshape(*frame.shape[:2], -1)
    check_values(image, where)
    planes = np.moveaxis(shrink(image, (side, side)), -1, 0)
    return planes[:3] if len(planes) >= len(LUMINANCE) else np.repeat(planes[:1], 3, axis=0)


def episodes_of_frames(
    windows: Sequence[NDArray[Any]], values: int | None
) -> Iterator[tuple[str, NDArray[Any], NDArray[np.int64]]]:
    """Yield a name, the frames and the windows [start, stop) of each episode; see `window_batches.episodes_of`.

    Raises EmbedderError unless frames are images of one size, each of `values` numbers if that is known.
    """
    kind = "episode" if isinstance(windows, Cuts) else "window"
    for number, (frames, spans) in enumerate(episodes_of(windows)):
        check_frames(frames, values, f"{kind} {number}")
        values = frames[0].size
        yield f"{kind} {number}", frames, spans


def check_frames(window: NDArray[Any], values: int | None, where: str) -> None:
    """Raise EmbedderError, naming `where`, unless `window` holds images, each of `values` numbers if that is known."""
    is_window = isinstance(window, np.ndarray) and is_image(window.shape[1:]) and len(window) and is_real(window.dtype)
    if not is_window:
        found = f"{window.dtype} {window.shape}" if isinstance(window, np.ndarray) else type(window).__name__
        raise EmbedderError(
            f"{where}: expected images [timesteps, height, width] or [timesteps, height, width, channels] of 1, 3 or 4 "
            f"channels, found {found}"
        )
    if values is not None and window[0].size != values:
        raise EmbedderError(f"{where}: expected frames of {values} pixels times channels, found {window.shape[1:]}")


def check_values(image: NDArray[np.float64], where: str) -> None:
    """Raise EmbedderError, naming `where`, for a number that is not finite, or too large."""
    if bad := first_bad(image.reshape(1, -1)):
        found = image.reshape(-1)[bad[1]]
        raise EmbedderError(
            f"{where}, channel {bad[1]}: expected a finite number of at most {LARGEST:.3g}, found {found}"
        )


def is_image(shape: Sequence[int]) -> bool:
    """Return whether frames of this shape are images: [height, width], or with 1, 3 or 4 planes."""
    return 0 not in shape and (len(shape) == 2 or (len(shape) == 3 and shape[-1] in PLANES))


def shrink(image: NDArray[np.float64], size: tuple[int, int]) -> NDArray[np.float64]:
    """Resize `image` [H, W, C] to `size` (height, width) by area averaging."""
    height, width, planes = image.shape
    rows = (averages(height, size[0]) @ image.reshape(height, -1)).reshape(size[0], width, planes)
    return np.ascontiguousarray(averages(width, size[1]) @ rows)


@lru_cache(maxsize=64)
def averages(before: int, after: int) -> NDArray[np.float64]:
    """Return [after, before]: the weight of each source pixel in each target pixel; rows sum to 1."""
    edges = np.arange(after + 1) * (before / after)
    starts, stops = np.arange(before), np.arange(1, before + 1)
    overlap = np.minimum(stops, edges[1:, None]) - np.maximum(starts, edges[:-1, None])
    matrix: NDArray[np.float64] = np.maximum(overlap, 0.0) * (after / before)
    matrix.flags.writeable = False
    return matrix
