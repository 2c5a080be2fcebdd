"""Tiny sentence encoders in folders, as sentence-transformers saves them, and what their vectors must be."""

# ruff: noqa: ANN003, PLC0415 -- as in tests, whose helpers these are; the libraries are optional
from __future__ import annotations

import json

import numpy as np
import pytest

_SPOKEN = "open close the drawer wave pick up lift cup mug and put it on shelf press door"
WORDS = ["[UNK]", "[CLS]", "[SEP]", *_SPOKEN.split()]
ALIKE = {"mug": "cup", "lift": "pick"}
POSITIONS = 64
DIM = 12


def weights(seed=0):
    """Return the network's weights by name; words of one meaning have one vector."""
    rng = np.random.default_rng(seed)
    shapes = {"W": (len(WORDS), DIM), "P": (POSITIONS, DIM), "T": (2, DIM)}
    made = {name: rng.normal(0, scale, shapes[name]) for name, scale in (("W", 1.0), ("P", 0.1), ("T", 0.1))}
    for word, other in ALIKE.items():
        made["W"][WORDS.index(word)] = made["W"][WORDS.index(other)]
    made |= {name: rng.normal(0, 0.3, (DIM, DIM)) for name in ("Q", "K", "V")}
    return {name: values.astype(np.float32) for name, values in made.items()}


def answers(tokens, stored):
    """Return what the network answers to the tokens of one text, [L, DIM] in float64."""
    x = stored["W"][tokens].astype(float) + stored["P"][: len(tokens)] + stored["T"][0]
    scores = (x @ stored["Q"]) @ (x @ stored["K"]).T / np.sqrt(DIM)
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    y = x + shares / shares.sum(axis=1, keepdims=True) @ (x @ stored["V"])
    y = y - y.mean(axis=1, keepdims=True)
    return y / np.sqrt((y**2).mean(axis=1, keepdims=True) + 1e-5)


def tokens_of(text, most=256):
    inner = [WORDS.index(word) if word in WORDS else 0 for word in text.lower().split()]
    return [1, *inner[: most - 2], 2]


def expected(text, pooling="mean", *, most=256, seed=0):
    """Return the vector of a text of words and spaces, by a slow and literal reading."""
    found = answers(tokens_of(text, most), weights(seed))
    pooled = found.mean(axis=0) if pooling == "mean" else found[0]
    return pooled / np.linalg.norm(pooled)


def write_folder(folder, *, place="onnx/model.onnx", pooling="mean_tokens", seed=0, **changes):
    """Write a folder with tokenizer, network and the files that say how it pools and where it cuts off."""
    folder.mkdir(parents=True, exist_ok=True)
    write_tokenizer(folder / "tokenizer.json")
    (folder / place).parent.mkdir(exist_ok=True)
    write_network(folder / place, weights(seed), **changes)
    (folder / "1_Pooling").mkdir(exist_ok=True)
    modes = ("cls_token", "mean_tokens", "max_tokens", "lasttoken")
    message = {"word_embedding_dimension": DIM, **{f"pooling_mode_{mode}": mode == pooling for mode in modes}}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(message | {"include_prompt": True}))
    kinds = [f"sentence_transformers.models.{kind}" for kind in ("Transformer", "Pooling", "Normalize")]
    (folder / "modules.json").write_text(json.dumps([{"idx": n, "type": kind} for n, kind in enumerate(kinds)]))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": POSITIONS}))
    return folder


def write_tokenizer(path, *, padding=True):
    """Write a tokenizer that pads and cuts off as it pleases, which must not matter."""
    tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed: pip install 'wshard[text]'")
    vocabulary = {word: number for number, word in enumerate(WORDS)}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))  # noqa: S106
    made.normalizer = tokenizers.normalizers.Lowercase()
    made.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    ends = [("[CLS]", 1), ("[SEP]", 2)]
    made.post_processor = tokenizers.processors.TemplateProcessing("[CLS] $A [SEP]", None, ends)
    if padding:
        made.enable_padding(length=40, pad_id=2)
        made.enable_truncation(7)
    made.save(str(path))


def write_network(path, stored, *, inputs=("input_ids", "attention_mask", "token_type_ids"), whole="INT64", **options):
    """Write a transformer of one layer as an ONNX file; options: extra outputs before the answer, external weights."""
    onnx = pytest.importorskip("onnx", reason="onnx is not installed: pip install onnx")
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'wshard[onnx]'")
    from onnx import TensorProto, helper, numpy_helper

    constants = {
        **stored,
        "axis1": np.array([1]),
        "zero": np.array(0),
        "one": np.array(1),
        "scale": np.float32(np.sqrt(DIM)),
        "far": np.float32(-1e4),
        "onef": np.float32(1),
        "gain": np.ones(DIM, np.float32),
        "place1": np.array(1),
    }
    node = helper.make_node
    nodes = [
        node("Shape", ["input_ids"], ["shape"]),
        node("Gather", ["shape", "place1"], ["length"]),
        node("Range", ["zero", "length", "one"], ["positions"]),
        node("Gather", ["W", "input_ids"], ["words"]),
        node("Gather", ["P", "positions"], ["places"]),
        node("Add", ["words", "places"], ["both"]),
    ]
    if "token_type_ids" in inputs:
        nodes += [node("Gather", ["T", "token_type_ids"], ["kinds"]), node("Add", ["both", "kinds"], ["x"])]
    else:
        constants["first"] = stored["T"][0]
        nodes += [node("Add", ["both", "first"], ["x"])]
    nodes += [node("MatMul", ["x", name], [name.lower()]) for name in ("Q", "K", "V")]
    nodes += [
        node("Transpose", ["k"], ["kt"], perm=[0, 2, 1]),
        node("MatMul", ["q", "kt"], ["products"]),
        node("Div", ["products", "scale"], ["scores"]),
    ]
    if "attention_mask" in inputs:
        nodes += [
            node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
            node("Sub", ["onef", "mask"], ["hidden"]),
            node("Mul", ["hidden", "far"], ["distance"]),
            node("Unsqueeze", ["distance", "axis1"], ["distances"]),
            node("Add", ["scores", "distances"], ["seen"]),
        ]
    else:
        nodes += [node("Identity", ["scores"], ["seen"])]
    nodes += [
        node("Softmax", ["seen"], ["shares"], axis=-1),
        node("MatMul", ["shares", "v"], ["mixed"]),
        node("Add", ["x", "mixed"], ["sum"]),
        node("LayerNormalization", ["sum", "gain"], ["last_hidden_state"], axis=-1, epsilon=1e-5),
        node("ReduceMax", ["last_hidden_state"], ["pooler_output"], axes=[1], keepdims=0),
    ]
    kind = getattr(TensorProto, whole)
    graph = helper.make_graph(
        nodes,
        "transformer",
        [helper.make_tensor_value_info(name, kind, ["batch", "tokens"]) for name in inputs],
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", *more, DIM])
            for name, more in (("pooler_output", []), ("last_hidden_state", ["tokens"]))
            if name in options.get("outputs", ("pooler_output", "last_hidden_state"))
        ],
        [numpy_helper.from_array(np.asarray(values), name) for name, values in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    outside = {"save_as_external_data": True, "location": "weights.bin", "size_threshold": 0}
    onnx.save(model, str(path), **(outside if options.get("outside") else {}))
    return path
