"""Encoders as ONNX files: a network of pictures with a named output, and one of texts if there is one beside it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from embedders.encoders.model import EncoderModel
from embedders.encoders.picture_input import read_input
from embedders.encoders.word_input import FILE, read_words
from embedders.neural.weights import open_onnx, run_onnx
from wshard.core.plugins import import_library
from wshard.errors import EmbedderError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from embedders.encoders.model_folder import ModelFolder

_PICTURES: Final = ("vision_model.onnx", "onnx/vision_model.onnx", "model.onnx", "onnx/model.onnx")
_TEXTS: Final = ("text_model.onnx", "onnx/text_model.onnx")
_OF_PICTURES: Final = ("image_embeds", "pooler_output", "last_hidden_state")
_OF_TEXTS: Final = ("text_embeds", "pooler_output")
_FAMILIES: Final = ("clip", "siglip", "siglip2")
_LENGTH: Final = 77


def open_folder(folder: ModelFolder, output: str | None) -> EncoderModel:
    """Return the encoder of a folder with ONNX files. Raises EmbedderError, MissingExtraError.

    output: the name of that of the network of pictures; None = image_embeds, pooler_output, last_hidden_state, or the
    only one. Several outputs per picture, of tokens or places, are averaged.
    """
    files = [name for name in folder.files if name.endswith(".onnx")]
    name = next((one for one in _PICTURES if one in files), files[0] if len(files) == 1 else None)
    if name is None:
        raise EmbedderError(f"{folder.path}: expected one of {', '.join(_PICTURES)}, found {', '.join(files)}")
    session, path = _open(folder, name)
    inputs = [one.name for one in session.get_inputs()]
    if len(inputs) != 1 or session.get_inputs()[0].type != "tensor(float)":
        raise EmbedderError(f"{path}: expected one input of pictures, float32 [N, 3, H, W], found {', '.join(inputs)}")
    pictures = read_input(folder, inputs[0])
    describe = partial(_describe, session, _place_output(session, path, output, _OF_PICTURES), path)
    config = folder.read_json("config.json")
    family, texts = config.get("model_type"), next((one for one in _TEXTS if one in files), None)
    if texts is None or family not in _FAMILIES:
        return EncoderModel("onnx", pictures, describe, lacking=f"its folder has no {_TEXTS[0]}")
    tokens = read_words(folder, family, (config.get("text_config") or {}).get("max_position_embeddings", _LENGTH))
    if tokens is None:
        return EncoderModel("onnx", pictures, describe, lacking=f"its folder has no {FILE}")
    return EncoderModel("onnx", pictures, describe, _describe_texts(folder, texts, tokens.read))


def _open(folder: ModelFolder, name: str) -> tuple[Any, Path]:
    """Return a session on the GPU if the runtime has one, and the path of its file."""
    path = folder.files[name]
    runtime = import_library("onnxruntime", "onnx")
    device = "cuda" if "CUDAExecutionProvider" in runtime.get_available_providers() else "cpu"
    return open_onnx(path, device)[0], path


def _place_output(session: Any, path: Path, named: str | None, usual: Sequence[str]) -> int:
    """Return the place of the output among those of the network."""
    names = [one.name for one in session.get_outputs()]
    if named is None and len(names) == 1:
        return 0
    found = next((one for one in ([named] if named else usual) if one in names), None)
    if found is None:
        how = f"the output {named!r}" if named else f"one output, or one of {', '.join(usual)}"
        raise EmbedderError(f"{path}: expected {how}, found {', '.join(names)}: name one as FOLDER#OUTPUT")
    return names.index(found)


def _describe(session: Any, place: int, path: Path, arrays: dict[str, NDArray[Any]]) -> NDArray[np.float32]:
    found = run_onnx(session, arrays, path)[place]
    pooled: NDArray[np.float32] = found
    if found.ndim == 3:
        pooled = found.mean(axis=1)
    elif found.ndim == 4:
        pooled = found.mean(axis=(2, 3))
    return pooled


def _describe_texts(
    folder: ModelFolder, name: str, read: Callable[[str], dict[str, NDArray[np.int64]]]
) -> Callable[[str], NDArray[np.float32]]:
    session, path = _open(folder, name)
    place, inputs = _place_output(session, path, None, _OF_TEXTS), {one.name for one in session.get_inputs()}

    def describe(text: str) -> NDArray[np.float32]:
        tokens = read(text)["input_ids"]
        feeds = {"input_ids": tokens, "attention_mask": np.ones_like(tokens)}
        found = _describe(session, place, path, {one: feeds[one] for one in inputs & feeds.keys()})
        row: NDArray[np.float32] = found[0]
        return row

    return describe
