"""The embedder `encoder`: a pretrained encoder of pictures from a folder on this machine; nothing is downloaded."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from embedders.base import Vectors, unit_rows
from embedders.encoders import hugging_face, onnx_folder, open_clip_folder, timm_folder
from embedders.encoders.model_folder import ModelFolder
from embedders.image.frames import as_rgb, check_values, episodes_of_frames
from embedders.trajectory.spectral import Dct
from wshard.errors import EmbedderError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from embedders.canonical_json import JSON
    from embedders.encoders.model import EncoderModel
    from embedders.space import Statistics

_BATCH: Final = 16  # frames at a time
_STEPS: Final = 16  # of a window that are described, or up to twice as many
_COSINES: Final = 4  # over time
_RESAMPLED: Final = 64
_TOLERANCE: Final = 1e-2  # of features, relative to their length, that other frames of the batch may change


@dataclass(frozen=True)
class LocalEncoder:
    """Describes camera frames by a pretrained network, on the GPU if there is one; and words where it has text.

    folder: of Hugging Face (CLIP, SigLIP, SigLIP 2, DINOv2, DINOv3, V-JEPA 2), timm, open_clip, or with ONNX files and
    preprocessor_config.json; weights are read from safetensors and ONNX files only. FOLDER#OUTPUT names the output of
    an ONNX file. Of a window, every n-th frame is described, 16 to 31 in all, and their features become 4 cosines over
    time: dim = 4 * E. A stored Space identifies the encoder by the sha256 of its files, not by its path.

    Examples:
        >>> lab.ingest("episodes", encoder="models/siglip2")  # doctest: +SKIP
        >>> lab.search(words="a red block in the gripper")  # doctest: +SKIP
    """

    name: ClassVar[str] = "encoder"
    version: ClassVar[int] = 1
    uses_statistics: ClassVar[bool] = False
    takes_frames: ClassVar[bool] = True
    metric: ClassVar[str] = "cosine"

    folder: str | os.PathLike[str]

    def __post_init__(self) -> None:
        if not isinstance(self.folder, str | os.PathLike):
            raise EmbedderError(f"encoder: expected the folder of an encoder, found {self.folder!r}")

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what is loaded: a worker process loads its own."""
        return {"folder": self.folder}

    @property
    def path(self) -> Path:
        """The folder."""
        return self._files.path

    @property
    def place(self) -> str:
        """The folder from its root, with the output that was named: another LocalEncoder of it is equal."""
        return str(self.path.resolve()) + ("" if self._output is None else f"#{self._output}")

    @cached_property
    def model(self) -> EncoderModel:
        """The opened encoder. Raises EmbedderError, MissingExtraError."""
        return _open(self._files, self._output)

    def parameters(self) -> Mapping[str, JSON]:
        """Return what vectors depend on: the sha256 of weights and settings, and the output."""
        return {"sha256": self._files.sha256, "output": self._output}

    def dim(self, channels: int) -> int:  # noqa: ARG002  (the same for frames of every size)
        """Return 4 * E; runs the network on a black frame. Raises EmbedderError."""
        return _COSINES * self._size

    def embed(self, windows: Sequence[NDArray[Any]], statistics: Statistics | None) -> Vectors:
        """Return float32 [N, dim], one unit row per window [T_i, H, W] or [T_i, H, W, planes] of values 0 to 255.

        Raises EmbedderError for unsuitable windows, and for features that are not finite.
        """
        channels = None if statistics is None else statistics.mean.size
        if not windows:
            return np.empty((0, self.dim(0)), np.float32)
        vectors = []
        for where, frames, spans in episodes_of_frames(windows, channels):
            steps = [start + self.steps(stop - start) for start, stop in spans.tolist()]
            wanted = np.unique(np.concatenate(steps))
            features = self.encode_frames(as_rgb(_as_bytes(frames, wanted, where)))
            if frames.dtype == np.uint8:  # as they are stored, so that vectors do not depend on the storage
                features = features.astype(np.float16).astype(np.float32)
            vectors += [self._over_time(features[np.searchsorted(wanted, one)]) for one in steps]
        return np.concatenate(vectors)

    @property
    def fingerprint(self) -> str:
        """Of the features of single frames: the files of the folder, and the output."""
        return f"encoder {self.version} {self._files.sha256} {self._output or ''}".rstrip()

    def encode_frames(self, frames: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return the features [N, E] of frames [N, H, W, 3]. Raises EmbedderError for NaN and for another E."""
        parts = [self._describe(frames[start : start + _BATCH]) for start in range(0, len(frames), _BATCH)]
        return np.concatenate(parts) if parts else np.empty((0, self._size), np.float32)

    def encode_words(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the features [N, E] of texts, in the space of the frames. Raises EmbedderError without text."""
        describe = self.model.describe_words
        if describe is None:
            raise EmbedderError(f"{self.folder}: expected an encoder of text and pictures (CLIP, SigLIP, SigLIP 2, "
                                f"open_clip), found {self.model.kind}: {self.model.lacking}")  # fmt: skip
        return np.stack([self._check(describe(text)[None], 1)[0] for text in texts])

    def steps(self, length: int) -> NDArray[np.int64]:
        """Return which frames of a window are described."""
        return np.arange(0, length, max(1, length // _STEPS), dtype=np.int64)

    def pool(self, windows: Sequence[NDArray[Any]]) -> Vectors:
        """Return float32 [N, dim] as embed does, for windows of stored features [T_i, 1, E] of frames of bytes."""
        return np.concatenate([self._over_time(features[self.steps(len(features)), 0]) for features in windows])

    @cached_property
    def _files(self) -> ModelFolder:
        return ModelFolder(self._split[0])

    @property
    def _output(self) -> str | None:
        return self._split[1]

    @property
    def _split(self) -> tuple[Path, str | None]:
        """The folder, and the output that is named after it."""
        whole = Path(self.folder).expanduser()
        name, sign, output = str(whole).rpartition("#")
        return (Path(name), output) if sign and output and not whole.exists() else (whole, None)

    @cached_property
    def _size(self) -> int:
        """The number of features; the frames of a batch must not affect each other."""
        noise = np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3), np.uint8)
        both, last = self._ask(noise), self._ask(noise[1:])
        if both.shape[1:] != last.shape[1:] or not np.allclose(both[1], last[0], 0, _TOLERANCE * np.abs(last).max()):
            raise EmbedderError(f"{self.folder}: expected features of each frame for itself, found such as depend on "
                                "the other frames of the batch")  # fmt: skip
        return int(both.shape[1])

    def _describe(self, frames: NDArray[np.uint8]) -> NDArray[np.float32]:
        return self._check(self._ask(frames), len(frames))

    def _ask(self, frames: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return the features [N, E] of some frames."""
        found = np.asarray(self.model.describe(self.model.pictures.read(frames)), np.float32)
        if found.ndim != 2 or len(found) != len(frames) or not found.shape[1]:
            raise EmbedderError(f"{self.folder}: expected features [{len(frames)}, E], found {[*found.shape]}")
        if not np.isfinite(found).all():
            raise EmbedderError(f"{self.folder}: expected finite features, found NaN or infinity")
        return found

    def _check(self, features: NDArray[Any], count: int) -> NDArray[np.float32]:
        """Return features [count, E]. Raises EmbedderError for another size."""
        if features.shape != (count, self._size):
            raise EmbedderError(f"{self.folder}: expected features [{count}, {self._size}] as of other frames, "
                                f"found {[*features.shape]}")  # fmt: skip
        return features

    def _over_time(self, features: NDArray[Any]) -> Vectors:
        return unit_rows(Dct(_RESAMPLED, _COSINES).describe([features.astype(np.float64)]))


def _as_bytes(frames: NDArray[Any], steps: NDArray[np.int64], where: str) -> NDArray[np.uint8]:
    """Return some frames of an episode as bytes. Raises EmbedderError, naming the timestep, for NaN."""
    if frames.dtype == np.uint8:
        chosen: NDArray[np.uint8] = frames[steps]
        return chosen
    for step in range(len(frames)):
        check_values(frames[step].astype(np.float64).reshape(*frames.shape[1:3], -1), f"{where}, timestep {step}")
    rounded: NDArray[np.uint8] = np.rint(frames[steps].clip(0, 255)).astype(np.uint8)
    return rounded


def _open(folder: ModelFolder, output: str | None) -> EncoderModel:
    """Return the encoder of a folder, by the files that it has."""
    if folder.read_json(open_clip_folder.FILE):
        return open_clip_folder.open_folder(folder)
    config = folder.read_json("config.json")
    if "architecture" in config and isinstance(config.get("pretrained_cfg"), dict):
        return timm_folder.open_folder(folder)
    is_onnx = output is not None or not any(name.endswith(".safetensors") for name in folder.files)
    if is_onnx and any(name.endswith(".onnx") for name in folder.files):
        return onnx_folder.open_folder(folder, output)
    folder.weights  # noqa: B018  (raises for a folder without)
    return hugging_face.open_folder(folder)
