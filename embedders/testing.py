"""Contract test classes for embedders and text encoders; that for frame encoders is in embedders.image.testing.

A subclass whose name begins with "Test" defines `make`; any runner that calls `test_*` methods works.
"""

from __future__ import annotations

import json
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from embedders.statistics import Moments, merge, statistics
from wshard.errors import EmbedderError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from embedders.base import Embedder, Vectors
    from embedders.space import Statistics
    from embedders.text.base import TextEncoder

__all__ = ["EmbedderContract", "TextEncoderContract"]


TOLERANCE = 1e-5
"""What float32 arithmetic in another order may change in a coordinate of a unit vector."""


class EmbedderContract:
    """Tests for every embedder; set `channels`, or the `shape` of frames, to supported values."""

    channels = 5
    shape: tuple[int, ...] = ()

    def make(self) -> Embedder:
        """Return a fresh embedder; called once or more per test."""
        raise NotImplementedError

    def windows(self, lengths: Sequence[int] = (40, 7, 133, 2, 64)) -> list[NDArray[np.float32]]:
        """Return random walks float32 [T, channels] or [T, *shape], one per length, always the same ones."""
        rng = np.random.default_rng(7)
        step = self._step()
        return [rng.normal(1.0, 0.3, (length, *step)).cumsum(axis=0).astype(np.float32) for length in lengths]

    def _step(self, *, more: int = 0) -> tuple[int, ...]:
        """Return the shape of a timestep, or one that is larger along its first axis."""
        first, *rest = self.shape or (self.channels,)
        return (first + more, *rest)

    def statistics(self) -> Statistics:
        """Return the archive statistics of `windows`."""
        return statistics([merge(Moments.of(window) for window in self.windows())])

    @property
    def _size(self) -> int:
        return prod(self._step())

    def embed(self, windows: Sequence[NDArray[Any]], embedder: Embedder | None = None) -> Vectors:
        """Embed with the archive statistics of `windows`, and check what holds for every result."""
        embedder = embedder or self.make()
        vectors = embedder.embed(windows, self.statistics())
        assert vectors.dtype == np.float32, f"expected float32, found {vectors.dtype}"
        assert vectors.shape == (len(windows), embedder.dim(self._size)), f"found shape {vectors.shape}"
        assert np.isfinite(vectors).all(), "found NaN or infinity in a vector"
        norms = np.linalg.norm(vectors.astype(np.float64), axis=1)
        assert np.allclose(norms, 1.0, rtol=0, atol=TOLERANCE), f"expected unit rows, found lengths {norms}"
        return vectors

    def test_windows_of_different_lengths_give_unit_rows_of_the_promised_size(self) -> None:
        assert len(self.embed(self.windows())) == 5

    def test_different_windows_give_different_vectors(self) -> None:
        vectors = self.embed(self.windows())
        assert np.abs(np.diff(vectors, axis=0)).max(axis=1).min() > TOLERANCE

    def test_no_windows_give_no_rows_of_the_promised_size(self) -> None:
        assert self.embed([]).shape[0] == 0

    def test_a_batch_gives_what_single_windows_give(self) -> None:
        windows = self.windows() * 30  # more than any sensible internal batch
        singles = np.concatenate([self.embed([window]) for window in self.windows()] * 30)
        _assert_close(self.embed(windows), singles)

    def test_the_order_of_a_batch_is_the_order_of_the_rows(self) -> None:
        windows, order = self.windows(), [3, 0, 4, 2, 1]
        _assert_close(self.embed([windows[i] for i in order]), self.embed(windows)[order])

    def test_the_same_windows_give_the_same_bytes_from_any_instance(self) -> None:
        embedder = self.make()
        first = self.embed(self.windows(), embedder).tobytes()
        assert self.embed(self.windows(), embedder).tobytes() == first
        assert self.embed(self.windows()).tobytes() == first

    def test_windows_are_only_read(self) -> None:
        windows = self.windows()
        for window in windows:
            window.flags.writeable = False
        self.embed(windows)
        assert all((window == fresh).all() for window, fresh in zip(windows, self.windows(), strict=True))

    def test_the_dtype_and_layout_of_windows_do_not_matter(self) -> None:
        whole = [np.rint(window * 10) for window in self.windows((40, 7))]
        expected = self.embed(whole)
        for dtype in (np.float64, np.int16, np.int64):
            _assert_close(self.embed([np.asfortranarray(window.astype(dtype)) for window in whole]), expected)

    def test_one_timestep_gives_a_vector(self) -> None:
        self.embed(self.windows((1, 1)))

    def test_constant_windows_give_a_vector(self) -> None:
        mean = self.statistics().mean
        still = np.tile(mean, (6, 1)).reshape(6, *self._step())
        self.embed([np.zeros((9, *self._step())), np.full((3, *self._step()), 4.0), still])

    def test_a_stall_gives_a_vector(self) -> None:
        (window,) = self.windows((40,))
        self.embed([np.concatenate([window[:20], np.repeat(window[20:21], 500, axis=0), window[20:]])])

    def test_huge_and_tiny_values_give_a_vector(self) -> None:
        (window,) = self.windows((40,))
        largest = np.full_like(window, np.finfo(np.float32).max)
        self.embed(
            [window * np.float32(1e30), window * np.float32(-1e-30), largest, np.where(window > 20, 1, -1) * largest]
        )

    def test_values_that_are_not_finite_are_refused_with_their_place(self) -> None:
        for value in (np.nan, np.inf, -np.inf):
            windows = self.windows()
            windows[2].reshape(133, -1)[11, 3 % self._size] = value
            self._assert_refused(windows, "window 2", "timestep 11", f"channel {3 % self._size}")

    def test_another_number_of_channels_is_refused_with_its_window(self) -> None:
        windows: list[NDArray[np.float32]] = self.windows()
        wider = np.zeros((4, *self._step(more=1)), np.float32)
        self._assert_refused([*windows[:3], wider], "window 3", "channels")
        self._assert_refused([wider], "window 0", "channels")

    def test_invalid_window_is_refused(self) -> None:
        step = self._step()
        for wrong in (np.zeros(step[-1]), np.zeros((0, *step)), np.full((2, *step), "1.5"), np.zeros((2, 1, *step, 2))):
            self._assert_refused([wrong], "window 0")

    def test_statistics_are_demanded_exactly_when_they_are_used(self) -> None:
        embedder = self.make()
        if embedder.uses_statistics:
            assert "statistics" in _refusal(embedder, self.windows(), None)
        else:
            _assert_close(embedder.embed(self.windows(), None), self.embed(self.windows()))

    def test_parameters_are_json_and_never_change(self) -> None:
        parameters = dict(self.make().parameters())
        assert json.loads(json.dumps(parameters, allow_nan=False)) == parameters == dict(self.make().parameters())

    def test_name_version_and_metric_are_valid(self) -> None:
        embedder = self.make()
        assert embedder.name
        assert embedder.version >= 1
        assert embedder.metric == "cosine"

    def _assert_refused(self, windows: Sequence[NDArray[Any]], *words: str) -> None:
        message = _refusal(self.make(), windows, self.statistics())
        missing = [word for word in words if word not in message]
        assert not missing, f"expected {missing} in the message, found {message!r}"


