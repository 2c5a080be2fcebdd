"""Check what is sent to other processes."""

from __future__ import annotations

import pickle

from wshard.errors import EmbedderError


def check_sendable(function: object, batch: object) -> None:
    """Raise EmbedderError for what cannot be sent to another process."""
    try:
        pickle.dumps((function, batch))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise EmbedderError(
            f"several workers: expected an embedder that can be sent to another process, found one that cannot: {error}"
        ) from error
