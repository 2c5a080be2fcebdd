"""The sentence encoder from a local folder against a literal reading of its network; hostile folders; the contract."""

from __future__ import annotations

import hashlib
import json
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sentence_folders import DIM, POSITIONS, WORDS, expected, weights, write_folder, write_network, write_tokenizer

from embedders import Space
from embedders.testing import TextEncoderContract
from embedders.text.base import TextEncoder, as_text_encoder, encode_by, text_space
from embedders.text.sentence_transformer import Sentences
from wshard.errors import EmbedderError, MissingExtraError

pytest.importorskip("tokenizers", reason="tokenizers is not installed: pip install 'wshard[text]'")

TEXTS = ("open the drawer", "Wave", "pick up the qxz cup and put it on the shelf", "", "close the drawer")


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("encoders") / "tiny")


class TestSentencesContract(TextEncoderContract):
    @pytest.fixture(autouse=True)
    def _folder(self, folder):
        self.folder = folder

    def make(self):
        return Sentences(self.folder)


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_vectors_are_those_of_a_literal_reading(folder, pooling):
    found = Sentences(folder, pooling, batch=2).encode(TEXTS * 3)
    np.testing.assert_allclose(found, [expected(text, pooling) for text in TEXTS * 3], atol=1e-6)


@given(st.lists(st.lists(st.sampled_from([*WORDS[3:], "unheard", "of"]), max_size=30).map(" ".join), max_size=9))
def test_neighbours_in_a_batch_do_not_matter(folder, texts):
    encoder = _opened(folder)
    found = encoder.encode(texts)
    np.testing.assert_allclose(found, np.array([expected(text) for text in texts]).reshape(-1, DIM), atol=1e-6)


_OPENED: dict = {}


def _opened(folder):
    return _OPENED.setdefault(folder, Sentences(folder))


def test_a_long_text_is_cut_off_where_the_folder_says(folder):
    words = " ".join(np.random.default_rng(0).choice(WORDS[3:], 10_000).tolist())
    found = Sentences(folder).encode([words])[0]
    np.testing.assert_allclose(found, expected(words, most=POSITIONS), atol=1e-6)
    short = Sentences(folder, max_tokens=5).encode([words])[0]
    np.testing.assert_allclose(short, expected(words, most=5), atol=1e-6)


def test_words_of_one_meaning_have_one_vector_and_unknown_words_are_all_alike(folder):
    pair = Sentences(folder).encode(["lift the mug", "pick the cup", "qxz vbn", "hjk lmn"])
    np.testing.assert_allclose(pair[::2], pair[1::2], atol=1e-6)


def test_a_text_without_any_token_has_a_vector(tmp_path):
    made = write_folder(tmp_path)
    message = json.loads((made / "tokenizer.json").read_text())
    (made / "tokenizer.json").write_text(json.dumps(message | {"post_processor": None}))
    found = Sentences(made).encode(["", "wave"])
    assert found[0].tolist() == [0.0] * (DIM - 1) + [1.0]


def test_the_folder_says_how_to_pool_and_where_to_cut_off(tmp_path):
    by_first = write_folder(tmp_path / "cls", place="model.onnx", pooling="cls_token")
    np.testing.assert_allclose(Sentences(by_first).encode(["wave"])[0], expected("wave", "cls"), atol=1e-6)
    assert Sentences(by_first).parameters()["max_tokens"] == POSITIONS
    (by_first / "1_Pooling" / "config.json").write_text('{"pooling_mode": "mean"}')
    np.testing.assert_allclose(Sentences(by_first).encode(["wave"])[0], expected("wave"), atol=1e-6)
    for name in ("1_Pooling/config.json", "sentence_bert_config.json", "modules.json"):
        (by_first / name).unlink()
    assert Sentences(by_first, max_tokens=9).parameters()["pooling"] == "mean"
    assert Sentences(by_first).parameters()["max_tokens"] == 256
    for name, message, most in (
        ("config.json", {"max_position_embeddings": 99}, 99),
        ("tokenizer_config.json", {"model_max_length": 10**30}, 99),
        ("tokenizer_config.json", {"model_max_length": 60}, 60),
    ):
        (by_first / name).write_text(json.dumps(message))
        assert Sentences(by_first).parameters()["max_tokens"] == most


@pytest.mark.parametrize(
    "changes",
    [
        {"whole": "INT32"},
        {"inputs": ("input_ids", "attention_mask")},
        {"inputs": ("input_ids",)},
        {"outputs": ("last_hidden_state",)},
    ],
)
def test_networks_of_other_exporters_give_the_same(tmp_path, changes):
    found = Sentences(write_folder(tmp_path, **changes)).encode(TEXTS)
    np.testing.assert_allclose(found, [expected(text) for text in TEXTS], atol=1e-6)


def test_a_network_that_pools_by_itself_is_taken_at_its_word(tmp_path):
    pooled = Sentences(write_folder(tmp_path / "b", outputs=("pooler_output",)))
    assert pooled.encode(["wave"]).shape == (1, DIM)


def test_the_space_knows_files_by_their_sha256_and_nothing_of_their_place(folder, tmp_path):
    encoder, moved = Sentences(folder), Sentences(write_folder(tmp_path / "moved"), device="cpu", batch=3)
    digest = hashlib.sha256((folder / "onnx" / "model.onnx").read_bytes()).hexdigest()
    space = text_space(encoder)
    assert space.parameters["network"] == digest
    assert space == text_space(moved) == Space.from_json(space.to_json())
    assert (space.dim, space.of_text, space.windows.whole, space.statistics) == (DIM, True, True, None)
    others = [
        Sentences(folder, "cls"),
        Sentences(folder, max_tokens=9),
        Sentences(write_folder(tmp_path / "s", seed=1)),
    ]
    write_tokenizer(moved.folder / "tokenizer.json", padding=False)
    others.append(Sentences(moved.folder))
    assert len({space.fingerprint, *(text_space(other).fingerprint for other in others)}) == 5


