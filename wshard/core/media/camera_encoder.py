"""Encoders of camera frames that return each frame at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from wshard.core.media.images import encode_image


class CameraEncoder(ABC):
    """Encodes frames [H, W, C] of one shape, in order."""

    @abstractmethod
    def encode(self, frame: Any) -> bytes:
        """Return a frame, encoded; raises EpisodeError."""

    @abstractmethod
    def close(self) -> None:
        """End the encoder."""


class ImageEncoder(CameraEncoder):
    """Encodes each frame as an image of its own, "jpeg" or "png"; quality: that of JPEG."""

    def __init__(self, encoding: str, quality: int) -> None:
        self._encoding = encoding
        self._quality = quality

    def encode(self, frame: Any) -> bytes:
        """Return a frame as an image; raises EpisodeError."""
        return encode_image(frame, self._encoding, quality=self._quality)

    def close(self) -> None:
        """Do nothing."""
