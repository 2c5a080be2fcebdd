"""Frame encoders: what describes single camera frames, so that a picture finds the frames that show the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

import numpy as np

from embedders.base import translate_errors
from embedders.image.frames import thumbnail
from wshard.errors import EmbedderError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LARGEST: Final = 60_000.0  # of a feature, which is stored as float16
_CONSTANT: Final = 1e-3  # features that vary less, relative to their largest value, vary by rounding only


@runtime_checkable
class FrameEncoder(Protocol):
    """Describes camera frames one by one; the frames of a batch do not affect each other.

    An embedder that has these members is used for pictures, too.
    """

    @property
    def fingerprint(self) -> str:
        """Changes whenever a frame would be described otherwise, with the weights and the preprocessing."""

    def encode_frames(self, frames: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return the features [N, D] of frames uint8 [N, H, W, 3]."""


@dataclass(frozen=True)
class Thumbnails:
    """The default encoder: each frame averaged to `side` x `side` pixels in three colours, without weights."""

    side: int = 16

    @property
    def fingerprint(self) -> str:
        """Name, version and size."""
        return f"thumbnails 1 {self.side}"

    def encode_frames(self, frames: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return [N, 3 * side * side]."""
        rows = [thumbnail(frame, f"frame {step}", self.side, colour=True) for step, frame in enumerate(frames)]
        return np.stack(rows).reshape(len(rows), -1).astype(np.float32)


def frame_encoder_of(embedder: object) -> FrameEncoder | None:
    """Return the embedder if it is a frame encoder, too."""
    return embedder if isinstance(embedder, FrameEncoder) else None


def encode_checked(encoder: FrameEncoder, frames: NDArray[np.uint8]) -> NDArray[np.float16]:
    """Return the features of frames as they are stored; raises EmbedderError for any that cannot be.

    The encoder may be third-party code.
    """
    name = encoder.fingerprint
    with translate_errors(name):
        features: Any = np.asarray(encoder.encode_frames(frames))
    if features.ndim != 2 or len(features) != len(frames) or not features.shape[1] or features.dtype.kind != "f":
        found = f"{features.dtype} {[*features.shape]}"
        raise EmbedderError(f"frame encoder {name!r}: expected features [{len(frames)}, D], found {found}")
    if not (np.abs(features) <= _LARGEST).all():  # also of NaN
        raise EmbedderError(f"frame encoder {name!r}: expected finite features of at most {_LARGEST:g}")
    stored: NDArray[np.float16] = features.astype(np.float16)
    return stored


def comparable_rows(features: NDArray[Any]) -> NDArray[np.float32]:
    """Return features [N, D] as rows whose products are their correlations; rows of one value, as of black, are 0.

    The correlation does not depend on exposure where features are pixels.
    """
    rows = features.astype(np.float32)
    peaks = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    rows -= rows.mean(axis=1, keepdims=True)
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    is_constant = lengths <= _CONSTANT * peaks * np.sqrt(rows.shape[1])
    compared: NDArray[np.float32] = np.where(is_constant, 0.0, rows / np.where(is_constant, 1.0, lengths))
    return compared.astype(np.float32, copy=False)
