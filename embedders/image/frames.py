"""The embedder `frames`: low frequencies of camera images over time, without pretrained weights."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from embedders.base import Vectors, unit_rows
from embedders.numeric import LARGEST, first_bad, is_real
from embedders.trajectory.arc import ArcDct
from embedders.trajectory.spectral import Dct, check_resolution, dct_matrix
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


_LUMINANCE: Final = np.array([0.299, 0.587, 0.114])
_CONSTANT: Final = 1e-6  # windows that vary less, relative to their largest value, vary by rounding only


@dataclass(frozen=True)
class Frames:
    """Low spatial and temporal frequencies of the frames, and the amount of change from frame to frame.

    Every frame is averaged down to `side` x `side` pixels, grey or, with `colour`, in three planes. The pixels of a
    window are normalised to mean 0 and standard deviation 1, so that exposure and the scale of the values do not
    matter. A frame becomes the first `block` x `block` coefficients of its 2-D DCT and the root mean square of its
    difference from the previous frame. These rows are described like in `arcdct`, or like in `dct` with `in_time`: dim
    = coefficients * (planes * block * block + 1), whatever the size of the frames.
    """

    name: ClassVar[str] = "frames"
    version: ClassVar[int] = 2  # 2: averages of bytes are rounded to float16, as they are stored
    uses_statistics: ClassVar[bool] = False
    takes_frames: ClassVar[bool] = True
    stride: ClassVar[int] = 1
    metric: ClassVar[str] = "cosine"

    colour: bool = False
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
        """Return coefficients * (planes * block * block + 1)."""
        return self.coefficients * ((3 if self.colour else 1) * self.block**2 + 1)

    def embed(self, windows: Sequence[NDArray[Any]], statistics: Statistics | None) -> Vectors:
        """Return float32 [N, dim], one unit row per window [T_i, height, width] or [T_i, height, width, planes].

        Windows of one call have the same shape; frames of overlapping windows of Cuts are averaged once. `statistics`
        only determines how many values a frame must have. Raises EmbedderError.
        """
        channels = None if statistics is None else statistics.mean.size
        if not windows:
            return np.empty((0, self.dim(0)), np.float32)
        rows = []
        for where, frames, spans in episodes_of_frames(windows, channels):
            thumbnails = self._thumbnails(frames, where)
            rows += [self._rows(thumbnails[start:stop]) for start, stop in spans.tolist()]
        return self._over_time(rows)

    @property
    def fingerprint(self) -> str:
        """Of the features of single frames: all embedders of this side have the same."""
        return f"thumbnails 1 {self.side}"

    def encode_frames(self, frames: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return [N, 3 * side * side]: frames [N, H, W, 3] averaged to side x side pixels in three colours."""
        rows = [thumbnail(frame, f"frame {step}", self.side, colour=True) for step, frame in enumerate(frames)]
        return np.stack(rows).reshape(len(rows), -1).astype(np.float32)

    def pool(self, windows: Sequence[NDArray[Any]]) -> Vectors:
        """Return float32 [N, dim] as embed does, for windows of stored features [T_i, ...] of frames of bytes."""
        episodes = episodes_of(windows)
        planes = [(self._planes(features), spans) for features, spans in episodes]
        return self._over_time(
            [self._rows(rows[start:stop]) for rows, spans in planes for start, stop in spans.tolist()]
        )

    def _thumbnails(self, frames: NDArray[Any], where: str) -> Rows:
        """Return [T, planes, side, side]; of bytes as they are stored, so that vectors do not depend on the storage."""
        if frames.dtype == np.uint8:
            return self._planes(self.encode_frames(as_rgb(frames)).astype(np.float16))
        named = ((frame, f"{where}, timestep {step}") for step, frame in enumerate(frames))
        return np.stack([thumbnail(frame, name, self.side, colour=self.colour) for frame, name in named])

    def _planes(self, features: NDArray[Any]) -> Rows:
        planes = features.astype(np.float64).reshape(len(features), 3, self.side, self.side)
        return planes if self.colour else np.tensordot(planes, _LUMINANCE, (1, 0))[:, None]

    def _over_time(self, rows: list[Rows]) -> Vectors:
        over_time = (
            Dct(self.length, self.coefficients)
            if self.in_time
            else ArcDct(self.length, self.coefficients, damping=0.0, position=None)
        )
        return np.concatenate([unit_rows(over_time.describe([features])) for features in rows])

    def _rows(self, thumbnails: Rows) -> Rows:
        """Return [T, planes * block * block + 1]: the spectrum of every frame, and its change from the previous one."""
        centred = thumbnails - thumbnails.mean()
        spread = centred.std()
        normalised = centred / spread if spread > _CONSTANT * np.abs(thumbnails).max() else np.zeros_like(thumbnails)
        change = np.diff(normalised, axis=0, prepend=normalised[:1]).reshape(len(normalised), -1)
        dct = dct_matrix(self.side, self.block)
        spectrum = dct @ normalised @ dct.T / self.side
        return np.hstack([spectrum.reshape(len(normalised), -1), np.sqrt((change**2).mean(axis=1, keepdims=True))])


