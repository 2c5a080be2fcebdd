"""Contract test class for frame encoders.

A subclass whose name begins with "Test" defines `make`; any runner that calls `test_*` methods works.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from embedders.image.frame_encoder import comparable_rows, encode_checked, encode_words
from wshard.errors import EmbedderError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from embedders.image.frame_encoder import FrameEncoder

__all__ = ["FrameEncoderContract"]

_TOLERANCE = 2e-3
"""What rounding to float16 may change in a feature, relative to the length of all."""

_LEAST = 1e-5
"""How far features of frames that differ are apart at least."""


class FrameEncoderContract:
    """Tests for every frame encoder, of pictures, and of words where it has them; set `words` to whether it does."""

    words = False

    def make(self) -> FrameEncoder:
        """Return a fresh encoder; called once or more per test."""
        raise NotImplementedError

    def frames(self, height: int = 40, width: int = 56) -> NDArray[np.uint8]:
        """Return five different frames uint8 [5, height, width, 3], read-only, always the same ones."""
        tiles = np.random.default_rng(7).integers(0, 256, (5, height // 8, width // 8, 3), np.uint8)
        frames = tiles.repeat(8, axis=1).repeat(8, axis=2)
        frames.flags.writeable = False
        return frames

    def encode(self, frames: NDArray[np.uint8], encoder: FrameEncoder | None = None) -> NDArray[np.float16]:
        """Encode, and check what holds for every result."""
        return encode_checked(encoder or self.make(), frames)

    def test_frames_have_features_that_can_be_stored(self) -> None:
        rows = comparable_rows(self.encode(self.frames()))
        assert np.linalg.norm(rows - rows[::-1], axis=1)[:2].min() > _LEAST, "expected features that tell frames apart"

    def test_features_of_a_frame_do_not_depend_on_the_others(self) -> None:
        encoder, frames = self.make(), self.frames()
        together = self.encode(frames, encoder)
        _assert_same(np.concatenate([self.encode(one[None], encoder) for one in frames]), together)
        _assert_same(self.encode(frames[::-1], encoder)[::-1], together)
        _assert_same(self.encode(np.concatenate([frames] * 15), encoder)[-5:], together)

    def test_frames_of_any_size_have_equally_many_features(self) -> None:
        encoder = self.make()
        sizes = [self.encode(self.frames(*size), encoder).shape[1] for size in ((40, 56), (48, 40), (16, 16))]
        assert len({*sizes}) == 1, f"expected one number of features, found {sizes}"

    def test_black_and_white_frames_have_features(self) -> None:
        self.encode(np.stack([np.full((32, 32, 3), value, np.uint8) for value in (0, 255)]))

    def test_fingerprint_and_features_are_those_of_any_instance(self) -> None:
        encoder, other = self.make(), self.make()
        assert encoder.fingerprint == other.fingerprint
        _assert_same(self.encode(self.frames(), encoder), self.encode(self.frames(), other))

    def test_words_have_features_in_the_space_of_frames(self) -> None:
        encoder = self.make()
        if not self.words:
            try:
                encode_words(encoder, "red")
            except EmbedderError as error:
                assert "text and pictures" in str(error), f"expected what has text in the message, found {error}"  # noqa: PT017
            else:
                raise AssertionError("expected EmbedderError, found features of words")
            return
        red, *others = (encode_words(encoder, text) for text in ("red", "the green block", "red " * 200, "qxz \ud83e"))
        assert {one.shape for one in (red, *others)} == {(1, self.encode(self.frames(), encoder).shape[1])}
        _assert_same(encode_words(encoder, "red"), red)
        assert np.abs(comparable_rows(others[0]) - comparable_rows(red)).max() > _LEAST


def _assert_same(found: NDArray[np.float16], expected: NDArray[np.float16]) -> None:
    assert found.shape == expected.shape, f"expected shape {expected.shape}, found {found.shape}"
    apart = np.abs(comparable_rows(found) - comparable_rows(expected)).max()
    assert apart <= _TOLERANCE, f"expected equal features, found them {apart} apart"
