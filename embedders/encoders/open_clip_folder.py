"""Encoders in folders of open_clip: open_clip_config.json and open_clip_model.safetensors."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from embedders.encoders.model import EncoderModel
from embedders.encoders.picture_input import cut_input
from embedders.encoders.torch_network import TorchNetwork, import_maker, translate_failures
from wshard.errors import EmbedderError

if TYPE_CHECKING:
    from embedders.encoders.model_folder import ModelFolder

FILE: Final = "open_clip_config.json"
_WEIGHTS: Final = ("open_clip_model.safetensors", "open_clip_pytorch_model.safetensors", "model.safetensors")


def open_folder(folder: ModelFolder) -> EncoderModel:
    """Return the encoder of a folder of open_clip. Raises EmbedderError, MissingExtraError."""
    config, where = folder.read_json(FILE), str(folder.path / FILE)
    weights = next((one for one in _WEIGHTS if one in folder.weights), folder.weights[0])
    library = import_maker("open_clip", "open_clip_torch")
    with translate_failures(folder, "a network of open_clip"):
        model, text = config["model_cfg"], config["model_cfg"].get("text_cfg", {})
        if fetched := [
            name for name in ("hf_model_name", "timm_model_pretrained") if {**model["vision_cfg"], **text}.get(name)
        ]:
            raise EmbedderError(
                f"{where}: expected a network of open_clip itself, found {fetched[0]}: it would be downloaded"
            )
        muted = logging.root.manager.disable
        logging.disable(logging.WARNING)  # which says that there are no weights: they are read below
        try:
            module = library.create_model(f"local-dir:{folder.path}", load_weights=False)
        finally:
            logging.disable(muted)
        library.load_checkpoint(module, str(folder.files[weights]))
        side = module.visual.image_size
    side, network = side[0] if isinstance(side, tuple) else side, TorchNetwork(module)
    pictures = cut_input(config.get("preprocess_cfg", {}), side, where, name="image")
    describe = partial(network.run, module.encode_image)
    if text.get("hf_tokenizer_name"):
        return EncoderModel("open_clip", pictures, describe, lacking="its tokenizer is not open_clip's own")
    tokenizer: Any = library.get_tokenizer(f"local-dir:{folder.path}")
    return EncoderModel(
        "open_clip",
        pictures,
        describe,
        lambda words: network.run(module.encode_text, {"text": tokenizer([words]).numpy()})[0],
    )
