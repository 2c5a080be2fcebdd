"""Encoders as ONNX files: features that can be counted by hand, the contract, networks that break it, no network."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
from encoder_folders import SETTINGS, write_colours, write_settings

from embedders import make_embedder
from embedders.encoders.local_encoder import LocalEncoder
from embedders.image.frame_encoder import encode_checked, encode_words
from embedders.image.testing import FrameEncoderContract
from embedders.testing import EmbedderContract
from wshard.errors import EmbedderError

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'wshard[onnx]'")
pytest.importorskip("tokenizers", reason="tokenizers is not installed: pip install 'wshard[text]'")


@pytest.fixture(scope="module")
def colours(tmp_path_factory):
    return write_colours(tmp_path_factory.mktemp("encoders") / "colours")


class TestColours(FrameEncoderContract):
    words = True

    @pytest.fixture(autouse=True)
    def _folder(self, colours):
        self.folder = colours

    def make(self):
        return LocalEncoder(self.folder)


class TestPicturesAlone(TestColours):
    words = False

    @pytest.fixture(autouse=True)
    def _folder(self, colours, tmp_path):
        self.folder = tmp_path / "pictures"
        shutil.copytree(colours, self.folder, ignore=shutil.ignore_patterns("text_model.onnx"))


@pytest.mark.long
class TestAsEmbedder(EmbedderContract):
    shape = (24, 20, 3)

    @pytest.fixture(autouse=True)
    def _folder(self, colours):
        self.folder = colours

    def make(self):
        return make_embedder(f"encoder:{self.folder}")


def test_features_are_those_of_a_literal_reading(colours):
    flat = np.random.default_rng(0).integers(0, 256, (4, 1, 1, 3), np.uint8)
    found = LocalEncoder(colours).encode_frames(np.broadcast_to(flat, (4, 20, 50, 3)))
    np.testing.assert_allclose(found, (flat[:, 0, 0] / 255 - 0.5) / 0.25, atol=1e-5)
    np.testing.assert_allclose(encode_words(LocalEncoder(colours), "red green red")[0], [0.4, 0.2, 0], atol=1e-3)


def test_a_named_output_is_taken_and_another_is_refused(colours):
    frames = np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3), np.uint8)
    places = LocalEncoder(f"{colours}#places")
    np.testing.assert_allclose(  # [N, 3, height], which is averaged as if of tokens
        places.encode_frames(frames), ((frames / 255 - 0.5) / 0.25).mean(axis=(2, 3)), atol=1e-5
    )
    assert places.fingerprint != LocalEncoder(colours).fingerprint
    with pytest.raises(EmbedderError, match="expected the output 'pooled', found image_embeds, places"):
        LocalEncoder(f"{colours}#pooled").encode_frames(frames)


def test_the_fingerprint_follows_weights_and_preprocessing_and_not_the_path(colours, tmp_path):
    first = LocalEncoder(colours).fingerprint
    copy = shutil.copytree(colours, tmp_path / "copy")
    assert LocalEncoder(copy).fingerprint == first
    assert LocalEncoder(copy).parameters() == LocalEncoder(colours).parameters()
    write_settings(copy, image_std=[0.5, 0.5, 0.5])
    assert LocalEncoder(copy).fingerprint != first
    write_settings(copy)
    assert LocalEncoder(copy).fingerprint == first
    (copy / "vision_model.onnx").write_bytes((copy / "vision_model.onnx").read_bytes() + b" ")
    assert LocalEncoder(copy).fingerprint != first


@pytest.mark.parametrize(
    ("spoilt", "message"),
    [
        ("nan", "expected finite features, found NaN"),
        ("batch", "depend on the other frames of the batch"),
        ("size", "depend on the other frames of the batch"),
    ],
)
def test_a_network_whose_features_cannot_be_compared_is_refused(tmp_path, spoilt, message):
    encoder = LocalEncoder(write_colours(tmp_path, spoilt=spoilt))
    with pytest.raises(EmbedderError, match=message):
        encoder.encode_frames(np.zeros((3, 20, 20, 3), np.uint8))


def test_frames_of_another_number_of_features_than_those_before_are_refused(colours):
    class Growing:
        fingerprint = "growing"

        def encode_frames(self, frames):
            return np.ones((len(frames), frames.shape[1]), np.float32)

    assert encode_checked(Growing(), np.zeros((2, 5, 4, 3), np.uint8), width=5).shape == (2, 5)
    with pytest.raises(EmbedderError, match=r"'growing': expected features \[2, 5\], found float32 \[2, 6\]"):
        encode_checked(Growing(), np.zeros((2, 6, 4, 3), np.uint8), width=5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"size": 0}, "size: expected a whole number of 1 to 4096, found 0"),
        ({"size": 10**6}, "found 1000000"),
        ({"image_std": [0, 1, 1]}, "image_std: expected 3 numbers"),
        ({"image_mean": None}, "image_mean: expected 3 numbers, found None"),
        ({"resample": 9}, "resample: expected the number of a filter"),
        ({"rescale_factor": "a"}, "rescale_factor: expected a number"),
        ({"do_center_crop": True, "crop_size": 64}, "expected a crop_size within size"),
        ({"do_resize": False}, "expected do_resize"),
        ({"auto_map": {"AutoImageProcessor": "code.Processor"}}, "auto_map: code of a folder is not run"),
    ],
)
def test_settings_that_cannot_be_followed_are_refused(colours, tmp_path, changes, message):
    folder = shutil.copytree(colours, tmp_path / "copy")
    write_settings(folder, **changes)
    with pytest.raises(EmbedderError, match=message):
        LocalEncoder(folder).encode_frames(np.zeros((1, 20, 20, 3), np.uint8))


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, r"expected weights as \*.safetensors or \*.onnx, found none"),
        ({"pytorch_model.bin": b"\x80\x04"}, "found pytorch_model.bin, which may run code when read"),
        (
            {"model.safetensors": b"", "config.json": b'{"model_type": "llama"}'},
            "expected a model_type of clip, dinov2.*'llama'",
        ),
        ({"model.safetensors": b""}, "expected a model_type of clip, dinov2.*found None"),
        (
            {"model.safetensors": b"", "config.json": b'{"auto_map": {"AutoModel": "a.B"}}'},
            "auto_map: code of a folder",
        ),
        ({"config.json": b"["}, "expected JSON"),
        ({"config.json": b"[]"}, "expected a JSON object, found list"),
        ({"a.onnx": b"", "b.onnx": b""}, "expected one of vision_model.onnx, .*found a.onnx, b.onnx"),
        ({"a.onnx": b"\x80\x04"}, "a.onnx: expected an ONNX file"),
    ],
)
def test_a_folder_without_an_encoder_is_refused(tmp_path, files, message):
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(EmbedderError, match=message):
        LocalEncoder(tmp_path).encode_frames(np.zeros((1, 20, 20, 3), np.uint8))


def test_what_is_no_folder_is_refused(tmp_path):
    with pytest.raises(EmbedderError, match="expected the folder of an encoder, found no such folder; nothing is"):
        LocalEncoder(tmp_path / "google/siglip2").parameters()
    with pytest.raises(EmbedderError, match="expected the folder of an encoder, found 7"):
        LocalEncoder(7)


def test_the_shorter_side_is_resized_and_the_middle_is_taken(colours, tmp_path):
    folder = shutil.copytree(colours, tmp_path / "copy")
    (folder / "preprocessor_config.json").unlink()
    cut = SETTINGS | {"size": {"shortest_edge": 40}, "do_center_crop": True, "crop_size": 32}
    (folder / "processor_config.json").write_text(json.dumps({"image_processor": cut}))
    frames = np.zeros((1, 40, 60, 3), np.uint8)
    frames[:, 4:36, 14:46] = 255  # the middle, white
    np.testing.assert_allclose(LocalEncoder(folder).encode_frames(frames), [[2, 2, 2]])


def test_no_network_is_needed(colours):
    probe = ["unshare", "-rn", "true"]
    if shutil.which("unshare") is None or subprocess.run(probe, capture_output=True, check=False).returncode:
        pytest.skip("no network namespaces here")
    code = (
        "import sys, numpy; from embedders.encoders.local_encoder import LocalEncoder; e = LocalEncoder(sys.argv[1]);"
        "print(e.encode_frames(numpy.zeros((2, 9, 9, 3), 'u1')).shape, e.encode_words(['red']).shape)"
    )
    command = ["unshare", "-rn", sys.executable, "-c", code, str(colours)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert found.stdout == "(2, 3) (1, 3)\n"
