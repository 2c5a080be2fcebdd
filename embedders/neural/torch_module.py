"""The embedder `torchmodule`: your own network, applied to the timesteps of a window and pooled."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from embedders.base import Vectors, project, unit_rows
from embedders.canonical_json import check_count
from embedders.image.frames import check_values, episodes_of_frames, shrink
from embedders.neural.weights import Network, open_network
from embedders.numeric import check_number
from embedders.trajectory.spectral import Dct
from wshard.errors import EmbedderError

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from embedders.canonical_json import JSON
    from embedders.numeric import Rows
    from embedders.space import Statistics

_POOLINGS: Final = ("mean", "max", "cls")
_PLANES: Final = 3


@dataclass(frozen=True)
class Pictures:
    """Preprocessing of images for a network: averaged to `size` (height, width), three planes, normalised.

    A value becomes (value / scale - mean) / std of its plane; the defaults are those of ImageNet for bytes. Grey images
    are repeated in every plane; alpha channels are dropped.
    """

    size: tuple[int, int]
    scale: float = 255.0
    mean: tuple[float, ...] = (0.485, 0.456, 0.406)
    std: tuple[float, ...] = (0.229, 0.224, 0.225)

    def __post_init__(self) -> None:
        for name, count in (("size", 2), ("mean", _PLANES), ("std", _PLANES)):
            values = getattr(self, name)
            if not isinstance(values, tuple | list) or len(values) != count:
                raise EmbedderError(f"{name} of pictures: expected {count} numbers, found {values!r}")
            object.__setattr__(self, name, tuple(values))
        object.__setattr__(self, "size", tuple(check_count(side, "size of pictures") for side in self.size))
        if min(check_number(value, "scale and std of pictures") for value in (self.scale, *self.std)) <= 0:
            raise EmbedderError(f"scale and std of pictures: expected numbers > 0, found {self.scale} and {self.std}")
        for value in self.mean:
            check_number(value, "mean of pictures")

    def parameters(self) -> dict[str, JSON]:
        """Return the constructor parameters, as JSON values."""
        return {"size": list(self.size), "scale": self.scale, "mean": list(self.mean), "std": list(self.std)}

    def read(self, frame: NDArray[Any], where: str) -> NDArray[np.float32]:
        """Return an image [H, W] or [H, W, planes] as float32 [3, height, width]. Raises EmbedderError for NaN."""
        image = frame.astype(np.float64, order="C").reshape(*frame.shape[:2], -1)
        check_values(image, where)
        small = shrink(image, self.size)
        planes = small[..., :_PLANES] if small.shape[-1] >= _PLANES else np.repeat(small[..., :1], _PLANES, axis=-1)
        scored = (planes / self.scale - np.array(self.mean)) / np.array(self.std)
        return np.ascontiguousarray(scored.transpose(2, 0, 1), dtype=np.float32)


@dataclass(frozen=True)
class TorchModule:
    """A network that maps a batch of timesteps float32 [B, D], or of images [B, 3, height, width], to features.

    model, weights: as for `open_network`. pictures: preprocessing of images; None: the network gets concatenated
    z-scored lanes. stride: use every n-th timestep. batch: timesteps per batch. pooling: outputs of several tokens [B,
    tokens, E] or of a feature map [B, E, height, width] become [B, E] by "mean", "max" or, for tokens, the first
    ("cls"); outputs [B, E] are not pooled. Over time the first `coefficients` of the DCT are used: 1 is the mean, more
    preserve the order of events. dim = coefficients * E.

    A stored Space identifies the network by the sha256 of its weights, not by its path: pass the embedder to searches.
    """

    name: ClassVar[str] = "torchmodule"
    version: ClassVar[int] = 2  # 2: features of frames of bytes are rounded to float16, as they are stored
    metric: ClassVar[str] = "cosine"

    model: Any
    weights: str | os.PathLike[str] | None = None
    pictures: Pictures | None = None
    stride: int = 1
    batch: int = 64
    pooling: str = "mean"
    coefficients: int = 1
    device: str = "cpu"

    def __post_init__(self) -> None:
        for name in ("stride", "batch", "coefficients"):
            object.__setattr__(self, name, check_count(getattr(self, name), name))
        if self.pooling not in _POOLINGS:
            raise EmbedderError(f"pooling: expected one of {', '.join(_POOLINGS)}, found {self.pooling!r}")
        if self.pictures is not None and not isinstance(self.pictures, Pictures):
            raise EmbedderError(f"pictures: expected Pictures or None, found {self.pictures!r}")

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what is loaded: a worker process loads its own."""
        return {name: value for name, value in self.__dict__.items() if name != "network"}

    @cached_property
    def network(self) -> Network:
        """The loaded network."""
        return open_network(self.model, self.weights, self.device)

    @property
    def takes_frames(self) -> bool:
        """Whether its windows are images."""
        return self.pictures is not None

    @property
    def uses_statistics(self) -> bool:
        """Whether its windows are z-scored: true for lanes, false for images."""
        return self.pictures is None

    def parameters(self) -> Mapping[str, JSON]:
        """Return the parameters that affect vectors: neither the path of the weights nor the device."""
        return {
            "network": self.network.title,
            "sha256": self.network.sha256,
            "pictures": None if self.pictures is None else self.pictures.parameters(),
            "stride": self.stride,
            "pooling": self.pooling,
            "coefficients": self.coefficients,
        }

    def dim(self, channels: int) -> int:
        """Return coefficients * E; runs the network on zeros. Raises EmbedderError like `embed`."""
        step = (channels,) if self.pictures is None else (_PLANES, *self.pictures.size)
        return self.coefficients * int(self._ask(np.zeros((1, *step), np.float32)).shape[1])

    def embed(self, windows: Sequence[NDArray[Any]], statistics: Statistics | None) -> Vectors:
        """Return float32 [N, dim], one unit row per window [T_i, D], or [T_i, height, width, ...] of images.

        Raises EmbedderError for unsuitable windows, and for outputs that are not finite features.
        """
        if self.pictures is None:
            return project(self, windows, statistics, self._describe)
        channels = None if statistics is None else statistics.mean.size
        if not windows:
            return np.empty((0, self.dim(0)), np.float32)
        vectors = []
        for where, frames, spans in episodes_of_frames(windows, channels):
            steps = [range(start, stop, self.stride) for start, stop in spans.tolist()]
            asked = sorted({*chain(*steps)})  # what overlapping windows share, once
            features = self._of_pictures(frames, asked, where)
            if frames.dtype == np.uint8:  # as they are stored, so that vectors do not depend on the storage
                features = features.astype(np.float16).astype(np.float64)
            vectors += [unit_rows(self._over_time(features[np.searchsorted(asked, one)])[None]) for one in steps]
        return np.concatenate(vectors)

    @property
    def fingerprint(self) -> str:
        """Of the features of single frames: network, preprocessing and pooling over space."""
        return f"torchmodule {self.network.sha256} {self.pictures} {self.pooling}"

    def encode_frames(self, frames: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return the features [N, E] of frames [N, H, W, 3]."""
        return self._of_pictures(frames, range(len(frames)), "frames").astype(np.float32)

    def steps(self, length: int) -> NDArray[np.int64]:
        """Return every n-th frame of a window."""
        return np.arange(0, length, self.stride)

    def pool(self, windows: Sequence[NDArray[Any]]) -> Vectors:
        """Return float32 [N, dim] as embed does, for windows of stored features [T_i, 1, E] of frames of bytes."""
        rows = (features[:: self.stride, 0].astype(np.float64) for features in windows)
        return np.concatenate([unit_rows(self._over_time(features)[None]) for features in rows])

    def _describe(self, windows: list[Rows]) -> NDArray[np.float64]:
        return np.stack(
            [self._over_time(self._in_batches(rows[:: self.stride].astype(np.float32))) for rows in windows]
        )

    def _of_pictures(self, frames: NDArray[Any], steps: Sequence[int], where: str) -> NDArray[np.float64]:
        """Return the features [len(steps), E] of some frames of an episode."""
        pictures: Pictures = self.pictures  # type: ignore[assignment]
        found = []
        for first in range(0, len(steps), self.batch):
            chosen = steps[first : first + self.batch]
            read = [pictures.read(frames[step], f"{where}, timestep {step}") for step in chosen]
            found.append(self._ask(np.stack(read)))
        return np.concatenate(found)

    def _in_batches(self, rows: NDArray[np.float32]) -> NDArray[np.float64]:
        return np.concatenate(
            [self._ask(rows[first : first + self.batch]) for first in range(0, len(rows), self.batch)]
        )

    def _over_time(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.coefficients == 1:
            mean: NDArray[np.float64] = features.mean(axis=0)
            return mean
        described = Dct(max(64, self.coefficients), self.coefficients).describe([features])
        return described.reshape(-1)

    def _ask(self, batch: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return the network's features float64 [B, E]."""
        answer = self.network.run(batch).astype(np.float64)
        features = _pool(answer, self.pooling)
        if features.ndim != 2 or len(features) != len(batch) or features.shape[1] == 0:
            raise EmbedderError(
                f"embedder {self.name!r}, pooling {self.pooling!r}: expected features [B, E], [B, tokens, E] or [B, E, "
                f"height, width] of {len(batch)} timesteps, found {list(answer.shape)}"
            )
        if not np.isfinite(features).all():
            raise EmbedderError(f"embedder {self.name!r}: expected finite features, found NaN or infinity")
        return features


def _pool(answer: NDArray[np.float64], pooling: str) -> NDArray[np.float64]:
    """Return [B, E]; what cannot be pooled comes back as it is."""
    if answer.ndim == 3 and pooling == "cls":
        return answer[:, 0]
    axes = {3: (1,), 4: (2, 3)}.get(answer.ndim, ())
    if not axes or pooling == "cls":
        return answer
    pooled: NDArray[np.float64] = answer.mean(axis=axes) if pooling == "mean" else answer.max(axis=axes)
    return pooled
