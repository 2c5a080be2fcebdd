"""Text encoders that others wrote: the contract catches those that break it, and reports it in one line."""

from __future__ import annotations

import numpy as np
import pytest

from embedders.testing import TextEncoderContract
from embedders.text.base import as_text_encoder, encode_by, text_space
from wshard.errors import EmbedderError


class Letters:
    """How often each letter is there."""

    name, version = "letters", 1

    def parameters(self):
        return {"alphabet": "ascii"}

    def dim(self):
        return 27

    def encode(self, texts):
        counts = np.zeros((len(texts), 27))
        for number, text in enumerate(texts):
            if not isinstance(text, str):
                raise EmbedderError(f"text {number}: expected a text, found {text!r}")
            counts[number] = [text.lower().count(chr(97 + letter)) for letter in range(26)] + [1]
        return (counts / np.linalg.norm(counts, axis=1, keepdims=True)).astype(np.float32)


class TestLetters(TextEncoderContract):
    make = Letters


class _Wide(Letters):
    def dim(self):
        return 28


class _Deaf(Letters):
    def encode(self, texts):
        return np.repeat(super().encode(["wave"]), len(texts), axis=0)


class _NoEmptyBatch(Letters):
    def encode(self, texts):
        return np.stack(list(super().encode(texts)))


class _Padding(Letters):
    def encode(self, texts):
        longest = max(map(len, texts), default=0)
        return super().encode([text.ljust(longest, "x") if isinstance(text, str) else text for text in texts])


class _Sorting(Letters):
    def encode(self, texts):
        return super().encode(sorted(texts))


class _Random(Letters):
    def encode(self, texts):
        vectors = super().encode(texts) + np.random.default_rng().normal(0, 1e-7, (len(texts), 27))
        return vectors.astype(np.float32)


class _Silent(Letters):
    def encode(self, texts):
        vectors = super().encode(texts)
        vectors[:, -1] = 0
        with np.errstate(invalid="ignore"):
            return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


class _Short(Letters):
    def encode(self, texts):
        if any(len(text) > 1000 for text in texts if isinstance(text, str)):
            raise EmbedderError("too long")
        return super().encode(texts)


class _Guessing(Letters):
    def encode(self, texts):
        return super().encode([str(text) for text in texts])


class _Unstorable(Letters):
    def parameters(self):
        return {"alphabet": np.float32(1)}


class _Nameless(Letters):
    name = ""


DOUBLES = [
    (_Wide, "test_texts_of_different_lengths_give_unit_rows_of_the_promised_size"),
    (_Deaf, "test_different_texts_give_different_vectors"),
    (_NoEmptyBatch, "test_no_texts_give_no_rows_of_the_promised_size"),
    (_Padding, "test_a_batch_gives_what_single_texts_give"),
    (_Sorting, "test_the_order_of_a_batch_is_the_order_of_the_rows"),
    (_Random, "test_the_same_texts_give_the_same_bytes_from_any_instance"),
    (_Silent, "test_texts_that_say_nothing_give_a_vector"),
    (_Short, "test_a_long_text_gives_a_vector"),
    (_Guessing, "test_invalid_text_is_refused"),
    (_Unstorable, "test_parameters_are_json_and_never_change"),
    (_Nameless, "test_name_and_version_are_valid"),
]


@pytest.mark.parametrize(("broken", "caught_by"), DOUBLES)
def test_the_contract_catches(broken, caught_by):
    class Contract(TextEncoderContract):
        make = broken

    with pytest.raises((AssertionError, ValueError, TypeError, EmbedderError)):
        getattr(Contract(), caught_by)()


def test_every_test_of_the_contract_catches_some_double():
    assert {caught_by for _, caught_by in DOUBLES} == {
        name for name in vars(TextEncoderContract) if name.startswith("test_")
    }


class _Crooked(Letters):
    """An encoder that answers with a fixed value, or raises it."""

    def __init__(self, answer) -> None:
        self._answer = answer

    def encode(self, texts):
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (KeyError("wave"), "embedder 'letters' raised KeyError: 'wave'"),
        (None, r"expected real numbers \(1, 27\), found NoneType"),
        (np.zeros((2, 27)), r"expected real numbers \(1, 27\), found float64 \(2, 27\)"),
        (np.zeros((1, 27), complex), r"expected real numbers \(1, 27\), found complex128"),
        (np.full((1, 27), np.nan), "expected finite numbers, found NaN or infinity"),
        (EmbedderError("as it is"), "^as it is$"),
    ],
)
def test_what_an_encoder_does_wrong_is_reported_in_one_line(answer, message):
    with pytest.raises(EmbedderError, match=message):
        encode_by(as_text_encoder(_Crooked(answer)), ["wave"])


def test_answers_of_any_length_become_unit_rows():
    found = encode_by(_Crooked(np.arange(27, dtype=np.float64)[None] * 1e200), ["wave"])
    assert found.dtype == np.float32
    assert np.linalg.norm(found) == pytest.approx(1)
    assert encode_by(Letters(), []).shape == (0, 27)


def test_spaces_of_texts_are_equal_exactly_for_equal_encoders():
    class Newer(Letters):
        version = 2

    assert text_space(Letters()) == text_space(Letters()) != text_space(Newer())
    with pytest.raises(EmbedderError, match="name of an embedder"):
        text_space(_Nameless())
