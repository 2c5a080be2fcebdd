"""Describe the cameras of an archive by an encoder, for questions by picture and by words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bridge.episodes.open import OpenLocations
from bridge.pictures.chosen_encoder import choose_encoder
from bridge.pictures.features import STRIDE
from bridge.pictures.seen_frames import SeenFrames
from catalog.filters.where import EVERYTHING
from wshard.core.arguments import finite_number
from wshard.errors import IngestError

if TYPE_CHECKING:
    import os

    from bridge.episodes.read import Failure
    from bridge.ingest.report import Run
    from embedders.encoders.local_encoder import LocalEncoder


def load_encoder(folder: str | os.PathLike[str] | LocalEncoder | None) -> LocalEncoder | None:
    """Return the encoder of a folder, loaded, one that is loaded, or None. Raises EmbedderError, MissingExtraError."""
    if folder is None:
        return None
    from embedders.encoders.local_encoder import LocalEncoder

    if isinstance(folder, LocalEncoder):
        return folder
    encoder = LocalEncoder(folder)
    encoder.encode_frames(np.zeros((1, 32, 32, 3), np.uint8))
    return encoder


def check_stride(stride: float | None, encoder: LocalEncoder | None) -> float:
    """Return the seconds from one described frame to the next. Raises IngestError for one without an encoder."""
    if stride is None:
        return STRIDE
    if encoder is None:
        expected = "expected an encoder of cameras with it (--encoder FOLDER, encoder=), found none"
        raise IngestError(
            f"stride: {expected}: embedders see every frame that they need; a search by picture takes a stride "
            f"without one (`wshard search --image FILE --stride {stride}`)"
        )
    if finite_number(stride, "stride", IngestError) < 0:
        raise IngestError(f"stride: expected a number of at least 0, found {stride}")
    return float(stride)


def describe_frames(run: Run, encoder: LocalEncoder | None, stride: float = STRIDE) -> None:
    """Describe the frames of all episodes with cameras that are not yet, and choose the encoder for questions.

    stride: seconds from one frame to the next; no other is decoded, but what a video needs for it.

    Episodes whose frames cannot be described are reported. Raises QueryError if no episode has a camera.
    """
    if encoder is None:
        return
    failures: list[Failure] = []
    for _ in SeenFrames(run.archive, encoder).load(EVERYTHING, None, failures, stride=stride, progress=run.watch):
        pass
    with OpenLocations() as locations:
        run.report.add_failures(one for one in failures if locations.exists(one.address))
    choose_encoder(run.archive.folder, encoder, stride)
