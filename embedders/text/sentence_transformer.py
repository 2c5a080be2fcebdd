"""The text encoder `sentences`: a transformer and its tokenizer from a sentence-transformers folder.

Never accesses the network, and runs no code from the folder except the network itself.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from embedders.base import unit_rows
from embedders.canonical_json import check_count
from embedders.neural.weights import open_onnx, read_weights, run_onnx
from wshard.core.plugins import import_library
from wshard.errors import EmbedderError

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from embedders.base import Vectors
    from embedders.canonical_json import JSON

_POOLINGS: Final = ("mean", "cls")
_NETWORKS: Final = ("model.onnx", "onnx/model.onnx")
_MODULES: Final = frozenset({"Transformer", "Pooling", "Normalize"})
_OF_TOKENS: Final = ("last_hidden_state", "token_embeddings")
_INPUTS: Final = frozenset({"input_ids", "attention_mask", "token_type_ids"})
_WHOLE: Final[Mapping[str, type[np.integer[Any]]]] = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}
_MAX_TOKENS: Final = 256  # as most sentence encoders were trained
_TRIED: Final = 512
_UNLIMITED: Final = 10**6  # a tokenizer without a limit says 10 to the power of 30


@dataclass(frozen=True)
class Sentences:
    """Tokenise, run the network, pool its outputs, scale to unit length.

    folder: has `tokenizer.json` and the network as `model.onnx` or `onnx/model.onnx`, with its weights in that file.
    pooling: the "mean" of the outputs, or that of the first token ("cls"); None = as in `1_Pooling/config.json`, else
    the mean. max_tokens: longer texts are truncated; None = as in the folder, else 256. batch: texts per batch. device:
    as for networks.

    A stored Space identifies it by the sha256 of tokenizer and network, not by their path: pass it to searches too.
    """

    name: ClassVar[str] = "sentences"
    version: ClassVar[int] = 1

    folder: str | os.PathLike[str]
    pooling: str | None = None
    max_tokens: int | None = None
    batch: int = 32
    device: str = "cpu"

    def __post_init__(self) -> None:
        if self.pooling is not None and self.pooling not in _POOLINGS:
            raise EmbedderError(f"pooling: expected one of {', '.join(_POOLINGS)}, found {self.pooling!r}")
        if self.max_tokens is not None:
            object.__setattr__(self, "max_tokens", check_count(self.max_tokens, "max_tokens"))
        object.__setattr__(self, "batch", check_count(self.batch, "batch"))

    def parameters(self) -> Mapping[str, JSON]:
        """Return the parameters that affect vectors: neither the path of the folder nor the device."""
        loaded = self._loaded
        return {
            "tokenizer": loaded.tokenizer_sha256,
            "network": loaded.network_sha256,
            "pooling": loaded.pooling,
            "max_tokens": loaded.max_tokens,
        }

    def dim(self) -> int:
        """Return the size of a vector. Raises EmbedderError for a network that takes no texts of `max_tokens` tokens.

        That is tried with 512 tokens at most: the attention of thousands fills the memory.
        """
        return self._dim

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return float32 [N, dim], one unit row per text.

        Texts of equally many tokens go through the network together, so that none is ever padded: what a text's vector
        is does not depend on the others. A text without any token has the last axis as its vector. Raises
        EmbedderError.
        """
        tokens = [self._loaded.tokens(text, f"text {number}") for number, text in enumerate(texts)]
        if not tokens:
            return np.empty((0, self._dim), np.float32)
        features = np.zeros((len(tokens), self._dim))
        by_length = sorted(range(len(tokens)), key=lambda number: len(tokens[number]))
        for length, group in groupby(by_length, key=lambda number: len(tokens[number])):
            alike = list(group) if length else []
            for first in range(0, len(alike), self.batch):
                chosen = alike[first : first + self.batch]
                features[chosen] = self._ask(np.array([tokens[number] for number in chosen], np.int64))
        return unit_rows(features)

    @cached_property
    def _dim(self) -> int:
        return int(self._ask(np.zeros((1, min(self._loaded.max_tokens, _TRIED)), np.int64)).shape[1])

    @cached_property
    def _loaded(self) -> _Loaded:
        return _load(self)

    def _ask(self, tokens: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the features float64 [B, E] of texts as tokens [B, L >= 1]."""
        answer = self._loaded.run(tokens).astype(np.float64)
        if answer.ndim == 3:
            answer = answer.mean(axis=1) if self._loaded.pooling == "mean" else answer[:, 0]
        if answer.ndim != 2 or len(answer) != len(tokens) or answer.shape[1] == 0:
            shape = list(answer.shape)
            raise EmbedderError(
                f"{self._loaded.path}: expected features [B, tokens, E] or [B, E] of {len(tokens)} texts, found {shape}"
            )
        if not np.isfinite(answer).all():
            raise EmbedderError(f"{self._loaded.path}: expected finite features, found NaN or infinity")
        return answer


@dataclass(frozen=True, eq=False)
class _Loaded:
    """What a folder holds, ready to use."""

    path: Path  # of the network
    tokenizer: Any
    session: Any
    inputs: Mapping[str, type[np.integer[Any]]]
    output: int
    tokenizer_sha256: str
    network_sha256: str
    pooling: str
    max_tokens: int

    def tokens(self, text: str, where: str) -> list[int]:
        """Return the numbers of the text's tokens, at most max_tokens."""
        if not isinstance(text, str):
            raise EmbedderError(f"{where}: expected a text, found {text!r}")
        readable = text.encode("utf-8", "replace").decode()  # JSON may hold halves of characters, which no text has
        try:
            found: list[int] = self.tokenizer.encode(readable).ids
        except Exception as error:  # its errors share no base class but Exception
            raise EmbedderError(f"{where}: the tokenizer of {self.path} failed: {error}") from error
        return found[: self.max_tokens]  # a tokenizer does not cut where the marks of both ends alone are more

    def run(self, tokens: NDArray[np.int64]) -> NDArray[Any]:
        """Return the network's answer to tokens [B, L]."""
        given = {"input_ids": tokens, "attention_mask": np.ones_like(tokens), "token_type_ids": np.zeros_like(tokens)}
        feeds = {name: given[name].astype(dtype) for name, dtype in self.inputs.items()}
        return run_onnx(self.session, feeds, self.path)[self.output]


def _load(settings: Sentences) -> _Loaded:
    folder = Path(settings.folder)
    if not folder.is_dir():
        raise EmbedderError(f"{folder}: expected the folder of a sentence encoder, found no folder")
    path = next((folder / name for name in _NETWORKS if (folder / name).exists()), None)
    if path is None or not (folder / "tokenizer.json").exists():
        raise EmbedderError(f"{folder}: expected tokenizer.json and {' or '.join(_NETWORKS)}, found no such files")
    _check_modules(folder)
    max_tokens = settings.max_tokens or _max_tokens(folder)
    tokenizer, digest = _tokenizer(folder / "tokenizer.json", max_tokens)
    session, network_digest = open_onnx(path, settings.device)
    return _Loaded(
        path=path,
        tokenizer=tokenizer,
        session=session,
        inputs=_inputs(session, path),
        output=_output(session),
        tokenizer_sha256=digest,
        network_sha256=network_digest,
        pooling=settings.pooling or _pooling(folder),
        max_tokens=max_tokens,
    )


def _tokenizer(path: Path, max_tokens: int) -> tuple[Any, str]:
    library, content = import_library("tokenizers", "text"), read_weights(path)
    try:
        tokenizer = library.Tokenizer.from_buffer(content)
        tokenizer.no_padding()
        tokenizer.enable_truncation(max_tokens)
    except Exception as error:  # its errors share no base class but Exception
        raise EmbedderError(f"{path}: expected a tokenizer: {error}") from error
    return tokenizer, hashlib.sha256(content).hexdigest()


def _inputs(session: Any, path: Path) -> dict[str, type[np.integer[Any]]]:
    """Return the inputs of the network by name, with their types."""
    found = {one.name: one.type for one in session.get_inputs()}
    if "input_ids" not in found or not found.keys() <= _INPUTS or not set(found.values()) <= _WHOLE.keys():
        expected = "input_ids, attention_mask and token_type_ids of whole numbers"
        raise EmbedderError(f"{path}: expected a network of tokens, with inputs {expected}, found {found}")
    return {name: _WHOLE[kind] for name, kind in found.items()}


def _output(session: Any) -> int:
    """Return the number of the output that answers to each token; the first where none is called so."""
    names = [one.name for one in session.get_outputs()]
    return next((names.index(name) for name in _OF_TOKENS if name in names), 0)


def _check_modules(folder: Path) -> None:
    """Raise EmbedderError where the encoder takes steps that are not taken here."""
    steps = _read_json(folder / "modules.json", list)
    kinds = [str(step.get("type") if isinstance(step, dict) else step).rpartition(".")[2] for step in steps]
    if other := [kind for kind in kinds if kind not in _MODULES]:
        raise EmbedderError(f"{folder}: expected an encoder of {', '.join(sorted(_MODULES))}, found {', '.join(other)}")


def _pooling(folder: Path) -> str:
    config = _read_json(folder / "1_Pooling" / "config.json", dict)
    modes = [name.removeprefix("pooling_mode_") for name, given in config.items() if given is True and "_mode_" in name]
    named = config.get("pooling_mode", modes[0] if len(modes) == 1 else modes or "mean")
    for pooling in _POOLINGS:
        if named in (pooling, f"{pooling}_token", f"{pooling}_tokens"):
            return pooling
    raise EmbedderError(f"{folder}: expected pooling by {' or '.join(_POOLINGS)}, found {named!r}")


def _max_tokens(folder: Path) -> int:
    """Return the token limit of the encoder; else the minimum of tokenizer and network; else 256."""
    own = _read_json(folder / "sentence_bert_config.json", dict).get("max_seq_length")
    if own is not None:
        return check_count(own, f"{folder}: max_seq_length")
    limits = (("tokenizer_config.json", "model_max_length"), ("config.json", "max_position_embeddings"))
    found = [_read_json(folder / name, dict).get(key) for name, key in limits]
    return min([count for count in found if isinstance(count, int) and 0 < count < _UNLIMITED], default=_MAX_TOKENS)


def _read_json(path: Path, kind: type[Any]) -> Any:
    """Return the list or dict in a JSON file, empty if the file does not exist."""
    if not path.exists():
        return kind()
    try:
        found = json.loads(read_weights(path))
    except (ValueError, RecursionError) as error:
        raise EmbedderError(f"{path}: expected JSON: {error}") from error
    if not isinstance(found, kind):
        raise EmbedderError(f"{path}: expected a JSON {kind.__name__}, found {type(found).__name__}")
    return found
