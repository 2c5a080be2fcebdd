"""Converts vectors of the ledger to documents that the server can store safely."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Final

import numpy as np
import xxhash

from bridge.index.deepdata.filters import metadata
from bridge.index.deepdata.messages import Document

if TYPE_CHECKING:
    from catalog.records import EpisodeRow

_UNIT: Final = 1e-3
"""Maximum deviation of a length from 1; embedders normalise in float32."""


def ref_of(vector: bytes) -> str:
    """Return the name of a vector, a hash: equal vectors share a name and a document; -0.0 equals 0.0."""
    return xxhash.xxh3_128_hexdigest((np.frombuffer(vector, "<f4") + np.float32(0)).tobytes())


def flaw_of(vector: bytes) -> str | None:
    """Return why this float32 vector must not be sent, None for a valid one.

    A single NaN or infinity breaks the order of every search and the server's next save; a zero vector is equally far
    from everything.
    """
    values = np.frombuffer(vector, "<f4")
    if not np.isfinite(values).all():
        return "numbers that are not finite"
    norm = math.sqrt(float(np.square(values, dtype=np.float64).sum()))
    return None if abs(norm - 1.0) <= _UNIT else f"length {norm:.3g}"


def about_of(row: EpisodeRow) -> str:
    """Return a short name for the filterable fields of an episode."""
    return xxhash.xxh3_64_hexdigest(json.dumps(metadata(row), sort_keys=True).encode())


def document_of(row: EpisodeRow, vector: bytes, ref: str, run: str) -> Document:
    """Return a vector of this episode as it is sent: flat metadata of text and numbers, findable by ref and by run."""
    fields = metadata(row) | {"ref": ref, "run": run, "live": 1, "about": about_of(row)}
    return Document(np.frombuffer(vector, "<f4").tolist(), fields)
