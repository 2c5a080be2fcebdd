"""The text encoder protocol: texts in, one unit vector per text out; and the Space of these vectors."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

import numpy as np

from embedders.base import translate_errors, unit_rows
from embedders.numeric import is_real
from embedders.space import TEXT, Space
from embedders.windows import WindowPlan
from wshard.errors import EmbedderError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from embedders.base import Vectors
    from embedders.canonical_json import JSON


@runtime_checkable
class TextEncoder(Protocol):
    """Turns texts into vectors, always the same vector for the same text and parameters."""

    @property
    def name(self) -> str:
        """The name under which Spaces store it."""

    @property
    def version(self) -> int:
        """Goes up whenever the same text and parameters would give another vector."""

    def parameters(self) -> Mapping[str, JSON]:
        """Return the JSON values that decide over vectors."""

    def dim(self) -> int:
        """Return the size of a vector."""

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return one unit row per text, float32 [N, dim], also for empty texts."""


AnyTextEncoder: TypeAlias = "str | os.PathLike[str] | TextEncoder"
"""A text encoder, or the folder of one (see embedders.text.sentence_transformer.Sentences)."""


def as_text_encoder(value: AnyTextEncoder) -> TextEncoder:
    """Return an encoder for itself, or for the folder that holds it. Raises EmbedderError for anything else."""
    if isinstance(value, str | os.PathLike):
        from embedders.text.sentence_transformer import Sentences

        return Sentences(value)
    if isinstance(value, TextEncoder) and not isinstance(value, type):
        return value
    raise EmbedderError(f"text_encoder: expected the folder of a sentence encoder, or a text encoder, found {value!r}")


def text_space(encoder: TextEncoder) -> Space:
    """Return the Space of an encoder's vectors, one per episode. Raises EmbedderError for its exceptions."""
    with translate_errors(encoder.name):
        return Space(
            embedder=encoder.name,
            version=encoder.version,
            parameters=encoder.parameters(),
            lanes=(TEXT,),
            windows=WindowPlan(),
            dim=encoder.dim(),
            metric="cosine",
            statistics=None,
        )


def encode_by(encoder: TextEncoder, texts: Sequence[str]) -> Vectors:
    """Return the unit rows float32 [N, dim] of the texts; the encoder may be third-party code.

    Raises EmbedderError, naming the encoder, for any exception that it raises and for anything but finite numbers of
    that shape.
    """
    with translate_errors(encoder.name):
        vectors, shape = encoder.encode(texts), (len(texts), encoder.dim())
    if not isinstance(vectors, np.ndarray) or vectors.shape != shape or not is_real(vectors.dtype):
        found = f"{vectors.dtype} {vectors.shape}" if isinstance(vectors, np.ndarray) else type(vectors).__name__
        raise EmbedderError(f"embedder {encoder.name!r}: expected real numbers {shape}, found {found}")
    if not np.isfinite(vectors).all():
        raise EmbedderError(f"embedder {encoder.name!r}: expected finite numbers, found NaN or infinity")
    return unit_rows(vectors.astype(np.float64)) if len(vectors) else vectors.astype(np.float32)
