"""Rows of frames, for alignment: equal frames are equal rows, exposure does not count, and other values are refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedders.image.sketches import ENCODER, sketches
from wshard.errors import EmbedderError

RNG = np.random.default_rng(4)
IMAGES = RNG.integers(0, 256, (40, 50, 70, 3), np.uint8)


def slow(frame):
    """Return the row of a grey frame of 16 x 16 by the definition of the transform."""
    seen = (frame - frame.mean()) / frame.std()
    waves = np.array([[np.cos(np.pi * (x + 0.5) * k / 16) for x in range(16)] for k in range(8)])
    waves *= np.sqrt(np.where(np.arange(8) == 0, 1, 2) / 16)[:, None]
    found = [(seen * waves[k][:, None] * waves[j][None]).sum() / 16 for k in range(8) for j in range(8)]
    return found[1:]


def test_rows_are_the_low_part_of_the_transform():
    frames = RNG.normal(50, 20, (3, 16, 16))
    np.testing.assert_allclose(sketches(frames, "x"), [slow(frame) for frame in frames], atol=1e-12)


@given(st.integers(0, 39), st.integers(1, 12))
def test_equal_frames_are_equal_to_the_last_bit_wherever_they_are(start, count):
    cut = IMAGES[start : start + count]
    whole = sketches(IMAGES, "x")[start : start + count]
    assert np.array_equal(sketches(np.ascontiguousarray(cut), "x"), whole)
    assert np.array_equal(sketches(np.asfortranarray(cut), "x"), whole)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int64, np.float32, np.float64])
def test_neither_exposure_nor_dtype_nor_transparency_count(dtype):
    grey = RNG.integers(0, 100, (4, 20, 30))
    expected = sketches(grey, "x")
    assert np.abs(expected).max() > 0.05
    colours = np.repeat(grey[..., None], 3, axis=-1)
    seen = np.concatenate([colours, RNG.integers(0, 99, (4, 20, 30, 1))], axis=-1)
    for images in (grey, 2 * grey + 30, colours, seen, grey[..., None]):
        atol = 3e-3 if dtype == np.uint8 else 1e-5  # what is stored of bytes is rounded
        np.testing.assert_allclose(sketches(images.astype(dtype), "x"), expected, atol=atol)


def test_stored_features_of_frames_make_the_same_rows():
    features = ENCODER.encode_frames(IMAGES).astype(np.float16)
    assert np.array_equal(sketches(features[:, None], "x"), sketches(IMAGES, "x"))


def test_large_images_are_thinned_and_look_alike():
    x, y = np.meshgrid(np.linspace(0, 1, 640), np.linspace(0, 1, 480))
    large = np.stack([np.sin(7 * x + t) * np.cos(5 * y) for t in range(5)])
    np.testing.assert_allclose(sketches(large, "x"), sketches(large[:, ::4, ::4], "x"), atol=0.02)


def test_frames_without_contrast_are_zero():
    for images in (np.zeros((2, 16, 16)), np.full((2, 16, 16), 1e30), np.full((2, 16, 16), 0.1) + 1e-12):
        assert not sketches(images, "x").any()


def test_invalid_image_is_refused_with_its_position():
    bad = np.zeros((3, 16, 16))
    bad[1, 2, 3] = np.nan
    for images, message in ((bad, "there, timestep 1"), (np.zeros((3, 16)), "there: expected images")):
        with pytest.raises(EmbedderError, match=message):
            sketches(images, "there")
