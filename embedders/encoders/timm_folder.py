"""Encoders in folders of timm: config.json with an architecture, and model.safetensors."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from embedders.encoders.model import EncoderModel
from embedders.encoders.picture_input import cut_input
from embedders.encoders.torch_network import TorchNetwork, import_maker, read_state, translate_failures
from wshard.errors import EmbedderError

if TYPE_CHECKING:
    from embedders.encoders.model_folder import ModelFolder


def open_folder(folder: ModelFolder) -> EncoderModel:
    """Return the encoder of a folder of timm, without its classifier. Raises EmbedderError, MissingExtraError."""
    config, where = folder.read_json("config.json"), str(folder.path / "config.json")
    about, state, library = config["pretrained_cfg"], read_state(folder), import_maker("timm", "timm")
    with translate_failures(folder, "an architecture of timm"):
        module = library.create_model(
            config["architecture"], pretrained=False, num_classes=0, **config.get("model_args", {})
        )
        classifiers = about.get("classifier") or ()
        prefixes = tuple(f"{one}." for one in ([classifiers] if isinstance(classifiers, str) else classifiers))
        found = module.load_state_dict(
            {name: tensor for name, tensor in state.items() if not name.startswith(prefixes or ("\0",))}, strict=False
        )
    if found.missing_keys:
        listed = ", ".join(found.missing_keys[:3])
        raise EmbedderError(f"{folder.path}: expected all weights of {config['architecture']}, found none for {listed}")
    size: Any = about.get("input_size")
    if not isinstance(size, list) or len(size) != 3 or size[1] != size[2]:
        raise EmbedderError(f"{where}: expected input_size of 3 planes and equal sides, found {size!r}")
    network = TorchNetwork(module)
    return EncoderModel("timm", cut_input(about, size[1], where, name="x"), partial(network.run, network.module))