def damaged(name, content):
    def damage(folder):
        (folder / name).write_bytes(content)

    return damage


def without(name):
    return lambda folder: (folder / name).unlink()


HOSTILE = {
    "no tokenizer": (without("tokenizer.json"), r"expected tokenizer.json and model.onnx or onnx/model.onnx"),
    "no network": (without("onnx/model.onnx"), r"expected tokenizer.json and model.onnx or onnx/model.onnx"),
    "a pickle for a tokenizer": (damaged("tokenizer.json", b"\x80\x04\x95"), r"tokenizer.json: expected a tokenizer"),
    "a tokenizer cut short": (damaged("tokenizer.json", b'{"model":'), r"tokenizer.json: expected a tokenizer"),
    "deep JSON": (damaged("tokenizer.json", b"[" * 10**5), r"tokenizer.json: expected a tokenizer"),
    "a pickle for a network": (damaged("onnx/model.onnx", b"\x80\x04\x95"), r"model.onnx: expected an ONNX file"),
    "an empty network": (damaged("onnx/model.onnx", b""), r"model.onnx: expected an ONNX file"),
    "no JSON": (damaged("1_Pooling/config.json", b"{"), r"config.json: expected JSON"),
    "other JSON": (damaged("modules.json", b"{}"), r"modules.json: expected a JSON list, found dict"),
    "deep modules": (damaged("modules.json", b"[" * 10**5), r"modules.json: expected JSON"),
    "a further step": (damaged("modules.json", b'[{"type": "a.models.Dense"}]'), r"Normalize, Pooling.*found Dense"),
    "no step": (damaged("modules.json", b"[null]"), r"Normalize, Pooling, Transformer, found None"),
    "other pooling": (
        damaged("1_Pooling/config.json", b'{"pooling_mode_lasttoken": true}'),
        r"pooling by mean or cls, found 'lasttoken'",
    ),
    "two poolings": (
        damaged("1_Pooling/config.json", b'{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true}'),
        r"pooling by mean or cls, found \['cls_token', 'mean_tokens'\]",
    ),
    "a wrong length": (
        damaged("sentence_bert_config.json", b'{"max_seq_length": -1}'),
        r"max_seq_length: expected a whole number >= 1, found -1",
    ),
    "a length beyond the network's": (
        damaged("sentence_bert_config.json", b'{"max_seq_length": 100}'),
        r"model.onnx: the network failed on a batch \[1, 100\]",
    ),
    "words that the network has not": (
        lambda folder: write_network(folder / "onnx/model.onnx", {**weights(), "W": weights()["W"][:4]}),
        r"model.onnx: the network failed on a batch \[1, 3\]",
    ),
    "numbers that are none": (
        lambda folder: write_network(folder / "onnx/model.onnx", {**weights(), "V": weights()["V"] * np.inf}),
        r"model.onnx: expected finite features, found NaN",
    ),
    "inputs of pictures": (
        lambda folder: write_network(folder / "onnx/model.onnx", weights(), inputs=("input_ids", "pixels")),
        r"expected a network of tokens, with inputs input_ids, attention_mask and token_type_ids",
    ),
    "weights elsewhere": (
        lambda folder: write_network(folder / "onnx/model.onnx", weights(), outside=True),
        r"model.onnx: expected an ONNX file with its weights in it",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_folder_that_is_none_is_refused_by_name(tmp_path, monkeypatch, name):
    damage, message = HOSTILE[name]
    made = write_folder(tmp_path)
    monkeypatch.chdir(made / "onnx")  # where a library might look for weights
    damage(made)
    with pytest.raises(EmbedderError, match=message):
        encode_by(as_text_encoder(made), ["wave"])


def test_what_cannot_be_is_refused_before_anything_is_loaded(tmp_path):
    for options, message in (
        ({"pooling": "max"}, "mean, cls"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"batch": 0}, "batch"),
    ):
        with pytest.raises(EmbedderError, match=message):
            Sentences(tmp_path, **options)
    with pytest.raises(EmbedderError, match="expected the folder of a sentence encoder"):
        text_space(as_text_encoder(tmp_path / "nowhere"))
    for wrong in (None, 7, Sentences):
        with pytest.raises(EmbedderError, match="expected the folder of a sentence encoder, or a text encoder"):
            as_text_encoder(wrong)


@pytest.mark.parametrize("most", [1, 2, 3])
def test_no_more_tokens_are_taken_than_requested_not_even_the_marks_of_both_ends(tmp_path, most):
    stored = weights() | {"P": weights()["P"][:most]}  # the network has places for so many
    made = write_folder(tmp_path)
    write_network(made / "onnx" / "model.onnx", stored)
    assert Sentences(made, max_tokens=most).encode(["wave the cup"]).shape == (1, DIM)


@pytest.mark.parametrize(("library", "extra"), [("tokenizers", "text"), ("onnxruntime", "onnx")])
def test_a_missing_library_is_reported_with_its_extra(folder, monkeypatch, library, extra):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError, match=rf"expected to import {library}: .*: pip install 'wshard\[{extra}\]'"):
        text_space(Sentences(folder))


def test_the_encoder_is_one():
    assert isinstance(Sentences("somewhere"), TextEncoder)
