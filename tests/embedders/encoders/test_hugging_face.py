"""Encoders in folders of transformers, with random weights: the contract, and what the library itself makes of them."""

from __future__ import annotations

import importlib
import shutil
import socket

import numpy as np
import pytest
from encoder_folders import write_network

from embedders.encoders.local_encoder import LocalEncoder
from embedders.image.testing import FrameEncoderContract
from wshard.errors import EmbedderError

torch = pytest.importorskip("torch")

WORDS = "Gripper holds the red block."


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    # Imported here, and not by each process that collects tests: it takes as long as twenty of them.
    pytest.importorskip("transformers", reason="transformers is not installed: pip install 'wshard[encoders]'")
    made = {}

    def write(kind):
        if kind not in made:
            made[kind] = write_network(tmp_path_factory.mktemp("encoders") / kind, kind)
        return made[kind]

    return write


@pytest.fixture(autouse=True)
def _without_network(monkeypatch):
    def refuse(*_: object):
        raise AssertionError("expected no connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.mark.long
class TestClip(FrameEncoderContract):
    kind, words = "clip", True

    @pytest.fixture(autouse=True)
    def _folder(self, folders):
        self.folder = folders(self.kind)

    def make(self):
        return LocalEncoder(self.folder)


@pytest.mark.long
class TestSiglip(TestClip):
    kind = "siglip"


@pytest.mark.long
class TestDino(TestClip):
    kind, words = "dinov2", False


@pytest.mark.long
class TestSiglip2(TestClip):
    kind = "siglip2"


@pytest.mark.long
class TestDinoWithRegisters(TestDino):
    kind = "dinov2_with_registers"


@pytest.mark.long
class TestDino3(TestDino):
    kind = "dinov3_vit"


@pytest.mark.long
class TestDino3Convolutions(TestDino):
    kind = "dinov3_convnext"


@pytest.mark.long
class TestVideo(TestDino):
    kind = "vjepa2"


@pytest.mark.parametrize(
    "kind", ["clip", *(pytest.param(kind, marks=pytest.mark.long) for kind in ("siglip", "siglip2", "dinov2"))]
)
def test_features_are_those_of_the_library(folders, kind):
    folder = folders(kind)
    transformers = importlib.import_module("transformers")
    frames = np.random.default_rng(0).integers(0, 256, (2, 24, 40, 3), np.uint8)
    name = {"clip": "CLIP", "siglip": "Siglip", "siglip2": "Siglip2", "dinov2": "CLIP"}[kind]
    if kind == "siglip2":
        found = importlib.import_module("transformers.models.siglip2.image_processing_pil_siglip2")
        Processor = found.Siglip2ImageProcessorPil  # noqa: N806
    else:
        Processor = getattr(transformers, f"{name}ImageProcessorPil")  # noqa: N806
    settings = {} if kind == "siglip2" else {"do_center_crop": False}
    inputs = Processor.from_pretrained(folder, **settings)(list(frames), return_tensors="pt")
    model = transformers.AutoModel.from_pretrained(folder)
    with torch.inference_mode():
        expected = model(**inputs) if kind == "dinov2" else model.get_image_features(**inputs)
        np.testing.assert_allclose(LocalEncoder(folder).encode_frames(frames), expected.pooler_output, atol=2e-4)
        if kind == "dinov2":
            return
        read = transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), pad_token="</s>")  # noqa: S106
        pad = {"clip": {}, "siglip": {"padding": "max_length", "max_length": 64}}
        pad["siglip2"] = pad["siglip"]
        text = {"clip": WORDS, "siglip": "gripper holds the red block", "siglip2": WORDS.lower()}[kind]
        if kind == "siglip2":
            read.pad_token = "<pad>"  # noqa: S105
        tokens = read(text, return_tensors="pt", **pad[kind])["input_ids"]
        expected = model.get_text_features(input_ids=tokens).pooler_output
    np.testing.assert_allclose(LocalEncoder(folder).encode_words([WORDS]), expected, atol=1e-4)


@pytest.mark.long
def test_a_folder_whose_weights_are_not_all_there_is_refused(folders, tmp_path):
    library = pytest.importorskip("safetensors.torch")
    folder = shutil.copytree(folders("dinov2"), tmp_path / "copy")
    state = library.load_file(folder / "model.safetensors")
    del state["layernorm.bias"]
    library.save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(EmbedderError, match=r"expected all weights of a Dinov2Model, found none for layernorm\.bias"):
        LocalEncoder(folder).encode_frames(np.zeros((1, 20, 20, 3), np.uint8))
    (folder / "model.safetensors").write_bytes(b"\x80\x04\x95")
    with pytest.raises(EmbedderError, match="expected the weights of a Dinov2Model that can be read"):
        LocalEncoder(folder).encode_frames(np.zeros((1, 20, 20, 3), np.uint8))


@pytest.mark.long
def test_words_need_a_tokenizer_and_text(folders, tmp_path):
    folder = shutil.copytree(folders("clip"), tmp_path / "copy", ignore=shutil.ignore_patterns("tokenizer*"))
    with pytest.raises(EmbedderError, match=r"text and pictures .* found clip: its folder has no tokenizer\.json"):
        LocalEncoder(folder).encode_words([WORDS])
    with pytest.raises(EmbedderError, match="found dinov2: it was trained on pictures alone"):
        LocalEncoder(folders("dinov2")).encode_words([WORDS])
