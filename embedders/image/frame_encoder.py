"""Frame encoders: what describes single camera frames, so that a picture finds the frames that show the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

import numpy as np

from embedders.base import translate_errors
from wshard.errors import EmbedderError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from embedders.base import Vectors

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


@runtime_checkable
class WordEncoder(FrameEncoder, Protocol):
    """A frame encoder that describes words, too, so that they find the frames that show what they say."""

    def encode_words(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the features [N, D] of texts, in the space of the frames.

        Raises EmbedderError if this one has no text, which says what has.
        """


@runtime_checkable
class FramePooler(FrameEncoder, Protocol):
    """An embedder of frames whose vectors are made from the features of single frames, which can be stored.

    `embed` of windows of bytes gives the vectors that `pool` gives for their features as float16.
    """

    @property
    def name(self) -> str:
        """As of any Embedder."""

    def steps(self, length: int) -> NDArray[np.int64]:
        """Return the frames of a window that are described, ascending, with its first."""

    def pool(self, windows: Sequence[NDArray[Any]]) -> Vectors:
        """Return float32 [N, dim], one row per window of features float16 [T_i, 1, D].

        Features of other frames than those that are described repeat the ones before.
        """


class Pooled:
    """A FramePooler as what embeds windows of features instead of frames."""

    def __init__(self, embedder: FramePooler) -> None:
        self.name = embedder.name
        self._pool = embedder.pool

    def embed(self, windows: Sequence[NDArray[Any]], statistics: object) -> Vectors:  # noqa: ARG002  (of pixels)
        """Return the pooled vectors."""
        return self._pool(windows)


def frame_encoder_of(embedder: object) -> FrameEncoder | None:
    """Return the embedder if it is a frame encoder, too."""
    return embedder if isinstance(embedder, FrameEncoder) and getattr(embedder, "takes_frames", True) else None


def frame_pooler_of(embedder: object) -> FramePooler | None:
    """Return the embedder if it pools the features of frames."""
    return embedder if isinstance(embedder, FramePooler) and frame_encoder_of(embedder) else None


def encode_checked(
    encoder: FrameEncoder, frames: NDArray[np.uint8], *, width: int | None = None
) -> NDArray[np.float16]:
    """Return the features of frames as they are stored; raises EmbedderError for any that cannot be.

    The encoder may be third-party code. width: the number of features of other frames.
    """
    name = encoder.fingerprint
    with translate_errors(name):
        features: Any = np.asarray(encoder.encode_frames(frames))
    return _check_features(features, (len(frames), width), name)


def encode_words(encoder: FrameEncoder, words: str) -> NDArray[np.float16]:
    """Return the features [1, D] of words. Raises EmbedderError if the encoder has no text."""
    name = encoder.fingerprint
    if not isinstance(encoder, WordEncoder):
        raise EmbedderError(
            f"words: expected cameras that are described by an encoder of text and pictures (CLIP, SigLIP, SigLIP 2), "
            f"found {name!r}: `wshard ingest PATHS --encoder FOLDER` does so; --text finds words of metadata and notes"
        )
    with translate_errors(name):
        features: Any = np.asarray(encoder.encode_words([words]))
    return _check_features(features, (1, None), name)


def _check_features(features: Any, expected: tuple[int, int | None], name: str) -> NDArray[np.float16]:
    """Return features [N, D] as they are stored; D: that of others, if there are."""
    count, width = expected
    is_sized = features.ndim == 2 and len(features) == count and features.shape[1] == (width or features.shape[1]) > 0
    if not is_sized or features.dtype.kind != "f":
        found = f"{features.dtype} {[*features.shape]}"
        raise EmbedderError(f"frame encoder {name!r}: expected features [{count}, {width or 'D'}], found {found}")
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