def as_rgb(frames: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return images [N, H, W] or [N, H, W, planes] as [N, H, W, 3]."""
    planes = frames[..., None] if frames.ndim == 3 else frames[..., :3]
    return np.repeat(planes, 3, axis=-1) if planes.shape[-1] == 1 else planes


def thumbnail(frame: NDArray[Any], where: str, side: int, *, colour: bool = False) -> Rows:
    """Return an image as [planes, side, side]: grey, or three planes. Raises EmbedderError, naming `where`, for NaN."""
    image = frame.astype(np.float64, order="C").reshape(*frame.shape[:2], -1)
    check_values(image, where)
    planes = np.moveaxis(shrink(image, (side, side)), -1, 0)
    if colour:
        return planes[:3] if len(planes) >= len(_LUMINANCE) else np.repeat(planes[:1], 3, axis=0)
    return np.tensordot(_LUMINANCE, planes[:3], 1)[None] if len(planes) >= len(_LUMINANCE) else planes[:1]


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
    rows = (_averages(height, size[0]) @ image.reshape(height, -1)).reshape(size[0], width, planes)
    return np.ascontiguousarray(_averages(width, size[1]) @ rows)


@lru_cache(maxsize=64)
def _averages(before: int, after: int) -> NDArray[np.float64]:
    """Return [after, before]: the weight of each source pixel in each target pixel; rows sum to 1."""
    edges = np.arange(after + 1) * (before / after)
    starts, stops = np.arange(before), np.arange(1, before + 1)
    overlap = np.minimum(stops, edges[1:, None]) - np.maximum(starts, edges[:-1, None])
    matrix: NDArray[np.float64] = np.maximum(overlap, 0.0) * (after / before)
    matrix.flags.writeable = False
    return matrix


_SIDE: Final = 16
_BLOCK: Final = 8
_MIN_PIXELS: Final = 64  # pixels; of larger images every second, third, ... row and column is sufficient
_CONSTANT_SKETCH: Final = 1e-6  # images with less relative variation are constant except for rounding


def sketches(window: NDArray[Any], where: str) -> Rows:
    """Return [T, 63] for images [T, height, width] or [T, height, width, planes] with sides of at least 16 pixels.

    A frame is averaged to 16 x 16 grey pixels, normalised to mean 0 and standard deviation 1 (so that exposure and
    scale do not matter), and described by the lowest 8 x 8 coefficients of its 2-D DCT without the mean. Equal frames
    have equal rows. Raises EmbedderError, naming `where`, for NaN and for arrays that are not images.
    """
    check_frames(window, None, where)
    stride = max(1, min(window.shape[1:3]) // _MIN_PIXELS)
    dct = dct_matrix(_SIDE, _BLOCK)
    rows = np.empty((len(window), _BLOCK**2 - 1))
    for step, frame in enumerate(window):
        (picture,) = thumbnail(frame[::stride, ::stride], f"{where}, timestep {step}", _SIDE)
        centred = picture - picture.mean()
        spread = centred.std()
        if spread <= _CONSTANT_SKETCH * np.abs(picture).max():
            rows[step] = 0.0
        else:
            rows[step] = (dct @ (centred / spread) @ dct.T).reshape(-1)[1:] / _SIDE
    return rows
