"""Folders of tiny encoders: ONNX networks of known features, and networks of transformers with random weights."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

WORDS = ("<pad>", "</s>", "<s>", "<unk>", "red", "green", "blue", "gripper", "holds", "the", "block")
SETTINGS: dict[str, Any] = {
    "do_resize": True,
    "size": {"height": 32, "width": 32},
    "resample": 2,
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": True,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.25, 0.25, 0.25],
}
_SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
_TOWER = _SIZES | {"intermediate_size": 64}


def write_settings(folder: Path, **changes: Any) -> None:
    """Write preprocessor_config.json."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "preprocessor_config.json").write_text(json.dumps(SETTINGS | changes))


def write_tokenizer(folder: Path, pad: str = "<pad>") -> None:
    """Write a tokenizer of whole words, with marks at both ends."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors  # noqa: PLC0415

    made = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<unk>"))  # noqa: S106
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 2), ("</s>", 1)])
    made.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"pad_token": pad}))


def write_colours(folder: Path, *, text: bool = True, spoilt: str = "") -> Path:
    """Write ONNX networks: of a picture the mean of each plane, of words the colours that they name, and a one.

    spoilt: "batch", where the mean of the batch is added, "nan", or "size", where the features depend on the batch.
    """
    from onnx import TensorProto, checker, helper, numpy_helper, save  # noqa: PLC0415

    def network(name: str, nodes: list[Any], source: Any, outputs: dict[str, int], **weights: Any) -> None:
        values = [numpy_helper.from_array(np.asarray(value), key) for key, value in weights.items()]
        ends = [helper.make_tensor_value_info(one, TensorProto.FLOAT, [None] * axes) for one, axes in outputs.items()]
        graph = helper.make_graph(nodes, name, [source], ends, values)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
        checker.check_model(made)
        save(made, folder / f"{name}.onnx")

    write_settings(folder)
    pictures = helper.make_tensor_value_info("pixel_values", TensorProto.FLOAT, ["n", 3, 32, 32])
    nodes = [
        helper.make_node("ReduceMean", ["pixel_values"], ["places"], axes=[3], keepdims=0),
        helper.make_node("ReduceMean", ["places"], ["colours"], axes=[2], keepdims=0),
    ]
    spoil = {
        "": [helper.make_node("Identity", ["colours"], ["image_embeds"])],
        "batch": [
            helper.make_node("ReduceMean", ["colours"], ["mean"], axes=[0]),
            helper.make_node("Add", ["colours", "mean"], ["image_embeds"]),
        ],
        "nan": [
            helper.make_node("Sub", ["colours", "colours"], ["zero"]),
            helper.make_node("Div", ["zero", "zero"], ["image_embeds"]),
        ],
        "size": [
            helper.make_node("Transpose", ["colours"], ["turned"], perm=[1, 0]),
            helper.make_node("MatMul", ["colours", "turned"], ["image_embeds"]),
        ],
    }[spoilt]
    network("vision_model", [*nodes, *spoil], pictures, {"image_embeds": 2, "places": 3})
    if text:
        colours = np.zeros((len(WORDS), 3), np.float32)
        for place, word in enumerate(("red", "green", "blue")):
            colours[WORDS.index(word), place] = 1
        tokens = helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["n", "tokens"])
        nodes = [
            helper.make_node("Gather", ["table", "input_ids"], ["found"]),
            helper.make_node("ReduceMean", ["found"], ["text_embeds"], axes=[1], keepdims=0),
        ]
        network("text_model", nodes, tokens, {"text_embeds": 2}, table=colours)
        (folder / "config.json").write_text(json.dumps({"model_type": "clip"}))
        write_tokenizer(folder)
    return folder


def write_network(folder: Path, kind: str) -> Path:
    """Write a network of transformers with random weights, its settings, and a tokenizer where it has text."""
    import torch  # noqa: PLC0415
    import transformers as library  # noqa: PLC0415

    text = _TOWER | {"vocab_size": 16, "max_position_embeddings": 64, "bos_token_id": 2, "eos_token_id": 1}
    seen = {"image_size": 32, "patch_size": 8}
    towers = {"text_config": text, "vision_config": _TOWER | seen}
    flexible = {"text_config": text, "vision_config": _TOWER | {"num_patches": 16, "patch_size": 8}}
    clips = _SIZES | {"crop_size": 32, "patch_size": 8, "frames_per_clip": 4}
    clips |= {"pred_hidden_size": 24, "pred_num_attention_heads": 2, "pred_num_hidden_layers": 1}
    name, settings = {
        "clip": ("CLIP", towers | {"projection_dim": 16}),
        "siglip": ("Siglip", towers),
        "siglip2": ("Siglip2", flexible),
        "dinov2": ("Dinov2", _SIZES | seen),
        "dinov2_with_registers": ("Dinov2WithRegisters", _SIZES | seen),
        "dinov3_convnext": ("DINOv3ConvNext", {"hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1]}),
        "dinov3_vit": ("DINOv3ViT", _TOWER | seen),
        "vjepa2": ("VJEPA2", clips),
    }[kind]
    torch.manual_seed(0)
    verbosity = library.logging.get_verbosity()
    library.logging.set_verbosity_error()
    library.logging.disable_progress_bar()
    try:
        getattr(library, f"{name}Model")(getattr(library, f"{name}Config")(**settings)).save_pretrained(folder)
    finally:
        library.logging.set_verbosity(verbosity)
    write_settings(folder, **({"patch_size": 8, "max_num_patches": 16} if kind == "siglip2" else {}))
    if "text_config" in settings:
        write_tokenizer(folder, "</s>" if kind == "siglip" else "<pad>")
    return folder