class TextEncoderContract:
    """Tests for every text encoder."""

    def make(self) -> TextEncoder:
        """Return a fresh encoder; called once or more per test."""
        raise NotImplementedError

    def texts(self) -> list[str]:
        """Return texts of different lengths that differ in meaning, in the encoder's language."""
        return ["open the drawer", "wave", "pick up the cup and put it on the shelf", "close the drawer", "press"]

    def encode(self, texts: Sequence[str], encoder: TextEncoder | None = None) -> Vectors:
        """Encode, and check what holds for every result."""
        encoder = encoder or self.make()
        vectors = encoder.encode(texts)
        assert vectors.dtype == np.float32, f"expected float32, found {vectors.dtype}"
        assert vectors.shape == (len(texts), encoder.dim()), f"found shape {vectors.shape}"
        assert np.isfinite(vectors).all(), "found NaN or infinity in a vector"
        norms = np.linalg.norm(vectors.astype(np.float64), axis=1)
        assert np.allclose(norms, 1.0, rtol=0, atol=TOLERANCE), f"expected unit rows, found lengths {norms}"
        return vectors

    def test_texts_of_different_lengths_give_unit_rows_of_the_promised_size(self) -> None:
        assert len(self.encode(self.texts())) == 5

    def test_different_texts_give_different_vectors(self) -> None:
        vectors = self.encode(self.texts())
        assert np.abs(np.diff(vectors, axis=0)).max(axis=1).min() > TOLERANCE

    def test_no_texts_give_no_rows_of_the_promised_size(self) -> None:
        assert self.encode([]).shape[0] == 0

    def test_a_batch_gives_what_single_texts_give(self) -> None:
        singles = np.concatenate([self.encode([text]) for text in self.texts()])
        _assert_close(self.encode(self.texts() * 20), np.tile(singles, (20, 1)))

    def test_the_order_of_a_batch_is_the_order_of_the_rows(self) -> None:
        texts, order = self.texts(), [3, 0, 4, 2, 1]
        _assert_close(self.encode([texts[i] for i in order]), self.encode(texts)[order])

    def test_the_same_texts_give_the_same_bytes_from_any_instance(self) -> None:
        encoder = self.make()
        first = self.encode(self.texts(), encoder).tobytes()
        assert self.encode(self.texts(), encoder).tobytes() == first
        assert self.encode(self.texts()).tobytes() == first

    def test_texts_that_say_nothing_give_a_vector(self) -> None:
        self.encode(["", " ", "\n\t", "\0", "?!", "qxzjv", "\U0001f916", "\ud83e"])  # the last: half a character

    def test_a_long_text_gives_a_vector(self) -> None:
        self.encode([" ".join(self.texts() * 1000), "wave " * 10_000])

    def test_invalid_text_is_refused(self) -> None:
        for wrong in (None, 7, b"wave", ["wave"]):
            texts: list[Any] = ["wave", wrong]
            message = _error_message(partial(self.make().encode, texts))
            assert "text 1" in message, f"expected the text's number, found {message!r}"

    def test_parameters_are_json_and_never_change(self) -> None:
        parameters = dict(self.make().parameters())
        assert json.loads(json.dumps(parameters, allow_nan=False)) == parameters == dict(self.make().parameters())

    def test_name_and_version_are_valid(self) -> None:
        encoder = self.make()
        assert encoder.name
        assert encoder.version >= 1


def _refusal(embedder: Embedder, windows: Sequence[NDArray[Any]], frozen: Statistics | None) -> str:
    return _error_message(lambda: embedder.embed(windows, frozen))


def _error_message(call: Callable[[], Vectors]) -> str:
    try:
        call()
    except EmbedderError as error:
        return str(error)
    raise AssertionError("expected EmbedderError, found a result")


def _assert_close(found: Vectors, expected: Vectors) -> None:
    assert found.shape == expected.shape, f"expected shape {expected.shape}, found {found.shape}"
    apart = np.abs(found - expected).max()
    assert apart <= TOLERANCE, f"expected equal vectors, found them {apart} apart"
