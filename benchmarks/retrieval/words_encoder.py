"""A sentence encoder from safetensors: BERT with mean pooling, computed by torch, for the benchmark of words."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from tokenizers import Tokenizer
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray


class MiniLM:
    """all-MiniLM-L6-v2, as an `embedders.text.base.TextEncoder`."""

    name: ClassVar[str] = "minilm"
    version: ClassVar[int] = 1

    def __init__(self, folder: Path) -> None:
        self._config = json.loads((folder / "config.json").read_text())
        data = (folder / "model.safetensors").read_bytes()
        (length,) = struct.unpack("<Q", data[:8])
        header = json.loads(data[8 : 8 + length])
        self._weights = {
            name: torch.from_numpy(
                np.frombuffer(
                    data[8 + length :], "<f4", count=int(np.prod(about["shape"])), offset=about["data_offsets"][0]
                )
                .reshape(about["shape"])
                .copy()
            )
            for name, about in header.items()
            if name != "__metadata__" and about["dtype"] == "F32"
        }
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()

    def parameters(self) -> Mapping[str, Any]:
        """Return nothing."""
        return {}

    def dim(self) -> int:
        """Return 384."""
        return int(self._config["hidden_size"])

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return unit vectors [N, 384]."""
        with torch.no_grad():
            return np.stack([self._encode(self._tokenizer.encode(text).ids) for text in texts])

    def _encode(self, ids: Sequence[int]) -> NDArray[np.float32]:
        places = torch.arange(len(ids))
        embedded = (
            self._weights["embeddings.word_embeddings.weight"][torch.tensor(ids)]
            + self._weights["embeddings.position_embeddings.weight"][places]
            + self._weights["embeddings.token_type_embeddings.weight"][0]
        )
        rows = self._norm("embeddings", embedded)
        for layer in range(self._config["num_hidden_layers"]):
            rows = self._layer(f"encoder.layer.{layer}", rows)
        pooled = functional.normalize(rows.mean(dim=0), dim=0)
        found: NDArray[np.float32] = pooled.numpy()
        return found

    def _layer(self, name: str, rows: torch.Tensor) -> torch.Tensor:
        heads = self._config["num_attention_heads"]
        parts = [self._linear(f"{name}.attention.self.{part}", rows) for part in ("query", "key", "value")]
        query, key, value = (part.view(len(rows), heads, -1).transpose(0, 1) for part in parts)
        mixed = functional.scaled_dot_product_attention(query, key, value).transpose(0, 1).reshape(len(rows), -1)
        rows = self._norm(f"{name}.attention.output", self._linear(f"{name}.attention.output.dense", mixed) + rows)
        inner = functional.gelu(self._linear(f"{name}.intermediate.dense", rows))
        return self._norm(f"{name}.output", self._linear(f"{name}.output.dense", inner) + rows)

    def _linear(self, name: str, rows: torch.Tensor) -> torch.Tensor:
        return functional.linear(rows, self._weights[f"{name}.weight"], self._weights[f"{name}.bias"])

    def _norm(self, name: str, rows: torch.Tensor) -> torch.Tensor:
        weight, bias = (self._weights[f"{name}.LayerNorm.{part}"] for part in ("weight", "bias"))
        return functional.layer_norm(rows, (rows.shape[1],), weight, bias, self._config["layer_norm_eps"])
