"""Encoders in folders of Hugging Face's transformers, by their model type; no code of a folder is run."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from embedders.encoders.model import EncoderModel
from embedders.encoders.picture_input import read_input, read_patches
from embedders.encoders.torch_network import TorchNetwork, translate_failures
from embedders.encoders.word_input import FILE, read_words
from wshard.core.plugins import import_library
from wshard.errors import EmbedderError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from embedders.encoders.model_folder import ModelFolder


@dataclass(frozen=True)
class _Family:
    """The class of transformers; is_of_text: it describes texts, too; is_of_video: it takes clips."""

    network: str
    is_of_text: bool = False
    is_of_video: bool = False


FAMILIES: Final[Mapping[str, _Family]] = {
    "clip": _Family("CLIPModel", is_of_text=True),
    "dinov2": _Family("Dinov2Model"),
    "dinov2_with_registers": _Family("Dinov2WithRegistersModel"),
    "dinov3_convnext": _Family("DINOv3ConvNextModel"),
    "dinov3_vit": _Family("DINOv3ViTModel"),
    "siglip": _Family("SiglipModel", is_of_text=True),
    "siglip2": _Family("Siglip2Model", is_of_text=True),
    "vjepa2": _Family("VJEPA2Model", is_of_video=True),
}
"""By the model type in config.json. SigLIP 2 of a fixed size has the type of SigLIP."""

_CLIP_LENGTH: Final = 77


def open_folder(folder: ModelFolder) -> EncoderModel:
    """Return the encoder of a folder with config.json. Raises EmbedderError, MissingExtraError."""
    config = folder.read_json("config.json")
    kind = config.get("model_type")
    family = FAMILIES.get(kind) if isinstance(kind, str) else None
    if family is None or not isinstance(kind, str):
        named = ", ".join(FAMILIES)
        raise EmbedderError(f"{folder.path / 'config.json'}: expected a model_type of {named}, found {kind!r}")
    if kind == "siglip2":
        pictures: Any = read_patches(folder)
    else:
        pictures = read_input(folder, "pixel_values_videos" if family.is_of_video else "pixel_values")
    network = TorchNetwork(_load(folder, family))
    if not family.is_of_text:
        answer = _describe_clips if family.is_of_video else _describe_pooled
        return EncoderModel(kind, pictures, partial(network.run, partial(answer, network.module)))
    describe = partial(network.run, partial(_describe, network.module.get_image_features))
    length = (config.get("text_config") or {}).get("max_position_embeddings", _CLIP_LENGTH)
    tokens = read_words(folder, kind, length)
    if tokens is None:
        return EncoderModel(kind, pictures, describe, lacking=f"its folder has no {FILE}")
    answer = partial(_describe, network.module.get_text_features)
    return EncoderModel(kind, pictures, describe, lambda text: network.run(answer, tokens.read(text))[0])


def _load(folder: ModelFolder, family: _Family) -> Any:
    """Return the network with the weights of the folder; EmbedderError where some are missing."""
    folder.weights  # noqa: B018  (raises for a folder without)
    library = import_library("transformers", "encoders")
    settings = {"local_files_only": True, "use_safetensors": True, "trust_remote_code": False, "dtype": "float32"}
    with translate_failures(folder, f"the weights of a {family.network}"), _quiet(library):
        kind = getattr(library, family.network)
        module, found = kind.from_pretrained(str(folder.path), output_loading_info=True, **settings)
    if missing := sorted(found["missing_keys"]):
        listed = ", ".join(missing[:3])
        raise EmbedderError(f"{folder.path}: expected all weights of a {family.network}, found none for {listed}")
    return module


@contextmanager
def _quiet(library: Any) -> Iterator[None]:
    """Keep transformers from printing bars and advice while it reads."""
    verbosity = library.logging.get_verbosity()
    has_bars = library.logging.is_progress_bar_enabled()
    library.logging.set_verbosity_error()
    library.logging.disable_progress_bar()
    try:
        yield
    finally:
        library.logging.set_verbosity(verbosity)
        if has_bars:
            library.logging.enable_progress_bar()


def _describe(features: Any, **inputs: Any) -> Any:
    """Return the features in the space of pictures and texts: of newer versions within a structure."""
    found = features(**inputs)
    return getattr(found, "pooler_output", found)


def _describe_pooled(module: Any, **inputs: Any) -> Any:
    return module(**inputs).pooler_output


def _describe_clips(module: Any, pixel_values_videos: Any) -> Any:
    """Return the mean over the patches of clips of one frame."""
    return module(pixel_values_videos=pixel_values_videos[:, None], skip_predictor=True).last_hidden_state.mean(1)
