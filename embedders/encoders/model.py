"""An opened encoder: what describes pictures, and words where it has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from embedders.encoders.picture_input import Input


@dataclass(frozen=True, eq=False)
class EncoderModel:
    """kind: such as "siglip". describe: returns features [N, D] of what `pictures` reads of N frames.

    describe_words: returns the features [D] of a text, in the same space; None if the encoder has no text, and
    `lacking` says why.
    """

    kind: str
    pictures: Input
    describe: Callable[[dict[str, NDArray[Any]]], NDArray[np.floating[Any]]]
    describe_words: Callable[[str], NDArray[np.floating[Any]]] | None = None
    lacking: str = "it was trained on pictures alone"
